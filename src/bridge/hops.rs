//! What happened behind the upstream that the pipeline called. A request extension: adapters write it, the pipeline
//! reads it into the record, when the response head has come and when the answer has ended. Owns also what every
//! refusal of an adapter has in common: the trace that it names, and that it is told.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Request, request::Parts};

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
    /// The last error that an adapter gave in a server's place.
    pub refused: Option<Refused>,
}

/// An error of the gateway's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// `error.data.reason`
    pub reason: &'static str,
    /// The JSON-RPC code.
    pub code: i64,
}

/// Who is answered: the trace that a refusal names, and where it is told.
#[derive(Debug, Clone, Default)]
pub struct Recipient {
    trace_id: Option<String>,
    hops: Option<Hops>,
}

impl Recipient {
    fn new(headers: &HeaderMap, extensions: &Extensions) -> Self {
        Self { trace_id: trace_id(headers).map(str::to_owned), hops: extensions.get().cloned() }
    }

    /// Tells of a refusal, and gives the trace to be named in it.
    #[must_use]
    pub fn refused(&self, reason: &'static str, code: i64) -> Option<&str> {
        if let Some(hops) = &self.hops {
            hops.note(|seen| seen.refused = Some(Refused { reason, code }));
        }
        self.trace_id.as_deref()
    }
}

impl From<&Parts> for Recipient {
    fn from(head: &Parts) -> Self {
        Self::new(&head.headers, &head.extensions)
    }
}

impl From<&Request<Bytes>> for Recipient {
    fn from(call: &Request<Bytes>) -> Self {
        Self::new(call.headers(), call.extensions())
    }
}

impl From<(&HeaderMap, &Extensions)> for Recipient {
    fn from((headers, extensions): (&HeaderMap, &Extensions)) -> Self {
        Self::new(headers, extensions)
    }
}

/// The trace that a request belongs to, from the header that the pipeline sets.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    value.split('-').nth(1).filter(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
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
