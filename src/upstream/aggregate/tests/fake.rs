//! Scripted servers of the modern dialect, in this process. They refuse what a strict SDK refuses and remember what
//! they were sent.

use std::{
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    mcp::{headers, message},
    upstream::{BodyError, BoxFuture, ResponseBody, Upstream, UpstreamError},
};

/// What a script does with a request.
pub(super) enum Act {
    Result(Value),
    Answer(Response<ResponseBody>),
    Hang,
    Refuse,
}

#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
    pub(super) text: String,
}

impl Seen {
    pub(super) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }
}

type Script = Box<dyn Fn(&Seen) -> Option<Act> + Send + Sync>;

pub(super) struct Fake {
    /// What each list method answers, as its result without hints.
    pub(super) lists: Mutex<Value>,
    pub(super) capabilities: Mutex<Value>,
    pub(super) instructions: Option<String>,
    pub(super) ttl_ms: u64,
    pub(super) scope: &'static str,
    script: Mutex<Option<Script>>,
    seen: Mutex<Vec<Seen>>,
    streams: Mutex<Vec<UnboundedSender<Bytes>>>,
}

/// A tool with one text parameter.
pub(super) fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"),
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}}})
}

impl Fake {
    pub(super) fn with(lists: Value) -> Arc<Self> {
        Arc::new(Self::new(lists))
    }

    pub(super) fn new(lists: Value) -> Self {
        let mut capabilities = json!({"tools": {"listChanged": true}});
        for (member, capability) in
            [("prompts", "prompts"), ("resources", "resources"), ("resourceTemplates", "resources")]
        {
            if lists.get(member).is_some() {
                capabilities[capability] = json!({"listChanged": true, "subscribe": true});
            }
        }
        Self {
            lists: Mutex::new(lists),
            capabilities: Mutex::new(capabilities),
            instructions: None,
            ttl_ms: 60_000,
            scope: "public",
            script: Mutex::default(),
            seen: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    /// With the tasks extension: a call of its tool `long` becomes the task `1`.
    pub(super) fn with_tasks() -> Arc<Self> {
        let fake = Self::tools(&["long"]);
        fake.capabilities.lock().unwrap()["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
        fake.script(|seen| match seen.method() {
            "tools/call" => Some(Act::Result(task("task", "working"))),
            "tasks/get" => Some(Act::Result(task("complete", "completed"))),
            "tasks/update" | "tasks/cancel" => Some(Act::Result(json!({"resultType": "complete"}))),
            _ => None,
        });
        fake
    }

    pub(super) fn tools(names: &[&str]) -> Arc<Self> {
        Self::with(json!({"tools": names.iter().map(|n| tool(n)).collect::<Vec<_>>()}))
    }

    /// From now on this comes before everything else.
    pub(super) fn script(&self, script: impl Fn(&Seen) -> Option<Act> + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Some(Box::new(script));
    }

    pub(super) fn all(&self, method: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|s| s.method() == method).cloned().collect()
    }

    pub(super) fn last(&self, method: &str) -> Seen {
        self.all(method).pop().expect("it was sent")
    }

    /// Sends on every open stream; the id of its own subscription is put in.
    pub(super) fn tell(&self, message: &Value) {
        let all = self.streams.lock().unwrap();
        all.iter().for_each(|s| drop(s.send(format!("data: {message}\n\n").into())));
    }

    pub(super) fn end_streams(&self) {
        self.streams.lock().unwrap().clear();
    }

    pub(super) fn open_streams(&self) -> usize {
        self.streams.lock().unwrap().iter().filter(|s| !s.is_closed()).count()
    }

    fn answer(&self, seen: &Seen) -> Act {
        if let Some(act) = self.script.lock().unwrap().as_ref().and_then(|script| script(seen)) {
            return act;
        }
        let hints = json!({"resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": self.scope});
        let with_hints = |mut value: Value| {
            value.as_object_mut().unwrap().append(&mut hints.as_object().unwrap().clone());
            Act::Result(value)
        };
        let lists = self.lists.lock().unwrap().clone();
        let list = |member: &str| {
            with_hints(json!({member: lists.get(member).cloned().unwrap_or_else(|| json!([]))}))
        };
        match seen.method() {
            "server/discover" => {
                let mut found = json!({"supportedVersions": ["2026-07-28"]});
                found["capabilities"] = self.capabilities.lock().unwrap().clone();
                if let Some(text) = &self.instructions {
                    found["instructions"] = text.clone().into();
                }
                with_hints(found)
            }
            "tools/list" => list("tools"),
            "prompts/list" => list("prompts"),
            "resources/list" => list("resources"),
            "resources/templates/list" => list("resourceTemplates"),
            "tools/call" => Act::Result(json!({"resultType": "complete", "content": [{"type": "text",
                "text": format!("{} {}", seen.body["params"]["name"], seen.body["params"]["arguments"])}]})),
            "subscriptions/listen" => {
                let (response, sender) = stream();
                let meta = json!({"io.modelcontextprotocol/subscriptionId": seen.body["id"]});
                let params = json!({"notifications": seen.body["params"]["notifications"], "_meta": meta});
                let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
                sender.send(format!("data: {ack}\n\n").into()).unwrap();
                self.streams.lock().unwrap().push(sender);
                Act::Answer(response)
            }
            _ => Act::Result(json!({"resultType": "complete", "echo": seen.body["params"]})),
        }
    }
}

impl Upstream for Fake {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        let (head, body) = call.into_parts();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let message::Body::Object(parsed) = message::parse(&body).unwrap() else { panic!("no object") };
        headers::check(&head.headers, &parsed, None)
            .unwrap_or_else(|e| panic!("{e:?} {text} {:?}", head.headers));
        assert_eq!(parsed.refusal(false), None, "{text}");
        let seen = Seen { headers: head.headers, body: serde_json::from_str(&text).unwrap(), text };
        self.seen.lock().unwrap().push(seen.clone());
        let act = self.answer(&seen);
        Box::pin(async move {
            match act {
                Act::Result(result) => {
                    Ok(json_answer(200, &json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})))
                }
                Act::Answer(answer) => Ok(answer),
                Act::Hang => pending().await,
                Act::Refuse => Err(UpstreamError::Connect("refused".into())),
            }
        })
    }
}

/// The task `1` of every such fake.
pub(super) fn task(kind: &str, status: &str) -> Value {
    let mut task = json!({"resultType": kind, "taskId": "1", "status": status, "createdAt": "2026-12-01T00:00:00Z",
        "lastUpdatedAt": "2026-12-01T00:00:00Z", "ttlMs": null});
    if status == "completed" {
        task["result"] = json!({"content": [{"type": "resource_link", "uri": "x://linked", "name": "l"}]});
    }
    task
}

pub(super) fn json_answer(status: u16, value: &Value) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(value.to_string())).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).header("content-type", "application/json").body(body).unwrap()
}

/// An open event stream.
pub(super) fn stream() -> (Response<ResponseBody>, UnboundedSender<Bytes>) {
    let (sender, receiver) = unbounded_channel();
    let body = Channel(receiver).boxed_unsync();
    (Response::builder().header("content-type", "text/event-stream").body(body).unwrap(), sender)
}

struct Channel(UnboundedReceiver<Bytes>);

impl Body for Channel {
    type Data = Bytes;
    type Error = BodyError;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
