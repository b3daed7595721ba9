//! What results of tools weigh as a rule: the estimate of those that say no size of their own.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Tools remembered at a time: their names come from clients.
const MOST: usize = 1_024;
/// The newest result's share is one in so many.
const WEIGHT: i128 = 8;

/// Running averages, by upstream and tool.
#[derive(Debug, Default)]
pub struct Averages(Mutex<HashMap<String, u64>>);

impl Averages {
    /// The average of a tool; 0 for one that has not answered yet.
    #[must_use]
    pub fn of(&self, upstream: &str, tool: &str) -> u64 {
        self.lock().get(&key(upstream, tool)).copied().unwrap_or(0)
    }

    /// Learns from one result.
    pub fn learn(&self, upstream: &str, tool: &str, tokens: u64) {
        let mut known = self.lock();
        let key = key(upstream, tool);
        if known.len() >= MOST && !known.contains_key(&key) {
            known.clear();
        }
        let average = known.entry(key).or_insert(tokens);
        let moved = i128::from(*average) + (i128::from(tokens) - i128::from(*average)) / WEIGHT;
        *average = u64::try_from(moved).unwrap_or(tokens);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
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
    fn follows_results_slowly_and_each_tool_alone() {
        let averages = Averages::default();
        assert_eq!(averages.of("files", "read"), 0);
        averages.learn("files", "read", 800);
        assert_eq!((averages.of("files", "read"), averages.of("web", "read")), (800, 0));
        averages.learn("files", "read", 0);
        assert_eq!(averages.of("files", "read"), 700);
        (0..200).for_each(|_| averages.learn("files", "read", 100));
        assert!(averages.of("files", "read") < 110);
    }

    #[test]
    fn names_made_up_by_clients_do_not_pile_up() {
        let averages = Averages::default();
        (0..5_000).for_each(|n| averages.learn("files", &n.to_string(), 1));
        assert!(averages.lock().len() <= MOST);
    }
}
