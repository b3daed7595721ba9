//! A modern request, read once: what of it the bridge needs, and where its text has to change for a legacy server.
//!
//! Invariant: outside those places the client's bytes go on as they came.

use std::ops::Range;

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{asks::Asks, level::Level};
use crate::mcp::{
    era::LOG_LEVEL,
    json::{
        Raw, Type,
        edit::{self, Splice},
        number,
    },
    message::{self, Body, Kind, Message},
};

/// Longest name or version of a client that is passed on, in bytes.
const MAX_NAME: usize = 256;

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";

/// Who waits for an answer, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Client {
    /// JSON text of the request's id.
    pub(super) id: String,
    /// JSON text of its progress token.
    pub(super) token: Option<String>,
    /// The log messages that it wants to see.
    pub(super) level: Option<Level>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) client: Client,
    pub(super) method: String,
    pub(super) asks: Asks,
    /// `clientInfo` as far as it is passed on.
    pub(super) info: Value,
    /// `requestState`, if it has one.
    pub(super) state: Option<String>,
    /// JSON texts of `inputResponses`, by key.
    pub(super) answers: Option<Vec<(String, String)>>,
    /// The body without a byte-order mark.
    body: Bytes,
    id: Range<usize>,
    token: Option<Range<usize>>,
    cuts: Vec<Range<usize>>,
}

/// What a POST brings.
#[derive(Debug)]
pub(super) enum Read {
    Request(Box<Incoming>),
    Notification,
}

/// Why a POST is refused with 400.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) code: i64,
    pub(super) message: &'static str,
    pub(super) id: Option<String>,
}

/// Reads a POST.
pub(super) fn read(body: &Bytes) -> Result<Read, Unreadable> {
    let refuse = |code, message| Err(Unreadable { code, message, id: None });
    let message = match message::parse(body) {
        Err(_) => return refuse(-32700, "the body is not JSON"),
        Ok(Body::Object(message)) => message,
        Ok(_) => return refuse(-32600, "send one JSON-RPC object"),
    };
    if let Some(why) = message.refusal(false) {
        return refuse(-32600, why);
    }
    let (id, method) = match (message.kind(), message.id_raw, &message.method) {
        (Kind::Request, Some(id), Some(method)) => (id, method),
        (Kind::Notification, ..) => return Ok(Read::Notification),
        _ => return refuse(-32600, "send a request or a notification"),
    };
    Incoming::of(&message, id, method, body)
        .map(|incoming| Read::Request(Box::new(incoming)))
        .map_err(|why| Unreadable { code: -32602, message: why, id: Some(id.text().to_owned()) })
}

impl Incoming {
    fn of(message: &Message<'_>, id: Raw<'_>, method: &str, body: &Bytes) -> Result<Self, &'static str> {
        let params = message.params.filter(Raw::is_object);
        let meta = message.meta.filter(Raw::is_object);
        let token = meta.and_then(|m| m.get("progressToken")).filter(is_token);
        let level = match meta.and_then(|m| m.get(LOG_LEVEL)) {
            None => None,
            Some(name) => {
                let level = name.as_str().and_then(|name| Level::parse(&name));
                Some(level.ok_or("the logLevel in _meta is none: debug, info, notice, warning, error, ...")?)
            }
        };
        let answers = match params.and_then(|p| p.get("inputResponses")) {
            None => None,
            Some(all) if all.is_object() && all.members().all(|m| m.value.is_object()) => {
                let name = |name: Raw<'_>| name.as_str().unwrap_or_default().into_owned();
                Some(all.members().map(|m| (name(m.name), m.value.text().to_owned())).collect())
            }
            Some(_) => return Err("inputResponses must be an object of results, one for each question"),
        };
        let state = params.and_then(|p| p.get("requestState")).and_then(|s| s.as_str());
        let capabilities = meta.and_then(|m| m.get(CAPABILITIES)).filter(Raw::is_object);
        let bom = if message.bom { body.len() - message.envelope.document().len() } else { 0 };
        let (cuts, meta_stays) = cuts(params, meta, method, token.is_some());
        Ok(Self {
            client: Client { id: id.text().to_owned(), token: token.map(|t| t.text().to_owned()), level },
            method: method.to_owned(),
            asks: capabilities.map(Asks::read).unwrap_or_default(),
            info: info(meta.and_then(|m| m.get(CLIENT_INFO))),
            state: state.map(|s| s.into_owned()),
            answers,
            body: body.slice(bom..),
            id: id.range(),
            token: token.filter(|_| meta_stays).map(|t| t.range()),
            cuts,
        })
    }

    /// The request as the server gets it, with an id of the gateway's own, which is its progress token too.
    pub(super) fn legacy(&self, own: u64) -> Bytes {
        let number = || own.to_string().into_bytes();
        let mut splices: Vec<_> = self.cuts.iter().cloned().map(Splice::cut).collect();
        splices.push(Splice::replace(self.id.clone(), number()));
        splices.extend(self.token.clone().map(|token| Splice::replace(token, number())));
        edit::apply(&self.body, splices).into()
    }

    /// What the request asks for, whatever its spelling: a retry has the same.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut message: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let mut params = message.get_mut("params").map(Value::take).unwrap_or_default();
        if let Some(params) = params.as_object_mut() {
            for not_the_request in ["_meta", "inputResponses", "requestState"] {
                params.remove(not_the_request);
            }
        }
        params.sort_all_objects();
        Sha256::new()
            .chain_update(&self.method)
            .chain_update([0])
            .chain_update(params.to_string())
            .finalize()
            .into()
    }

    /// `params` for what the bridge answers itself.
    pub(super) fn params(&self) -> Value {
        let mut message: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        message.get_mut("params").map(Value::take).unwrap_or_default()
    }
}

/// What has no meaning to a legacy server, or another one; and whether anything of `_meta` stays.
fn cuts(
    params: Option<Raw<'_>>,
    meta: Option<Raw<'_>>,
    method: &str,
    has_token: bool,
) -> (Vec<Range<usize>>, bool) {
    let Some(params) = params else { return (Vec::new(), false) };
    let modern = |name: &Raw<'_>| {
        [PROTOCOL_VERSION, CAPABILITIES, CLIENT_INFO, LOG_LEVEL].iter().any(|key| name.is_string(key))
            || !has_token && name.is_string("progressToken")
    };
    let meta_stays = meta.is_some_and(|m| m.members().any(|m| !modern(&m.name)));
    let mut cuts = edit::cuts(params, |name| {
        name.is_string("inputResponses")
            || name.is_string("requestState")
            // In the legacy era it would make a task of the call, which the client could not follow.
            || method == "tools/call" && name.is_string("task")
            || !meta_stays && name.is_string("_meta")
    });
    if let Some(meta) = meta.filter(|_| meta_stays) {
        cuts.extend(edit::cuts(meta, modern));
    }
    (cuts, meta_stays)
}

fn is_token(token: &Raw<'_>) -> bool {
    match token.kind() {
        Type::String => true,
        Type::Number => number::is_integer(token.text()),
        _ => false,
    }
}

/// The client's name and version, else the gateway's.
fn info(of_client: Option<Raw<'_>>) -> Value {
    let text = |name: &str| {
        let text = of_client?.get(name)?.as_str()?;
        (text.len() <= MAX_NAME).then(|| text.into_owned())
    };
    match (text("name"), text("version")) {
        (Some(name), Some(version)) => json!({"name": name, "version": version}),
        _ => json!({"name": "smartgate", "version": env!("CARGO_PKG_VERSION")}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Incoming {
        match read(&Bytes::copy_from_slice(text.as_bytes())) {
            Ok(Read::Request(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    fn legacy(text: &str) -> String {
        String::from_utf8(request(text).legacy(7).to_vec()).unwrap()
    }

    const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}"#;

    #[test]
    fn only_the_modern_parts_change() {
        let body = format!(
            r#"{{"jsonrpc":"2.0", "id":"a","method":"tools/call","params":{{"_meta":{{{META},"progressToken":"t","x/y":1e2}},"name":"n","arguments":{{"big":12345678901234567890.0}}}}}}"#
        );
        assert_eq!(
            legacy(&body),
            r#"{"jsonrpc":"2.0", "id":7,"method":"tools/call","params":{"_meta":{"progressToken":7,"x/y":1e2},"name":"n","arguments":{"big":12345678901234567890.0}}}"#
        );
        let read = request(&body);
        assert_eq!((read.client.id.as_str(), read.client.token.as_deref()), (r#""a""#, Some(r#""t""#)));
    }

    #[test]
    fn an_empty_meta_goes_and_so_do_answers_state_and_task() {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{{"name":"n","_meta":{{{META},"progressToken":null}},"inputResponses":{{"k":{{"action":"accept"}}}},"requestState":"s","task":{{}}}}}}"#
        );
        assert_eq!(legacy(&body), r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n"}}"#);
        let read = request(&body);
        assert_eq!(read.state.as_deref(), Some("s"));
        assert_eq!(read.answers, Some(vec![("k".into(), r#"{"action":"accept"}"#.into())]));
        assert_eq!(read.client.id, "1.0");
    }

    #[test]
    fn a_mark_in_front_moves_nothing() {
        let body = format!(
            "\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{{\"_meta\":{{{META}}}}}}}"
        );
        assert_eq!(legacy(&body), r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{}}"#);
    }

    #[test]
    fn the_digest_is_of_the_request_and_not_of_its_spelling() {
        let call = |params: &str| {
            request(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#))
                .digest()
        };
        let one = call(r#"{"name":"n","arguments":{"a":1,"b":[2]}}"#);
        assert_eq!(one, call(r#"{"requestState":"s","arguments":{"b":[2], "a":1},"_meta":{},"name":"n"}"#));
        assert_ne!(one, call(r#"{"name":"n","arguments":{"a":1,"b":[3]}}"#));
        assert_ne!(one, call(r#"{"name":"m","arguments":{"a":1,"b":[2]}}"#));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (body, code) in [
            ("{", -32700),
            ("[]", -32600),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"inputResponses":[]}}"#, -32602),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}}"#,
                -32602,
            ),
        ] {
            assert_eq!(read(&Bytes::from(body)).unwrap_err().code, code, "{body}");
        }
        assert!(matches!(read(&Bytes::from(r#"{"jsonrpc":"2.0","method":"x"}"#)), Ok(Read::Notification)));
    }
}
