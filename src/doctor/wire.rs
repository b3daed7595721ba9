//! Requests to the examined server, in either era, and answers read whole. Owns headers, ids, sessions and the bounds
//! on time and size.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request,
    header::{ACCEPT, CONTENT_TYPE, USER_AGENT},
    uri::PathAndQuery,
};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::Reached;
use crate::{
    mcp::{
        era::{SESSION_HEADER, VERSION_HEADER},
        response::Format,
        sse::Scanner,
    },
    upstream::{ForwardPath, ResponseBody, Upstream},
};

/// Largest answer that is read, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;
/// How long a stream may take to bring its first event.
const FIRST_EVENT: Duration = Duration::from_secs(2);
const AGENT: &str = concat!("smartgate-doctor/", env!("CARGO_PKG_VERSION"));
const BOTH: &str = "application/json, text/event-stream";

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reached: Reached,
    /// The response to the request, if there was one.
    pub(super) outcome: Option<Result<Value, RpcError>>,
    session: Option<HeaderValue>,
}

/// An error that the server answered with.
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) data: Value,
}

/// A way of speaking to the server: plain, modern, or in a legacy session.
pub(super) struct Wire<'a> {
    upstream: &'a dyn Upstream,
    timeout: Duration,
    version: Option<String>,
    modern: bool,
    session: Option<HeaderValue>,
    /// Another path than the URL's.
    path: Option<PathAndQuery>,
    next: AtomicU64,
}

impl<'a> Wire<'a> {
    pub(super) fn new(upstream: &'a dyn Upstream, timeout: Duration) -> Self {
        let next = AtomicU64::new(1);
        Self { upstream, timeout, version: None, modern: false, session: None, path: None, next }
    }

    /// Another path of the same server.
    pub(super) fn at(&self, path: PathAndQuery) -> Self {
        Self { path: Some(path), ..Self::new(self.upstream, self.timeout) }
    }

    /// The same server, spoken to in this modern revision.
    pub(super) fn modern(&self, version: &str) -> Self {
        Self { version: Some(version.into()), modern: true, ..Self::new(self.upstream, self.timeout) }
    }

    pub(super) fn is_modern(&self) -> bool {
        self.modern
    }

    pub(super) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The cheapest request there is.
    pub(super) fn smallest(&self) -> &'static str {
        if self.modern { "server/discover" } else { "ping" }
    }

    /// Opens a legacy session.
    pub(super) async fn initialize(&self, version: &str) -> Result<(Answer, Self), String> {
        let client = json!({"name": "smartgate-doctor", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params).await?;
        let agreed = match &answer.outcome {
            Some(Ok(result)) => result["protocolVersion"].as_str().map(str::to_owned),
            _ => None,
        };
        let session = Self {
            version: agreed.or_else(|| Some(version.to_owned())),
            session: answer.session.clone(),
            path: self.path.clone(),
            ..Self::new(self.upstream, self.timeout)
        };
        if matches!(answer.outcome, Some(Ok(_))) {
            let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
            drop(session.post(body.into(), "notifications/initialized", None).await);
        }
        Ok((answer, session))
    }

    /// Asks and waits for the response.
    pub(super) async fn request(&self, method: &str, params: Value) -> Result<Answer, String> {
        let message = self.message(method, params);
        self.post(message.to_string().into(), method, None).await
    }

    /// A well-formed request of this era.
    pub(super) fn message(&self, method: &str, mut params: Value) -> Value {
        if self.modern {
            params["_meta"] = self.meta();
        }
        let id = self.next.fetch_add(1, Relaxed);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// What every modern request carries.
    pub(super) fn meta(&self) -> Value {
        json!({
            "io.modelcontextprotocol/protocolVersion": self.version,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo":
                {"name": "smartgate-doctor", "version": env!("CARGO_PKG_VERSION")},
        })
    }

    /// Sends a body as it is. `method` and `name` are what mirrored headers say.
    pub(super) async fn post(&self, body: Bytes, method: &str, name: Option<&str>) -> Result<Answer, String> {
        let mut request = self.base(Method::POST, body);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(BOTH));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.modern {
            mirror(headers, "mcp-method", method);
            if let Some(name) = name {
                mirror(headers, "mcp-name", name);
            }
        }
        let exchange = async {
            let (head, body) = self.upstream.call(request).await.map_err(|e| e.to_string())?.into_parts();
            let events = Format::is_sse(&head.headers);
            Ok(Answer {
                status: head.status.as_u16(),
                reached: if events { Reached::EventStream } else { Reached::Json },
                outcome: response(body, events).await,
                session: head.headers.get(SESSION_HEADER).cloned(),
            })
        };
        let late = || Err(format!("no answer within {:?}", self.timeout));
        tokio::time::timeout(self.timeout, exchange).await.unwrap_or_else(|_| late())
    }

    /// Whether GET opens an event stream.
    pub(super) async fn opens_stream(&self) -> bool {
        self.stream().await.is_some()
    }

    async fn stream(&self) -> Option<ResponseBody> {
        let mut request = self.base(Method::GET, Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let limit = self.timeout.min(FIRST_EVENT);
        let response = tokio::time::timeout(limit, self.upstream.call(request)).await.ok()?.ok()?;
        let is_stream = response.status() == 200 && Format::is_sse(response.headers());
        is_stream.then(|| response.into_body())
    }

    /// The message endpoint that a 2024-11-05 server announces in the first event of its stream.
    pub(super) async fn http_sse(&self) -> Option<String> {
        let mut body = self.stream().await?;
        let mut scanner = Scanner::new(4096);
        let mut endpoint = None;
        let reading = async {
            while let Some(Ok(frame)) = body.frame().await {
                let Some(data) = frame.data_ref() else { continue };
                scanner.feed(data, |event| {
                    if event.event == Some(b"endpoint") {
                        endpoint = std::str::from_utf8(event.data).ok().map(str::to_owned);
                    }
                });
                if endpoint.is_some() {
                    break;
                }
            }
        };
        drop(tokio::time::timeout(FIRST_EVENT, reading).await);
        endpoint.map(|e| e.chars().filter(|c| !c.is_control()).take(200).collect())
    }

    /// Whether a JSON document is at `path` of the server.
    pub(super) async fn has_json(&self, path: &str) -> bool {
        let Ok(path) = path.parse::<PathAndQuery>() else { return false };
        let mut request = self.at(path).base(Method::GET, Bytes::new());
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
        let Ok(Ok(response)) = tokio::time::timeout(self.timeout, self.upstream.call(request)).await else {
            return false;
        };
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        response.status() == 200 && kind.starts_with("application/json")
    }

    /// Ends a session that was opened.
    pub(super) async fn end(&self) {
        if self.session.is_some() {
            let request = self.base(Method::DELETE, Bytes::new());
            drop(tokio::time::timeout(self.timeout, self.upstream.call(request)).await);
        }
    }

    fn base(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        if let Some(path) = &self.path {
            request.extensions_mut().insert(ForwardPath(path.clone()));
        }
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if let Some(version) = self.version.as_deref() {
            mirror(headers, VERSION_HEADER, version);
        }
        if let Some(session) = &self.session {
            headers.insert(SESSION_HEADER, session.clone());
        }
        request
    }
}

fn mirror(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

/// The response in a body, which is JSON or an event stream.
async fn response(mut body: ResponseBody, events: bool) -> Option<Result<Value, RpcError>> {
    let (mut scanner, mut whole, mut found) = (Scanner::new(LARGEST), Vec::new(), None);
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        if events {
            scanner.feed(data, |event| found = found.take().or_else(|| outcome(event.data)));
            if found.is_some() {
                return found;
            }
        } else if whole.len() + data.len() > LARGEST {
            return None;
        } else {
            whole.extend_from_slice(data);
        }
    }
    if events { None } else { outcome(&whole) }
}

fn outcome(text: &[u8]) -> Option<Result<Value, RpcError>> {
    let mut message: Value = serde_json::from_slice(text).ok()?;
    if message.get("method").is_some() {
        return None;
    }
    if let Some(error) = message.get_mut("error") {
        let data = error.get_mut("data").map(Value::take).unwrap_or_default();
        return Some(Err(RpcError { code: error["code"].as_i64().unwrap_or_default(), data }));
    }
    message.get_mut("result").map(|r| Ok(r.take()))
}
