//! Results of the last two minutes, by tenant and request. Invariant: nobody gets what was found for another tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Found;

const LIFE: Duration = Duration::from_secs(120);
/// Results kept at a time, each of some tens of KiB at most.
const MOST: usize = 256;

/// Tenant and normalised request.
pub(super) type Key = (Arc<str>, String);

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: Mutex<HashMap<Key, (Instant, Found)>>,
}

impl Cache {
    pub(super) fn get(&self, key: &Key) -> Option<Found> {
        let entries = self.lock();
        let (since, found) = entries.get(key)?;
        (since.elapsed() < LIFE).then(|| found.clone())
    }

    pub(super) fn put(&self, key: Key, found: Found) {
        let mut entries = self.lock();
        if entries.len() >= MOST {
            entries.retain(|_, (since, _)| since.elapsed() < LIFE);
        }
        if entries.len() >= MOST {
            let oldest = entries.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
            oldest.map(|key| entries.remove(&key));
        }
        entries.insert(key, (Instant::now(), found));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, (Instant, Found)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tokens_in: u64) -> Found {
        Found { value: serde_json::Map::new(), tokens_in }
    }

    #[tokio::test(start_paused = true)]
    async fn results_belong_to_a_tenant_and_end() {
        let cache = Cache::default();
        let key = |tenant: &str| (tenant.into(), "rust".to_owned());
        cache.put(key("ada"), found(1));
        assert_eq!(cache.get(&key("ada")).map(|f| f.tokens_in), Some(1));
        assert!(cache.get(&key("bob")).is_none());
        tokio::time::advance(LIFE).await;
        assert!(cache.get(&key("ada")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_room() {
        let cache = Cache::default();
        for n in 0..=MOST as u64 {
            cache.put(("ada".into(), n.to_string()), found(n));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(cache.lock().len(), MOST);
        assert!(cache.get(&("ada".into(), "0".into())).is_none());
        assert!(cache.get(&("ada".into(), MOST.to_string())).is_some());
    }
}
