//! Admission: how many calls are in flight, and the rates of keys, tools and addresses. Owns the state that
//! outlives a configuration; the numbers come with each call's snapshot.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::error::Cause;
use crate::{
    glob::Globs,
    policy::rate_limit::{AddressBuckets, Buckets, Clock, Quota},
};

/// Compiled `[limits]`.
#[derive(Debug)]
pub struct Limits {
    /// `limits.concurrency`
    pub concurrency: usize,
    /// `limits.rate`, for callers that have none of their own.
    pub rate: Option<Quota>,
    /// `limits.per_tool`, in file order.
    pub per_tool: Vec<(Globs, Quota)>,
}

impl Limits {
    /// Where each per-tool rate was `before`, by its glob; `None` if all are where they were.
    #[must_use]
    pub fn moved_from(&self, before: &Self) -> Option<Vec<Option<usize>>> {
        let globs = |l: &Self| l.per_tool.iter().map(|(g, _)| g.clone()).collect::<Vec<_>>();
        let (old, new) = (globs(before), globs(self));
        (old != new).then(|| new.iter().map(|g| old.iter().position(|o| o == g)).collect())
    }
}

/// State of the limits, one for the process.
#[derive(Debug, Default)]
pub struct Gate {
    in_flight: Arc<AtomicUsize>,
    addresses: AddressBuckets,
    clock: Clock,
}

/// A place among the calls in flight; given back on drop.
#[derive(Debug)]
pub struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whose buckets a request draws on.
#[derive(Debug, Clone, Copy)]
pub enum Payer<'a> {
    /// A key: its own rate if it has one, and its buckets.
    Key(Option<Quota>, &'a Arc<Buckets>),
    /// Nobody is known: the address pays.
    Address(IpAddr),
}

impl Gate {
    /// A gate whose rates go by another clock.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Takes a place among the calls in flight.
    ///
    /// # Errors
    /// All `limits.concurrency` places are taken.
    pub fn enter(&self, limits: &Limits) -> Result<Permit, Cause> {
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(&self.in_flight));
        if before >= limits.concurrency { Err(Cause::Concurrency(limits.concurrency)) } else { Ok(permit) }
    }

    /// Takes another list of per-tool rates for the addresses that called before.
    pub fn carry(&self, before: &Limits, after: &Limits) {
        if let Some(from) = after.moved_from(before) {
            self.addresses.carry(&from);
        }
    }

    /// Takes one request from the payer's rate and, for a tool, from each per-tool rate that matches. Either
    /// all of them pass or none is charged.
    ///
    /// # Errors
    /// The wall that refused.
    pub fn charge(&self, limits: &Limits, payer: Payer<'_>, tool: Option<&str>) -> Result<(), Cause> {
        let now = self.clock.now();
        let (own, wall) = match payer {
            Payer::Key(rate, _) => (rate.or(limits.rate), "key"),
            Payer::Address(_) => (limits.rate, "address"),
        };
        let tools =
            || limits.per_tool.iter().enumerate().filter(|(_, (g, _))| tool.is_some_and(|t| g.matches(t)));
        if own.is_none() && tools().next().is_none() {
            return Ok(());
        }
        let held;
        let buckets = match payer {
            Payer::Key(_, buckets) => buckets,
            Payer::Address(ip) => {
                held = self.addresses.of(ip, limits.per_tool.len(), now);
                &held
            }
        };
        if let Some(quota) = own {
            buckets.own.take(quota, now).map_err(|r| Cause::RateLimited(wall, r))?;
        }
        let mut taken = Vec::new();
        for (i, (_, quota)) in tools() {
            // Both the keys' and the addresses' buckets are made for the list of this call's configuration.
            let Some(bucket) = buckets.tools.get(i) else { continue };
            if let Err(refused) = bucket.take(*quota, now) {
                taken.iter().for_each(|&(b, q): &(&crate::policy::rate_limit::Bucket, Quota)| b.give_back(q));
                if let Some(quota) = own {
                    buckets.own.give_back(quota);
                }
                return Err(Cause::RateLimited("tool", refused));
            }
            taken.push((bucket, *quota));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limits(rate: Option<u32>, per_tool: &[(&str, u32)]) -> Limits {
        let quota = |n| Quota::new(n, Duration::from_secs(3_600));
        Limits {
            concurrency: 2,
            rate: rate.map(quota),
            per_tool: per_tool.iter().map(|(g, n)| (Globs::new([g]), quota(*n))).collect(),
        }
    }

    #[test]
    fn places_are_given_back() {
        let (gate, limits) = (Gate::default(), limits(None, &[]));
        let first = gate.enter(&limits).unwrap();
        let _second = gate.enter(&limits).unwrap();
        assert!(matches!(gate.enter(&limits), Err(Cause::Concurrency(2))));
        drop(first);
        assert!(gate.enter(&limits).is_ok());
    }

    #[test]
    fn a_tool_that_is_used_up_does_not_charge_the_key() {
        let (gate, limits) = (Gate::default(), limits(Some(3), &[("slow_*", 1)]));
        let buckets = Arc::new(Buckets::new(1));
        let call = |tool| gate.charge(&limits, Payer::Key(None, &buckets), Some(tool));
        assert!(call("slow_one").is_ok());
        for _ in 0..5 {
            assert!(matches!(call("slow_two"), Err(Cause::RateLimited("tool", _))));
        }
        assert!(call("fast").is_ok() && call("fast").is_ok());
        assert!(matches!(call("fast"), Err(Cause::RateLimited("key", _))));
    }

    #[test]
    fn addresses_pay_for_themselves() {
        let (gate, limits) = (Gate::default(), limits(Some(1), &[]));
        let call = |last| gate.charge(&limits, Payer::Address([10, 0, 0, last].into()), None);
        assert!(call(1).is_ok() && call(2).is_ok());
        assert!(matches!(call(1), Err(Cause::RateLimited("address", _))));
    }
}
