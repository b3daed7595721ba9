//! The pipeline: one straight walk from a request head to a streamed, recorded answer.
//!
//! `handle` opens the record, wraps `forward` once against panics and the end of the drain, and turns a
//! refusal into a response. `forward` and the modules it calls pick causes, never status codes.

use std::{net::SocketAddr, panic::AssertUnwindSafe, pin::pin, sync::Arc, task::Poll, time::SystemTime};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

mod answer;
mod batch;
mod body;
mod cors;
mod cut_lists;
mod error;
mod evidence;
mod guard;
mod headers;
mod http_sse;
pub mod limits;
mod mask;
mod nested;
mod observe;
#[cfg(test)]
mod panics;
mod prepare;
mod read;
mod received;
pub mod rehearse;
mod send;
mod sessions;
mod shape;
mod spend;
mod target;
mod trace;

pub use body::GatewayBody;
pub use guard::Desk;

use crate::{
    audit::record::{Client, Failure, Outcome, Payload, Record},
    bridge::{face::HttpSse, sealed::Sealer},
    config::{AuthMode, Refusal},
    metrics::Metrics,
    policy::auth::{AuthFault, Key, bearer},
    server::{Handler, Peer},
    snapshot::{KeyFacts, Snapshot},
};
use batch::Batch;
use error::Cause;
use guard::AuditGuard;
use headers::{Accepts, JSON, SSE};
use http_sse::Pipeline;
use limits::Gate;
use mask::Mask;
use prepare::Caller;
use read::{Reading, Unread};
use sessions::Sessions;
use spend::Spending;
use target::{Place, Target};

/// The gateway's long-lived parts that a call touches; clones share them.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// The configuration in force.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// Where records go.
    pub desk: Arc<Desk>,
    /// Counters that are not derived from records.
    pub metrics: Arc<Metrics>,
    /// The catalogs' tasks, waited for at the end.
    pub tasks: TaskTracker,
    gate: Arc<Gate>,
    sessions: Arc<Sessions>,
    http_sse: Arc<HttpSse>,
}

/// A key of the table, shared with the calls that use it.
type KnownKey = Arc<Key<KeyFacts>>;

/// One exchange on its way.
struct Call {
    guard: AuditGuard,
    id: Option<String>,
    peer: SocketAddr,
    accepts: Accepts,
    mask: Mask,
    /// What it holds of a budget.
    spending: Option<Spending>,
    is_tool_call: bool,
    modern: bool,
    /// A legacy client's session with several servers, which the failure of one must not end: some clients give a
    /// session up at any status of failure.
    shares_session: bool,
}

/// Why there is no upstream answer to pass on.
enum Stop {
    /// The gateway answers.
    Refuse(Cause),
    /// Nobody is there to be answered.
    Gone,
    /// Its messages are answered one by one.
    Split(Box<Batch>),
}

impl From<Cause> for Stop {
    fn from(cause: Cause) -> Self {
        Self::Refuse(cause)
    }
}

impl Handler for Gateway {
    type Body = GatewayBody;

    async fn handle(&self, req: Request<Incoming>, peer: Peer) -> Response<GatewayBody> {
        let snapshot = self.snapshot.load_full();
        let origin = only(req.headers(), header::ORIGIN).filter(|o| allows_origin(&snapshot, o)).cloned();
        if cors::is_preflight(req.method()) {
            return preflight(&snapshot, &req, origin.as_ref());
        }
        let mut response = self.answer_call(&snapshot, req, peer).await;
        if let Some(origin) = origin {
            cors::allow(response.headers_mut(), &origin);
        }
        response
    }
}

impl Gateway {
    /// A gateway that serves `snapshot`.
    #[must_use]
    pub fn new(snapshot: Snapshot, desk: Desk, metrics: Arc<Metrics>, tasks: TaskTracker) -> Self {
        Self {
            snapshot: Arc::new(ArcSwap::from_pointee(snapshot)),
            desk: Arc::new(desk),
            metrics,
            tasks,
            gate: Arc::default(),
            sessions: Arc::default(),
            // An address is good at the process that has the stream.
            http_sse: Arc::new(HttpSse::new(Arc::new(Pipeline), Arc::new(Sealer::of_this_process()))),
        }
    }

    /// Takes from one configuration to the next what belongs to no snapshot.
    pub fn take_over(&self, before: &Snapshot, after: &Snapshot) {
        self.gate.carry(&before.limits, &after.limits);
        before
            .routes
            .keys()
            .filter(|n| !after.routes.contains_key(*n))
            .for_each(|n| self.metrics.forget_upstream(n));
    }

    async fn answer_call(
        &self,
        snapshot: &Arc<Snapshot>,
        req: Request<Incoming>,
        peer: Peer,
    ) -> Response<GatewayBody> {
        let (head, body) = req.into_parts();
        let addr = peer.addr;
        let record = opening(&head, peer);
        let guard = AuditGuard::open(Arc::clone(&self.desk), record, self.metrics.in_flight());
        let mut call = Some(Call {
            guard,
            id: None,
            peer: addr,
            accepts: headers::accepts(&head.headers),
            mask: Mask::default(),
            spending: None,
            is_tool_call: false,
            modern: false,
            shares_session: false,
        });
        match self.guarded(self.forward(snapshot, &mut call, head, body, peer)).await {
            Err(Stop::Split(batch)) => Box::pin(self.batch(*batch)).await,
            answer => self.close(snapshot, call, answer),
        }
    }

    /// Runs the work of a call, whether it panics or the drain ends before it.
    async fn guarded(
        &self,
        work: impl Future<Output = Result<Response<GatewayBody>, Stop>>,
    ) -> Result<Response<GatewayBody>, Stop> {
        let mut work = pin!(work);
        let mut force = pin!(self.desk.force.cancelled());
        std::future::poll_fn(|cx| {
            match std::panic::catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
                Ok(Poll::Ready(result)) => Poll::Ready(result),
                Ok(Poll::Pending) => force.as_mut().poll(cx).map(|()| Err(Cause::Draining.into())),
                Err(_) => Poll::Ready(Err(Cause::Internal.into())),
            }
        })
        .await
    }

    /// The answer as it is sent; a refusal closes the record.
    fn close(
        &self,
        snapshot: &Snapshot,
        call: Option<Call>,
        answer: Result<Response<GatewayBody>, Stop>,
    ) -> Response<GatewayBody> {
        match (answer, call) {
            (Ok(response), _) => response,
            (Err(Stop::Refuse(cause)), Some(call)) => self.refuse(snapshot, call, &cause),
            // The connection is gone; whatever is returned is not read.
            (Err(_), _) => own(StatusCode::BAD_REQUEST, "", Bytes::new()),
        }
    }

    /// Steps 4 to 11 of the way of one call. Takes the guard out of `call` when an answer begins to pass.
    async fn forward(
        &self,
        snapshot: &Arc<Snapshot>,
        call: &mut Option<Call>,
        mut parts: Parts,
        body: Incoming,
        peer: Peer,
    ) -> Result<Response<GatewayBody>, Stop> {
        let open = call.as_mut().expect("handle puts the call there");
        let server = &snapshot.config.server;
        let on_demand = parts.headers.contains_key(header::EXPECT);
        let mut reading = Reading { body, limit: server.max_body, time: server.body_timeout, on_demand };
        let (target, key) = match self.admit(snapshot, open, &parts) {
            Ok(found) => found,
            Err(cause) => {
                reading.limit = 0;
                reading.discard().await;
                return Err(cause.into());
            }
        };
        let Target { route, forward, messages } = target;
        let (route, key) = (Arc::clone(route), key.cloned());
        let caller = Caller { snapshot, route: &route, key: key.as_ref() };
        if parts.method != Method::POST {
            if let Some(messages) = messages {
                return Ok(self.open_http_sse(call, caller, parts, &messages));
            }
            return Ok(self.stream(call, caller, parts, forward).await?);
        }
        if let Some(why) = headers::refused_media_type(&parts.headers) {
            reading.discard().await;
            return Err(Cause::UnsupportedMediaType(why).into());
        }
        let body = match reading.whole().await {
            Ok(body) => body,
            Err(Unread::Refused(cause)) => return Err(cause.into()),
            Err(Unread::Gone) => return Err(Stop::Gone),
        };
        open.guard.request_bytes = body.len() as u64;
        let headers = std::mem::take(&mut parts.headers);
        open.guard.received = received::keep(&snapshot.config.audit, &parts.uri, &headers, &body, &open.mask);
        if messages.is_none() && self.is_batch(caller, &headers, &body) {
            let batch = self.split(call, caller, &body, headers, forward)?;
            return Err(Stop::Split(Box::new(batch)));
        }
        let prepared = self.prepare(open, caller, body, headers)?;
        if messages.is_some() {
            return Ok(self.post_http_sse(call, caller, prepared, parts.uri, peer)?);
        }
        Ok(self.post(call, caller, prepared, forward).await?)
    }

    /// Everything that is decided on the head alone, before a byte of body is read.
    fn admit<'a>(
        &self,
        snapshot: &'a Snapshot,
        call: &mut Call,
        head: &Parts,
    ) -> Result<(Target<'a>, Option<&'a KnownKey>), Cause> {
        let place = self.place(snapshot, head)?;
        let key = self.authenticate(snapshot, call, head)?;
        let target = self.enter(snapshot, call, head, place, key)?;
        Ok((target, key))
    }

    /// Whether calls may come from there, and what they call.
    fn place<'a>(&self, snapshot: &Snapshot, head: &'a Parts) -> Result<Place<'a>, Cause> {
        // One of several is as foreign as all of them.
        if !head.headers.get_all(header::ORIGIN).iter().all(|o| allows_origin(snapshot, o)) {
            return Err(Cause::ForbiddenOrigin("origin"));
        }
        if !allows_host(snapshot, head) {
            return Err(Cause::ForbiddenOrigin("host"));
        }
        target::locate(snapshot, head)
    }

    /// Lets a caller in that is known.
    fn enter<'a>(
        &self,
        snapshot: &'a Snapshot,
        call: &mut Call,
        head: &Parts,
        place: Place<'_>,
        key: Option<&KnownKey>,
    ) -> Result<Target<'a>, Cause> {
        let target = place.resolve(snapshot)?;
        self.desk.recorder.accepting().map_err(|_| Cause::AuditUnavailable)?;
        call.guard.upstream = target.route.all.is_none().then(|| Arc::clone(&target.route.spec.name));
        let secret = key.and_then(|_| presented(&head.headers));
        call.mask = Mask::of(secret, target.route);
        call.guard.hide(&call.mask);
        Ok(target)
    }

    fn authenticate<'a>(
        &self,
        snapshot: &'a Snapshot,
        call: &mut Call,
        head: &Parts,
    ) -> Result<Option<&'a KnownKey>, Cause> {
        if snapshot.config.auth != AuthMode::Keys {
            return Ok(None);
        }
        let secret = presented(&head.headers).ok_or(Cause::Unauthenticated(AuthFault::Missing))?;
        let key = snapshot.keys.authenticate(secret, SystemTime::now()).map_err(Cause::Unauthenticated)?;
        call.guard.principal = Some(Arc::clone(&key.name));
        Ok(Some(key))
    }

    /// Answers for the gateway and closes the record.
    fn refuse(&self, snapshot: &Snapshot, call: Call, cause: &Cause) -> Response<GatewayBody> {
        let Call { mut guard, id, accepts, is_tool_call, modern, shares_session, .. } = call;
        let trace_id = hex::encode(&guard.trace_id);
        match cause {
            Cause::RateLimited(wall, _) => self.metrics.rate_limited(wall),
            Cause::Concurrency(_) => self.metrics.rate_limited("concurrency"),
            Cause::Internal => {
                tracing::error!(trace_id, "a call failed inside the gateway; please report this")
            }
            _ => {}
        }
        if evidence::of_failure(cause)
            && let Some(catalog) = evidence::catalog(snapshot, &guard)
        {
            catalog.nudge();
        }
        let as_result =
            cause.is_limit() && is_tool_call && snapshot.config.limits.refusal == Refusal::ToolError;
        let mut response = match id.as_deref().filter(|_| as_result) {
            Some(id) => {
                let result = error::tool_error(cause, id, &trace_id, modern);
                match accepts {
                    Accepts::Sse => own(StatusCode::OK, SSE, shape::framed(result.as_bytes())),
                    Accepts::Json | Accepts::Both => own(StatusCode::OK, JSON, result),
                }
            }
            None => {
                let in_band = shares_session && cause.is_upstream_failure();
                let status = if in_band { StatusCode::OK } else { cause.status() };
                own(status, JSON, error::body(cause, id.as_deref(), &trace_id))
            }
        };
        response.headers_mut().extend(cause.headers());
        guard.fail(Failure {
            reason: Some(cause.reason()),
            code: Some(cause.code()),
            message: observe::bounded(&cause.message()),
        });
        guard.status = Some(response.status().as_u16());
        guard.response_bytes = http_body::Body::size_hint(response.body()).lower();
        guard.finish(match cause {
            Cause::Internal => Outcome::Panicked,
            Cause::Draining => Outcome::Drained,
            _ if cause.is_upstream_failure() => Outcome::UpstreamFailed,
            _ => Outcome::Rejected,
        });
        response
    }
}

/// An answer of our own; `kind` "" for no body.
fn own(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<GatewayBody> {
    let mut response = Response::new(GatewayBody::own(body));
    *response.status_mut() = status;
    if !kind.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}

/// The value of a header that comes once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// The bearer secret of a request.
fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    only(headers, header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()))
}

fn allows_origin(snapshot: &Snapshot, origin: &HeaderValue) -> bool {
    origin.to_str().is_ok_and(|o| snapshot.origin.allows_origin(o))
}

/// Both the target's authority and `Host` must be allowed, so that neither hides the other; and nobody knows
/// which of two `Host`s is meant.
fn allows_host(snapshot: &Snapshot, head: &http::request::Parts) -> bool {
    if head.headers.get_all(header::HOST).iter().count() > 1 {
        return false;
    }
    let host = head.headers.get(header::HOST).map(|h| h.to_str().unwrap_or("\u{0}"));
    let authority = head.uri.authority().map(http::uri::Authority::as_str);
    let first = host.or(authority);
    snapshot.origin.allows_host(first) && authority.is_none_or(|a| snapshot.origin.allows_host(Some(a)))
}

fn preflight(
    snapshot: &Snapshot,
    req: &Request<Incoming>,
    origin: Option<&HeaderValue>,
) -> Response<GatewayBody> {
    let foreign = origin.is_none() && req.headers().contains_key(header::ORIGIN);
    if foreign || !target::exists(snapshot, req.uri()) {
        let cause = if foreign { Cause::ForbiddenOrigin("origin") } else { Cause::NoRoute };
        let trace_id = hex::encode(trace::new_id::<16>());
        return own(cause.status(), JSON, error::body(&cause, None, &trace_id));
    }
    let (status, headers) = cors::preflight(req.headers(), origin);
    let mut response = own(status, "", Bytes::new());
    *response.headers_mut() = headers;
    response
}

/// The record of an exchange whose head has arrived.
fn opening(head: &Parts, peer: Peer) -> Record {
    let ambient = trace::from_headers(&head.headers);
    let (parent, trace_state) = ambient.map_or((None, None), |(p, s)| (Some(p), s));
    Record {
        time: SystemTime::now(),
        duration: std::time::Duration::ZERO,
        trace_id: parent.map_or_else(trace::new_id, |p| p.trace_id),
        span_id: trace::new_id(),
        parent_id: parent.map(|p| p.span_id),
        trace_state,
        link: None,
        principal: None,
        client: Client { name: None, version: None, address: Some(peer.addr) },
        era: None,
        protocol_version: None,
        bridged: false,
        upstream_version: None,
        session: None,
        // A POST's method is its message's, which is not read yet.
        method: (head.method != Method::POST).then(|| head.method.as_str().to_owned()),
        request_id: None,
        upstream: None,
        tool: None,
        prompt: None,
        resource: None,
        original_method: None,
        normalized: Vec::new(),
        lossy: false,
        edits: Vec::new(),
        shadow: None,
        outcome: Outcome::Ok,
        status: None,
        error: None,
        attempts: Vec::new(),
        request_bytes: 0,
        response_bytes: 0,
        arguments: Payload::None,
        result: Payload::None,
        received: None,
        tokens: None,
        http_version: if head.version == http::Version::HTTP_2 { "2" } else { "1.1" },
    }
}
