//! A legacy server inside the test process whose tool `ask` asks its client something in the middle of the call, over a
//! stream, and answers with what it was told. It insists on its sessions, which are gone when it starts again.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::fake::{Fake, Reply, Seen, Speaks, channel, event, mcp, result, sse, status};

/// A running server.
pub(crate) struct Asking {
    pub(crate) fake: Fake,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    sessions: Vec<String>,
    /// Open calls: by the number of the question, the call's id and its stream.
    open: HashMap<u64, (Value, Sender<Bytes>)>,
    asked: u64,
    /// What clients answered: the number of the question and the response.
    answers: Vec<(u64, Value)>,
    /// Ids of calls that were taken back.
    cancelled: Vec<Value>,
}

impl Asking {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn at(addr: SocketAddr) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let theirs = Arc::clone(&state);
        let fake = Fake::at(addr, Speaks::Legacy, move |seen| {
            let theirs = Arc::clone(&theirs);
            async move { answer(&theirs, &seen) }
        })
        .await;
        Self { fake, state }
    }

    /// Calls that wait for their client.
    pub(crate) fn open(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.open.values().filter(|(_, stream)| !stream.is_closed()).count()
    }

    /// How often `ask` was called.
    pub(crate) fn asked(&self) -> u64 {
        self.state.lock().unwrap().asked
    }

    /// What clients answered, in order.
    pub(crate) fn answers(&self) -> Vec<(u64, Value)> {
        self.state.lock().unwrap().answers.clone()
    }

    /// Ids of calls that were taken back.
    pub(crate) fn cancelled(&self) -> usize {
        self.state.lock().unwrap().cancelled.len()
    }
}

fn answer(state: &Mutex<State>, seen: &Seen) -> Reply {
    let body = seen.json();
    let mut state = state.lock().unwrap();
    if seen.rpc() == "initialize" {
        let id = format!("{}-{:?}", state.sessions.len(), std::time::Instant::now());
        let id: String = id.chars().filter(char::is_ascii_graphic).collect();
        let mut reply = mcp(seen);
        reply.headers_mut().insert("mcp-session-id", id.parse().unwrap());
        state.sessions.push(id);
        return reply;
    }
    if !seen.header("mcp-session-id").is_some_and(|id| state.sessions.iter().any(|s| s == id)) {
        return status(404);
    }
    match (seen.rpc().as_str(), &body["id"]) {
        ("tools/call", id) if body["params"]["name"] == "ask" => {
            state.asked += 1;
            let number = state.asked;
            let (stream, body) = channel();
            let question = json!({"jsonrpc": "2.0", "id": number, "method": "elicitation/create",
                "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}});
            stream.try_send(event(&question.to_string())).unwrap();
            state.open.insert(number, (id.clone(), stream));
            sse(body)
        }
        ("notifications/cancelled", _) => {
            state.cancelled.push(body["params"]["requestId"].clone());
            status(202)
        }
        ("", Value::Number(number)) => {
            let number = number.as_u64().unwrap();
            state.answers.push((number, body.clone()));
            if let Some((call, stream)) = state.open.remove(&number) {
                let said = body["result"]["action"].as_str().unwrap_or("error").to_owned();
                let result = json!({"content": [{"type": "text", "text": said}], "isError": false});
                let done = json!({"jsonrpc": "2.0", "id": call, "result": result});
                // The gateway may have let go of it.
                drop(stream.try_send(event(&done.to_string())));
            }
            status(202)
        }
        ("tools/call", _) => result(seen, &json!({"content": [], "isError": false})),
        _ => mcp(seen),
    }
}
