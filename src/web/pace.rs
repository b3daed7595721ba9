//! Politeness to the hosts that pages come from: at most two fetches at a time, and half a second from the start of
//! one to the start of the next. Invariant: what is kept does not grow with the number of hosts seen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

const AT_A_TIME: usize = 2;
/// From one start to the next.
pub(super) const SPACING: Duration = Duration::from_millis(500);
/// Hosts above which idle ones are forgotten.
const HOSTS: usize = 1_024;

/// Turns at all hosts.
#[derive(Debug)]
pub(super) struct Pace {
    spacing: Duration,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
}

#[derive(Debug)]
struct Host {
    slots: Arc<Semaphore>,
    /// When the next may start.
    next: Mutex<Instant>,
}

/// The right to fetch from a host, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _slot: OwnedSemaphorePermit,
}

impl Pace {
    pub(super) fn new(spacing: Duration) -> Self {
        Self { spacing, hosts: Mutex::default() }
    }

    /// Waits for a turn at `host`.
    pub(super) async fn turn(&self, host: &str) -> Turn {
        let host = self.host(host);
        let slots = Arc::clone(&host.slots);
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        let start = {
            let mut next = host.next.lock().unwrap_or_else(PoisonError::into_inner);
            let start = Instant::now().max(*next);
            *next = start + self.spacing;
            start
        };
        sleep_until(start).await;
        Turn { _slot: slot }
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get(name) {
            return Arc::clone(host);
        }
        let now = Instant::now();
        if hosts.len() >= HOSTS {
            let waits = |host: &Host| *host.next.lock().unwrap_or_else(PoisonError::into_inner) > now;
            hosts.retain(|_, host| Arc::strong_count(host) > 1 || waits(host));
        }
        let host = Arc::new(Host { slots: Arc::new(Semaphore::new(AT_A_TIME)), next: Mutex::new(now) });
        hosts.insert(name.to_owned(), Arc::clone(&host));
        host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn starts_are_spaced_and_two_run_at_a_time() {
        let pace = Pace::new(SPACING);
        let begin = Instant::now();
        let one = pace.turn("a").await;
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let two = pace.turn("a").await;
        assert_eq!(begin.elapsed(), SPACING);
        let other = pace.turn("b").await;
        assert_eq!(begin.elapsed(), SPACING);
        assert!(tokio::time::timeout(Duration::from_secs(60), pace.turn("a")).await.is_err());
        drop(one);
        let three = pace.turn("a").await;
        drop((two, three, other));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_hosts_are_forgotten() {
        let pace = Pace::new(SPACING);
        for n in 0..5_000 {
            drop(pace.turn(&n.to_string()).await);
            tokio::time::advance(SPACING).await;
        }
        assert!(pace.hosts.lock().unwrap().len() <= HOSTS);
    }
}
