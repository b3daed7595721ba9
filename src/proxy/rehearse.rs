//! Runs recorded messages through everything that happens before one is sent, under another configuration, and sends
//! nothing: the same functions as a call, with a key that is named rather than presented and a clock that is set.
//!
//! Not rehearsed: places among the calls in flight and budgets, which depend on how long calls take and what they return.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, atomic::AtomicU64, atomic::Ordering::Relaxed},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{Method, Request, request::Parts};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Call, Desk, Gateway, KnownKey,
    error::Cause,
    guard::AuditGuard,
    headers::{self, Accepts},
    limits::Gate,
    mask::Mask,
    opening,
    prepare::Caller,
    received,
};
use crate::{
    audit::{
        Recorder, Unwritten,
        record::{Outcome, Record},
    },
    config::AuthMode,
    metrics::Metrics,
    policy::{auth::AuthFault, rate_limit::Clock},
    server::Peer,
    snapshot::Snapshot,
};

/// A message as it was recorded.
#[derive(Debug)]
pub struct Message<'a> {
    /// When it arrived.
    pub time: SystemTime,
    /// Path of the request.
    pub path: &'a str,
    /// Headers, as far as they were kept.
    pub headers: &'a [(String, String)],
    /// The body as received.
    pub body: &'a str,
    /// Name of the key that it came with.
    pub key: Option<&'a str>,
    /// Where it came from.
    pub address: Option<IpAddr>,
}

/// What becomes of a message.
#[derive(Debug)]
pub struct Verdict {
    /// The record as the pipeline filled it in; a message that would go out is `ok`.
    pub record: Box<Record>,
    /// What would be forwarded; `None` for a refusal.
    pub forwarded: Option<Bytes>,
}

/// A gateway without listeners, journal and upstreams.
pub struct Rehearsal {
    gateway: Gateway,
    snapshot: Arc<Snapshot>,
    clock: Arc<AtomicU64>,
    records: Unwritten,
    keys: HashMap<String, Result<KnownKey, AuthFault>>,
}

impl Rehearsal {
    /// Prepares for messages under `snapshot`, see [`Snapshot::rehearse`].
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let metrics = Arc::new(Metrics::new());
        let (recorder, records) = Recorder::unwritten(Arc::clone(&metrics));
        let desk = Desk { recorder, force: CancellationToken::new() };
        let clock = Arc::new(AtomicU64::new(0));
        let gate = Gate::with_clock(Clock::Set(Arc::clone(&clock)));
        let gateway =
            Gateway { gate: Arc::new(gate), ..Gateway::new(snapshot, desk, metrics, TaskTracker::new()) };
        let snapshot = gateway.snapshot.load_full();
        Self { gateway, snapshot, clock, records, keys: HashMap::new() }
    }

    /// The configuration that messages are rehearsed under.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What would become of a message; `None` if what was kept of it is no request. Messages are to come in the order
    /// of their arrival, because rates count them.
    pub fn run(&mut self, message: &Message<'_>) -> Option<Verdict> {
        let since = message.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.clock.store(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let mut request = Request::builder().method(Method::POST).uri(message.path).body(()).ok()?;
        *request.headers_mut() = received::headers(message.headers)?;
        let (head, ()) = request.into_parts();
        let key = message.key.map(|name| self.key(name, message.time));
        let address = message.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let peer = Peer { addr: SocketAddr::new(address, 0), tls: false };
        let gateway = self.gateway.clone();
        let record = Record { time: message.time, ..opening(&head, peer) };
        let guard = AuditGuard::open(Arc::clone(&gateway.desk), record, gateway.metrics.in_flight());
        let mut call = Call {
            guard,
            id: None,
            peer: peer.addr,
            accepts: Accepts::Both,
            mask: Mask::default(),
            spending: None,
            is_tool_call: false,
            modern: false,
            shares_session: false,
        };
        let snapshot = Arc::clone(&self.snapshot);
        let body = Bytes::copy_from_slice(message.body.as_bytes());
        let forwarded = match gateway.rehearsed(&snapshot, &mut call, head, body, key) {
            Ok(body) => {
                call.guard.finish(Outcome::Ok);
                Some(body)
            }
            Err(cause) => {
                drop(gateway.refuse(&snapshot, call, &cause));
                None
            }
        };
        Some(Verdict { record: self.records.take()?, forwarded })
    }

    fn key(&mut self, name: &str, at: SystemTime) -> Result<KnownKey, AuthFault> {
        if let Some(known) = self.keys.get(name).filter(|k| k.as_ref().is_ok_and(|k| k.expires.is_none())) {
            return known.clone();
        }
        let found = self.snapshot.keys.named(name, at).cloned();
        self.keys.insert(name.to_owned(), found.clone());
        found
    }
}

impl Gateway {
    /// The way of a POST up to the moment when it would be sent.
    fn rehearsed(
        &self,
        snapshot: &Arc<Snapshot>,
        call: &mut Call,
        head: Parts,
        body: Bytes,
        key: Option<Result<KnownKey, AuthFault>>,
    ) -> Result<Bytes, Cause> {
        let place = self.place(snapshot, &head)?;
        let key = match (snapshot.config.auth, key) {
            (AuthMode::Keys, None) => return Err(Cause::Unauthenticated(AuthFault::Missing)),
            (AuthMode::Keys, Some(Err(fault))) => return Err(Cause::Unauthenticated(fault)),
            (AuthMode::Keys, Some(Ok(key))) => Some(key),
            _ => None,
        };
        call.guard.principal = key.as_ref().map(|key| Arc::clone(&key.name));
        let target = self.enter(snapshot, call, &head, place, key.as_ref())?;
        if let Some(why) = headers::refused_media_type(&head.headers) {
            return Err(Cause::UnsupportedMediaType(why));
        }
        if body.len() > snapshot.config.server.max_body {
            return Err(Cause::BodyTooLarge(snapshot.config.server.max_body));
        }
        call.guard.request_bytes = body.len() as u64;
        let caller = Caller { snapshot, route: target.route, key: key.as_ref() };
        let prepared = self.prepare(call, caller, body, head.headers)?;
        let server = call.guard.tool.as_deref().and_then(|tool| target.route.server_of(tool));
        if let Some((server, _)) = server {
            call.guard.upstream = Some(Arc::clone(&server.spec.name));
        }
        Ok(prepared.body)
    }
}

/// A moment of the journal.
#[must_use]
pub fn moment(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
