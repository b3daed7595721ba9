//! Leaves somebody alone who keeps failing. Owns when they are asked again.
//!
//! Invariant: a try that never ends does not keep the breaker open: each try is a lease.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Failures in a row before it opens.
const FAILURES: u32 = 3;
/// How long it stays open.
const OPEN: Duration = Duration::from_secs(30);
/// How long one try after that keeps others away.
const LEASE: Duration = Duration::from_secs(5);
/// Nobody is left alone for longer, whatever they ask.
const LONGEST: Duration = Duration::from_secs(300);

/// One of them.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    open: Duration,
    lease: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    until: Option<Instant>,
}

impl Breaker {
    /// Opens for `open` after so many failures in a row; then one try for each `lease` goes through until one ends well.
    pub(crate) fn new(failures: u32, open: Duration, lease: Duration) -> Self {
        Self { failures, open, lease, state: Mutex::default() }
    }

    /// For search engines.
    pub(crate) fn of_engines() -> Self {
        Self::new(FAILURES, OPEN, LEASE)
    }

    /// How long it stays open, if it is; zero while a try is due.
    pub(crate) fn rest(&self) -> Option<Duration> {
        self.lock().until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// `closed`, `open`, or `half_open` while a try is due.
    pub(crate) fn state(&self) -> &'static str {
        match self.rest() {
            None => "closed",
            Some(Duration::ZERO) => "half_open",
            Some(_) => "open",
        }
    }

    /// Whether one may be asked now; else how long they are left alone.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        let now = Instant::now();
        let mut state = self.lock();
        match state.until {
            Some(until) if until > now => Err(until - now),
            Some(_) => {
                state.until = Some(now + self.lease);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A try ended well.
    pub(crate) fn succeeded(&self) {
        *self.lock() = State::default();
    }

    /// A try failed. `retry_after`: what was asked for, which is obeyed at once.
    pub(crate) fn failed(&self, retry_after: Option<Duration>) {
        let mut state = self.lock();
        state.failures = state.failures.saturating_add(1);
        let pause = match retry_after {
            Some(asked) => Some(asked.min(LONGEST)),
            None => (state.failures >= self.failures).then_some(self.open),
        };
        if let Some(pause) = pause {
            state.until = Some(Instant::now() + pause);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_tries_once() {
        let breaker = Breaker::of_engines();
        breaker.failed(None);
        breaker.failed(None);
        breaker.succeeded();
        for _ in 0..FAILURES {
            assert_eq!(breaker.admit(), Ok(()));
            breaker.failed(None);
        }
        assert_eq!(breaker.admit(), Err(OPEN));
        tokio::time::advance(OPEN).await;
        assert_eq!(breaker.admit(), Ok(()), "one try");
        assert_eq!(breaker.admit(), Err(LEASE), "and no more beside it");
        breaker.failed(None);
        assert_eq!(breaker.admit(), Err(OPEN));
        tokio::time::advance(OPEN).await;
        assert_eq!(breaker.admit(), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.admit(), Ok(()));
        assert_eq!(breaker.admit(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_was_given_up_does_not_block_for_ever() {
        let breaker = Breaker::of_engines();
        (0..FAILURES).for_each(|_| breaker.failed(None));
        tokio::time::advance(OPEN).await;
        assert_eq!(breaker.admit(), Ok(()));
        tokio::time::advance(LEASE).await;
        assert_eq!(breaker.admit(), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_engine_asks_for_counts_at_once_but_not_for_ever() {
        let breaker = Breaker::of_engines();
        breaker.failed(Some(Duration::from_secs(2)));
        assert_eq!(breaker.admit(), Err(Duration::from_secs(2)));
        breaker.failed(Some(Duration::from_secs(86_400)));
        assert_eq!(breaker.admit(), Err(LONGEST));
    }
}
