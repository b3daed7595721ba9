//! What an upstream speaks that refuses the gateway itself, as servers do whose clients log in by OAuth: it is asked with
//! the credentials of a call that is on its way to it.
//!
//! Invariant: credentials are used for the server that they were sent to, while their call waits, and not kept.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use http::HeaderMap;
use tokio::time::Instant;

use super::{
    Catalog,
    link::Link,
    probe::probe,
    run::{ERA_HOLDS, GOODBYE, MIN_GAP},
    state::Status,
};
use crate::upstream::{CREDENTIALS, Upstream};

/// When it was asked so, and whether something has spoken against the answer since.
#[derive(Debug)]
pub(super) struct Borrowed {
    asked: Mutex<Instant>,
    doubted: AtomicBool,
}

impl Borrowed {
    pub(super) fn new() -> Self {
        Self { asked: Mutex::new(Instant::now()), doubted: AtomicBool::new(false) }
    }

    pub(super) fn doubt(&self) {
        self.doubted.store(true, Relaxed);
    }

    /// Whether the answer should be looked at again, which one call does then.
    fn is_old(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let holds = if self.doubted.load(Relaxed) { MIN_GAP } else { ERA_HOLDS };
        let is_old = asked.elapsed() >= holds;
        if is_old {
            self.asked_now(&mut asked);
        }
        is_old
    }

    fn asked_now(&self, asked: &mut Instant) {
        *asked = Instant::now();
        self.doubted.store(false, Relaxed);
    }
}

/// Those of a call.
pub(super) fn credentials(of_call: &HeaderMap) -> HeaderMap {
    let mut found = HeaderMap::new();
    for name in CREDENTIALS {
        for value in of_call.get_all(name) {
            found.append(name, value.clone());
        }
    }
    found
}

impl Catalog {
    /// Asks what the upstream speaks, if it refuses the gateway itself and that is not known, or was found long ago.
    pub(super) async fn ask_for(&self, upstream: &Arc<dyn Upstream>, of_call: &HeaderMap) {
        if self.fixed.is_some() || !matches!(self.writing().status, Status::Unauthorized) {
            return;
        }
        let is_known = self.era().is_some();
        if is_known && !self.borrowed.is_old() {
            return;
        }
        let credentials = credentials(of_call);
        if credentials.is_empty() {
            return;
        }
        let link = Link::new(Arc::clone(upstream), self.timeout).with(credentials);
        // Whoever is refused with these learns it from the answer to the call.
        let Ok(found) = probe(&link, None).await else { return };
        self.met(&found);
        drop(tokio::time::timeout(GOODBYE, link.delete_session(&found)).await);
    }
}
