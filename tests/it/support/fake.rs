//! An MCP server inside the test process. It answers the gateway's own questions by itself, in the era that
//! the test chose, and gives every forwarded call to the test's script.

use crate::support::free::free;
use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use smartgate::upstream::ResponseBody;
use tokio::{
    net::TcpListener,
    sync::mpsc,
    task::{AbortHandle, JoinHandle},
};

use super::until;

/// What an upstream answers with.
pub(crate) type Reply = Response<ResponseBody>;

/// A request as the upstream received it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The JSON-RPC method.
    pub(crate) fn rpc(&self) -> String {
        self.json()["method"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// How the server behaves toward the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Legacy,
    /// The legacy era, without sessions, and it tells of no changes.
    LegacyAndSilent,
    Modern,
    /// The modern era, and it tells of no changes.
    ModernAndSilent,
    /// The modern era, with its extension for tasks.
    Tasks,
    /// The modern era, with the resource `a://x`, which may be subscribed to.
    Resources,
    /// The modern era, and legacy clients as well.
    Both,
    /// 401 to whoever comes without `Authorization`.
    OnlyWithCredentials,
}

struct Shared {
    speaks: Speaks,
    tools: Mutex<Value>,
    calls: Mutex<Vec<Seen>>,
    changes: Mutex<Vec<mpsc::Sender<Bytes>>>,
    lists: AtomicUsize,
    connections: Mutex<Vec<AbortHandle>>,
}

/// A running upstream.
pub(crate) struct Fake {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
    accept: JoinHandle<()>,
}

type Script = Arc<dyn Fn(Seen) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

impl Fake {
    /// A legacy server that answers as [`mcp`] does.
    pub(crate) async fn plain() -> Self {
        Self::start(|seen| async move { mcp(&seen) }).await
    }

    /// A legacy server with a script.
    pub(crate) async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Seen) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::speaking(Speaks::Legacy, script).await
    }

    pub(crate) async fn speaking<F, R>(speaks: Speaks, script: F) -> Self
    where
        F: Fn(Seen) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        Self::at("127.0.0.1:0".parse().unwrap(), speaks, script).await
    }

    /// The same at an address of the test's choice, for servers that come later.
    pub(crate) async fn at<F, R>(addr: SocketAddr, speaks: Speaks, script: F) -> Self
    where
        F: Fn(Seen) -> R + Send + Sync + 'static,
        R: Future<Output = Reply> + Send + 'static,
    {
        // A server that is killed leaves its address to nobody but the next one of the test.
        let addr = if addr.port() == 0 { free() } else { addr };
        let listener = TcpListener::bind(addr).await.unwrap();
        let shared = Arc::new(Shared {
            speaks,
            tools: Mutex::new(default_tools()),
            calls: Mutex::default(),
            changes: Mutex::default(),
            lists: AtomicUsize::new(0),
            connections: Mutex::default(),
        });
        let script: Script = Arc::new(move |seen| Box::pin(script(seen)));
        let theirs = Arc::clone(&shared);
        let accept = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                io.set_nodelay(true).unwrap();
                let (shared, script) = (Arc::clone(&theirs), Arc::clone(&script));
                let service = service_fn(move |req| {
                    let (shared, script) = (Arc::clone(&shared), Arc::clone(&script));
                    async move { Ok::<_, Infallible>(answer(&shared, &script, req).await) }
                });
                // A connection that the gateway cuts is what many tests are about.
                let connection = hyper::server::conn::http1::Builder::new()
                    .max_headers(200)
                    .serve_connection(TokioIo::new(io), service);
                let task = tokio::spawn(async move { drop(connection.await) });
                theirs.connections.lock().unwrap().push(task.abort_handle());
            }
        });
        Self { addr, shared, accept }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// Everything that was forwarded so far, without the gateway's own requests.
    pub(crate) fn calls(&self) -> Vec<Seen> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// The only call so far.
    pub(crate) fn only(&self) -> Seen {
        let calls = self.calls();
        assert_eq!(calls.len(), 1, "{calls:?}");
        calls[0].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    /// Waits until so many calls have arrived.
    pub(crate) async fn received(&self, n: usize) {
        until(&format!("{n} calls at the upstream"), || self.count() >= n).await;
    }

    /// Changes the tools and, if streams of changes are open, says so on them.
    pub(crate) async fn set_tools(&self, tools: Value) {
        *self.shared.tools.lock().unwrap() = tools;
        let streams = self.shared.changes.lock().unwrap().clone();
        for stream in streams {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            // A stream that is gone needs no telling.
            drop(stream.send(event(&note.to_string())).await);
        }
    }

    /// Streams of changes that the gateway has opened.
    pub(crate) fn watchers(&self) -> usize {
        self.shared.changes.lock().unwrap().len()
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }

    /// Lists of tools given to the gateway itself.
    pub(crate) fn lists(&self) -> usize {
        self.shared.lists.load(SeqCst)
    }

    /// Ends it as a killed process does: the port is free and every connection is gone.
    pub(crate) async fn kill(self) {
        self.accept.abort();
        // Aborting is what ends it, so its end is an error.
        drop(self.accept.await);
        self.shared.connections.lock().unwrap().iter().for_each(AbortHandle::abort);
    }
}

pub(crate) fn default_tools() -> Value {
    json!([
        {"name": "add", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"name": "files__read", "annotations": {"readOnlyHint": true}, "inputSchema": {"type": "object"}},
        {"name": "files__delete_all", "inputSchema": {"type": "object"}},
        {"name": "fail", "inputSchema": {"type": "object"}}
    ])
}

async fn answer(shared: &Shared, script: &Script, req: Request<Incoming>) -> Reply {
    let (head, body) = req.into_parts();
    let Ok(body) = body.collect().await else { return status(400) };
    let seen = Seen { method: head.method, uri: head.uri, headers: head.headers, body: body.to_bytes() };
    let own = seen.header("user-agent").is_some_and(|a| a.starts_with("smartgate/"));
    if own {
        return own_question(shared, &seen);
    }
    shared.calls.lock().unwrap().push(seen.clone());
    if seen.rpc() == "tools/list" && seen.header("x-script").is_none() {
        let tools = shared.tools.lock().unwrap().clone();
        return result(&seen, &json!({ "tools": tools }));
    }
    script(seen).await
}

/// The gateway asks for itself.
fn own_question(shared: &Shared, seen: &Seen) -> Reply {
    let modern = matches!(
        shared.speaks,
        Speaks::Modern | Speaks::ModernAndSilent | Speaks::Tasks | Speaks::Resources | Speaks::Both
    );
    let extensions = match shared.speaks {
        Speaks::Tasks => json!({"io.modelcontextprotocol/tasks": {}}),
        _ => json!({}),
    };
    let announces = !matches!(shared.speaks, Speaks::ModernAndSilent | Speaks::LegacyAndSilent);
    if shared.speaks == Speaks::OnlyWithCredentials && seen.header("authorization").is_none() {
        return status(401);
    }
    if seen.method == Method::GET {
        return if announces { changes(shared) } else { status(405) };
    }
    match seen.rpc().as_str() {
        "server/discover" if modern => {
            let mut capabilities = json!({"tools": {"listChanged": announces}, "extensions": extensions});
            if shared.speaks == Speaks::Resources {
                capabilities["resources"] = json!({"subscribe": true});
            }
            result(
                seen,
                &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities, "serverInfo": {"name": "fake", "version": "1"}}),
            )
        }
        "resources/list" => {
            let resources = json!([{"uri": "a://x", "name": "x"}]);
            result(seen, &json!({"resultType": "complete", "resources": resources}))
        }
        "resources/templates/list" => {
            result(seen, &json!({"resultType": "complete", "resourceTemplates": []}))
        }
        "server/discover" => error(seen, -32601, "Method not found"),
        "initialize" if modern && shared.speaks != Speaks::Both => error(seen, -32601, "Method not found"),
        "subscriptions/listen" if modern => changes(shared),
        "initialize" => {
            let mut reply = result(
                seen,
                &json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": announces}},
                    "serverInfo": {"name": "fake", "version": "1"}}),
            );
            if !announces {
                return reply;
            }
            reply.headers_mut().insert("mcp-session-id", "gateways-own".parse().unwrap());
            reply
        }
        // Servers of one era do not take the other's requests for their own.
        "tools/list" if shared.speaks == Speaks::Legacy && seen.header("mcp-session-id").is_none() => {
            no_session()
        }
        "tools/list" if modern && seen.header("mcp-protocol-version") != Some("2026-07-28") => no_meta(),
        "tools/list" => {
            shared.lists.fetch_add(1, SeqCst);
            let tools = shared.tools.lock().unwrap().clone();
            result(seen, &json!({"resultType": "complete", "tools": tools}))
        }
        _ => status(202),
    }
}

fn changes(shared: &Shared) -> Reply {
    let (sender, body) = channel();
    shared.changes.lock().unwrap().push(sender);
    sse(body)
}

/// A small legacy MCP server: initialises, adds, fails, and takes notifications.
pub(crate) fn mcp(seen: &Seen) -> Reply {
    let body = seen.json();
    if body.get("id").is_none() {
        return status(202);
    }
    match seen.rpc().as_str() {
        "initialize" => {
            let version = body["params"]["protocolVersion"].clone();
            let mut reply = result(
                seen,
                &json!({"protocolVersion": version, "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fake", "version": "1"}}),
            );
            reply.headers_mut().insert("mcp-session-id", "session-of-the-client".parse().unwrap());
            reply
        }
        "ping" => result(seen, &json!({})),
        "tools/call" => {
            let failed = body["params"]["name"] == "fail";
            result(
                seen,
                &json!({"content": [{"type": "text", "text": body["params"].to_string()}], "isError": failed}),
            )
        }
        _ => error(seen, -32601, "Method not found"),
    }
}

/// The same, and it insists on its sessions, as most do.
pub(crate) fn strict(seen: &Seen) -> Reply {
    match seen.header("mcp-session-id") {
        None if seen.rpc() != "initialize" => no_session(),
        Some(id) if id != "session-of-the-client" => status(404),
        _ => mcp(seen),
    }
}

fn no_session() -> Reply {
    let error = r#"{"code":-32000,"message":"Bad Request: Mcp-Session-Id header is required"}"#;
    json_reply(400, format!(r#"{{"jsonrpc":"2.0","error":{error},"id":null}}"#))
}

/// How a modern server refuses a legacy request.
pub(crate) fn no_meta() -> Reply {
    let error = r#"{"code":-32602,"message":"params._meta lacks io.modelcontextprotocol/protocolVersion"}"#;
    json_reply(400, format!(r#"{{"jsonrpc":"2.0","error":{error},"id":null}}"#))
}

/// The raw text of a message's id.
fn id_text(seen: &Seen) -> String {
    match smartgate::mcp::message::parse(&seen.body) {
        Ok(smartgate::mcp::message::Body::Object(m)) => m.id().unwrap_or("null").to_owned(),
        _ => "null".to_owned(),
    }
}

pub(crate) fn result(seen: &Seen, result: &Value) -> Reply {
    json_reply(200, format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", id_text(seen)))
}

pub(crate) fn error(seen: &Seen, code: i64, message: &str) -> Reply {
    let error = json!({"code": code, "message": message});
    json_reply(200, format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", id_text(seen)))
}

pub(crate) fn json_reply(status: u16, body: impl Into<Bytes>) -> Reply {
    typed(status, "application/json", body)
}

pub(crate) fn typed(status: u16, kind: &str, body: impl Into<Bytes>) -> Reply {
    let mut reply = whole(body);
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply.headers_mut().insert("content-type", kind.parse().unwrap());
    reply
}

pub(crate) fn status(status: u16) -> Reply {
    let mut reply = whole("");
    *reply.status_mut() = StatusCode::from_u16(status).unwrap();
    reply
}

fn whole(body: impl Into<Bytes>) -> Reply {
    Response::new(Full::new(body.into()).map_err(|never| match never {}).boxed_unsync())
}

/// One event with this data.
pub(crate) fn event(data: &str) -> Bytes {
    format!("event: message\ndata: {data}\n\n").into()
}

/// An answer that streams what the other end of the channel is given. When the gateway lets go of it, the
/// sender finds its channel closed.
pub(crate) fn sse(body: ResponseBody) -> Reply {
    let mut reply = Response::new(body);
    reply.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    reply
}

/// A body fed by a channel, of unknown length.
pub(crate) fn channel() -> (mpsc::Sender<Bytes>, ResponseBody) {
    let (sender, receiver) = mpsc::channel(64);
    (sender, Channel(receiver).boxed_unsync())
}

struct Channel(mpsc::Receiver<Bytes>);

impl http_body::Body for Channel {
    type Data = Bytes;
    type Error = smartgate::upstream::BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|next| match next {
            // "BREAK" ends the connection in the middle, as a killed process does.
            Some(bytes) if &bytes[..] == b"BREAK" => Some(Err("broken".into())),
            Some(bytes) => Some(Ok(Frame::data(bytes))),
            None => None,
        })
    }
}
