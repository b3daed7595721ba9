//! What an upstream speaks that refuses the gateway itself, as servers do whose clients log in by OAuth: it is asked with
//! the credentials of a call that is on its way to it.
//!
//! Invariants: credentials are used for the server that they were sent to, while their call waits, and not kept; one call
//! asks at a time, and what brought nothing is not asked again soon.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::HeaderMap;
use tokio::{
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout},
};

use super::{
    Catalog,
    link::{Failure, Link},
    probe::probe,
    run::{ERA_HOLDS, GOODBYE, MIN_GAP, REFUSED_PAUSE},
    state::Status,
};
use crate::upstream::{Upstream, credentials};

/// Refused credentials that are remembered, by their hash.
const MOST: usize = 1_024;

/// What came of asking.
#[derive(Debug)]
pub(super) struct Borrowed {
    known: Mutex<Known>,
    asking: AsyncMutex<()>,
}

#[derive(Debug)]
struct Known {
    /// When it was last answered.
    found: Instant,
    /// Something has spoken against the answer since.
    is_doubted: bool,
    /// When these were refused.
    refused: HashMap<[u8; 32], Instant>,
    /// It was not there, or did not answer: nobody asks before.
    rests_until: Option<Instant>,
}

impl Borrowed {
    pub(super) fn new() -> Self {
        let refused = HashMap::new();
        let known = Known { found: Instant::now(), is_doubted: false, refused, rests_until: None };
        Self { known: Mutex::new(known), asking: AsyncMutex::default() }
    }

    pub(super) fn doubt(&self) {
        self.known().is_doubted = true;
    }

    /// Whether a call with these credentials should ask.
    fn is_due(&self, is_known: bool, who: &[u8; 32]) -> bool {
        let known = self.known();
        let holds = if known.is_doubted { MIN_GAP } else { ERA_HOLDS };
        let rests = known.rests_until.is_some_and(|until| Instant::now() < until);
        let is_refused = known.refused.get(who).is_some_and(|at| at.elapsed() < REFUSED_PAUSE);
        !rests && !is_refused && (!is_known || known.found.elapsed() >= holds)
    }

    fn answered(&self) {
        let mut known = self.known();
        (known.found, known.is_doubted, known.rests_until) = (Instant::now(), false, None);
    }

    fn failed(&self, failure: &Failure, who: [u8; 32]) {
        let mut known = self.known();
        if !matches!(failure, Failure::Unauthorized(_)) {
            known.rests_until = Some(Instant::now() + REFUSED_PAUSE);
            return;
        }
        if known.refused.len() >= MOST {
            known.refused.retain(|_, at| at.elapsed() < REFUSED_PAUSE);
        }
        if known.refused.len() < MOST {
            known.refused.insert(who, Instant::now());
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catalog {
    /// Asks what the upstream speaks, if it refuses the gateway itself and that is not known, or was found long ago.
    pub(super) async fn ask_for(self: &Arc<Self>, upstream: &Arc<dyn Upstream>, of_call: &HeaderMap) {
        if self.fixed.is_some() || !matches!(self.writing().status, Status::Unauthorized) {
            return;
        }
        let Some(who) = credentials::digest(of_call) else { return };
        let is_due = || self.borrowed.is_due(self.era().is_some(), &who);
        if !is_due() {
            return;
        }
        let _one_at_a_time = match self.borrowed.asking.try_lock() {
            Ok(turn) => turn,
            // What is known serves until the other has its answer.
            Err(_) if self.era().is_some() => return,
            Err(_) => self.borrowed.asking.lock().await,
        };
        if !is_due() {
            return;
        }
        let link = Link::new(Arc::clone(upstream), self.timeout).with(credentials::of(of_call));
        let catalog = Arc::clone(self);
        // In a task of its own: a session that was opened is ended, also if the client leaves.
        let asked = tokio::spawn(async move {
            match probe(&link, None).await {
                Ok(found) => {
                    catalog.met(&found);
                    catalog.borrowed.answered();
                    drop(timeout(GOODBYE, link.delete_session(&found)).await);
                }
                // Whoever is refused learns it from the answer to the call.
                Err(failure) => catalog.borrowed.failed(&failure, who),
            }
        });
        drop(asked.await);
    }
}
