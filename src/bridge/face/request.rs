//! A legacy request as the modern one that says the same: `_meta`, mirrored headers, an id and a progress token of
//! our own.
//!
//! Invariant: nothing of the session, and none of the client's ids and tokens, goes on.

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
    request::Parts,
};

use super::{
    Core, body,
    rewrite::{self, Edit, quoted},
    session::Session,
};
use crate::{
    bridge::hops::{Hops, Recipient},
    mcp::{
        era::{MODERN, SESSION_HEADER, VERSION_HEADER},
        headers::{self, METHOD_HEADER, NAME_HEADER},
        json::{self, Raw},
        message::{self, Body, Message},
    },
    upstream::ResponseBody,
};

const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// MCP's own keys of `_meta`: the client's are of its era.
const OWN: &str = "io.modelcontextprotocol/";

/// One request of a client, and all that its translation needs.
#[derive(Debug)]
pub(super) struct Call {
    /// The id's own text.
    pub(super) id: String,
    pub(super) method: String,
    /// `params` as it came.
    params: Option<String>,
    /// The client's progress token, as it stands.
    pub(super) token: Option<String>,
    pub(super) session: Session,
    /// As they came.
    pub(super) headers: HeaderMap,
    extensions: Extensions,
    /// Whether the client takes an event stream.
    pub(super) takes_events: bool,
}

impl From<&Call> for Recipient {
    fn from(call: &Call) -> Self {
        (&call.headers, &call.extensions).into()
    }
}

/// What a retry adds.
#[derive(Debug, Default)]
pub(super) struct Retry {
    /// The object of answers.
    pub(super) answers: Option<String>,
    /// `requestState` as it came.
    pub(super) state: Option<String>,
}

impl Call {
    pub(super) fn new(message: &Message<'_>, id: &str, session: Session, head: Parts) -> Self {
        let Parts { headers, extensions, .. } = head;
        let token = message.meta.and_then(|meta| meta.get("progressToken"));
        Self {
            id: id.to_owned(),
            method: message.method.as_deref().unwrap_or_default().to_owned(),
            params: message.params.map(|p| p.text().to_owned()),
            token: token.map(|t| t.text().to_owned()),
            session,
            takes_events: takes_events(&headers),
            headers,
            extensions,
        }
    }

    /// A member of `params`, if it is a string.
    pub(super) fn param(&self, name: &str) -> Option<String> {
        let params = json::parse(self.params.as_deref()?.as_bytes()).ok()?;
        params.get(name)?.as_exact_str().map(std::borrow::Cow::into_owned)
    }

    /// The modern request, under the id `number`, which is its progress token too.
    pub(super) fn modern(&self, core: &Core, number: u64, retry: &Retry) -> Request<Bytes> {
        let params = self.modern_params(core, number, retry);
        self.post(core, number, &self.method, &params)
    }

    /// A request of the gateway's own for the same client.
    pub(super) fn beside(&self, core: &Core, number: u64, method: &str, members: &str) -> Request<Bytes> {
        let comma = if members.is_empty() { "" } else { "," };
        let params = format!("{{{members}{comma}\"_meta\":{{{}}}}}", self.own_meta());
        self.post(core, number, method, &params)
    }

    fn modern_params(&self, core: &Core, number: u64, retry: &Retry) -> String {
        let params =
            self.params.as_deref().and_then(|p| json::parse(p.as_bytes()).ok()).filter(Raw::is_object);
        let mut more =
            format!("\"_meta\":{}", self.modern_meta(core, number, params.and_then(|p| p.get("_meta"))));
        for (name, value) in [("inputResponses", &retry.answers), ("requestState", &retry.state)] {
            if let Some(value) = value {
                more.push_str(&format!(",\"{name}\":{value}"));
            }
        }
        let Some(params) = params else { return format!("{{{more}}}") };
        let is_call = self.method == "tools/call";
        let edit = |name: &str, _: Raw<'_>| match name {
            "_meta" | "inputResponses" | "requestState" => Edit::Drop,
            // A task of 2025-11-25: the extension of that name is another protocol.
            "task" if is_call => Edit::Drop,
            _ => Edit::Keep,
        };
        rewrite::object_and(params, edit, &more)
    }

    fn modern_meta(&self, core: &Core, number: u64, theirs: Option<Raw<'_>>) -> String {
        let mut own = self.own_meta();
        let live = self.session.nonce.as_ref().and_then(|n| core.memory.live.find(n));
        if let Some(level) = live.and_then(|l| l.level()) {
            own.push_str(&format!(",\"{OWN}logLevel\":\"{level}\""));
        }
        if self.token.is_some() {
            own.push_str(&format!(",\"progressToken\":{number}"));
        }
        let Some(theirs) = theirs.filter(Raw::is_object) else { return format!("{{{own}}}") };
        let edit = |name: &str, _: Raw<'_>| {
            if name == "progressToken" || name.starts_with(OWN) { Edit::Drop } else { Edit::Keep }
        };
        rewrite::object_and(theirs, edit, &own)
    }

    /// What every modern request says of its client. A level is for calls only: nothing is logged on a listen.
    fn own_meta(&self) -> String {
        let Session { client, can, .. } = &self.session;
        let mut meta =
            format!("\"{OWN}protocolVersion\":\"{MODERN}\",\"{OWN}clientCapabilities\":{}", can.modern());
        if let Some(info) = client.as_ref().and_then(|c| serde_json::to_string(c).ok()) {
            meta.push_str(&format!(",\"{OWN}clientInfo\":{info}"));
        }
        meta
    }

    /// Says into the record that the client wants no answer.
    pub(super) fn note_taken_back(&self) {
        if let Some(hops) = self.extensions.get::<Hops>() {
            hops.note(|seen| seen.cancelled = true);
        }
    }

    /// The end of a call that the client has cancelled. A client that takes no stream must not get one.
    pub(super) fn taken_back(&self) -> Response<ResponseBody> {
        self.note_taken_back();
        if !self.takes_events {
            return body::json(http::StatusCode::OK, Bytes::new());
        }
        body::streamed(body::whole(Bytes::new()))
    }

    fn post(&self, core: &Core, number: u64, method: &str, params: &str) -> Request<Bytes> {
        let body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{number},\"method\":{},\"params\":{params}}}",
            quoted(method)
        );
        let mut out = self.headers.clone();
        prepare(&mut out);
        if let Ok(Body::Object(message)) = message::parse(body.as_bytes()) {
            let tool =
                (method == "tools/call").then(|| message.name.as_deref().and_then(|n| core.tools.find(n)));
            headers::derive(&message, tool.flatten().as_deref(), &mut out);
        }
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = http::Method::POST;
        *request.headers_mut() = out;
        *request.extensions_mut() = self.extensions.clone();
        self.session.mark(request.extensions_mut());
        if let Some(hops) = request.extensions().get::<Hops>() {
            hops.note(|seen| {
                seen.bridged = true;
                seen.upstream_version.get_or_insert_with(|| MODERN.into());
            });
        }
        request
    }
}

/// Takes out what belongs to the client's side and sets what every modern POST has.
pub(super) fn prepare(headers: &mut HeaderMap) {
    let mirrored: Vec<HeaderName> =
        headers.keys().filter(|n| n.as_str().starts_with("mcp-param-")).cloned().collect();
    for name in mirrored {
        headers.remove(name);
    }
    for name in [SESSION_HEADER, VERSION_HEADER, METHOD_HEADER, NAME_HEADER, "last-event-id"] {
        headers.remove(name);
    }
    headers.remove(CONTENT_LENGTH);
    headers.insert(ACCEPT, BOTH_TYPES);
    headers.insert(CONTENT_TYPE, JSON);
}

/// Whether `Accept` admits event streams; silence does.
fn takes_events(headers: &HeaderMap) -> bool {
    let mut items = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','));
    let admits = |item: &str| {
        let kind = item.split(';').next().unwrap_or_default().trim();
        ["text/event-stream", "text/*", "*/*"].iter().any(|k| kind.eq_ignore_ascii_case(k))
    };
    !headers.contains_key(ACCEPT) || items.any(admits)
}
