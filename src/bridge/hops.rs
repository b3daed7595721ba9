//! What happened behind the upstream that the pipeline called. A request extension: adapters write it, the pipeline
//! reads it into the record when the response head has come.

use std::sync::{Arc, Mutex, PoisonError};

/// Shared by everybody who has the request.
#[derive(Debug, Clone, Default)]
pub struct Hops(Arc<Mutex<Seen>>);

/// What is known so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Which upstream answered, where several stand behind one endpoint.
    pub upstream: Option<Arc<str>>,
    /// The revision that was spoken to it.
    pub upstream_version: Option<Arc<str>>,
    /// Host and port of the replica that answered, where an upstream has several.
    pub server: Option<(Arc<str>, u16)>,
    /// Whether the message was translated between eras.
    pub bridged: bool,
    /// Whether the client took the call back, so that it ends without an answer.
    pub cancelled: bool,
}

impl Hops {
    /// Notes something.
    pub fn note(&self, write: impl FnOnce(&mut Seen)) {
        write(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was noted.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
