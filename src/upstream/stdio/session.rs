//! What the gateway keeps of a legacy client's session, so that it outlives the child that serves it: who may use it,
//! how it began, and where its child is.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{calls::lock, inbox::Inbox, peer::Peer};
use crate::upstream::{backoff::Backoff, shown::owner::Owner};

/// Longest pause between two starts of a command that keeps ending.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A child that lived this long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// Tells its ids from those of others on a shared child.
    pub(super) number: u64,
    pub(super) owner: Owner,
    /// The `initialize` that it began with, for a child that is started later.
    pub(super) hello: Bytes,
    pub(super) inbox: Arc<Inbox>,
    /// Its own child; empty where children are shared.
    pub(super) slot: Slot,
    used: Mutex<Instant>,
}

impl Session {
    pub(super) fn new(owner: Owner, hello: Bytes, inbox: Arc<Inbox>) -> Self {
        /// 0 is the gateway itself and modern calls.
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBER.fetch_add(1, Relaxed),
            owner,
            hello,
            inbox,
            slot: Slot::default(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Somebody uses it.
    pub(super) fn touch(&self) {
        *lock(&self.used) = Instant::now();
    }

    /// How long nobody has used it; `None` while it has a child or a stream.
    pub(super) fn forgotten(&self) -> Option<Duration> {
        let free = self.slot.is_empty() && self.inbox.stream().is_none();
        free.then(|| lock(&self.used).elapsed())
    }

    /// Ends its stream and its child.
    pub(super) fn end(&self) {
        self.inbox.close();
        self.slot.stop();
    }
}

/// A place for one child.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Locked while a child is started, so that one is.
    pub(super) running: tokio::sync::Mutex<Option<Arc<Peer>>>,
    pub(super) pace: Mutex<Pace>,
}

impl Slot {
    /// Whether there is no child, and none is being started.
    fn is_empty(&self) -> bool {
        self.running.try_lock().is_ok_and(|r| r.as_ref().is_none_or(|p| p.ended().is_some()))
    }

    /// How long its child has been idle, if it has one that is.
    pub(super) fn idle(&self) -> Option<Duration> {
        self.running()?.idle()
    }

    /// Its child, if that is running and no other is being started.
    pub(super) fn running(&self) -> Option<Arc<Peer>> {
        let running = self.running.try_lock().ok()?;
        running.as_ref().filter(|p| p.ended().is_none()).cloned()
    }

    /// Whether a call waits for its child, or for the start of one.
    pub(super) fn is_busy(&self) -> bool {
        match self.running.try_lock() {
            Ok(running) => running.as_ref().is_some_and(|p| p.ended().is_none() && p.idle().is_none()),
            Err(_) => true,
        }
    }

    /// Ends its child if no call waits for it.
    pub(super) fn retire(&self) {
        if let Ok(mut running) = self.running.try_lock() {
            running.take_if(|peer| peer.retire());
        }
    }

    /// Ends its child. One that is being started ends with those who wait for it.
    pub(super) fn stop(&self) {
        if let Some(peer) = self.running.try_lock().ok().and_then(|mut r| r.take()) {
            peer.stop();
        }
    }
}

/// How soon a command that ended may be started again: at once, then after pauses that grow.
#[derive(Debug)]
pub(super) struct Pace {
    pause: Backoff,
    ends: u32,
    not_before: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: Backoff::up_to(LONGEST_PAUSE), ends: 0, not_before: None }
    }
}

impl Pace {
    /// How long to wait yet, if at all.
    pub(super) fn left(&self) -> Option<Duration> {
        let left = self.not_before?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// A child ended by itself at `end`, having run for `lived`.
    pub(super) fn ended(&mut self, end: Instant, lived: Duration) {
        if lived >= STEADY {
            self.reset();
        }
        self.ends += 1;
        if self.ends > 1 {
            self.not_before = Some(end + self.pause.next());
        }
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_command_that_keeps_ending_is_started_less_and_less() {
        let mut pace = Pace::default();
        pace.ended(Instant::now(), Duration::ZERO);
        assert_eq!(pace.left(), None, "the first restart is at once");
        let mut pauses = Vec::new();
        for _ in 0..9 {
            pace.ended(Instant::now(), Duration::ZERO);
            pauses.push(pace.left().unwrap());
            tokio::time::advance(LONGEST_PAUSE).await;
            assert_eq!(pace.left(), None);
        }
        assert!(pauses[0] <= Duration::from_millis(250), "{pauses:?}");
        assert!(pauses[8] > LONGEST_PAUSE / 2 && pauses[8] <= LONGEST_PAUSE, "{pauses:?}");
        pace.ended(Instant::now(), STEADY);
        assert_eq!(pace.left(), None, "one that ran for a while begins anew");
    }
}
