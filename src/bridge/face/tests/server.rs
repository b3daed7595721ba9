//! The scripted modern server. It checks of every request that it is a valid modern one.

use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::body;
use crate::{
    mcp::{
        era::{self, Era},
        headers,
        message::{self, Body},
        tools::ToolSet,
    },
    upstream::{BoxFuture, ResponseBody, Upstream, UpstreamError},
};

pub(super) const TOOLS: &str = r#"{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"}}}}]}"#;

/// What the server says to one request. `$ID` stands for the request's id.
pub(super) enum Said {
    /// This result, as JSON.
    Result(Value),
    /// This, whatever it is.
    Raw(u16, &'static str, String),
    /// These messages as events, then the end.
    Events(Vec<String>),
    /// Messages, or comments with their end, as they are sent, until the sender is dropped.
    Live(mpsc::UnboundedReceiver<String>),
    /// Never a head.
    Never,
    /// No connection.
    Unreachable,
}

/// A request as the server got it.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
    /// Cancelled when the client of this request has dropped it.
    pub(super) gone: CancellationToken,
}

impl Seen {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap()
    }

    pub(super) fn meta(&self, key: &str) -> &Value {
        &self.body["params"]["_meta"][format!("io.modelcontextprotocol/{key}")]
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|v| v.to_str().unwrap())
    }
}

/// The server: says what it was told to say, in order, by method.
#[derive(Default)]
pub(super) struct Server {
    pub(super) seen: Mutex<Vec<Seen>>,
    pub(super) script: Mutex<VecDeque<(&'static str, Said)>>,
    /// Its tools are others than some clients know: mirrored headers may be wrong.
    pub(super) has_moved: AtomicBool,
}

impl Server {
    pub(super) fn say(&self, method: &'static str, said: Said) {
        self.script.lock().unwrap().push_back((method, said));
    }

    pub(super) fn live(&self, method: &'static str) -> mpsc::UnboundedSender<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.say(method, Said::Live(receiver));
        sender
    }

    pub(super) fn seen(&self, method: &str) -> Vec<Seen> {
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

    fn check(&self, request: &Request<Bytes>) -> Seen {
        let Ok(Body::Object(read)) = message::parse(request.body()) else { panic!("not a message") };
        let classified = era::classify(request.headers(), Some(&read));
        assert_eq!((classified.era, classified.refusal), (Era::Modern, None));
        assert_eq!(read.refusal(false), None);
        let tools = ToolSet::from_list_result(TOOLS.as_bytes()).unwrap();
        let tool = read.name.as_deref().and_then(|n| tools.get(n)).map(|t| &**t);
        let tool = tool.filter(|_| !self.has_moved.load(Relaxed));
        headers::check(request.headers(), &read, tool).unwrap();
        assert!(read.client_capabilities.is_some());
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
        let seen = self.check(&request);
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
                        if message.starts_with(':') {
                            events.raw(message).await.unwrap();
                            continue;
                        }
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

pub(super) fn discovered() -> Value {
    json!({
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "completions": {},
                         "logging": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}, "experimental": {"x": {}}},
        "instructions": "Be kind.", "ttlMs": 60_000, "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "srv", "version": "3", "title": "T", "icons": []}}
    })
}
