//! The face over a scripted modern server, row by row of the table "legacy client -> modern server".
//! The server checks of every request that it is a valid modern one.

mod calls;
mod changes;
mod questions;
mod revisions;
mod sessions;
mod transports;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Face, body, messages::Messages};
use crate::{
    bridge::{hops::Hops, sealed::Sealer},
    mcp::{
        era::{self, Era},
        headers,
        message::{self, Body},
        tools::ToolSet,
    },
    upstream::{BoxFuture, Caller, ResponseBody, Upstream, UpstreamError},
};

const TOOLS: &str = r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"}}}}]}"#;

/// What the server says to one request. `$ID` stands for the request's id.
enum Said {
    /// This result, as JSON.
    Result(Value),
    /// This, whatever it is.
    Raw(u16, &'static str, String),
    /// These messages as events, then the end.
    Events(Vec<String>),
    /// Messages as they are sent, until the sender is dropped.
    Live(mpsc::UnboundedReceiver<String>),
    /// Never a head.
    Never,
    /// No connection.
    Unreachable,
}

/// A request as the server got it.
#[derive(Clone)]
struct Seen {
    headers: HeaderMap,
    text: String,
    body: Value,
    /// Cancelled when the client of this request has dropped it.
    gone: CancellationToken,
}

impl Seen {
    fn method(&self) -> &str {
        self.body["method"].as_str().unwrap()
    }

    fn meta(&self, key: &str) -> &Value {
        &self.body["params"]["_meta"][format!("io.modelcontextprotocol/{key}")]
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }
}

/// The server: says what it was told to say, in order, by method.
#[derive(Default)]
struct Server {
    seen: Mutex<Vec<Seen>>,
    script: Mutex<VecDeque<(&'static str, Said)>>,
}

impl Server {
    fn say(&self, method: &'static str, said: Said) {
        self.script.lock().unwrap().push_back((method, said));
    }

    fn live(&self, method: &'static str) -> mpsc::UnboundedSender<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.say(method, Said::Live(receiver));
        sender
    }

    fn seen(&self, method: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|s| s.method() == method).cloned().collect()
    }

    fn next(&self, method: &str) -> Said {
        let mut script = self.script.lock().unwrap();
        match script.iter().position(|(of, _)| *of == method) {
            Some(at) => script.remove(at).unwrap().1,
            None if method == "server/discover" => Said::Result(discovered()),
            None => panic!("nothing to say to {method}"),
        }
    }

    fn check(request: &Request<Bytes>) -> Seen {
        let Ok(Body::Object(read)) = message::parse(request.body()) else { panic!("not a message") };
        let classified = era::classify(request.headers(), Some(&read));
        assert_eq!((classified.era, classified.refusal), (Era::Modern, None));
        assert_eq!(read.refusal(false), None);
        let tools = ToolSet::from_list_result(TOOLS.as_bytes()).unwrap();
        let tool = read.name.as_deref().and_then(|n| tools.get(n)).map(|t| &**t);
        headers::check(request.headers(), &read, tool).unwrap();
        assert!(read.has_client_capabilities);
        for name in ["mcp-session-id", "last-event-id"] {
            assert!(!request.headers().contains_key(name), "{name}");
        }
        Seen {
            headers: request.headers().clone(),
            text: String::from_utf8(request.body().to_vec()).unwrap(),
            body: serde_json::from_slice(request.body()).unwrap(),
            gone: CancellationToken::new(),
        }
    }
}

impl Upstream for Server {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        let seen = Self::check(&request);
        let id = seen.body["id"].to_string();
        let guard = seen.gone.clone().drop_guard();
        let said = self.next(seen.method());
        self.seen.lock().unwrap().push(seen);
        Box::pin(async move {
            let put = move |text: String| text.replace("$ID", &id);
            Ok(match said {
                Said::Result(mut result) => {
                    if result.get("resultType").is_none() {
                        result["resultType"] = "complete".into();
                    }
                    let text = put(format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#));
                    body::json(StatusCode::OK, text)
                }
                Said::Raw(status, kind, text) => {
                    let mut response = Response::new(body::whole(put(text)));
                    *response.status_mut() = StatusCode::from_u16(status).unwrap();
                    response.headers_mut().insert("content-type", kind.parse().unwrap());
                    response.headers_mut().insert("retry-after", 7.into());
                    response
                }
                Said::Events(messages) => body::streamed(body::stream(move |events| async move {
                    for message in messages {
                        events.message(&put(message)).await.unwrap();
                    }
                })),
                Said::Live(mut messages) => body::streamed(body::stream(move |events| async move {
                    let _guard = guard;
                    while let Some(message) = messages.recv().await {
                        events.message(&put(message)).await.unwrap();
                    }
                })),
                Said::Never => {
                    let _guard = guard;
                    std::future::pending().await
                }
                Said::Unreachable => return Err(UpstreamError::Connect("refused".into())),
            })
        })
    }
}

fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "completions": {},
                         "logging": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}, "experimental": {"x": {}}},
        "instructions": "Be kind.", "ttlMs": 60_000, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "srv", "version": "3", "title": "T", "icons": []}}
    })
}

/// A legacy client.
#[derive(Clone)]
struct Client {
    face: Arc<Face>,
    session: Option<String>,
    principal: &'static str,
    accept: &'static str,
    version: Option<&'static str>,
}

/// A whole answer.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    async fn of(response: Response<ResponseBody>) -> Self {
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Self { status: head.status.as_u16(), headers: head.headers, text }
    }
}

fn sealer() -> Arc<Sealer> {
    Arc::new(Sealer::new([&b"key"[..]]))
}

fn face(server: &Arc<Server>) -> Arc<Face> {
    let tools = ToolSet::from_list_result(TOOLS.as_bytes()).unwrap();
    let find: super::FindTool = Arc::new(move |name| tools.get(name).cloned());
    Arc::new(Face::new(Arc::clone(server) as Arc<dyn Upstream>, sealer(), find))
}

fn setup() -> (Arc<Server>, Client) {
    let server = Arc::new(Server::default());
    let client = Client {
        face: face(&server),
        session: None,
        principal: "ada",
        accept: "application/json, text/event-stream",
        version: None,
    };
    (server, client)
}

/// A client with a session of this revision that can do everything.
async fn joined(revision: &str) -> (Arc<Server>, Client) {
    let all = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    joined_with(revision, &all).await
}

async fn joined_with(revision: &str, capabilities: &Value) -> (Arc<Server>, Client) {
    let (server, mut client) = setup();
    client.initialize(revision, capabilities).await;
    (server, client)
}

impl Client {
    async fn initialize(&mut self, revision: &str, capabilities: &Value) -> Value {
        let params = json!({"protocolVersion": revision, "capabilities": capabilities,
                            "clientInfo": {"name": "cli", "version": "9"}});
        let reply = self.ask("initialize", &params).await;
        self.session = reply.headers.get("mcp-session-id").map(|v| v.to_str().unwrap().to_owned());
        reply.body()["result"].clone()
    }

    fn request(&self, method: Method, body: impl Into<Bytes>) -> Request<Bytes> {
        let mut request = Request::new(body.into());
        *request.method_mut() = method;
        let headers = request.headers_mut();
        headers.insert("accept", self.accept.parse().unwrap());
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("x-custom", "kept".parse().unwrap());
        headers.insert("mcp-param-region", "smuggled".parse().unwrap());
        if let Some(session) = &self.session {
            headers.insert("mcp-session-id", session.parse().unwrap());
        }
        if let Some(version) = self.version {
            headers.insert("mcp-protocol-version", version.parse().unwrap());
        }
        request.extensions_mut().insert(Caller { name: self.principal.into(), ..Caller::default() });
        request.extensions_mut().insert(Hops::default());
        request
    }

    async fn open(&self, method: Method, body: impl Into<Bytes>) -> Response<ResponseBody> {
        self.face.call(self.request(method, body)).await.unwrap()
    }

    async fn post(&self, body: impl Into<Bytes>) -> Reply {
        Reply::of(self.open(Method::POST, body).await).await
    }

    async fn ask(&self, method: &str, params: &Value) -> Reply {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.post(call.to_string()).await
    }

    async fn call_tool(&self) -> Reply {
        self.ask("tools/call", &json!({"name": "t", "arguments": {}})).await
    }

    /// Opens a call whose answer is read message by message.
    async fn start(&self, method: &str, params: &Value) -> Messages {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        events(self.open(Method::POST, call.to_string()).await)
    }

    async fn answer(&self, id: &Value, result: &Value) -> Reply {
        self.post(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).await
    }
}

fn events(response: Response<ResponseBody>) -> Messages {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    Messages::new(response.into_body())
}

async fn next(messages: &mut Messages) -> Option<Value> {
    messages.next().await.unwrap().map(|m| serde_json::from_slice(&m).unwrap())
}
