//! The face over a scripted modern server, row by row of the table "legacy client -> modern server".

mod bounds;
mod calls;
mod changes;
mod questions;
mod revisions;
mod schemas;
mod server;
mod sessions;
mod transports;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Face, Limits, Settings, Tools, body, messages::Messages};
use server::{Said, Server, TOOLS};

use crate::{
    bridge::{hops::Hops, sealed::Sealer},
    mcp::tools::{Tool, ToolSet},
    upstream::{BoxFuture, Caller, ResponseBody, Upstream, UpstreamError},
};

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

fn settings() -> Settings {
    let limits = Limits::default();
    Settings { answer_within: Duration::from_secs(300), limits, names_sessions: false }
}

fn face(server: &Arc<Server>) -> Arc<Face> {
    face_with(server, settings())
}

/// The catalog of a test: the server's list, or an older one until it is asked to read it again.
#[derive(Default)]
struct Listed {
    stale: AtomicBool,
    relists: AtomicU64,
}

impl Tools for Arc<Listed> {
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        let tools = ToolSet::from_list_result(TOOLS.as_bytes()).unwrap();
        tools.get(name).filter(|_| !self.stale.load(Relaxed)).cloned()
    }

    fn version(&self) -> u64 {
        self.relists.load(Relaxed)
    }

    fn relisted(&self, version: u64) -> BoxFuture<'_, bool> {
        assert_eq!(version, self.relists.fetch_add(1, Relaxed));
        Box::pin(std::future::ready(self.stale.swap(false, Relaxed)))
    }
}

fn face_with(server: &Arc<Server>, settings: Settings) -> Arc<Face> {
    let listed = Box::new(Arc::<Listed>::default());
    Arc::new(Face::new(Arc::clone(server) as Arc<dyn Upstream>, sealer(), listed, settings, None))
}

fn face_that_knows(server: &Arc<Server>, listed: Arc<Listed>) -> Arc<Face> {
    let server = Arc::clone(server) as Arc<dyn Upstream>;
    Arc::new(Face::new(server, sealer(), Box::new(listed), settings(), None))
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
