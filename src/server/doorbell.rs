//! A waker that knows when its task is being polled. Taking a request's body wakes the connection that
//! it came from (hyper 1.12), and handler and connection are one task here: without this every POST would
//! queue its own task again and rouse a second thread for it, which costs more than the rest of the call.
//!
//! Invariant: no wake is lost: one that comes during a poll causes another poll, one that comes after it
//! wakes the task.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

const IDLE: u8 = 0;
const POLLED: u8 = 1;
const RUNG: u8 = 2;

/// Polls a future under a waker of its own.
#[derive(Debug)]
pub(super) struct Doorbell {
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Debug)]
struct Bell {
    state: AtomicU8,
    task: Mutex<Waker>,
}

impl Doorbell {
    pub(super) fn new() -> Self {
        let bell = Arc::new(Bell { state: AtomicU8::new(IDLE), task: Mutex::new(Waker::noop().clone()) });
        Self { waker: Waker::from(Arc::clone(&bell)), bell }
    }

    /// Calls `poll`, and once more if it was woken meanwhile; after that the task is queued as usual, so
    /// that a future which always wakes itself does not keep the thread.
    pub(super) fn answer<T>(
        &self,
        task: &Waker,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.bell.belongs_to(task);
        let mut cx = Context::from_waker(&self.waker);
        for _ in 0..2 {
            self.bell.state.store(POLLED, Ordering::SeqCst);
            let polled = poll(&mut cx);
            if polled.is_ready() {
                return polled;
            }
            if self.bell.state.swap(IDLE, Ordering::SeqCst) != RUNG {
                return Poll::Pending;
            }
        }
        task.wake_by_ref();
        Poll::Pending
    }
}

impl Bell {
    fn belongs_to(&self, task: &Waker) {
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.will_wake(task) {
            known.clone_from(task);
        }
    }

    fn ring(&self) {
        let while_polled = self.state.compare_exchange(POLLED, RUNG, Ordering::SeqCst, Ordering::SeqCst);
        if while_polled == Err(IDLE) {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn task() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn wakes(count: &Count) -> usize {
        count.0.load(Ordering::SeqCst)
    }

    #[test]
    fn a_wake_during_the_poll_polls_again_and_wakes_nobody() {
        let (count, waker) = task();
        let mut polls = 0;
        let polled = Doorbell::new().answer(&waker, |cx| {
            polls += 1;
            if polls == 1 {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, wakes(&count)), (Poll::Pending, 2, 0));
    }

    #[test]
    fn a_future_that_always_wakes_itself_gives_way() {
        let (count, waker) = task();
        let mut polls = 0;
        let polled = Doorbell::new().answer(&waker, |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, wakes(&count)), (Poll::Pending, 2, 1));
    }

    #[test]
    fn a_wake_after_the_poll_wakes_the_task_that_polled_last() {
        let ((first, one), (second, two)) = (task(), task());
        let door = Doorbell::new();
        let mut inner = None;
        for waker in [&one, &two] {
            let polled = door.answer(waker, |cx| {
                inner = Some(cx.waker().clone());
                Poll::<()>::Pending
            });
            assert_eq!(polled, Poll::Pending);
        }
        inner.unwrap().wake();
        assert_eq!((wakes(&first), wakes(&second)), (0, 1));
    }

    #[test]
    fn no_wake_from_another_thread_is_lost() {
        let (count, waker) = task();
        let door = Doorbell::new();
        for _ in 0..2000 {
            let before = wakes(&count);
            let mut polls = 0;
            let mut other = None;
            let polled = door.answer(&waker, |cx| {
                polls += 1;
                if polls == 1 {
                    let waker = cx.waker().clone();
                    other = Some(std::thread::spawn(move || waker.wake()));
                }
                Poll::<()>::Pending
            });
            assert_eq!(polled, Poll::Pending);
            other.unwrap().join().unwrap();
            assert!(polls == 2 || wakes(&count) == before + 1);
        }
    }
}
