//! Two gateways with one sealing key before several legacy servers: a session that one of them has opened at the servers
//! goes on at the other.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use http::Method;
use serde_json::json;
use tokio::sync::watch;

use super::{META, modern, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, json_reply, mcp, result, status},
    process::{Answer, Gateway},
    soon, until,
};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old-host","version":"1"}}}"#;
const SHARED: &str = r#"sealing.keys = ["one-key-0123456789abcdef0123456789abcdef"]"#;
const OTHER: &str = r#"sealing.keys = ["two-key-0123456789abcdef0123456789abcdef"]"#;

/// How many calls each session has had.
type Counts = Arc<Mutex<HashMap<String, u64>>>;

/// A legacy server that counts in its sessions, and knows no others.
struct Server {
    fake: Fake,
    counts: Counts,
}

impl Server {
    async fn new(name: &str) -> Self {
        Self::opening(name, watch::channel(true).1).await
    }

    /// One that answers `initialize` as soon as it may.
    async fn opening(name: &str, mut may_open: watch::Receiver<bool>) -> Self {
        let counts = Counts::default();
        let (name, known) = (name.to_owned(), Arc::clone(&counts));
        may_open.mark_unchanged();
        let fake = Fake::start(move |seen| {
            let (name, known, mut may_open) = (name.clone(), Arc::clone(&known), may_open.clone());
            async move {
                if seen.rpc() == "initialize" {
                    may_open.wait_for(|may| *may).await.unwrap();
                }
                answer(&name, &known, &seen)
            }
        })
        .await;
        Self { fake, counts }
    }

    /// Sessions that were opened for clients.
    fn opened(&self) -> usize {
        self.fake.calls().iter().filter(|seen| seen.rpc() == "initialize").count()
    }

    fn sessions(&self) -> usize {
        self.counts.lock().unwrap().len()
    }

    /// As a restart would.
    fn forget(&self) {
        self.counts.lock().unwrap().clear();
    }
}

fn answer(name: &str, counts: &Counts, seen: &Seen) -> Reply {
    let mut counts = counts.lock().unwrap();
    if seen.rpc() == "initialize" {
        let session = format!("{name}-{:016x}", rand(counts.len()));
        let mut reply = mcp(seen);
        reply.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        counts.insert(session, 0);
        return reply;
    }
    let session = seen.header("mcp-session-id").unwrap_or_default();
    let Some(count) = counts.get_mut(session) else {
        return json_reply(
            404,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no such session"}}"#,
        );
    };
    match (&seen.method, seen.rpc().as_str()) {
        (&Method::DELETE, _) => {
            counts.remove(session);
            status(200)
        }
        (&Method::POST, "tools/call") => {
            *count += 1;
            result(seen, &json!({"content": [{"type": "text", "text": count.to_string()}], "isError": false}))
        }
        (&Method::POST, _) => mcp(seen),
        _ => status(405),
    }
}

/// Session ids are never the same twice, also of a server that has forgotten all.
fn rand(salt: usize) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(salt)
}

async fn gateway(head: &str, servers: &[(&str, &[&Server])]) -> Gateway {
    let mut config = head.to_owned();
    for (name, replicas) in servers {
        let urls: Vec<_> = replicas.iter().map(|server| format!("{:?}", server.fake.url())).collect();
        config.push_str(&format!("\nupstreams.{name}.url = [{}]", urls.join(", ")));
    }
    let gate = Gateway::start(&config).await;
    for (name, _) in servers {
        gate.knows(name).await;
    }
    gate
}

async fn pair(servers: &[(&str, &[&Server])]) -> (Gateway, Gateway) {
    (gateway(SHARED, servers).await, gateway(SHARED, servers).await)
}

async fn initialize(gate: &Gateway) -> String {
    let answer = gate.post(HELLO).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("mcp-session-id").expect("a session").to_owned()
}

async fn within(gate: &Gateway, method: Method, session: &str, body: String) -> Answer {
    let request = gate.request().method(method).header("mcp-session-id", session);
    gate.call(request.header("mcp-protocol-version", "2025-06-18"), body).await
}

/// What the server has counted in the session, with this call.
async fn count(gate: &Gateway, session: &str, server: &str) -> u64 {
    let answer = within(gate, Method::POST, session, tool(3, &format!("{server}__add"), "{}")).await;
    let text = &answer.json()["result"]["content"][0]["text"];
    text.as_str().unwrap_or_else(|| panic!("{}", answer.text())).parse().unwrap()
}

#[tokio::test]
async fn another_gateway_goes_on_with_the_sessions_and_a_delete_there_ends_them() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let (one, other) = pair(&[("files", &[&files]), ("notes", &[&notes])]).await;
    let session = initialize(&one).await;
    assert_eq!((files.opened(), notes.opened()), (1, 1), "opened with the client's own");
    assert!(session.len() < 1_024, "{}", session.len());
    assert_eq!(count(&one, &session, "files").await, 1);
    assert_eq!(count(&other, &session, "files").await, 2, "the server remembers");
    assert_eq!(count(&other, &session, "notes").await, 1);
    // SIGKILL.
    drop(one);
    assert_eq!(count(&other, &session, "files").await, 3);
    assert_eq!((files.opened(), notes.opened()), (1, 1));
    assert_eq!(within(&other, Method::DELETE, &session, String::new()).await.status, 200);
    until("the sessions have ended", || files.sessions() + notes.sessions() == 0).await;
    assert_eq!(within(&other, Method::POST, &session, tool(4, "files__add", "{}")).await.status, 404);
    let records = other.stop().await;
    let opened: Vec<_> = records.iter().filter(|r| r["method"] == "initialize").collect();
    assert!(opened.is_empty(), "what the gateway does for a session is no call: {opened:?}");
}

#[tokio::test]
async fn a_gateway_that_stops_in_order_leaves_them_to_the_other() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let (one, other) = pair(&[("files", &[&files]), ("notes", &[&notes])]).await;
    let session = initialize(&one).await;
    assert_eq!(count(&one, &session, "files").await, 1);
    one.stop().await;
    assert_eq!((count(&other, &session, "files").await, count(&other, &session, "notes").await), (2, 1));
    assert_eq!((files.opened(), notes.opened()), (1, 1));
}

#[tokio::test]
async fn a_session_that_the_server_lost_is_made_anew_once() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let (one, other) = pair(&[("files", &[&files]), ("notes", &[&notes])]).await;
    let session = initialize(&one).await;
    files.forget();
    for n in 1..=3 {
        assert_eq!(count(&other, &session, "files").await, n);
    }
    assert_eq!((files.opened(), notes.opened()), (2, 1));
    let calls = files.fake.calls().iter().filter(|seen| seen.rpc() == "tools/call").count();
    assert_eq!(calls, 4, "the one that cannot have run is sent again");
}

#[tokio::test]
async fn a_gateway_with_another_key_opens_nothing_with_it() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let servers: &[(&str, &[&Server])] = &[("files", &[&files]), ("notes", &[&notes])];
    let (one, stranger) = (gateway(SHARED, servers).await, gateway(OTHER, servers).await);
    let session = initialize(&one).await;
    for method in [Method::POST, Method::DELETE] {
        let answer = within(&stranger, method, &session, tool(3, "files__add", "{}")).await;
        assert_eq!((answer.status, answer.reason().as_str()), (404, "session_not_found"));
    }
    assert_eq!((files.sessions(), count(&one, &session, "files").await), (1, 1));
}

#[tokio::test]
async fn without_a_common_key_sessions_are_opened_by_the_first_call() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let gate = gateway("", &[("files", &[&files]), ("notes", &[&notes])]).await;
    let session = initialize(&gate).await;
    assert_eq!((files.opened(), notes.opened()), (0, 0));
    assert_eq!(count(&gate, &session, "files").await, 1);
    assert_eq!((files.opened(), notes.opened()), (1, 0));
}

#[tokio::test]
async fn a_server_that_hangs_is_not_waited_for_and_one_that_is_late_is_used_here_alone() {
    let (may_open, opening) = watch::channel(false);
    let (files, slow) = (Server::new("files").await, Server::opening("slow", opening).await);
    let (one, other) = pair(&[("files", &[&files]), ("slow", &[&slow])]).await;
    let session = soon("initialize", initialize(&one)).await;
    assert_eq!((files.sessions(), slow.sessions(), slow.opened()), (1, 0, 1));
    may_open.send_replace(true);
    assert_eq!((count(&one, &session, "slow").await, slow.opened()), (1, 1));
    assert_eq!((count(&other, &session, "slow").await, slow.opened()), (1, 2), "its id does not name it");
    assert_eq!((count(&other, &session, "files").await, files.opened()), (1, 1));
}

#[tokio::test]
async fn a_session_id_that_is_too_long_is_not_named() {
    let (files, wordy) = (Server::new("files").await, Server::new(&"w".repeat(3_000)).await);
    let (one, other) = pair(&[("files", &[&files]), ("wordy", &[&wordy])]).await;
    let session = initialize(&one).await;
    assert!(session.len() < 1_024, "{}", session.len());
    assert_eq!((count(&one, &session, "wordy").await, wordy.opened()), (1, 1));
    assert_eq!((count(&other, &session, "wordy").await, wordy.opened()), (1, 2));
    assert_eq!((count(&other, &session, "files").await, files.opened()), (1, 1));
}

#[tokio::test]
async fn the_other_gateway_finds_the_replica_that_has_the_session() {
    let (a, b, c) = (Server::new("a").await, Server::new("b").await, Server::new("c").await);
    let notes = Server::new("notes").await;
    let (one, other) = pair(&[("files", &[&a, &b, &c]), ("notes", &[&notes])]).await;
    for _ in 0..3 {
        let session = initialize(&one).await;
        assert_eq!(count(&one, &session, "files").await, 1);
        assert_eq!((count(&other, &session, "files").await, count(&other, &session, "files").await), (2, 3));
        assert_eq!(within(&other, Method::DELETE, &session, String::new()).await.status, 200);
        until("it has ended", || a.sessions() + b.sessions() + c.sessions() == 0).await;
    }
    assert_eq!(a.opened() + b.opened() + c.opened(), 3);
}

#[tokio::test]
async fn modern_clients_have_no_session_to_name_anything() {
    let (files, notes) = (Server::new("files").await, Server::new("notes").await);
    let gate = gateway(SHARED, &[("files", &[&files]), ("notes", &[&notes])]).await;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#);
    assert_eq!(gate.call(modern(gate.request(), "server/discover", None), body).await.status, 200);
    assert_eq!((files.opened(), notes.opened()), (0, 0));
}
