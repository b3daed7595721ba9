//! Where a request comes from: its principal, and the way to the server that carries what is its own.
//!
//! Invariant: two callers with different credentials are two principals.

use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Request, StatusCode, header};

use super::{
    incoming::Incoming,
    pool::Key,
    relay::Asker,
    session::{Session, Way},
};
use crate::{
    bridge::hops::Hops,
    mcp::{
        era::{SESSION_HEADER, VERSION_HEADER},
        headers::{METHOD_HEADER, NAME_HEADER},
    },
    upstream::{
        Caller, ClientSession, ForwardPath, Upstream, credentials,
        named::{NamedHere, Opened, Opening},
    },
};

/// See the module.
#[derive(Clone)]
pub(super) struct Origin {
    pub(super) owner: Arc<str>,
    /// For this request.
    pub(super) way: Way,
}

impl Origin {
    pub(super) fn of(upstream: &Arc<dyn Upstream>, call: Request<Bytes>) -> Self {
        let (mut head, _) = call.into_parts();
        let name = head
            .extensions
            .get::<Caller>()
            .map_or_else(|| super::super::LOCAL.into(), |c| Arc::clone(&c.name));
        clean(&mut head.headers);
        Self {
            owner: principal(name, &head.headers),
            way: Way { upstream: Arc::clone(upstream), headers: head.headers, extensions: head.extensions },
        }
    }

    /// Who waits for the call. `status` is the server's.
    pub(super) fn asker(&self, incoming: Box<Incoming>, status: StatusCode) -> Asker {
        let to = (&self.way.headers, &self.way.extensions).into();
        Asker { incoming, owner: Arc::clone(&self.owner), to, status }
    }

    /// The session that the client's own session names, unless it was opened with other credentials.
    pub(super) fn named(&self) -> Option<&Opened> {
        let NamedHere(opened) = self.way.extensions.get()?;
        (opened.owner == self.mark()).then_some(opened)
    }

    /// Names the session in the id that is being made for the client, if one is.
    pub(super) fn name(&self, session: &Session) {
        if let Some(opening) = self.way.extensions.get::<Opening>() {
            session.named_by(|opened| opening.name(Opened { owner: self.mark(), ..opened }));
        }
    }

    /// The credentials of the client's own that the owner is made of, as a hash.
    fn mark(&self) -> Option<u64> {
        let (_, digest) = self.owner.rsplit_once('\n')?;
        u64::from_str_radix(digest.get(..16)?, 16).ok()
    }

    pub(super) fn key(&self, incoming: &Incoming) -> Key {
        let client = self.way.extensions.get::<ClientSession>().copied();
        Key::new(Arc::clone(&self.owner), incoming.asks, client)
    }

    /// Tells the pipeline what happens behind it.
    pub(super) fn note(&self, session: &Session) {
        note(&self.way.extensions, &session.hello.version);
    }

    /// The way for what outlives the request: without what belongs to it alone.
    pub(super) fn lasting(&self) -> Way {
        let mut way = self.way.clone();
        for of_the_request in ["traceparent", "tracestate", "baggage"] {
            way.headers.remove(of_the_request);
        }
        // They are slices of what was read from the client's connection, which is larger.
        for value in way.headers.values_mut() {
            if let Ok(mut own) = HeaderValue::from_bytes(value.as_bytes()) {
                own.set_sensitive(value.is_sensitive());
                *value = own;
            }
        }
        way.extensions.clear();
        if let Some(caller) = self.way.extensions.get::<Caller>() {
            way.extensions.insert(Caller { nested: None, wallet: None, held: 0, ..caller.clone() });
        }
        if let Some(path) = self.way.extensions.get::<ForwardPath>() {
            way.extensions.insert(path.clone());
        }
        way
    }
}

/// Tells the pipeline that a request is translated, and to which revision.
pub(super) fn note(extensions: &Extensions, version: &Arc<str>) {
    if let Some(hops) = extensions.get::<Hops>() {
        hops.note(|seen| {
            seen.bridged = true;
            seen.upstream_version = Some(Arc::clone(version));
        });
    }
}

/// Takes away what the modern era puts into headers.
fn clean(headers: &mut HeaderMap) {
    for modern in [METHOD_HEADER, NAME_HEADER, VERSION_HEADER, SESSION_HEADER, "last-event-id"] {
        headers.remove(modern);
    }
    let mirrored: Vec<_> = headers.keys().filter(|n| n.as_str().starts_with("mcp-param-")).cloned().collect();
    for name in mirrored {
        headers.remove(name);
    }
    headers.remove(header::CONTENT_LENGTH);
}

fn principal(name: Arc<str>, headers: &HeaderMap) -> Arc<str> {
    match credentials::digest(headers) {
        Some(digest) => format!("{name}\n{}", hex::encode(digest)).into(),
        None => name,
    }
}
