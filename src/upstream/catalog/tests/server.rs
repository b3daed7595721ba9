//! Small MCP servers on loopback that a test scripts: strict about what they are sent, and they remember it.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use crate::upstream::{BodyError, ResponseBody};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) verb: Method,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or("")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

type Handler = Arc<dyn Fn(&Seen) -> Response<ResponseBody> + Send + Sync>;

/// A running server; stops, with all its connections, when dropped.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(super) async fn start(
        handler: impl Fn(&Seen) -> Response<ResponseBody> + Send + Sync + 'static,
    ) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.expect("a free port"), handler)
    }

    pub(super) fn on(
        listener: TcpListener,
        handler: impl Fn(&Seen) -> Response<ResponseBody> + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(accept(listener, Arc::new(handler), seen.clone()));
        Self { address, seen, task }
    }

    /// How many requests called `method` came.
    pub(super) fn count(&self, method: &str) -> usize {
        self.all().iter().filter(|seen| seen.method() == method).count()
    }

    /// Everything that came.
    pub(super) fn all(&self) -> Vec<Seen> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

async fn accept(listener: TcpListener, handler: Handler, seen: Arc<Mutex<Vec<Seen>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let (handler, seen) = (handler.clone(), seen.clone());
        connections.spawn(async move {
            let service =
                hyper::service::service_fn(move |request| answer(request, handler.clone(), seen.clone()));
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await,
            );
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    handler: Handler,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<ResponseBody>, Infallible> {
    let (head, body) = request.into_parts();
    let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = serde_json::from_slice(&bytes).unwrap_or_default();
    let one = Seen { verb: head.method, headers: head.headers, body };
    seen.lock().expect("not poisoned").push(one.clone());
    Ok(handler(&one))
}

/// A response of this type and text.
pub(super) fn text(status: u16, media_type: &str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    let builder = Response::builder().status(status).header("content-type", media_type);
    builder.body(body).expect("valid parts")
}

/// An empty response.
pub(super) fn empty(status: u16) -> Response<ResponseBody> {
    let mut response = text(status, "", "");
    response.headers_mut().clear();
    response
}

/// A JSON-RPC result for the request.
pub(super) fn result(seen: &Seen, result: Value) -> Response<ResponseBody> {
    let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    text(200, "application/json", message.to_string())
}

/// A JSON-RPC error for the request.
pub(super) fn error(seen: &Seen, status: u16, code: i64, data: Value) -> Response<ResponseBody> {
    let error = json!({"code": code, "message": "no; the token was hunter2", "data": data});
    text(
        status,
        "application/json",
        json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}).to_string(),
    )
}

/// A `tools/list` result that names these.
pub(super) fn tools(names: &[&str]) -> Value {
    let tools: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({ "tools": tools })
}

/// The writing end of an open event stream; the stream ends when it is dropped.
#[derive(Clone)]
pub(super) struct Events(UnboundedSender<Bytes>);

impl Events {
    pub(super) fn send(&self, message: &Value) {
        // The reader may have gone: that is for the test to see.
        drop(self.0.send(format!("data: {message}\n\n").into()));
    }
}

/// An open event stream.
pub(super) fn stream() -> (Response<ResponseBody>, Events) {
    let (sender, receiver) = unbounded_channel();
    let body = ChannelBody(receiver).boxed_unsync();
    let builder =
        Response::builder().status(StatusCode::OK).header("content-type", "text/event-stream; charset=utf-8");
    (builder.body(body).expect("valid parts"), Events(sender))
}

struct ChannelBody(UnboundedReceiver<Bytes>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
