//! Several replicas of one upstream: where calls go, and what becomes of them when a replica is away.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use serde_json::json;

use super::{request, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, json_reply, mcp, result, status},
    process::{Answer, Gateway, send_to},
    until,
};

/// How a server says that it does not know a session.
#[derive(Clone, Copy)]
enum Unknown {
    /// As it should.
    NotFound,
    /// As the examples of the TypeScript SDK do.
    BadRequest,
}

/// A legacy server that opens sessions of its own and knows no others.
async fn replica(name: &'static str) -> Fake {
    replica_at("127.0.0.1:0".parse().unwrap(), name, Unknown::NotFound).await
}

async fn replica_at(addr: SocketAddr, name: &'static str, unknown: Unknown) -> Fake {
    let opened = Arc::new(AtomicUsize::new(0));
    Fake::at(addr, Speaks::Legacy, move |seen| {
        let reply = answer(name, unknown, &opened, &seen);
        async move {
            if seen.json()["params"]["name"] == "hang" {
                std::future::pending::<()>().await;
            }
            reply
        }
    })
    .await
}

fn answer(name: &str, unknown: Unknown, opened: &AtomicUsize, seen: &Seen) -> Reply {
    if seen.method == http::Method::POST && seen.rpc() == "initialize" {
        let mut reply = mcp(seen);
        let session = format!("{name}-{}", opened.fetch_add(1, SeqCst));
        reply.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        return reply;
    }
    match seen.header("mcp-session-id") {
        Some(id) if !id.starts_with(name) => match unknown {
            Unknown::NotFound => status(404),
            Unknown::BadRequest => {
                let error = r#"{"code":-32000,"message":"Bad Request: No valid session ID provided"}"#;
                json_reply(400, format!(r#"{{"jsonrpc":"2.0","error":{error},"id":1}}"#))
            }
        },
        _ if seen.json()["params"]["name"] == "wrong" => {
            json_reply(400, r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"q is missing"},"id":1}"#)
        }
        _ if seen.method == http::Method::POST && seen.rpc() == "tools/call" => {
            result(seen, &json!({"content": [{"type": "text", "text": name}], "isError": false}))
        }
        _ if seen.method == http::Method::POST => mcp(seen),
        _ => status(200),
    }
}

async fn before(replicas: &[&Fake]) -> Gateway {
    let urls: Vec<String> = replicas.iter().map(|r| format!("{:?}", r.url())).collect();
    let gate = Gateway::start(&format!("upstreams.files.url = [{}]", urls.join(", "))).await;
    gate.knows("files").await;
    gate
}

fn by(answer: &Answer) -> String {
    answer.json()["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.text()))
        .to_owned()
}

async fn in_session(gate: &Gateway, session: &str, method: &str, body: String) -> Answer {
    gate.call(gate.request().method(method).header("mcp-session-id", session), body).await
}

async fn open(gate: &Gateway) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    gate.post(hello).await.header("mcp-session-id").unwrap().to_owned()
}

#[tokio::test]
async fn calls_go_to_the_replica_with_the_fewest_and_in_turn_among_equals() {
    let (a, b, c) = (replica("a").await, replica("b").await, replica("c").await);
    let gate = before(&[&a, &b, &c]).await;
    let calls = |fake: &Fake| fake.calls().into_iter().filter(|s| s.rpc() == "tools/call").count();
    for n in 0..6 {
        let body = http_body_util::Full::new(tool(n, "hang", "{}").into());
        drop(tokio::spawn(send_to(gate.addr, gate.request().body(body).unwrap())));
        until("the call", || calls(&a) + calls(&b) + calls(&c) == n + 1).await;
    }
    assert_eq!([&a, &b, &c].map(calls), [2, 2, 2]);
    let state = gate.page("/readyz").await.json();
    let replicas = state["upstreams"]["files"]["replicas"].as_array().unwrap();
    let busy: Vec<_> = replicas.iter().map(|r| r["in_flight"].as_u64().unwrap()).collect();
    assert_eq!(busy, [2, 2, 2]);
}

#[tokio::test]
async fn a_session_stays_where_it_was_opened_also_after_a_restart_of_the_gateway() {
    let (a, b, c) = (replica("a").await, replica("b").await, replica("c").await);
    let gate = before(&[&a, &b, &c]).await;
    let mut sessions = Vec::new();
    for _ in 0..6 {
        sessions.push(open(&gate).await);
    }
    let mut homes: Vec<_> = sessions.iter().map(|s| s[..1].to_owned()).collect();
    for session in sessions.iter().chain(&sessions) {
        assert_eq!(by(&in_session(&gate, session, "POST", tool(1, "add", "{}")).await), session[..1]);
    }
    homes.sort();
    homes.dedup();
    assert!(homes.len() > 1, "all sessions at one replica");
    assert_eq!(in_session(&gate, &sessions[0], "DELETE", String::new()).await.status, 200);
    gate.recorded(19).await;
    let metrics = gate.page("/metrics").await;
    for (name, fake) in [("a", &a), ("b", &b), ("c", &c)] {
        let label = format!("server_port=\"{}\"", fake.addr.port());
        assert!(metrics.text().contains(&label) || !homes.contains(&name.to_owned()), "{label}");
    }
    drop(gate.stop().await);
    let again = before(&[&a, &b, &c]).await;
    for session in sessions.iter().chain(&sessions) {
        assert_eq!(by(&in_session(&again, session, "POST", tool(1, "add", "{}")).await), session[..1]);
    }
    assert_eq!(in_session(&again, "nobody's", "POST", tool(1, "add", "{}")).await.status, 404);
}

#[tokio::test]
async fn a_session_is_found_also_where_others_answer_400_of_it() {
    let at = |name| replica_at("127.0.0.1:0".parse().unwrap(), name, Unknown::BadRequest);
    let (a, b, c) = (at("a").await, at("b").await, at("c").await);
    let (one, other) = (before(&[&a, &b, &c]).await, before(&[&a, &b, &c]).await);
    for turn in 0..6 {
        let session = open(&one).await;
        // A refusal by the replica that has it is not a reason to ask the others.
        let wrong = in_session(&other, &session, "POST", tool(1, "wrong", "{}")).await;
        assert_eq!((wrong.status, &wrong.json()["error"]["code"]), (400, &json!(-32602)), "{turn}");
        for gate in [&other, &one, &other] {
            assert_eq!(by(&in_session(gate, &session, "POST", tool(1, "add", "{}")).await), session[..1]);
        }
    }
    let nobodys = in_session(&other, "nobody's", "POST", tool(1, "add", "{}")).await;
    assert_eq!(
        (nobodys.status, &nobodys.json()["error"]["code"]),
        (400, &json!(-32000)),
        "as the server said it"
    );
}

#[tokio::test]
async fn a_replica_that_is_away_is_left_out_and_comes_back() {
    let (a, b) = (replica("a").await, replica("b").await);
    let addr = b.addr;
    let gate = before(&[&a, &b]).await;
    let sessions = [open(&gate).await, open(&gate).await];
    let session = sessions.into_iter().find(|s| s.starts_with('b')).expect("in turn");
    b.kill().await;
    for n in 0..10 {
        let answer = gate.post(tool(n, "add", "{}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(by(&answer), "a");
    }
    let breaker = |state: &serde_json::Value| state["upstreams"]["files"]["replicas"][1]["breaker"].clone();
    gate.ready_until("the replica to be left out", |r| breaker(r) == "open").await;
    // Another replica does not know it: the client is to open a new one.
    assert_eq!(in_session(&gate, &session, "POST", request(1, "ping")).await.status, 404);
    assert_eq!(gate.page("/readyz").await.json()["ready"], true);
    let back = replica_at(addr, "b", Unknown::NotFound).await;
    let served = async {
        while by(&gate.post(tool(1, "add", "{}")).await) != "b" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    crate::support::soon("the replica to be called again", served).await;
    gate.ready_until("the replica to be back", |r| breaker(r) == "closed").await;
    assert!(gate.log().contains("is left out") && gate.log().contains("is back"), "{}", gate.log());
    a.kill().await;
    back.kill().await;
    let answer = gate.post(tool(1, "add", "{}")).await;
    assert_eq!((answer.status, answer.reason()), (502, "upstream_connect".to_owned()));
    let again = replica_at(addr, "b", Unknown::NotFound).await;
    // With all of them out, all are asked.
    assert_eq!(by(&gate.post(tool(2, "add", "{}")).await), "b");
    drop(again);
}

#[tokio::test]
async fn changes_are_heard_from_every_replica() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let fake = async || Fake::speaking(speaks, |seen| async move { mcp(&seen) }).await;
        let (a, b) = (fake().await, fake().await);
        let gate = before(&[&a, &b]).await;
        until("a stream from each", || a.watchers() > 0 && b.watchers() > 0).await;
        // The looks that the streams' opening brings are over.
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        let lists = || a.lists() + b.lists();
        for teller in [&a, &b] {
            let before = lists();
            teller.set_tools(json!([{"name": "fresh", "inputSchema": {"type": "object"}}])).await;
            until("another look", || lists() > before).await;
        }
        gate.ready_until("the new list", |r| {
            r["upstreams"]["files"]["detail"].as_str().is_some_and(|d| d.starts_with("1 tools"))
        })
        .await;
        // One of them goes; what the other tells is heard.
        a.kill().await;
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        b.set_tools(json!([])).await;
        gate.ready_until("the last list", |r| {
            r["upstreams"]["files"]["detail"].as_str().is_some_and(|d| d.starts_with("0 tools"))
        })
        .await;
    }
}

#[tokio::test]
async fn modern_clients_of_legacy_replicas_keep_their_sessions_too() {
    let (a, b) = (replica("a").await, replica("b").await);
    let gate = before(&[&a, &b]).await;
    let mut seen = Vec::new();
    for n in 0..4 {
        let body = super::modern_tool(n, "add", "{}");
        seen.push(by(&gate.call(super::modern(gate.request(), "tools/call", Some("add")), body).await));
    }
    assert!(seen.iter().all(|s| *s == seen[0]), "one session, one home: {seen:?}");
    assert!((gate.metric("smartgate_bridge_sessions{upstream=\"files\"}").await - 1.0).abs() < 0.1);
    let bridged = "smartgate_bridged_calls_total{direction=\"modern_to_legacy\"}";
    gate.recorded(4).await;
    assert!((gate.metric(bridged).await - 4.0).abs() < 0.1);
}
