//! The synchronous middle of the pipeline: bytes of a POST in, a request to forward out, or a refusal.
//! Parse, check mirrored headers as received, repair, decide access and limits, derive headers afresh.
//! Policies look at the repaired message; nothing after them changes it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, header};
use sha2::{Digest, Sha256};

use super::{
    Call, Gateway, KnownKey,
    error::Cause,
    headers,
    limits::Payer,
    mask::Mask,
    observe::{Awaits, KEPT, bounded, cut},
    received,
    sessions::{self, About},
    spend::Spend,
    trace,
};
use crate::{
    audit::record::Payload,
    config::Capture,
    mcp::{
        era::{self, Era},
        headers as mirrored, json,
        message::{self, Body, Kind, Message, Outline, ParseError},
        normalize::{self, Normalized},
        tools::ToolSet,
    },
    policy::access::Access,
    snapshot::{Route, Snapshot},
    upstream,
};

/// Everything the sending half needs; nothing in it borrows.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The bytes to forward.
    pub body: Bytes,
    /// The headers to forward, without trace context.
    pub headers: HeaderMap,
    /// What is known of the message.
    pub facts: Facts,
    /// A tool call that a budget applies to.
    pub spend: Option<Spend>,
}

/// What the policies found out about a message that may pass.
#[derive(Debug)]
pub(super) struct Facts {
    /// What the client waits for.
    pub awaits: Awaits,
    /// The message's era.
    pub era: Era,
    /// The request id's JSON text.
    pub id: Option<String>,
    /// `server/discover`: refusals of it must let clients fall back.
    pub is_discover: bool,
    /// `tools/list`: its answer is cut to what the caller may see.
    pub is_tool_list: bool,
    /// Whether a try that may have run may be repeated.
    pub repeatable: bool,
    /// An `initialize`: what the client said of itself.
    pub opens: Option<About>,
    /// For several upstreams as one, which would read the same bytes again.
    pub outline: Option<Outline>,
}

/// Who calls, through which door.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller<'a> {
    /// The configuration of this call.
    pub snapshot: &'a Arc<Snapshot>,
    /// The upstream.
    pub route: &'a Arc<Route>,
    /// The key, where keys are asked for.
    pub key: Option<&'a KnownKey>,
}

impl Caller<'_> {
    /// Which tools this caller sees.
    #[must_use]
    pub(super) fn access(&self) -> Access<'_> {
        Access::new(self.key.map(|k| &k.facts.tools), &self.route.spec.tools, &self.route.names)
    }

    /// What is kept of the payloads of a tool's call, or of another message.
    #[must_use]
    pub(super) fn capture(&self, tool: Option<&str>) -> Capture {
        let audit = &self.snapshot.config.audit;
        if audit.capture_tools.is_empty() {
            return audit.capture;
        }
        audit.capture_of(tool.map(|t| self.route.names.of(t)).as_deref())
    }

    /// Who this is to tools inside the process.
    #[must_use]
    pub(super) fn to_upstream(self) -> upstream::Caller {
        self.key.map(|k| k.facts.caller.clone()).unwrap_or_default()
    }
}

impl Gateway {
    /// Turns a received POST into what is forwarded.
    ///
    /// # Errors
    /// Every refusal that reaches no upstream.
    pub(super) fn prepare(
        &self,
        call: &mut Call,
        caller: Caller<'_>,
        body: Bytes,
        mut headers: HeaderMap,
    ) -> Result<Prepared, Cause> {
        let tools = caller.route.tools();
        let received = one_message(&body)?;
        call.id = received.id().map(str::to_owned);
        self.describe(call, &received, &headers);
        let direct = normalize::is_direct_tool(&received, &tools);
        if let Some(why) = received.refusal(direct) {
            return Err(Cause::InvalidRequest(why.into()));
        }
        let several = caller.route.all.as_ref().is_some_and(|all| all.members.len() > 1);
        let era = self.check_era(call, &received, &headers, &tools, several)?;
        let repaired = self.repair(call, caller, &body, &received, &tools);
        let Some(edited) = repaired else {
            let mut facts = self.police(call, caller, &received, era, &tools)?;
            facts.outline = outline(caller, era, &received, &body);
            finish_headers(&mut headers, caller, &received, era, None);
            let spend = Spend::of(caller, &received, &tools);
            received::forwarded(&mut call.guard.received, &body);
            return Ok(Prepared { body: body.clone(), headers, facts, spend });
        };
        let edited = Bytes::from(edited);
        let message = one_message(&edited)?;
        if let Some(why) = message.refusal(false) {
            return Err(Cause::InvalidRequest(why.into()));
        }
        let mut facts = self.police(call, caller, &message, era, &tools)?;
        facts.outline = outline(caller, era, &message, &edited);
        finish_headers(&mut headers, caller, &message, era, Some(&tools));
        let spend = Spend::of(caller, &message, &tools);
        received::forwarded(&mut call.guard.received, &edited);
        Ok(Prepared { body: edited.clone(), headers, facts, spend })
    }

    /// Notes who speaks and what is asked, before anything can be refused.
    fn describe(&self, call: &mut Call, message: &Message<'_>, headers: &HeaderMap) {
        let session = headers.get(headers::SESSION).map(|v| sessions::hash(v.as_bytes()));
        let known = session.and_then(|s| self.sessions.get(&s)).unwrap_or_default();
        let agent = headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok());
        let record = &mut *call.guard;
        record.request_id.clone_from(&call.id);
        record.method = message.method.as_deref().map(bounded);
        record.original_method = message.method.as_deref().map(bounded);
        record.session = session.map(hex::encode);
        let said = |text: Option<&str>, most: usize| text.map(|t| Arc::from(&*cut(t, most)));
        record.client.name = said(message.client_name.as_deref(), 128)
            .or(known.name)
            .or_else(|| said(agent.and_then(product), 128));
        record.client.version = said(message.client_version.as_deref(), 64)
            .or(known.version)
            .or_else(|| said(agent.and_then(product_version), 64));
        let version = message
            .protocol_version
            .as_deref()
            .or_else(|| headers.get(headers::VERSION).and_then(|v| v.to_str().ok()));
        record.protocol_version =
            version.map(bounded).or_else(|| known.protocol_version.map(|v| v.to_string()));
        if let Some(parent) = message.traceparent.as_deref().and_then(trace::parse) {
            let ambient = record.parent_id.map(|span| (record.trace_id, span));
            record.link = ambient.filter(|(trace_id, _)| *trace_id != parent.trace_id);
            record.trace_id = parent.trace_id;
            record.parent_id = Some(parent.span_id);
            record.trace_state = message.tracestate.as_deref().map(bounded);
        }
    }

    /// Classifies, and checks mirrored headers against the body as received.
    fn check_era(
        &self,
        call: &mut Call,
        message: &Message<'_>,
        headers: &HeaderMap,
        tools: &ToolSet,
        several: bool,
    ) -> Result<Era, Cause> {
        let era::Classified { era, version, refusal } = era::classify(headers, Some(message));
        call.guard.era = Some(era);
        call.modern = era == Era::Modern;
        call.shares_session = !call.modern && several && call.guard.session.is_some();
        if version.is_some() {
            call.guard.protocol_version = version;
        }
        if let Some(refusal) = refusal {
            return Err(match refusal {
                era::Refusal::HeaderMismatch(why) => Cause::HeaderMismatch(why),
                era::Refusal::MissingMeta(why) => Cause::InvalidParams(why),
                era::Refusal::UnsupportedVersion(version) => Cause::UnsupportedVersion(version),
                era::Refusal::InvalidRequest(why) => Cause::InvalidRequest(why.into()),
            });
        }
        if era == Era::Modern && message.kind() == Kind::Request {
            let tool = message.name.as_deref().and_then(|n| tools.get(n)).map(Arc::as_ref);
            mirrored::check(headers, message, tool).map_err(|m| Cause::HeaderMismatch(m.message))?;
        }
        Ok(era)
    }

    /// Repairs the message. `None`: the bytes go on as they came.
    fn repair(
        &self,
        call: &mut Call,
        caller: Caller<'_>,
        body: &[u8],
        message: &Message<'_>,
        tools: &ToolSet,
    ) -> Option<Vec<u8>> {
        let rules = caller.snapshot.rules(caller.route, caller.key.map(|k| &k.facts));
        let Normalized { body: edited, rules: fired, lossy, edits } =
            normalize::normalize_message(body, message, &rules, tools);
        if caller.snapshot.config.normalize.shadow {
            call.guard.shadow = Some(fired);
            return None;
        }
        call.guard.normalized = fired;
        call.guard.lossy = lossy;
        call.guard.edits = edits;
        edited
    }

    /// Access and limits, on the message as it will be forwarded.
    fn police(
        &self,
        call: &mut Call,
        caller: Caller<'_>,
        message: &Message<'_>,
        era: Era,
        tools: &ToolSet,
    ) -> Result<Facts, Cause> {
        let method = message.method.as_deref().unwrap_or_default();
        let is_call = method == "tools/call";
        call.is_tool_call = is_call;
        call.guard.method = message.method.as_deref().map(bounded);
        let arguments = message.arguments.map(|a| a.text().as_bytes());
        let tool = message.name.as_deref().filter(|_| is_call);
        call.guard.tool = tool.map(bounded);
        let capture = caller.capture(tool);
        call.guard.arguments = keep(capture, arguments, &call.mask);
        received::decide(&mut call.guard.received, capture);
        call.guard.prompt = message.name.as_deref().filter(|_| method == "prompts/get").map(bounded);
        call.guard.resource = message.uri.as_deref().map(bounded);
        refuse_hidden(message, tools, caller.access())?;
        let kind = message.kind();
        let awaits = match kind {
            Kind::Request if method == "subscriptions/listen" => Awaits::Stream,
            Kind::Request => Awaits::Answer,
            _ => Awaits::Nothing,
        };
        if awaits != Awaits::Stream {
            call.guard.hold(self.gate.enter(&caller.snapshot.limits)?);
        }
        if kind == Kind::Request {
            let payer = match caller.key {
                Some(key) => Payer::Key(key.facts.rate, &key.buckets),
                None => Payer::Address(call.peer.ip()),
            };
            let public = tool.map(|t| caller.route.names.of(t));
            self.gate.charge(&caller.snapshot.limits, payer, public.as_deref())?;
        }
        let safe = |t: &str| tools.get(t).is_some_and(|t| t.read_only || t.idempotent);
        Ok(Facts {
            awaits,
            era,
            id: call.id.clone(),
            is_discover: method == "server/discover",
            is_tool_list: method == "tools/list",
            repeatable: kind == Kind::Request && (is_read(method) || tool.is_some_and(safe)),
            opens: (method == "initialize").then(|| About {
                name: call.guard.client.name.clone(),
                version: call.guard.client.version.clone(),
                protocol_version: None,
            }),
            outline: None,
        })
    }
}

/// Refuses a call of a tool that the caller may not see. Where nothing was repaired, a tool's name may still
/// stand as the method: what a server makes of that is not for this caller to find out.
fn refuse_hidden(message: &Message<'_>, tools: &ToolSet, access: Access<'_>) -> Result<(), Cause> {
    if access.is_open() {
        return Ok(());
    }
    let name = message.name.as_deref();
    let hidden = if message.method.as_deref() == Some("tools/call") {
        Some(name.unwrap_or("without a name")).filter(|_| !name.is_some_and(|n| access.allows(n)))
    } else if normalize::is_direct_tool(message, tools) {
        message.method.as_deref().into_iter().chain(name).find(|n| !access.allows(n))
    } else {
        None
    };
    match hidden {
        Some(tool) => Err(Cause::Forbidden(format!("the tool {:?}", bounded(tool)))),
        None => Ok(()),
    }
}

fn outline(caller: Caller<'_>, era: Era, message: &Message<'_>, body: &Bytes) -> Option<Outline> {
    (era == Era::Modern && caller.route.all.is_some()).then(|| message.outline(body)).flatten()
}

fn one_message(body: &[u8]) -> Result<Box<Message<'_>>, Cause> {
    match message::parse(body) {
        Ok(Body::Object(message)) => Ok(message),
        Ok(Body::Batch) => {
            let why = "only 2025-03-26 has batches, in a session that was opened with it or with its \
                       MCP-Protocol-Version; send one message per POST";
            Err(Cause::InvalidRequest(why.into()))
        }
        Ok(Body::Scalar) => Err(Cause::InvalidRequest("the body is no object".into())),
        Err(ParseError::NotJson { offset }) => Err(Cause::Parse(format!("at byte {offset}"))),
        Err(ParseError::TooDeep { .. }) => {
            Err(Cause::InvalidRequest(format!("it is nested deeper than {} levels", json::MAX_DEPTH).into()))
        }
    }
}

/// Methods that only read (retry rule in the contract).
fn is_read(method: &str) -> bool {
    method.ends_with("/list")
        || matches!(
            method,
            "resources/read" | "prompts/get" | "server/discover" | "ping" | "completion/complete"
        )
}

/// The headers upstream: ours out, JSON in, mirrored ones afresh when the body was edited.
fn finish_headers(
    headers: &mut HeaderMap,
    caller: Caller<'_>,
    message: &Message<'_>,
    era: Era,
    edited: Option<&ToolSet>,
) {
    headers::prepare_request(headers, caller.snapshot.passthrough());
    headers::set_json_post(headers);
    if era == Era::Modern {
        headers.remove(headers::SESSION);
        if let Some(tools) = edited.filter(|_| message.kind() == Kind::Request) {
            let tool = message.name.as_deref().and_then(|n| tools.get(n)).map(Arc::as_ref);
            mirrored::derive(message, tool, headers);
        }
    } else if message.method.as_deref() == Some("initialize")
        && caller.route.catalog.era() != Some(Era::Modern)
    {
        headers.remove(headers::VERSION);
    }
}

pub(super) fn keep(capture: Capture, arguments: Option<&[u8]>, mask: &Mask) -> Payload {
    let Some(bytes) = arguments else { return Payload::None };
    let sha256 = || Sha256::digest(bytes).into();
    match capture {
        Capture::None => Payload::None,
        Capture::Hash => Payload::Hash(sha256()),
        Capture::Redacted | Capture::Full => {
            let truncated = bytes.len() > KEPT;
            let mut kept = bytes[..bytes.len().min(KEPT)].to_vec();
            mask.apply(&mut kept, truncated);
            Payload::Kept { sha256: sha256(), bytes: kept, truncated, full: capture == Capture::Full }
        }
    }
}

/// `cursor` of the first product in a `User-Agent` (RFC 9110 section 10.1.5).
fn product(agent: &str) -> Option<&str> {
    agent.split([' ', '/']).next().filter(|p| !p.is_empty())
}

fn product_version(agent: &str) -> Option<&str> {
    agent.split(' ').next()?.split_once('/').map(|(_, v)| v)
}
