//! GCRA (generic cell rate algorithm): one atomic per bucket, no timers, no locks on the path of a key.
//!
//! A bucket holds the theoretical arrival time of the next request in nanoseconds since a fixed start;
//! the burst is one window's worth. Refusing costs nothing and consumes nothing.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A compiled rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests in a window; also the burst.
    pub limit: u32,
    /// The window.
    pub window: Duration,
    interval: u64,
}

impl Quota {
    /// `limit` requests per `window`; both must be above zero (the configuration check sees to it).
    #[must_use]
    pub fn new(limit: u32, window: Duration) -> Self {
        let nanos = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { limit: limit.max(1), window, interval: (nanos / u64::from(limit.max(1))).max(1) }
    }
}

/// Why a request may not pass now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// The rate that refused.
    pub quota: Quota,
    /// Until one request would pass.
    pub retry_after: Duration,
}

/// One rate's state.
#[derive(Debug, Default)]
pub struct Bucket(AtomicU64);

impl Bucket {
    /// Takes one request's worth at `now` (nanoseconds on the caller's clock).
    ///
    /// # Errors
    /// [`Refused`] when the window is used up; nothing is taken then.
    pub fn take(&self, quota: Quota, now: u64) -> Result<(), Refused> {
        let burst = quota.interval.saturating_mul(u64::from(quota.limit));
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let next = seen.max(now).saturating_add(quota.interval);
            let ahead = next - now;
            if ahead > burst {
                return Err(Refused { quota, retry_after: Duration::from_nanos(ahead - burst) });
            }
            match self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(other) => seen = other,
            }
        }
    }

    /// A bucket of the same level.
    fn same_level(&self) -> Self {
        Self(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }

    fn is_used(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) > now
    }

    /// Gives one request's worth back, for a request that another wall refused.
    pub fn give_back(&self, quota: Quota) {
        self.0.fetch_sub(quota.interval, Ordering::Relaxed);
    }
}

/// The clock of all buckets.
#[derive(Debug, Clone)]
pub enum Clock {
    /// Nanoseconds since the process began to limit.
    Since(Instant),
    /// What somebody sets, for calls that were made at another time.
    Set(Arc<AtomicU64>),
}

impl Default for Clock {
    fn default() -> Self {
        Self::Since(Instant::now())
    }
}

impl Clock {
    /// Nanoseconds since a fixed start.
    #[must_use]
    pub fn now(&self) -> u64 {
        match self {
            Self::Since(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Self::Set(now) => now.load(Ordering::Relaxed),
        }
    }
}

/// The buckets of one key: its own rate, and one for each per-tool glob.
#[derive(Debug, Default)]
pub struct Buckets {
    /// The key's own rate.
    pub own: Bucket,
    /// One for each entry of `limits.per_tool`, in order.
    pub tools: Vec<Bucket>,
}

impl Buckets {
    /// Full buckets for `tools` per-tool rates.
    #[must_use]
    pub fn new(tools: usize) -> Self {
        Self { own: Bucket::default(), tools: (0..tools).map(|_| Bucket::default()).collect() }
    }

    /// The same levels for another list of per-tool rates. `from` says for each of the new ones which of the
    /// old ones it was; one that was none starts full.
    #[must_use]
    pub fn carried(&self, from: &[Option<usize>]) -> Self {
        let level = |old: &Option<usize>| old.and_then(|i| self.tools.get(i)).map(Bucket::same_level);
        Self {
            own: self.own.same_level(),
            tools: from.iter().map(|old| level(old).unwrap_or_default()).collect(),
        }
    }

    fn is_used(&self, now: u64) -> bool {
        self.own.is_used(now) || self.tools.iter().any(|b| b.is_used(now))
    }
}

/// Buckets by client address, for callers without keys. Bounded: at `CAPACITY` addresses the ones whose
/// windows are over are dropped, and if none is, all are.
#[derive(Debug, Default)]
pub struct AddressBuckets(Mutex<HashMap<IpAddr, Arc<Buckets>>>);

impl AddressBuckets {
    const CAPACITY: usize = 65_536;

    /// The buckets of an address, made full when it is new, with one for each of `tools` per-tool rates.
    pub fn of(&self, address: IpAddr, tools: usize, now: u64) -> Arc<Buckets> {
        let mut map = self.lock();
        if map.len() >= Self::CAPACITY && !map.contains_key(&address) {
            map.retain(|_, b| b.is_used(now));
            if map.len() >= Self::CAPACITY {
                map.clear();
            }
        }
        let buckets = map.entry(address).or_insert_with(|| Arc::new(Buckets::new(tools)));
        // A call that still runs under another configuration may have made them.
        if buckets.tools.len() != tools {
            *buckets = Arc::new(buckets.carried(&vec![None; tools]));
        }
        Arc::clone(buckets)
    }

    /// Takes another list of per-tool rates, see [`Buckets::carried`].
    pub fn carry(&self, from: &[Option<usize>]) {
        self.lock().values_mut().for_each(|b| *b = Arc::new(b.carried(from)));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<IpAddr, Arc<Buckets>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn one_window_may_burst_and_then_the_rate_holds() {
        let quota = Quota::new(10, Duration::from_secs(1));
        let bucket = Bucket::default();
        let passed = (0..20).filter(|_| bucket.take(quota, 5 * SECOND).is_ok()).count();
        assert_eq!(passed, 10);
        let refused = bucket.take(quota, 5 * SECOND).unwrap_err();
        assert_eq!(refused.retry_after, Duration::from_millis(100));
        assert!(bucket.take(quota, 5 * SECOND + SECOND / 10).is_ok());
        assert!(bucket.take(quota, 5 * SECOND + SECOND / 10).is_err());
    }

    #[test]
    fn a_long_run_never_passes_more_than_rate_plus_burst() {
        let quota = Quota::new(7, Duration::from_secs(1));
        let bucket = Bucket::default();
        let passed = (0..10_000).filter(|i| bucket.take(quota, i * SECOND / 1_000).is_ok()).count();
        assert!((70..=77).contains(&passed), "{passed}");
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let quota = Quota::new(1, Duration::from_secs(60));
        let bucket = Bucket::default();
        assert!(bucket.take(quota, SECOND).is_ok());
        assert!(bucket.take(quota, SECOND).is_err());
        bucket.give_back(quota);
        assert!(bucket.take(quota, SECOND).is_ok());
    }

    #[test]
    fn levels_follow_their_rates_to_other_places() {
        let quota = Quota::new(1, Duration::from_secs(60));
        let buckets = Buckets::new(2);
        assert!(buckets.own.take(quota, SECOND).is_ok() && buckets.tools[1].take(quota, SECOND).is_ok());
        let after = buckets.carried(&[Some(1), None, Some(0)]);
        let passes = |b: &Bucket| b.take(quota, SECOND).is_ok();
        assert!(!passes(&after.own) && !passes(&after.tools[0]));
        assert!(passes(&after.tools[1]) && passes(&after.tools[2]));
    }

    #[test]
    fn an_address_has_a_bucket_for_every_tool_rate_of_its_call() {
        let addresses = AddressBuckets::default();
        let quota = Quota::new(1, Duration::from_secs(60));
        let ip = IpAddr::from([10, 0, 0, 1]);
        assert!(addresses.of(ip, 0, SECOND).own.take(quota, SECOND).is_ok());
        assert_eq!(addresses.of(ip, 2, SECOND).tools.len(), 2);
        assert!(addresses.of(ip, 2, SECOND).own.take(quota, SECOND).is_err());
    }

    #[test]
    fn parallel_takers_never_pass_the_burst() {
        let quota = Quota::new(100, Duration::from_secs(3_600));
        let bucket = Bucket::default();
        let passed = AtomicU64::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let n = (0..1_000).filter(|_| bucket.take(quota, SECOND).is_ok()).count();
                    passed.fetch_add(n as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(passed.into_inner(), 100);
    }
}
