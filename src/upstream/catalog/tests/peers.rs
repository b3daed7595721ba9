//! Two well-behaved servers for the tests, one of each era. They refuse what a strict SDK refuses.

use std::sync::{Arc, Mutex};

use http::{Method, Response};
use serde_json::{Value, json};

use super::server::{Events, Seen, empty, error, result, stream, text, tools};
use crate::upstream::ResponseBody;

pub(super) const CHANGED: &str = "notifications/tools/list_changed";

/// A server whose tools a test changes.
pub(super) struct Peer {
    pub(super) tools: Mutex<Vec<&'static str>>,
    /// Legacy: sessions that are open. `None` for a server without sessions.
    pub(super) sessions: Option<Mutex<Vec<String>>>,
    /// Whether changes are told.
    pub(super) tells: bool,
    /// Streams on which they are told.
    pub(super) streams: Mutex<Vec<Events>>,
    /// Modern: `ttlMs`.
    pub(super) ttl_ms: u64,
}

impl Peer {
    pub(super) fn new(names: &[&'static str]) -> Self {
        Self {
            tools: Mutex::new(names.to_vec()),
            sessions: None,
            tells: false,
            streams: Mutex::default(),
            ttl_ms: 0,
        }
    }

    pub(super) fn telling(names: &[&'static str]) -> Arc<Self> {
        Arc::new(Self { tells: true, sessions: Some(Mutex::default()), ..Self::new(names) })
    }

    pub(super) fn set(&self, names: &[&'static str]) {
        *self.tools.lock().expect("not poisoned") = names.to_vec();
    }

    pub(super) fn tell(&self, message: &Value) {
        self.streams.lock().expect("not poisoned").iter().for_each(|stream| stream.send(message));
    }

    pub(super) fn open_streams(&self) -> usize {
        self.streams.lock().expect("not poisoned").len()
    }

    pub(super) fn end_streams(&self) {
        self.streams.lock().expect("not poisoned").clear();
    }

    pub(super) fn forget_sessions(&self) {
        self.sessions.as_ref().expect("has sessions").lock().expect("not poisoned").clear();
        self.end_streams();
    }

    fn list(&self) -> Value {
        tools(&self.tools.lock().expect("not poisoned"))
    }

    fn open_stream(&self) -> (Response<ResponseBody>, Events) {
        let (response, events) = stream();
        self.streams.lock().expect("not poisoned").push(events.clone());
        (response, events)
    }

    /// Answers as a server of 2025-11-25.
    pub(super) fn legacy(&self, seen: &Seen) -> Response<ResponseBody> {
        if seen.method() == "initialize" {
            return self.open_session(seen);
        }
        if let Some(refusal) = self.check_session(seen) {
            return refusal;
        }
        match (&seen.verb, seen.method()) {
            (&Method::GET, _) if self.tells && seen.header("accept") == Some("text/event-stream") => {
                self.open_stream().0
            }
            (&Method::GET, _) => empty(405),
            (&Method::DELETE, _) => {
                let sessions = self.sessions.as_ref().map(|open| open.lock().expect("not poisoned"));
                sessions.into_iter().for_each(|mut open| {
                    open.retain(|id| Some(id.as_str()) != seen.header("mcp-session-id"))
                });
                empty(200)
            }
            (_, "tools/list") => result(seen, self.list()),
            _ if seen.body.get("method").is_none() || seen.body.get("id").is_none() => empty(202),
            _ => error(seen, 200, -32601, Value::Null),
        }
    }

    fn open_session(&self, seen: &Seen) -> Response<ResponseBody> {
        assert_eq!(seen.header("mcp-protocol-version"), None, "initialize carries no version header");
        let capabilities = json!({"tools": {"listChanged": self.tells}});
        let info = json!({"name": "peer", "version": "1"});
        let body = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info});
        let mut response = result(seen, body);
        if let Some(sessions) = &self.sessions {
            let mut open = sessions.lock().expect("not poisoned");
            let id = format!("session-{}", ulid::Ulid::generate());
            response.headers_mut().insert("mcp-session-id", id.parse().expect("valid"));
            open.push(id);
        }
        response
    }

    fn check_session(&self, seen: &Seen) -> Option<Response<ResponseBody>> {
        let sessions = self.sessions.as_ref()?.lock().expect("not poisoned");
        match seen.header("mcp-session-id") {
            None => Some(error(seen, 400, -32000, Value::Null)),
            Some(id) if !sessions.iter().any(|open| open == id) => {
                Some(error(seen, 404, -32001, Value::Null))
            }
            Some(_) if seen.header("mcp-protocol-version") != Some("2025-11-25") => Some(empty(400)),
            Some(_) => None,
        }
    }

    /// Answers as a server of 2026-07-28.
    pub(super) fn modern(&self, seen: &Seen) -> Response<ResponseBody> {
        let version = seen
            .body
            .pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion")
            .and_then(Value::as_str);
        if seen.verb != Method::POST {
            return empty(405);
        }
        let mirrored = version.is_some()
            && version == seen.header("mcp-protocol-version")
            && seen.header("mcp-method") == Some(seen.method());
        if !mirrored {
            return error(seen, 400, -32020, Value::Null);
        }
        if version != Some("2026-07-28") {
            return error(seen, 400, -32022, json!({"supported": ["2026-07-28"], "requested": version}));
        }
        let hints = json!({"resultType": "complete", "ttlMs": self.ttl_ms, "cacheScope": "public"});
        match seen.method() {
            "server/discover" => {
                let capabilities = json!({"tools": {"listChanged": self.tells}});
                result(
                    seen,
                    merged(hints, json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})),
                )
            }
            "tools/list" => result(seen, merged(hints, self.list())),
            "subscriptions/listen" if self.tells => {
                let (response, events) = self.open_stream();
                let meta = json!({"io.modelcontextprotocol/subscriptionId": seen.body["id"]});
                let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
                events.send(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}));
                response
            }
            _ => error(seen, 404, -32601, Value::Null),
        }
    }
}

fn merged(mut a: Value, b: Value) -> Value {
    a.as_object_mut().expect("an object").append(&mut b.as_object().expect("an object").clone());
    a
}

/// A server that is no MCP server at all.
pub(super) fn html(_: &Seen) -> Response<ResponseBody> {
    text(200, "text/html", "<html>password: hunter2</html>")
}
