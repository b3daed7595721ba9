//! From an upstream's response head to what the client gets: passed as it came wherever that is MCP the
//! client can take, reshaped or refused where it is not (decided rules, "HTTP side").

use bytes::Bytes;
use http::{Method, Response, StatusCode, header, request::Parts, response, uri::PathAndQuery};
use http_body::Body;
use http_body_util::BodyExt;

use super::{
    Call, Gateway, GatewayBody,
    body::PassingBody,
    error::Cause,
    headers::{self, Accepts},
    observe::{Awaits, Exchange, Observer},
    own,
    prepare::{Caller, Prepared},
    send::{self, Outgoing},
    sessions, shape, trace,
};
use crate::{
    audit::record::{Outcome, Tokens},
    mcp::{
        era::Era,
        message::{self, Kind},
        response::Format,
    },
    policy::access::Access,
    upstream::{ForwardPath, ResponseBody, builtin::Usage, catalog::State},
};

const SESSION: &str = "mcp-session-id";

impl Gateway {
    /// Forwards a POST and passes its answer on.
    pub(super) async fn post(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        prepared: Prepared,
        accepts: Accepts,
        forward: Option<PathAndQuery>,
    ) -> Result<Response<GatewayBody>, Cause> {
        let Prepared { body, headers, awaits, era, id, is_discover, is_tool_list, repeatable, opens } =
            prepared;
        let spec = &caller.route.spec;
        let outgoing = Outgoing {
            method: Method::POST,
            headers,
            body,
            forward: forward.map(ForwardPath),
            limit: (awaits != Awaits::Stream).then_some(spec.timeout),
            repeatable,
        };
        let guard = &mut open(call).guard;
        guard.upstream_version = guard.protocol_version.clone();
        let (mut head, rest) = send::send(guard, caller.route, outgoing).await?.into_parts();
        headers::strip_hop_by_hop(&mut head.headers);
        guard.tokens = head.extensions.get::<Usage>().map(tokens);
        if awaits == Awaits::Nothing && head.status.is_success() {
            return Ok(accepted(call));
        }
        let mut answer = Answer { format: format(&head), head, first: None, rest: Some(rest) };
        let opens = answer.session().zip(opens);
        if awaits != Awaits::Nothing && answer.head.status.is_success() {
            if !answer.is_message().await? {
                return Err(if is_discover { Cause::DiscoverRefused } else { not_mcp(&answer.head) });
            }
            let access = caller.access();
            answer.reshape(open(call), accepts, is_tool_list.then_some(access)).await?;
        }
        let exchange = Exchange {
            awaits,
            status: answer.head.status.as_u16(),
            format: answer.format,
            era,
            id,
            capture: caller.snapshot.config.audit.capture,
            teaches: is_tool_list && matches!(caller.route.catalog.state(), State::Unauthorized { .. }),
            opens,
        };
        let idle = (awaits != Awaits::Stream).then_some(spec.idle_timeout);
        Ok(self.pass(call, caller, answer, exchange, idle))
    }

    /// Forwards a GET or DELETE: its answer passes as it comes, whatever it is.
    pub(super) async fn stream(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        mut parts: Parts,
        forward: Option<PathAndQuery>,
    ) -> Result<Response<GatewayBody>, Cause> {
        let is_get = parts.method == Method::GET;
        let session = parts.headers.get(SESSION).map(|v| sessions::hash(v.as_bytes()));
        let guard = &mut open(call).guard;
        guard.era = Some(Era::Legacy);
        guard.session = session.map(|s| trace::to_hex(&s));
        guard.protocol_version = parts
            .headers
            .get("mcp-protocol-version")
            .and_then(|v| v.to_str().ok())
            .map(super::observe::bounded);
        if let Some(about) = session.and_then(|s| self.sessions.get(&s)) {
            (guard.client.name, guard.client.version) = (about.name, about.version);
        }
        headers::prepare_request(&mut parts.headers, caller.snapshot.passthrough());
        // A path of its own is a well-known document, or the client's query: its Accept is left alone.
        if is_get && forward.is_none() {
            headers::set_stream_accept(&mut parts.headers);
        }
        let spec = &caller.route.spec;
        let outgoing = Outgoing {
            method: parts.method,
            headers: parts.headers,
            body: Bytes::new(),
            forward: forward.map(ForwardPath),
            limit: (!is_get).then_some(spec.timeout),
            repeatable: false,
        };
        let (mut head, rest) = send::send(guard, caller.route, outgoing).await?.into_parts();
        headers::strip_hop_by_hop(&mut head.headers);
        let answer = Answer { format: format(&head), head, first: None, rest: Some(rest) };
        let exchange = Exchange {
            awaits: Awaits::Stream,
            status: answer.head.status.as_u16(),
            format: answer.format,
            era: Era::Legacy,
            id: None,
            capture: caller.snapshot.config.audit.capture,
            teaches: false,
            opens: None,
        };
        Ok(self.pass(call, caller, answer, exchange, (!is_get).then_some(spec.idle_timeout)))
    }

    /// Hands the record over to the body and the answer to the server.
    fn pass(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        answer: Answer,
        exchange: Exchange,
        idle: Option<std::time::Duration>,
    ) -> Response<GatewayBody> {
        let Call { mut guard, .. } = call.take().expect("the call is there until its answer passes");
        guard.status = Some(answer.head.status.as_u16());
        if let Some(session) = answer.session() {
            guard.session = Some(trace::to_hex(&session));
        }
        let streams = exchange.format == Some(Format::Sse);
        let catalog = std::sync::Arc::clone(&caller.route.catalog);
        let sessions = std::sync::Arc::clone(&self.sessions);
        let observer =
            Observer::new(guard, exchange, catalog, sessions, streams.then(|| self.metrics.open_stream()));
        let body = PassingBody::new(answer.first, answer.rest, observer, idle, &self.desk.force);
        Response::from_parts(answer.head, GatewayBody::Passing(Box::new(body)))
    }
}

/// An upstream's answer, partly read.
struct Answer {
    head: response::Parts,
    format: Option<Format>,
    first: Option<Bytes>,
    rest: Option<ResponseBody>,
}

impl Answer {
    /// The session that the answer opens or names.
    fn session(&self) -> Option<sessions::SessionHash> {
        self.head.headers.get(SESSION).map(|v| sessions::hash(v.as_bytes()))
    }

    /// Whether a 2xx answer can be an MCP message: SSE, or JSON whose first bytes begin an object.
    async fn is_message(&mut self) -> Result<bool, Cause> {
        match self.format {
            Some(Format::Sse) => return Ok(self.head.status == StatusCode::OK),
            Some(Format::Json) => {}
            None => return Ok(false),
        }
        while self.first.as_ref().is_none_or(|f| f.trim_ascii().is_empty()) {
            let Some(rest) = &mut self.rest else { return Ok(false) };
            match rest.frame().await {
                None => return Ok(false),
                Some(Err(e)) => return Err(Cause::UpstreamProtocol(e.to_string())),
                Some(Ok(frame)) => {
                    let before = self.first.take().unwrap_or_default();
                    let Ok(data) = frame.into_data() else { continue };
                    self.first = Some(if before.is_empty() { data } else { [before, data].concat().into() });
                }
            }
        }
        if self.rest.as_ref().is_some_and(Body::is_end_stream) {
            self.rest = None;
        }
        let first = self.first.as_deref().unwrap_or_default();
        Ok(match self.rest {
            None => is_answer(first),
            Some(_) => first.trim_ascii_start().starts_with(b"{"),
        })
    }

    /// Cuts tool lists to the caller's access and turns one media type into the other where the client takes
    /// only one.
    async fn reshape(
        &mut self,
        call: &mut Call,
        accepts: Accepts,
        list: Option<Access<'_>>,
    ) -> Result<(), Cause> {
        let sse = self.format == Some(Format::Sse);
        if sse && accepts == Accepts::Json {
            let stream = self.rest.take().ok_or_else(|| Cause::UpstreamProtocol("no body".into()))?;
            let folded = shape::fold(stream).await?;
            call.guard.lossy |= folded.lossy;
            self.replace(folded.response, Format::Json);
        }
        if let Some(access) = list.filter(|a| !a.is_open()) {
            let whole = shape::collect(self.first.take(), self.rest.take()).await?;
            let is_sse = self.format == Some(Format::Sse);
            let cut = if is_sse {
                shape::filtered_sse(&whole, access)
            } else {
                shape::filtered_json(whole, access)
            };
            self.replace(cut, if is_sse { Format::Sse } else { Format::Json });
        }
        if !sse && accepts == Accepts::Sse {
            let whole = shape::collect(self.first.take(), self.rest.take()).await?;
            self.replace(shape::framed(&whole), Format::Sse);
        }
        Ok(())
    }

    fn replace(&mut self, body: Bytes, format: Format) {
        let kind = match format {
            Format::Json => "application/json",
            Format::Sse => "text/event-stream",
        };
        self.head.headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        self.head.headers.remove(header::CONTENT_LENGTH);
        self.head.headers.remove(header::ETAG);
        (self.first, self.rest, self.format) = (Some(body), None, Some(format));
    }
}

fn open(call: &mut Option<Call>) -> &mut Call {
    call.as_mut().expect("the call is there until its answer passes")
}

/// A notification or a client's response that the upstream took, whatever 2xx it said.
fn accepted(call: &mut Option<Call>) -> Response<GatewayBody> {
    if let Some(Call { mut guard, .. }) = call.take() {
        guard.status = Some(202);
        guard.finish(Outcome::Ok);
    }
    own(StatusCode::ACCEPTED, "", Bytes::new())
}

/// Whether a whole body is one JSON-RPC response.
fn is_answer(body: &[u8]) -> bool {
    matches!(message::parse(body), Ok(message::Body::Object(m)) if m.kind() == Kind::Response && (m.has_result || m.has_error))
}

fn tokens(used: &Usage) -> Tokens {
    Tokens { input: used.tokens_in, output: used.tokens_out, saved: used.tokens_saved }
}

/// JSON or SSE, if the body is one of them and not encoded.
fn format(head: &response::Parts) -> Option<Format> {
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    if headers::media_type_is(&head.headers, "text/event-stream") {
        Some(Format::Sse)
    } else if headers::media_type_is(&head.headers, "application/json") {
        Some(Format::Json)
    } else {
        None
    }
}

fn not_mcp(head: &response::Parts) -> Cause {
    let kind =
        head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("no Content-Type");
    Cause::UpstreamProtocol(format!("HTTP {} with {}", head.status.as_u16(), super::observe::bounded(kind)))
}
