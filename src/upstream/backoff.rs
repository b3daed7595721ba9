//! Pauses between tries: doubling, bounded, with jitter so that many gateways do not try in step.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(250);

/// Doubling pauses from 0.25 s up to a limit, each shortened by up to a quarter at random.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    limit: Duration,
}

impl Backoff {
    pub(crate) fn up_to(limit: Duration) -> Self {
        Self { next: FIRST.min(limit), limit }
    }

    /// After a success: begin again with the shortest pause.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST.min(self.limit);
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.limit);
        pause - pause.mul_f64(0.25 * random_fraction())
    }
}

/// Uniform in 0..1; without a random source the pauses have no jitter.
fn random_fraction() -> f64 {
    getrandom::u32().map_or(0.0, |n| f64::from(n) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_limit_and_begins_again() {
        let mut pauses = Backoff::up_to(Duration::from_secs(15));
        let taken: Vec<_> = (0..10).map(|_| pauses.next()).collect();
        let full = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0];
        for (pause, full) in taken.iter().zip(full) {
            assert!(pause.as_secs_f64() <= full && pause.as_secs_f64() >= 0.75 * full, "{pause:?} of {full}");
        }
        pauses.reset();
        assert!(pauses.next() <= FIRST);
    }
}
