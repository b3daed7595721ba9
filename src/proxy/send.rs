//! Sends a prepared request: one try or several, each under the time to its response head.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};

use super::{error::Cause, guard::AuditGuard, trace};
use crate::{
    audit::record::Attempt,
    bridge::hops::{Hops, Seen},
    mcp::message::Outline,
    snapshot::Route,
    upstream::{ForwardPath, ResponseBody, Upstream, UpstreamError},
};

/// Pause before the second try; doubled before each further one.
const PAUSE: Duration = Duration::from_millis(50);

/// What is sent, as often as it has to be.
pub(super) struct Outgoing<'a> {
    /// Who answers.
    pub upstream: &'a Arc<dyn Upstream>,
    /// HTTP method.
    pub method: Method,
    /// Headers without trace context.
    pub headers: HeaderMap,
    /// Body; shared between tries.
    pub body: Bytes,
    /// What happens behind an adapter is told there.
    pub hops: Hops,
    /// For whom.
    pub caller: crate::upstream::Caller,
    /// A path other than the upstream's own.
    pub forward: Option<ForwardPath>,
    /// Where the parts of the body stand, for who would read it again.
    pub outline: Option<Outline>,
    /// Time to the response head; `None` waits as long as the client does.
    pub limit: Option<Duration>,
    /// Whether a try that may have run may be repeated.
    pub repeatable: bool,
}

/// Sends until there is a response head.
///
/// # Errors
/// The last try's failure. A try is repeated only when nothing was sent, or when the call is repeatable.
pub(super) async fn send(
    guard: &mut AuditGuard,
    route: &Route,
    mut outgoing: Outgoing<'_>,
) -> Result<Response<ResponseBody>, Cause> {
    let mut left = route.spec.retries;
    let mut pause = PAUSE;
    loop {
        let span_id = trace::new_id();
        let headers = if left > 0 { outgoing.headers.clone() } else { std::mem::take(&mut outgoing.headers) };
        let request = request(guard, &outgoing, headers, span_id);
        guard.begin_attempt(attempt(route, span_id));
        let sent = once(outgoing.upstream, request, outgoing.limit).await;
        note(guard, route, outgoing.hops.seen());
        let failure = match sent {
            Ok(response) => {
                let status = response.status();
                if let Some(attempt) = guard.attempts.last_mut() {
                    attempt.status = Some(status.as_u16());
                }
                if status.is_informational() {
                    return Err(Cause::UpstreamProtocol(format!("HTTP {}", status.as_u16())));
                }
                return Ok(response);
            }
            Err(failure) => failure,
        };
        let again = match failure {
            Failure::NothingSent(_) => true,
            Failure::MayHaveRun(_) => outgoing.repeatable,
            Failure::Answered(_) => false,
        };
        let cause = failure.into_cause();
        guard.end_attempt(Some(cause.reason().to_owned()));
        if left == 0 || !again {
            return Err(cause);
        }
        left -= 1;
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

async fn once(
    upstream: &Arc<dyn Upstream>,
    request: Request<Bytes>,
    limit: Option<Duration>,
) -> Result<Response<ResponseBody>, Failure> {
    let call = upstream.call(request);
    let result = match limit {
        Some(limit) => tokio::time::timeout(limit, call)
            .await
            .map_err(|_| Failure::MayHaveRun(Cause::UpstreamTimeout(limit)))?,
        None => call.await,
    };
    result.map_err(|e| match e {
        UpstreamError::Connect(_) => Failure::NothingSent(Cause::UpstreamConnect(e.to_string())),
        UpstreamError::Protocol(_) => Failure::MayHaveRun(Cause::UpstreamProtocol(e.to_string())),
        UpstreamError::Timeout(limit) => Failure::MayHaveRun(Cause::UpstreamTimeout(limit)),
        UpstreamError::TooLong(limit) => Failure::Answered(Cause::UpstreamTooLong(limit)),
        UpstreamError::Unavailable { why, retry_after } => {
            Failure::Answered(Cause::UpstreamUnavailable(why, retry_after))
        }
        UpstreamError::Redirect(_) => Failure::Answered(Cause::UpstreamProtocol(e.to_string())),
    })
}

/// How far a failed try came.
enum Failure {
    /// No byte of it was sent.
    NothingSent(Cause),
    /// It may have run.
    MayHaveRun(Cause),
    /// The upstream answered, and would answer the same again.
    Answered(Cause),
}

impl Failure {
    fn into_cause(self) -> Cause {
        match self {
            Self::NothingSent(cause) | Self::MayHaveRun(cause) | Self::Answered(cause) => cause,
        }
    }
}

fn request(
    guard: &AuditGuard,
    outgoing: &Outgoing<'_>,
    headers: HeaderMap,
    span_id: [u8; 8],
) -> Request<Bytes> {
    let mut request = Request::new(outgoing.body.clone());
    *request.method_mut() = outgoing.method.clone();
    *request.headers_mut() = headers;
    trace::inject(request.headers_mut(), guard.trace_id, span_id, guard.trace_state.as_deref());
    request.extensions_mut().insert(outgoing.caller.clone());
    request.extensions_mut().insert(outgoing.hops.clone());
    if let Some(forward) = &outgoing.forward {
        request.extensions_mut().insert(forward.clone());
    }
    if let Some(outline) = &outgoing.outline {
        request.extensions_mut().insert(outline.clone());
    }
    request
}

/// What an adapter told of the try.
fn note(guard: &mut AuditGuard, route: &Route, seen: Seen) {
    guard.bridged |= seen.bridged;
    if let Some(version) = seen.upstream_version {
        guard.upstream_version = Some(version.to_string());
    }
    if let Some(name) = seen.upstream {
        if let Some(member) = route.all.as_ref().and_then(|all| all.member(&name))
            && let Some(attempt) = guard.attempts.last_mut()
        {
            attempt.server_address = Arc::clone(&member.address);
            attempt.server_port = member.port;
        }
        guard.upstream = Some(name);
    }
    if let Some((host, port)) = seen.server
        && let Some(attempt) = guard.attempts.last_mut()
    {
        (attempt.server_address, attempt.server_port) = (host, port);
    }
}

fn attempt(route: &Route, span_id: [u8; 8]) -> Attempt {
    Attempt {
        span_id,
        start: SystemTime::now(),
        duration: Duration::ZERO,
        server_address: Arc::clone(&route.address),
        server_port: route.port,
        status: None,
        error_type: None,
    }
}
