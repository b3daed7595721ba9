//! Calls that wait for their client between two HTTP requests, each under a random handle. The only state of a call
//! that outlives a request, and it lives in this process alone.
//!
//! Invariants: never more than the limits, for one owner and in all; a handle is good once, for its owner, until its
//! time is over. Whoever is not taken in time is dropped, and says goodbye by its own `Drop`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

/// How many may wait, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of one owner.
    pub each: usize,
    /// Of all owners together.
    pub all: usize,
    /// How long one waits.
    pub lifetime: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { each: 1_000, all: 10_000, lifetime: Duration::from_secs(5 * 60) }
    }
}

/// Names what waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle([u8; 16]);

/// There is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// What waits.
pub struct Parked<T> {
    limits: Limits,
    lot: Mutex<Lot<T>>,
}

struct Lot<T> {
    spots: HashMap<Handle, Spot<T>>,
    owners: HashMap<Arc<str>, usize>,
}

struct Spot<T> {
    owner: Arc<str>,
    value: T,
    timer: AbortHandle,
}

impl<T> std::fmt::Debug for Parked<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parked").field("waiting", &self.len()).finish()
    }
}

impl<T: Send + 'static> Parked<T> {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Arc<Self> {
        let lot = Lot { spots: HashMap::new(), owners: HashMap::new() };
        Arc::new(Self { limits, lot: Mutex::new(lot) })
    }

    /// How long a value waits.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.limits.lifetime
    }

    /// Lets `value` wait. Call it inside the runtime.
    ///
    /// # Errors
    /// There is no room; the value comes back.
    pub fn park(self: &Arc<Self>, owner: &Arc<str>, value: T) -> Result<Handle, (Full, T)> {
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Err((Full, value));
        }
        let handle = Handle(random);
        let mut lot = self.lot();
        let of_owner = lot.owners.get(owner).copied().unwrap_or(0);
        if of_owner >= self.limits.each || lot.spots.len() >= self.limits.all {
            return Err((Full, value));
        }
        lot.owners.insert(Arc::clone(owner), of_owner + 1);
        let (everybody, lifetime) = (Arc::downgrade(self), self.limits.lifetime);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(lifetime).await;
            drop(everybody.upgrade().and_then(|parked| parked.lot().remove(handle)));
        });
        let spot = Spot { owner: Arc::clone(owner), value, timer: timer.abort_handle() };
        lot.spots.insert(handle, spot);
        Ok(handle)
    }

    /// Takes it back, once.
    #[must_use]
    pub fn take(&self, owner: &str, handle: Handle) -> Option<T> {
        let mut lot = self.lot();
        lot.spots.get(&handle).filter(|spot| &*spot.owner == owner)?;
        let spot = lot.remove(handle)?;
        spot.timer.abort();
        Some(spot.value)
    }
}

impl<T> Parked<T> {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lot().spots.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lot(&self) -> MutexGuard<'_, Lot<T>> {
        self.lot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Lot<T> {
    fn remove(&mut self, handle: Handle) -> Option<Spot<T>> {
        let spot = self.spots.remove(&handle)?;
        if let Some(count) = self.owners.get_mut(&spot.owner) {
            *count -= 1;
            if *count == 0 {
                self.owners.remove(&spot.owner);
            }
        }
        Some(spot)
    }
}

impl<T> Drop for Parked<T> {
    fn drop(&mut self) {
        self.lot().spots.values().for_each(|spot| spot.timer.abort());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn limits(each: usize, all: usize) -> Limits {
        Limits { each, all, ..Limits::default() }
    }

    #[tokio::test]
    async fn a_handle_is_good_once_and_for_its_owner() {
        let parked = Parked::new(Limits::default());
        let ada = Arc::from("ada");
        let handle = parked.park(&ada, 7).expect("room");
        assert_eq!(parked.take("bob", handle), None);
        assert_eq!(parked.take("ada", handle), Some(7));
        assert_eq!(parked.take("ada", handle), None);
        assert!(parked.is_empty());
    }

    #[tokio::test]
    async fn no_owner_and_not_all_together_have_more_than_their_room() {
        let parked = Parked::new(limits(2, 3));
        let (ada, bob) = (Arc::from("ada"), Arc::from("bob"));
        let first = parked.park(&ada, 1).expect("room");
        parked.park(&ada, 2).expect("room");
        assert_eq!(parked.park(&ada, 3), Err((Full, 3)));
        parked.park(&bob, 4).expect("room");
        assert_eq!(parked.park(&bob, 5), Err((Full, 5)));
        assert_eq!(parked.take("ada", first), Some(1));
        parked.park(&bob, 5).expect("the room of the other");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_taken_in_time_is_dropped() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let parked = Parked::new(limits(2, 2));
        let owner = Arc::from("ada");
        let left = parked.park(&owner, Counted(dropped.clone())).ok().expect("room");
        let taken = parked.park(&owner, Counted(dropped.clone())).ok().expect("room");
        let kept = parked.take("ada", taken).expect("there");
        tokio::time::sleep(Limits::default().lifetime * 2).await;
        assert_eq!(dropped.load(SeqCst), 1);
        assert!(parked.take("ada", left).is_none() && parked.is_empty());
        drop(kept);
    }
}
