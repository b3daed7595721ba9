//! What results of tools weigh as a rule: what is held for those that say no size of their own.
//!
//! Invariant: a tenant's estimates come from its own results alone, and their number is bounded for each tenant. Tenants
//! are as many as the configuration names.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

/// Tools of one tenant remembered at a time: their names come from clients.
const MOST: usize = 256;
/// Results of a tool that count: the latest.
const RESULTS: usize = 20;

/// Sizes of the latest results by upstream and tool.
type Known = HashMap<String, VecDeque<u64>>;

/// Estimates, by tenant.
#[derive(Debug, Default)]
pub struct Estimates(Mutex<HashMap<Arc<str>, Known>>);

impl Estimates {
    /// What 95 of 100 results of a tool do not exceed, by its latest ones; 0 for one that has not answered yet.
    #[must_use]
    pub fn of(&self, tenant: &str, upstream: &str, tool: &str) -> u64 {
        let tenants = self.lock();
        let Some(results) = tenants.get(tenant).and_then(|known| known.get(&key(upstream, tool))) else {
            return 0;
        };
        let mut sorted: Vec<u64> = results.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get((sorted.len() * 95).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
    }

    /// Learns from one result.
    pub fn learn(&self, tenant: &Arc<str>, upstream: &str, tool: &str, tokens: u64) {
        let mut tenants = self.lock();
        let known = tenants.entry(Arc::clone(tenant)).or_default();
        let key = key(upstream, tool);
        if known.len() >= MOST && !known.contains_key(&key) {
            known.clear();
        }
        let results = known.entry(key).or_default();
        results.truncate(RESULTS - 1);
        results.push_front(tokens);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names of upstreams have no slash.
fn key(upstream: &str, tool: &str) -> String {
    format!("{upstream}/{tool}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_results_count_and_one_in_twenty_may_be_larger() {
        let estimates = Estimates::default();
        let ada = Arc::from("ada");
        assert_eq!(estimates.of("ada", "files", "read"), 0);
        estimates.learn(&ada, "files", "read", 800);
        assert_eq!((estimates.of("ada", "files", "read"), estimates.of("ada", "web", "read")), (800, 0));
        (1..=20).for_each(|n| estimates.learn(&ada, "files", "read", n * 10));
        assert_eq!(estimates.of("ada", "files", "read"), 190);
    }

    #[test]
    fn no_tenant_learns_from_another_or_takes_its_place() {
        let estimates = Estimates::default();
        let (ada, bob) = (Arc::from("ada"), Arc::from("bob"));
        estimates.learn(&ada, "files", "read", 800);
        assert_eq!(estimates.of("bob", "files", "read"), 0);
        (0..5_000).for_each(|n| estimates.learn(&bob, "files", &n.to_string(), 1));
        (0..50).for_each(|_| estimates.learn(&bob, "files", "read", 7));
        assert_eq!((estimates.of("ada", "files", "read"), estimates.of("bob", "files", "read")), (800, 7));
        assert!(estimates.lock()["bob"].len() <= MOST, "names made up by clients pile up");
    }
}
