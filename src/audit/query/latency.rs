//! Durations of many calls in little memory: as they are while they are few, then in buckets that are at most one
//! part in 128 wide. Invariant: the order in which durations and summaries come together changes nothing.

/// Durations that are kept as they are.
const EXACT: usize = 256;
/// Buckets of each power of two, as a power of two.
const FINE: u32 = 7;

/// A summary of durations in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Latency {
    Few(Vec<u64>),
    /// Counts by bucket, up to the highest that has one.
    Many(Vec<u64>),
}

impl Default for Latency {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Latency {
    pub(super) fn add(&mut self, micros: u64) {
        match self {
            Self::Few(all) if all.len() < EXACT => all.push(micros),
            Self::Few(all) => {
                let mut counts = counted(all);
                count(&mut counts, micros);
                *self = Self::Many(counts);
            }
            Self::Many(counts) => count(counts, micros),
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        match other {
            Self::Few(all) => all.into_iter().for_each(|micros| self.add(micros)),
            Self::Many(mut theirs) => {
                let ours = match self {
                    Self::Few(all) => counted(all),
                    Self::Many(counts) => std::mem::take(counts),
                };
                theirs.resize(theirs.len().max(ours.len()), 0);
                theirs.iter_mut().zip(ours).for_each(|(t, o)| *t += o);
                *self = Self::Many(theirs);
            }
        }
    }

    /// The least duration that `share` of all do not exceed: exact while they are few, else the upper end of its bucket.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let rank = |total: u64| ((total as f64 * share).ceil() as u64).clamp(1, total);
        match self {
            Self::Few(all) if all.is_empty() => None,
            Self::Few(all) => {
                let mut sorted = all.clone();
                sorted.sort_unstable();
                sorted.get(usize::try_from(rank(all.len() as u64)).unwrap_or(1) - 1).copied()
            }
            Self::Many(counts) => {
                let mut left = rank(counts.iter().sum());
                let bucket = counts.iter().position(|n| {
                    let found = *n >= left;
                    left = left.saturating_sub(*n);
                    found
                });
                bucket.map(upper)
            }
        }
    }
}

fn counted(all: &[u64]) -> Vec<u64> {
    let mut counts = Vec::new();
    all.iter().for_each(|micros| count(&mut counts, *micros));
    counts
}

fn count(counts: &mut Vec<u64>, micros: u64) {
    let bucket = bucket(micros);
    if bucket >= counts.len() {
        counts.resize(bucket + 1, 0);
    }
    counts[bucket] += 1;
}

/// Values below 2^(FINE+1) have buckets of their own; above, each power of two has 2^FINE.
fn bucket(micros: u64) -> usize {
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(FINE + 1);
    ((shift as usize) << FINE) + (micros >> shift) as usize
}

/// The greatest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let shift = (bucket >> FINE).saturating_sub(1);
    let lead = (bucket - (shift << FINE)) as u128;
    u64::try_from(((lead + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_at_most_one_part_in_128_wide(micros: u64) {
            let upper = upper(bucket(micros));
            prop_assert!(upper >= micros && upper - micros <= micros / 128);
        }

        #[test]
        fn order_and_grouping_change_nothing(all in prop::collection::vec(0u64..1 << 40, 0..700), cut in 0usize..700) {
            let mut one = Latency::default();
            all.iter().for_each(|d| one.add(*d));
            let (left, right) = all.split_at(cut.min(all.len()));
            let [mut a, mut b] = [Latency::default(), Latency::default()];
            left.iter().rev().for_each(|d| a.add(*d));
            right.iter().for_each(|d| b.add(*d));
            b.merge(a);
            for share in [0.0, 0.5, 0.95, 0.99, 1.0] {
                prop_assert_eq!(one.quantile(share), b.quantile(share));
            }
        }

        #[test]
        fn quantiles_are_close(mut all in prop::collection::vec(0u64..1 << 40, 1..2_000)) {
            let mut summary = Latency::default();
            all.iter().for_each(|d| summary.add(*d));
            all.sort_unstable();
            for share in [0.5, 0.95, 0.99] {
                let exact = all[((all.len() as f64 * share).ceil() as usize).max(1) - 1];
                let said = summary.quantile(share).unwrap();
                prop_assert!(said >= exact && said - exact <= exact / 128, "{} for {}", said, exact);
            }
        }
    }
}
