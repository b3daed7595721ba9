//! Places and breaker of an upstream: they hold for one alone and for one of several, and whichever endpoint calls come
//! from, they are the same.

use serde_json::Value;

use super::{refused, request, tool};
use crate::support::{
    fake::{Fake, Seen, json_reply, mcp, status},
    process::{Answer, Gateway, send_to},
    until,
};

const UNAVAILABLE: &str = "upstream_unavailable";

/// Does what the arguments of a call say.
async fn moody() -> Fake {
    Fake::start(|seen: Seen| async move {
        match seen.json()["params"]["arguments"]["mood"].as_str() {
            Some("hangs") => std::future::pending().await,
            Some("away") => status(503),
            Some("later") => {
                let mut reply = json_reply(503, r#"{"later":true}"#);
                reply.headers_mut().insert("retry-after", "7".parse().unwrap());
                reply
            }
            _ => mcp(&seen),
        }
    })
    .await
}

async fn call(gate: &Gateway, path: &str, name: &str, mood: &str) -> Answer {
    let arguments = format!(r#"{{"mood":"{mood}"}}"#);
    gate.call(gate.request().uri(path), tool(1, name, &arguments)).await
}

/// A call that stays until this is dropped.
async fn hang(gate: &Gateway, path: &str, name: &str) -> tokio::task::JoinHandle<()> {
    let body = http_body_util::Full::new(tool(1, name, r#"{"mood":"hangs"}"#).into());
    let call = send_to(gate.addr, gate.request().uri(path).body(body).unwrap());
    tokio::spawn(async move { drop(call.await) })
}

fn of<'a>(state: &'a Value, name: &str) -> (&'a str, u64) {
    let upstream = &state["upstreams"][name];
    (upstream["breaker"].as_str().unwrap_or("none"), upstream["in_flight"].as_u64().unwrap_or(u64::MAX))
}

#[track_caller]
fn is_refused(answer: &Answer, why: &str) {
    refused(answer, 503, 503, UNAVAILABLE, Some("1"));
    assert!(answer.text().contains(why), "{}", answer.text());
    assert!(answer.header("retry-after").is_some_and(|s| s.parse::<u64>().is_ok_and(|s| s > 0)));
}

#[tokio::test]
async fn one_alone_has_the_places_that_are_written_and_keeps_the_rest_out() {
    let fake = moody().await;
    let gate = Gateway::before(&fake.url(), "upstreams.files.concurrency = 1").await;
    gate.knows("files").await;
    let before = fake.count();
    let hanging = hang(&gate, "/mcp", "add").await;
    fake.received(before + 1).await;
    for path in ["/mcp", "/mcp/files"] {
        is_refused(&call(&gate, path, "add", "").await, "all 1 places");
    }
    assert_eq!(fake.count(), before + 1, "nothing of them was sent");
    // A session is opened and kept, and what there is is listed.
    for method in ["initialize", "ping", "tools/list"] {
        assert_eq!(gate.post(request(1, method)).await.status, 200, "{method}");
    }
    let state = gate.page("/readyz").await.json();
    assert_eq!(of(&state, "files"), ("closed", 1));
    hanging.abort();
    let free = |r: &Value| of(r, "files").1 == 0;
    gate.ready_until("the place to be free", free).await;
    assert_eq!(call(&gate, "/mcp", "add", "").await.status, 200);
}

#[tokio::test]
async fn one_alone_that_keeps_failing_is_left_alone() {
    let fake = moody().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    for _ in 0..5 {
        assert_eq!(call(&gate, "/mcp", "add", "away").await.status, 503);
    }
    let before = fake.count();
    for path in ["/mcp", "/mcp/files"] {
        is_refused(&call(&gate, path, "add", "").await, "kept failing");
    }
    assert_eq!(fake.count(), before, "nothing of them was sent");
    assert_eq!(of(&gate.page("/readyz").await.json(), "files"), ("open", 0));
    let open = "smartgate_upstream_breaker{upstream=\"files\",state=\"open\"}";
    assert!((gate.metric(open).await - 1.0).abs() < 0.1);
    assert_eq!(gate.post(request(1, "tools/list")).await.status, 200, "what is no call passes");
    assert!(gate.log().contains("is left alone"), "{}", gate.log());
}

#[tokio::test]
async fn a_server_that_says_when_to_come_back_is_not_kept_from_its_callers() {
    let fake = moody().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    for _ in 0..8 {
        let answer = call(&gate, "/mcp", "add", "later").await;
        assert_eq!((answer.status, answer.text()), (503, r#"{"later":true}"#));
        assert_eq!(answer.header("retry-after"), Some("7"));
    }
    assert_eq!(call(&gate, "/mcp", "add", "").await.status, 200);
    assert_eq!(of(&gate.page("/readyz").await.json(), "files"), ("closed", 0));
}

#[tokio::test]
async fn one_of_several_has_one_breaker_and_one_limit_for_all_endpoints() {
    let (a, b) = (moody().await, moody().await);
    let config = format!(
        "upstreams.a.url = \"{}\"\nupstreams.a.concurrency = 2\nupstreams.b.url = \"{}\"",
        a.url(),
        b.url()
    );
    let gate = Gateway::start(&config).await;
    gate.knows("a").await;
    gate.knows("b").await;
    let count = |fake: &Fake| fake.calls().iter().filter(|s| s.rpc() == "tools/call").count();
    let hanging = [hang(&gate, "/mcp/a", "add").await, hang(&gate, "/mcp", "a__add").await];
    until("both calls", || count(&a) == 2).await;
    assert_eq!(of(&gate.page("/readyz").await.json(), "a"), ("closed", 2));
    for (path, name) in [("/mcp/a", "add"), ("/mcp", "a__add")] {
        is_refused(&call(&gate, path, name, "").await, "all 2 places");
    }
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    gate.ready_until("free places", |r| of(r, "a").1 == 0).await;
    for (path, name) in
        [("/mcp/a", "add"), ("/mcp", "a__add"), ("/mcp/a", "add"), ("/mcp", "a__add"), ("/mcp/a", "add")]
    {
        assert_eq!(call(&gate, path, name, "away").await.status, 503, "{path}");
    }
    let before = count(&a);
    for (path, name) in [("/mcp/a", "add"), ("/mcp", "a__add")] {
        is_refused(&call(&gate, path, name, "").await, "kept failing");
    }
    assert_eq!(count(&a), before);
    assert_eq!(call(&gate, "/mcp", "b__add", "").await.status, 200, "the other is not affected");
    let state = gate.page("/readyz").await.json();
    assert_eq!((of(&state, "a"), of(&state, "b")), (("open", 0), ("closed", 0)));
}

#[tokio::test]
async fn a_second_upstream_brings_the_limit_that_several_have() {
    let (a, b) = (moody().await, moody().await);
    let alone =
        format!("upstreams.a.url = \"{}\"\nupstreams.a.prefix = \"\"\nlimits.rate = \"none\"", a.url());
    let gate = Gateway::start(&alone).await;
    gate.knows("a").await;
    let hanging = hang_all(&gate, 65).await;
    until("more than several may have", || a.calls().len() == 65).await;
    gate.rewrite(&format!("{alone}\nupstreams.b.url = \"{}\"", b.url()));
    gate.knows("b").await;
    is_refused(&call(&gate, "/mcp/a", "add", "").await, "all 64 places");
    assert_eq!(of(&gate.page("/readyz").await.json(), "a").1, 65, "who has a place keeps it");
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    gate.ready_until("free places", |r| of(r, "a").1 == 0).await;
    assert_eq!(call(&gate, "/mcp/a", "add", "").await.status, 200);
}

async fn hang_all(gate: &Gateway, count: usize) -> Vec<tokio::task::JoinHandle<()>> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(hang(gate, "/mcp", "add").await);
    }
    all
}
