//! From an upstream's response head to what the client gets: passed as it came wherever that is MCP the
//! client can take, reshaped or refused where it is not (decided rules, "HTTP side").

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode, header, request::Parts, response, uri::PathAndQuery};
use http_body::Body;

use super::{
    Call, Gateway, GatewayBody,
    body::PassingBody,
    cut_lists::{View, cut_lists},
    error::Cause,
    evidence,
    headers::{self, Accepts},
    observe::{Awaits, Exchange, Observer},
    own,
    prepare::{Caller, Facts, Prepared},
    send::{self, Outgoing},
    sessions, shape,
    spend::Spending,
    target,
};
use crate::{
    audit::record::{Outcome, Tokens},
    bridge::hops::Hops,
    mcp::{
        era::Era,
        response::{Format, Keep, ResponseScanner},
    },
    upstream::{ForwardPath, ResponseBody, builtin::Usage, catalog::State},
};

/// Most of a JSON body that is held back to see whether it is a response.
const HELD: usize = 64 * 1024;
/// Bytes that are looked at between two decisions; `result` nearly always begins in the first.
const LOOK: usize = 256;

impl Gateway {
    /// Forwards a POST and passes its answer on.
    pub(super) async fn post(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        prepared: Prepared,
        forward: Option<PathAndQuery>,
    ) -> Result<Response<GatewayBody>, Cause> {
        let Prepared { body, headers, facts, spend } = prepared;
        let Facts { awaits, era, id, is_discover, is_tool_list, repeatable, opens, outline } = facts;
        let spec = &caller.route.spec;
        let mut to_upstream = caller.to_upstream();
        if let Some(spend) = spend {
            let spending = spend.hold(&self.tasks).await?;
            to_upstream.held = spending.held();
            open(call).spending = Some(spending);
        }
        let called = open(call).guard.tool.as_deref();
        if awaits == Awaits::Answer
            && let Some(server) = caller.route.builtin_of(called)
        {
            let (peer, mask) = {
                let call = open(call);
                (call.peer.ip(), call.mask.clone())
            };
            to_upstream.nested =
                Some(self.children(&open(call).guard, caller, Arc::clone(server), peer, &mask));
        }
        let upstream = caller.route.way(era, open(call).guard.method.as_deref(), &headers).await;
        let is_own_clock = caller.route.is_builtin() || caller.route.all.is_some();
        let hops = Hops::default();
        let outgoing = Outgoing {
            hops: hops.clone(),
            upstream,
            method: Method::POST,
            headers,
            body,
            caller: to_upstream,
            forward: forward.map(ForwardPath),
            outline,
            // Tools inside the process keep time themselves, and say how far they came; several upstreams as one keep
            // the time of each.
            limit: (awaits != Awaits::Stream && !is_own_clock).then_some(spec.timeout),
            repeatable,
        };
        let Call { guard, spending, .. } = open(call);
        guard.upstream_version = guard.protocol_version.clone();
        guard.tokens = spending.as_mut().and_then(Spending::begin);
        let sent = send::send(guard, caller.route, outgoing).await;
        if let (Err(Cause::UpstreamConnect(_)), Some(spending)) = (&sent, spending.as_mut()) {
            spending.failed(&guard.attempts);
        }
        let (mut head, rest) = sent?.into_parts();
        headers::strip_hop_by_hop(&mut head.headers);
        let usage = head.extensions.get::<Usage>();
        if let Some(spending) = spending {
            spending.answered(usage)?;
        }
        if let Some(usage) = usage {
            guard.tokens = Some(tokens(usage));
        }
        if awaits == Awaits::Nothing && head.status.is_success() {
            return Ok(accepted(call, head));
        }
        let idle = (awaits != Awaits::Stream).then_some(spec.idle_timeout);
        let mut answer = Answer { format: format(&head), head, first: None, rest: Some(rest), idle };
        if open(call).shares_session && awaits == Awaits::Answer {
            answer.take_in_band().await?;
        }
        let opens = answer.session().zip(opens);
        // Who took the call back is answered with nothing.
        let taken_back = hops.seen().cancelled;
        if awaits != Awaits::Nothing && answer.head.status.is_success() && !taken_back {
            if !answer.is_message().await? {
                return Err(if is_discover { Cause::DiscoverRefused } else { not_mcp(&answer.head) });
            }
            answer.reshape(open(call), is_tool_list, caller).await?;
        }
        let exchange = Exchange {
            awaits,
            status: answer.head.status.as_u16(),
            format: answer.format,
            era,
            id,
            capture: caller.capture(open(call).guard.tool.as_deref()),
            mask: std::mem::take(&mut open(call).mask),
            teaches: is_tool_list && matches!(caller.route.catalog.state(), State::Unauthorized { .. }),
            hops: Some(hops),
            opens,
        };
        Ok(self.pass(call, caller, answer, exchange))
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
        let is_document = forward.as_ref().is_some_and(|place| target::is_document(place.path()));
        let session = parts.headers.get(headers::SESSION).map(|v| sessions::hash(v.as_bytes()));
        let guard = &mut open(call).guard;
        guard.era = Some(Era::Legacy);
        guard.session = session.map(hex::encode);
        guard.protocol_version =
            parts.headers.get(headers::VERSION).and_then(|v| v.to_str().ok()).map(super::observe::bounded);
        if let Some(about) = session.and_then(|s| self.sessions.get(&s)) {
            (guard.client.name, guard.client.version) = (about.name, about.version);
        }
        headers::prepare_request(&mut parts.headers, caller.snapshot.passthrough());
        // A path of its own is a well-known document, or the client's query: its Accept is left alone.
        if is_get && forward.is_none() {
            headers::set_stream_accept(&mut parts.headers);
        }
        let spec = &caller.route.spec;
        let upstream = if is_document {
            caller.route.direct()
        } else {
            caller.route.way(Era::Legacy, None, &parts.headers).await
        };
        let hops = Hops::default();
        let outgoing = Outgoing {
            hops: hops.clone(),
            upstream,
            method: parts.method,
            headers: parts.headers,
            body: Bytes::new(),
            caller: caller.to_upstream(),
            forward: forward.map(ForwardPath),
            outline: None,
            limit: (!is_get).then_some(spec.timeout),
            repeatable: false,
        };
        let (mut head, rest) = send::send(guard, caller.route, outgoing).await?.into_parts();
        headers::strip_hop_by_hop(&mut head.headers);
        let idle = (!is_get).then_some(spec.idle_timeout);
        let mut answer = Answer { format: format(&head), head, first: None, rest: Some(rest), idle };
        answer.cut_lists(caller);
        Ok(self.pass_stream(call, caller, answer, Some(hops)))
    }

    /// Passes on what the gateway itself answers with a body that takes its time.
    pub(super) fn pass_own(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        response: Response<ResponseBody>,
    ) -> Response<GatewayBody> {
        let (head, rest) = response.into_parts();
        let answer = Answer { format: format(&head), head, first: None, rest: Some(rest), idle: None };
        self.pass_stream(call, caller, answer, None)
    }

    fn pass_stream(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        answer: Answer,
        hops: Option<Hops>,
    ) -> Response<GatewayBody> {
        let exchange = Exchange {
            awaits: Awaits::Stream,
            status: answer.head.status.as_u16(),
            format: answer.format,
            era: Era::Legacy,
            id: None,
            capture: caller.capture(None),
            mask: std::mem::take(&mut open(call).mask),
            teaches: false,
            hops,
            opens: None,
        };
        self.pass(call, caller, answer, exchange)
    }

    /// Hands the record over to the body and the answer to the server.
    fn pass(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        answer: Answer,
        exchange: Exchange,
    ) -> Response<GatewayBody> {
        let taken = call.take().expect("the call is there until its answer passes");
        let Call { mut guard, spending, .. } = taken;
        guard.status = Some(answer.head.status.as_u16());
        if let Some(session) = answer.session() {
            guard.session = Some(hex::encode(session));
        }
        let streams = exchange.format == Some(Format::Sse);
        let catalog = evidence::catalog(caller.snapshot, &guard).unwrap_or(&caller.route.catalog);
        let catalog = Arc::clone(catalog);
        let sessions = Arc::clone(&self.sessions);
        let present = streams.then(|| self.metrics.open_stream());
        let observer = Observer::new(guard, exchange, spending, catalog, sessions, present);
        let body = PassingBody::new(answer.first, answer.rest, observer, answer.idle, &self.desk.force);
        Response::from_parts(answer.head, GatewayBody::Passing(Box::new(body)))
    }
}

/// An upstream's answer, partly read.
struct Answer {
    head: response::Parts,
    format: Option<Format>,
    first: Option<Bytes>,
    rest: Option<ResponseBody>,
    /// Longest silence, where one applies.
    idle: Option<Duration>,
}

impl Answer {
    /// The session that the answer opens or names.
    fn session(&self) -> Option<sessions::SessionHash> {
        self.head.headers.get(headers::SESSION).map(|v| sessions::hash(v.as_bytes()))
    }

    /// A server's failure as the failure of this one call, which a client does not take for the end of its session.
    async fn take_in_band(&mut self) -> Result<(), Cause> {
        if self.head.status.is_server_error() {
            if self.format != Some(Format::Json) || !self.is_message().await? {
                return Err(not_mcp(&self.head));
            }
            self.head.status = StatusCode::OK;
        }
        Ok(())
    }

    /// Whether a 2xx answer is an MCP message: SSE, or JSON that is a response. Of JSON as much is read as it
    /// takes to tell: to its end if that has come already, else to the beginning of `result` or `error`.
    async fn is_message(&mut self) -> Result<bool, Cause> {
        match self.format {
            Some(Format::Sse) => return Ok(self.head.status == StatusCode::OK),
            Some(Format::Json) => {}
            None => return Ok(false),
        }
        let (mut scanner, mut scanned) = (ResponseScanner::new(Format::Json, Keep::Nothing, None), 0);
        loop {
            let held = self.first.as_deref().unwrap_or_default();
            if self.rest.as_ref().is_none_or(Body::is_end_stream) {
                self.rest = None;
                scanner.feed(&held[scanned..]);
                return Ok(scanner.finish().valid);
            }
            for piece in held[scanned..].chunks(LOOK) {
                scanner.feed(piece);
                if let Some(is_response) = scanner.is_response() {
                    return Ok(is_response);
                }
            }
            scanned = held.len();
            if scanned > HELD {
                return Ok(true);
            }
            self.read_on().await?;
        }
    }

    /// Adds the next bytes of the body to those that are held.
    async fn read_on(&mut self) -> Result<(), Cause> {
        let Some(rest) = &mut self.rest else { return Ok(()) };
        match (shape::next(rest, self.idle).await?, self.first.take()) {
            (None, held) => (self.first, self.rest) = (held, None),
            (Some(data), None) => self.first = Some(data),
            (Some(data), Some(held)) => {
                let mut both = BytesMut::from(held);
                both.extend_from_slice(&data);
                self.first = Some(both.freeze());
            }
        }
        Ok(())
    }

    /// Turns one media type into the other where the client takes only one, and cuts tool lists to what the
    /// caller may see.
    async fn reshape(&mut self, call: &mut Call, is_list: bool, caller: Caller<'_>) -> Result<(), Cause> {
        let came_as_sse = self.format == Some(Format::Sse);
        if came_as_sse && call.accepts == Accepts::Json {
            let stream = self.rest.take().ok_or_else(|| Cause::UpstreamProtocol("no body".into()))?;
            let folded = shape::fold(stream, self.idle).await?;
            call.guard.lossy |= folded.lossy;
            self.replace(folded.response, Format::Json);
        }
        let access = caller.access();
        if self.format == Some(Format::Sse) {
            self.cut_lists(caller);
        } else if is_list && !access.is_open() {
            let whole = self.whole().await?;
            self.replace(shape::filtered_json(whole, access)?, Format::Json);
        }
        if !came_as_sse && call.accepts == Accepts::Sse {
            let whole = self.whole().await?;
            self.replace(shape::framed(&whole), Format::Sse);
        }
        Ok(())
    }

    async fn whole(&mut self) -> Result<Bytes, Cause> {
        shape::collect(self.first.take(), self.rest.take(), self.idle).await
    }

    /// On any stream there may be a list: a response comes on whichever one resumes the one it began on.
    fn cut_lists(&mut self, caller: Caller<'_>) {
        if self.format != Some(Format::Sse) || caller.access().is_open() {
            return;
        }
        let view = View { key: caller.key.cloned(), route: Arc::clone(caller.route) };
        self.rest = self.rest.take().map(|stream| cut_lists(stream, view));
        self.head.headers.remove(header::CONTENT_LENGTH);
        self.head.headers.remove(header::ETAG);
    }

    fn replace(&mut self, body: Bytes, format: Format) {
        let kind = match format {
            Format::Json => headers::JSON,
            Format::Sse => headers::SSE,
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
fn accepted(call: &mut Option<Call>, head: response::Parts) -> Response<GatewayBody> {
    if let Some(Call { mut guard, .. }) = call.take() {
        guard.status = Some(202);
        guard.finish(Outcome::Ok);
    }
    let mut response = own(StatusCode::ACCEPTED, "", Bytes::new());
    *response.headers_mut() = head.headers;
    for about_the_body in
        [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::ETAG]
    {
        response.headers_mut().remove(about_the_body);
    }
    response
}

pub(super) fn tokens(used: &Usage) -> Tokens {
    Tokens { input: used.tokens_in, output: used.tokens_out, saved: used.tokens_saved }
}

/// JSON or SSE, if the body is one of them and not encoded.
fn format(head: &response::Parts) -> Option<Format> {
    if head.headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    Format::of(&head.headers)
}

fn not_mcp(head: &response::Parts) -> Cause {
    let kind =
        head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("no Content-Type");
    Cause::UpstreamProtocol(format!("HTTP {} with {}", head.status.as_u16(), super::observe::bounded(kind)))
}
