//! The gateway's own requests to one upstream: builds them, bounds them in time, reads the answers. Keeps no
//! client's credentials longer than that client's call. Invariant: every request is recognisable by `User-Agent` and ends within the timeout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
};
use serde_json::{Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    answer::{self, RpcError},
    offers::About,
};
use crate::{
    mcp::{
        era::{Era, SESSION_HEADER, VERSION_HEADER},
        response::Format,
    },
    upstream::{ResponseBody, Upstream, UpstreamError},
};

/// How the gateway names itself in its own requests.
pub(super) const AGENT: &str = concat!("smartgate/", env!("CARGO_PKG_VERSION"));
const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const AGENT_VALUE: HeaderValue = HeaderValue::from_static(AGENT);

/// Why the gateway's own request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer, or one that says "later". What is known of the peer still holds.
    Unreachable(String),
    /// 401 or 403.
    Unauthorized(u16),
    /// The era was found so long ago that it is asked for again.
    Old,
    /// Answered, but not as a server of the expected era: what was known of it no longer holds.
    Odd(String),
    /// The same, from a peer that worked until now: it was replaced, or has forgotten the session.
    Lost,
}

impl Failure {
    pub(super) fn unreachable(what: impl Into<String>) -> Self {
        Self::Unreachable(what.into())
    }

    pub(super) fn odd(what: impl Into<String>) -> Self {
        Self::Odd(what.into())
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// The upstream as it was found: how to speak to it.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Its era.
    pub(super) era: Era,
    /// The revision agreed on; `None` only for `initialize` itself.
    pub(super) version: Option<Arc<str>>,
    /// The session that it gave to the gateway.
    pub(super) session: Option<HeaderValue>,
    /// What it says of itself.
    pub(super) about: Arc<About>,
    /// When it was found.
    pub(super) since: Instant,
}

impl Peer {
    pub(super) fn modern(version: &str) -> Self {
        Self { era: Era::Modern, version: Some(version.into()), ..Self::unknown_legacy() }
    }

    /// A legacy server before `initialize` was answered.
    pub(super) fn unknown_legacy() -> Self {
        Self { era: Era::Legacy, version: None, session: None, about: Arc::default(), since: Instant::now() }
    }
}

/// An answered request.
pub(super) struct Reply {
    /// `MCP-Session-Id` of the response.
    pub(super) session: Option<HeaderValue>,
    /// HTTP status, for messages.
    pub(super) status: StatusCode,
    /// The JSON-RPC result or error.
    pub(super) outcome: Result<Box<RawValue>, RpcError>,
}

/// The way to one upstream for the gateway's own requests.
pub(super) struct Link {
    upstream: Arc<dyn Upstream>,
    timeout: Duration,
    next_id: AtomicU64,
    /// Of the call that it asks for.
    credentials: HeaderMap,
}

impl Link {
    pub(super) fn new(upstream: Arc<dyn Upstream>, timeout: Duration) -> Self {
        Self { upstream, timeout, next_id: AtomicU64::new(1), credentials: HeaderMap::new() }
    }

    /// The same with the credentials of a call.
    pub(super) fn with(self, credentials: HeaderMap) -> Self {
        Self { credentials, ..self }
    }

    /// The same to each of the servers, if the upstream is several.
    pub(super) fn to_each(&self) -> Vec<Arc<Self>> {
        let link = |upstream| Arc::new(Self::new(upstream, self.timeout));
        self.upstream.replicas().into_iter().map(link).collect()
    }

    /// Sends a request and reads its response, however it is framed.
    pub(super) async fn request(&self, peer: &Peer, method: &str, params: Value) -> Result<Reply, Failure> {
        let id = self.next_id.fetch_add(1, Relaxed).to_string();
        let request = post(peer, method, message(peer, Some(&id), method, params));
        self.bounded(async {
            let (head, body) = self.call(request).await?.into_parts();
            judge_status(head.status)?;
            let events = Format::is_sse(&head.headers);
            let Some(message) = answer::read(body, events, &id).await? else {
                return Err(Failure::odd(format!(
                    "{method}: HTTP {} without a JSON-RPC response",
                    head.status.as_u16()
                )));
            };
            let outcome = match (message.result, message.error) {
                (_, Some(error)) => Err(error),
                (Some(result), None) => Ok(result),
                (None, None) => return Err(Failure::odd(format!("{method}: neither result nor error"))),
            };
            Ok(Reply { session: head.headers.get(SESSION_HEADER).cloned(), status: head.status, outcome })
        })
        .await
    }

    /// Sends a notification; whatever status it gets, the exchange goes on.
    pub(super) async fn notify(&self, peer: &Peer, method: &str) -> Result<(), Failure> {
        let request = post(peer, method, message(peer, None, method, json!({})));
        self.send(request).await
    }

    /// Answers a server's `ping`.
    pub(super) async fn pong(&self, peer: &Peer, id: &RawValue) -> Result<(), Failure> {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.get());
        self.send(post(peer, "", body)).await
    }

    /// Refuses what a server asks outside of any call.
    pub(super) async fn refuse(&self, peer: &Peer, id: &RawValue) -> Result<(), Failure> {
        let error = r#"{"code":-32601,"message":"nobody can be asked in this session"}"#;
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.get());
        self.send(post(peer, "", body)).await
    }

    /// Ends the session, if there is one.
    pub(super) async fn delete_session(&self, peer: &Peer) -> Result<(), Failure> {
        if peer.session.is_none() {
            return Ok(());
        }
        let mut request = base(peer, Method::DELETE, Bytes::new());
        request.headers_mut().insert(ACCEPT, BOTH_TYPES);
        self.send(request).await
    }

    /// Opens the stream of changes: GET in the legacy era, `subscriptions/listen` in the modern one. Not
    /// bounded in time, because a server may hold the head back until the first event.
    pub(super) async fn open_changes(&self, peer: &Peer) -> Result<Response<ResponseBody>, Failure> {
        let request = match peer.era {
            Era::Legacy => {
                let mut get = base(peer, Method::GET, Bytes::new());
                get.headers_mut().insert(ACCEPT, EVENT_STREAM);
                get
            }
            Era::Modern => {
                let id = self.next_id.fetch_add(1, Relaxed).to_string();
                let method = "subscriptions/listen";
                let wanted = |c: &str| peer.about.declares(c, "listChanged");
                let kinds = ["tools", "prompts", "resources"].into_iter().filter(|c| wanted(c));
                let wanted: Value = kinds.map(|c| (format!("{c}ListChanged"), Value::Bool(true))).collect();
                let params = json!({"notifications": wanted});
                post(peer, method, message(peer, Some(&id), method, params))
            }
        };
        Ok(self.call(request).await?)
    }

    async fn call(&self, mut request: Request<Bytes>) -> Result<Response<ResponseBody>, UpstreamError> {
        request.headers_mut().extend(self.credentials.clone());
        self.upstream.call(request).await
    }

    async fn send(&self, request: Request<Bytes>) -> Result<(), Failure> {
        self.bounded(async {
            let response = self.call(request).await?;
            judge_status(response.status())
        })
        .await
    }

    async fn bounded<T>(&self, exchange: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::time::timeout(self.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(Failure::unreachable(format!("no answer within {:?}", self.timeout))))
    }
}

/// Statuses that say nothing about the era.
fn judge_status(status: StatusCode) -> Result<(), Failure> {
    match status.as_u16() {
        code @ (401 | 403) => Err(Failure::Unauthorized(code)),
        code @ (408 | 429 | 502..=504) => Err(Failure::Unreachable(format!("HTTP {code}"))),
        _ => Ok(()),
    }
}

fn message(peer: &Peer, id: Option<&str>, method: &str, mut params: Value) -> String {
    if let (Era::Modern, Some(version)) = (peer.era, &peer.version) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": &**version,
            "io.modelcontextprotocol/clientCapabilities": capabilities(),
            "io.modelcontextprotocol/clientInfo": client_info(),
        });
    }
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0",{id}"method":"{method}","params":{params}}}"#)
}

/// `capabilities` of the gateway's own requests. Servers show some tools only to clients that can be asked, and the lists
/// are for all clients; in the gateway's own session nothing is called that would ask.
pub(super) fn capabilities() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}})
}

/// `clientInfo` of the gateway's own requests.
pub(super) fn client_info() -> Value {
    json!({"name": "smartgate", "version": env!("CARGO_PKG_VERSION")})
}

fn post(peer: &Peer, method: &str, body: String) -> Request<Bytes> {
    let mut request = base(peer, Method::POST, body.into());
    let headers = request.headers_mut();
    headers.insert(ACCEPT, BOTH_TYPES);
    headers.insert(CONTENT_TYPE, JSON);
    if peer.era == Era::Modern {
        let value = HeaderValue::from_str(method).expect("method names are ASCII constants");
        headers.insert("mcp-method", value);
    }
    request
}

fn base(peer: &Peer, method: Method, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    let headers = request.headers_mut();
    headers.insert(USER_AGENT, AGENT_VALUE);
    if let Some(version) = peer.version.as_deref().and_then(|v| HeaderValue::from_str(v).ok()) {
        headers.insert(VERSION_HEADER, version);
    }
    if let Some(session) = &peer.session {
        headers.insert(SESSION_HEADER, session.clone());
    }
    request
}
