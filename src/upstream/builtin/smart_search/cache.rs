//! Results of the last two minutes, by tenant and request. Invariant: nobody gets what was found for another tenant, and
//! one tenant's results make room for its own alone.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::Found;

const LIFE: Duration = Duration::from_secs(120);
/// Results kept at a time for a tenant, each of some tens of KiB at most.
const MOST: usize = 64;

/// Tenant and normalised request.
pub(super) type Key = (Arc<str>, String);
/// Results by request, with the time since when.
type Entries = HashMap<String, (Instant, Found)>;

/// By tenant.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Arc<str>, Entries>>);

impl Cache {
    pub(super) fn get(&self, (tenant, request): &Key) -> Option<Found> {
        let tenants = self.lock();
        let (since, found) = tenants.get(tenant)?.get(request)?;
        (since.elapsed() < LIFE).then(|| found.clone())
    }

    pub(super) fn put(&self, (tenant, request): Key, found: Found) {
        let mut tenants = self.lock();
        let entries = tenants.entry(tenant).or_default();
        if entries.len() >= MOST {
            entries.retain(|_, (since, _)| since.elapsed() < LIFE);
        }
        if entries.len() >= MOST {
            let oldest = entries.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| key.clone());
            oldest.map(|key| entries.remove(&key));
        }
        entries.insert(request, (Instant::now(), found));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        cache.put(("bob".into(), "0".into()), found(7));
        for n in 0..=MOST as u64 {
            cache.put(("ada".into(), n.to_string()), found(n));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(cache.lock()["ada"].len(), MOST);
        assert!(cache.get(&("bob".into(), "0".into())).is_some(), "another tenant's stays");
        assert!(cache.get(&("ada".into(), "0".into())).is_none());
        assert!(cache.get(&("ada".into(), MOST.to_string())).is_some());
    }
}
