//! Threads for work on what strangers wrote: a large stack, a deadline, a bounded number. A panic ends the work
//! alone. Work that does not end keeps its place, so that the number of threads stays bounded whatever comes.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread,
    time::Duration,
};

use tokio::{
    sync::{Semaphore, oneshot},
    time::timeout,
};

/// For a place; whoever gets none is told so while others still wait for their results.
const WAIT: Duration = Duration::from_secs(5);
const STACK: usize = 64 * 1024 * 1024;

/// Why there is no result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    Panicked,
    TooLong,
    Busy,
    NoThread,
}

/// Runs work on threads of its own.
#[derive(Debug)]
pub(super) struct Threads {
    places: Arc<Semaphore>,
    limit: Duration,
}

impl Threads {
    pub(super) fn new(number: usize, limit: Duration) -> Self {
        Self { places: Arc::new(Semaphore::new(number)), limit }
    }

    /// Waits for a place, though not long, and then for the result at most as long as the limit says.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failed> {
        let places = Arc::clone(&self.places);
        let place = timeout(self.limit.min(WAIT), places.acquire_owned()).await.map_err(|_| Failed::Busy)?;
        let place = place.map_err(|_| Failed::NoThread)?;
        let (answer, answered) = oneshot::channel();
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            drop(place);
            // Whoever asked may have left.
            drop(answer.send(result.map_err(|_| Failed::Panicked)));
        };
        let started = thread::Builder::new().name("extract".into()).stack_size(STACK).spawn(body);
        if let Err(error) = started {
            tracing::error!(%error, "no thread for extracting text");
            return Err(Failed::NoThread);
        }
        match timeout(self.limit, answered).await {
            Ok(result) => result.unwrap_or(Err(Failed::Panicked)),
            Err(_) => {
                tracing::warn!(
                    "extracting text from a document takes too long; its thread is left to itself"
                );
                Err(Failed::TooLong)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn panics_hangs_and_deep_stacks_are_contained() {
        fn deep(n: u64) -> u64 {
            if n == 0 { 0 } else { std::hint::black_box(1 + deep(n - 1)) }
        }
        let threads = Threads::new(2, Duration::from_secs(60));
        assert_eq!(threads.run(|| 1 + 1).await, Ok(2));
        assert_eq!(threads.run(|| deep(200_000)).await, Ok(200_000));
        assert_eq!(threads.run(|| assert_eq!(1, 2)).await, Err(Failed::Panicked));
        let threads = Threads { limit: Duration::from_millis(200), ..threads };
        let (release, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let hang = move || held.lock().unwrap().recv().is_err();
        assert_eq!(threads.run(hang).await, Err(Failed::TooLong));
        assert_eq!(threads.places.available_permits(), 1, "it keeps its place");
        let (again, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let hang = move || held.lock().unwrap().recv().is_err();
        assert_eq!(threads.run(hang).await, Err(Failed::TooLong));
        assert_eq!(threads.run(|| 1).await, Err(Failed::Busy), "no more threads than places");
        drop((release, again));
        while threads.places.available_permits() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(threads.run(|| 1).await, Ok(1), "places come back");
    }
}
