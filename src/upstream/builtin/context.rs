//! What a tool works with: for whom, and the parts that all calls share. Owns the number of tools that compute at a
//! time and how text is found behind a reference.

use std::{panic::resume_unwind, sync::Arc};

use tokio::sync::Semaphore;

use super::{smart_budget_guard::Unconfirmed, smart_search::Search, tool::ToolError};
use crate::{
    config,
    policy::budget::Ledger,
    store::{Store, StoreError, refs},
    upstream::Caller,
    web::Fetcher,
};

/// Tool calls that compute at the same time; more wait their turn.
const WORKERS: usize = 4;

/// What the calls of one built-in upstream share.
#[derive(Debug)]
pub(super) struct Services {
    pub(super) store: Store,
    pub(super) ledger: Arc<Ledger>,
    pub(super) search: Search,
    pub(super) fetcher: Fetcher,
    pub(super) unconfirmed: Unconfirmed,
    workers: Arc<Semaphore>,
}

impl Services {
    pub(super) fn new(settings: &config::Smart, store: Store, ledger: Arc<Ledger>) -> Self {
        let search = Search::new(&settings.engines);
        let fetcher = Fetcher::new(&settings.fetch, store.clone());
        let workers = Arc::new(Semaphore::new(WORKERS));
        Self { store, ledger, search, fetcher, unconfirmed: Unconfirmed::default(), workers }
    }
}

/// The surroundings of one call. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) services: Arc<Services>,
    pub(super) caller: Caller,
}

impl Context {
    pub(super) fn new(services: Arc<Services>, caller: Caller) -> Self {
        Self { services, caller }
    }

    /// Runs `work` on a thread that may block, when one of the workers is free. The permit stays with the work: a
    /// caller that leaves does not make room before the work has ended. A panic goes on in the caller.
    pub(super) async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let workers = Arc::clone(&self.services.workers);
        let permit = workers.acquire_owned().await.expect("the semaphore is never closed");
        let work = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(permit);
            result
        });
        match work.await {
            Ok(result) => result,
            Err(stopped) => resume_unwind(stopped.into_panic()),
        }
    }

    /// The text behind a reference of this tenant.
    pub(super) async fn resolve(&self, reference: &str) -> Result<String, ToolError> {
        if refs::is_reference(reference) {
            let (tenant, id) = (Arc::clone(&self.caller.tenant), reference.to_owned());
            if let Some(text) = self.services.store.read(move |c| refs::get(c, &tenant, &id)).await? {
                return Ok(text);
            }
        }
        Err(ToolError::new(
            "ref_not_found",
            "this reference is unknown or has expired; send the text itself, or fetch it again",
        ))
    }

    /// Keeps `text` for the tenant.
    pub(super) async fn keep(&self, text: String, ttl: u32) -> Result<refs::Reference, ToolError> {
        let tenant = Arc::clone(&self.caller.tenant);
        Ok(self.services.store.write(move |c| refs::put(c, &tenant, &text, ttl)).await?)
    }
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "a tool could not use the storage");
        match error {
            StoreError::Full => Self::new(
                "quota_exceeded",
                "the storage, or your share of it, is full; forget something, or ask its operator for room",
            ),
            StoreError::Unavailable(_) => Self {
                retryable: true,
                ..Self::new("unavailable", "the storage cannot be used now; try again later")
            },
        }
    }
}
