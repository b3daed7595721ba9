//! A legacy server that a test scripts, without a network: it opens sessions, takes notices, and remembers all.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::upstream::{BodyError, BoxFuture, OneStream, ResponseBody, Upstream, UpstreamError};

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

/// What a script does with a request.
pub(super) enum Does {
    Answer(Response<ResponseBody>),
    /// What every server does.
    AsUsual,
    /// Nothing, ever.
    Hang,
    /// No connection.
    Refuse,
}

impl From<Response<ResponseBody>> for Does {
    fn from(response: Response<ResponseBody>) -> Self {
        Self::Answer(response)
    }
}

pub(super) type Script = Box<dyn Fn(&Seen) -> Does + Send + Sync>;

/// See the module.
pub(super) struct Fake {
    pub(super) script: Script,
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) live: Mutex<HashSet<String>>,
    pub(super) version: &'static str,
    pub(super) capabilities: Value,
    pub(super) stateless: bool,
    pub(super) one_stream: Option<OneStream>,
    pub(super) opened: AtomicUsize,
}

impl Fake {
    pub(super) fn new(script: impl Fn(&Seen) -> Does + Send + Sync + 'static) -> Self {
        let list = json!({"listChanged": true});
        Self {
            script: Box::new(script),
            seen: Mutex::default(),
            live: Mutex::default(),
            version: "2025-11-25",
            capabilities: json!({"tools": list, "prompts": list, "logging": {},
                "resources": {"listChanged": true, "subscribe": true}, "tasks": {}}),
            stateless: false,
            one_stream: None,
            opened: AtomicUsize::new(0),
        }
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests and notifications of this method.
    pub(super) fn of(&self, method: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.method() == method).collect()
    }

    pub(super) fn verbs(&self, verb: &Method) -> Vec<Seen> {
        self.all().into_iter().filter(|seen| seen.verb == *verb).collect()
    }

    /// The responses that were posted.
    pub(super) fn responses(&self) -> Vec<Value> {
        let is_response = |body: &Value| body.get("method").is_none() && body.get("id").is_some();
        self.all().into_iter().map(|seen| seen.body).filter(is_response).collect()
    }

    /// As a restart would.
    pub(super) fn forget_sessions(&self) {
        self.live.lock().unwrap().clear();
    }

    pub(super) fn sessions(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    fn usual(&self, seen: &Seen) -> Response<ResponseBody> {
        let session = seen.header("mcp-session-id");
        if seen.method() == "initialize" {
            let mut response = result(
                seen,
                json!({"protocolVersion": self.version, "capabilities": self.capabilities,
                    "serverInfo": {"name": "fake", "version": "1"}, "instructions": "be kind"}),
            );
            if let Some(one_stream) = self.one_stream {
                response.extensions_mut().insert(one_stream);
            }
            if !self.stateless {
                let id = format!("s{}", self.opened.fetch_add(1, Relaxed) + 1);
                self.live.lock().unwrap().insert(id.clone());
                response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
            }
            return response;
        }
        match (&seen.verb, seen.method()) {
            (&Method::DELETE, _) => {
                self.live.lock().unwrap().remove(session.unwrap_or_default());
                empty(200)
            }
            (&Method::GET, _) => empty(405),
            (_, "") => empty(202),
            (_, method) if method.starts_with("notifications/") => empty(202),
            _ => result(seen, json!({})),
        }
    }
}

impl Upstream for Fake {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            let (head, body) = call.into_parts();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let seen = Seen { verb: head.method, headers: head.headers, body };
            self.seen.lock().unwrap().push(seen.clone());
            // As over a socket: the sender gets on with other things meanwhile.
            tokio::task::yield_now().await;
            let unknown =
                seen.header("mcp-session-id").is_some_and(|s| !self.live.lock().unwrap().contains(s));
            if unknown {
                let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}});
                return Ok(text(404, "application/json", error.to_string()));
            }
            match (self.script)(&seen) {
                Does::Answer(response) => Ok(response),
                Does::AsUsual => Ok(self.usual(&seen)),
                Does::Hang => std::future::pending().await,
                Does::Refuse => Err(UpstreamError::Connect("refused".into())),
            }
        })
    }
}

pub(super) fn text(status: u16, media_type: &str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).header("content-type", media_type).body(body).unwrap()
}

pub(super) fn empty(status: u16) -> Response<ResponseBody> {
    let mut response = text(status, "x/y", "");
    response.headers_mut().clear();
    response
}

pub(super) fn result(seen: &Seen, result: Value) -> Response<ResponseBody> {
    let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    text(200, "application/json", message.to_string())
}

pub(super) fn error(seen: &Seen, status: u16, error: Value) -> Response<ResponseBody> {
    let message = json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error});
    text(status, "application/json", message.to_string())
}

/// The writing end of a stream of the server.
#[derive(Clone)]
pub(super) struct Events(UnboundedSender<Bytes>);

impl Events {
    pub(super) fn raw(&self, text: impl Into<Bytes>) {
        // The reader may have gone: that is for the test to see.
        drop(self.0.send(text.into()));
    }

    pub(super) fn send(&self, message: &Value) {
        self.raw(format!("event: message\ndata: {message}\n\n"));
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

pub(super) fn stream() -> (Response<ResponseBody>, Events) {
    let (sender, receiver) = unbounded_channel();
    let builder = Response::builder().header("content-type", "text/event-stream; charset=utf-8");
    (builder.body(Stream(receiver).boxed_unsync()).unwrap(), Events(sender))
}

struct Stream(UnboundedReceiver<Bytes>);

impl Body for Stream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A place where a script leaves the streams that it opened.
#[derive(Clone, Default)]
pub(super) struct Streams(Arc<Mutex<Vec<(Seen, Events)>>>);

impl Streams {
    pub(super) fn open(&self, seen: &Seen) -> Response<ResponseBody> {
        let (response, events) = stream();
        self.0.lock().unwrap().push((seen.clone(), events));
        response
    }

    /// The `n`th stream, as soon as it is open.
    pub(super) async fn nth(&self, n: usize) -> (Seen, Events) {
        until("a stream is open", || self.0.lock().unwrap().len() > n).await;
        self.0.lock().unwrap()[n].clone()
    }

    /// Ends the `n`th.
    pub(super) fn end(&self, n: usize) {
        let (response, events) = stream();
        drop(response);
        self.0.lock().unwrap()[n].1 = events;
    }
}

/// Waits for something that other tasks bring about.
pub(super) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not in time: {what}");
}
