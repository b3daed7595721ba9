//! One record for every message that reached the pipeline, whatever became of it: each cause is driven once, and the
//! journal holds exactly as many records. What the protocol's own transports send for a client is recorded too.

use crate::support::free::free;
use http::Method;
use serde_json::Value;

use super::{KEY, bridge::modern_server, ending, http_sse::Client, key, modern, modern_tool, request, tool};
use crate::support::{
    fake::{Fake, channel, event, mcp, sse, status},
    process::{Gateway, read_to, send_to, signal, whole},
    soon,
};

/// Secret of a key that may call once.
const ONCE: &str = "sg-the-key-of-once-0123456789abcdef";

/// "hang" never answers, "stream" streams one event; GET is not supported.
pub(super) async fn fake() -> Fake {
    Fake::start(|seen| async move {
        match (
            seen.method == http::Method::POST,
            seen.text().contains("\"hang\""),
            seen.text().contains("\"stream\""),
        ) {
            (false, ..) => status(if seen.method == http::Method::GET { 405 } else { 200 }),
            (_, true, _) => std::future::pending().await,
            (_, _, true) => {
                let (sender, body) = channel();
                sender.send(event("{\"method\":\"notifications/progress\"}")).await.unwrap();
                tokio::spawn(async move { sender.closed().await });
                sse(body)
            }
            _ => mcp(&seen),
        }
    })
    .await
}

/// What was driven so far, against what the journal has.
struct Count {
    gate: Gateway,
    expected: usize,
}

impl Count {
    /// So many records must have come, and end like this (in any order).
    async fn then(&mut self, what: &str, endings: &[(&str, u64, &str)]) {
        let before = self.expected;
        self.expected += endings.len();
        let records = self.gate.recorded(self.expected).await;
        let mut told: Vec<_> = records[before..].iter().map(told).collect();
        let mut expected: Vec<_> =
            endings.iter().map(|(o, s, r)| ((*o).to_owned(), *s, (*r).to_owned())).collect();
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "{what}");
    }
}

pub(super) fn told(record: &Value) -> (String, u64, String) {
    let (outcome, status, reason, _) = ending(record);
    (outcome.to_owned(), status.unwrap_or(0), reason.unwrap_or("").to_owned())
}

#[tokio::test]
async fn every_cause_leaves_exactly_one_record_for_each_message() {
    let (files, other) = (fake().await, modern_server().await);
    let dead = free();
    let config = format!(
        "server.max_body = \"64KiB\"\nserver.body_timeout = \"700ms\"\nserver.drain = \"1h\"\n\
         {}{}\
         [upstreams.files]\nurl = \"{}\"\n[upstreams.late]\nurl = \"{}\"\ntimeout = \"300ms\"\n\
         [upstreams.gone]\nurl = \"http://{dead}/mcp\"\nretry = {{ attempts = 0 }}\n\
         [upstreams.other]\nurl = \"{}\"\n[upstreams.smart]\nbuiltin = true\n",
        key("ada", KEY, "tools = [\"*\", \"!*delete*\"]\nrate = \"1000/s\""),
        key("once", ONCE, "rate = \"1/h\""),
        files.url(),
        files.url(),
        other.url(),
    );
    let gate = Gateway::start(&config).await;
    for name in ["files", "late", "other", "smart"] {
        gate.knows(name).await;
    }
    let mut count = Count { gate, expected: 0 };
    let post = async |gate: &Gateway, path: &str, body: String| {
        let request = gate.request().uri(path).header("authorization", format!("Bearer {KEY}"));
        gate.call(request, body).await.status
    };
    answered(&mut count, &post).await;
    refusals(&mut count, &post).await;
    endings(&mut count).await;
    transports(&mut count, &post).await;
    silent(&mut count).await;

    // What is in flight at the end of the grace.
    let Count { mut gate, expected } = count;
    let hang = gate.request().uri("/mcp/files").header("authorization", format!("Bearer {KEY}"));
    let hang = hang.body(http_body_util::Full::new(tool(9, "hang", "{}").into())).unwrap();
    let waiting = tokio::spawn(send_to(gate.addr, hang));
    crate::support::until("the last call", || files.calls().iter().any(|c| c.text().contains("\"id\":9,")))
        .await;
    signal(gate.id(), "TERM");
    gate.logged("draining").await;
    signal(gate.id(), "TERM");
    assert_eq!(whole(soon("the waiting call", waiting).await.unwrap()).await.status, 503);
    assert!(gate.exit().await.success());
    gate.verify();
    let records = gate.records();
    assert_eq!(records.len(), expected + 1);
    assert_eq!(told(&records[expected]), ("drained".into(), 503, "draining".into()));
    let seqs: Vec<_> = records.iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert!(seqs.windows(2).all(|w| w[0] < w[1]));
    let mut spans: Vec<_> = records.iter().map(|r| r["span_id"].as_str().unwrap()).collect();
    spans.sort_unstable();
    spans.dedup();
    assert_eq!(spans.len(), records.len(), "each record has a span of its own");
}

async fn answered(count: &mut Count, post: &impl AsyncFn(&Gateway, &str, String) -> u16) {
    assert_eq!(post(&count.gate, "/mcp/files", tool(1, "add", "{}")).await, 200);
    count.then("a call", &[("ok", 200, "")]).await;
    assert_eq!(post(&count.gate, "/mcp/files", tool(1, "fail", "{}")).await, 200);
    count.then("a tool's error", &[("tool_error", 200, "")]).await;
    assert_eq!(post(&count.gate, "/mcp/files", request(1, "odd/method")).await, 200);
    count.then("a server's error", &[("rpc_error", 200, "")]).await;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(post(&count.gate, "/mcp/files", note.into()).await, 202);
    count.then("a notification", &[("ok", 202, "")]).await;
    let steps = r#"{"steps":[{"id":"a","tool":"smart_dedup","args":{"texts":["x","x"]}},{"id":"b","tool":"smart_dedup","args":{"texts":{"$from":"a","path":"/texts"}}}]}"#;
    assert_eq!(post(&count.gate, "/mcp/smart", tool(1, "smart_pipe", steps)).await, 200);
    count.then("a pipeline and its steps", &[("ok", 200, ""); 3]).await;
}

async fn refusals(count: &mut Count, post: &impl AsyncFn(&Gateway, &str, String) -> u16) {
    let as_ada = |gate: &Gateway| gate.request().header("authorization", format!("Bearer {KEY}"));
    let call = || tool(1, "add", "{}");
    for key in ["", "Bearer sg-nobody-0123456789abcdef0123456789"] {
        let request = count.gate.request().uri("/mcp/files").header("authorization", key);
        assert_eq!(count.gate.call(request, call()).await.status, 401);
        count.then("no key", &[("rejected", 401, "unauthenticated")]).await;
    }
    let foreign = as_ada(&count.gate).uri("/mcp/files").header("origin", "https://evil.example");
    assert_eq!(count.gate.call(foreign, call()).await.status, 403);
    count.then("a foreign origin", &[("rejected", 403, "forbidden_origin")]).await;
    let foreign = http::Request::post("/mcp/files").header("host", "evil.example");
    assert_eq!(count.gate.call(foreign.header("content-type", "application/json"), call()).await.status, 403);
    count.then("a foreign host", &[("rejected", 403, "forbidden_origin")]).await;
    assert_eq!(post(&count.gate, "/mcp/files", tool(1, "delete_all", "{}")).await, 403);
    count.then("a tool that is not allowed", &[("rejected", 403, "forbidden")]).await;
    assert_eq!(post(&count.gate, "/nowhere", call()).await, 404);
    count.then("no such path", &[("rejected", 404, "no_route")]).await;
    for method in [Method::PUT, Method::HEAD, Method::PATCH] {
        assert_eq!(
            count.gate.call(as_ada(&count.gate).method(method).uri("/mcp/files"), "").await.status,
            405
        );
        count.then("another method", &[("rejected", 405, "method_not_allowed")]).await;
    }
    let mut raw = count.gate.raw().await;
    raw.send(format!(
        "POST /mcp/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    ))
    .await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 408"));
    count.then("a slow body", &[("rejected", 408, "request_timeout")]).await;
    assert_eq!(
        post(&count.gate, "/mcp/files", tool(1, "add", &format!("\"{}\"", "x".repeat(70_000)))).await,
        413
    );
    count.then("a long body", &[("rejected", 413, "body_too_large")]).await;
    let typed =
        http::Request::post("/mcp/files").header("host", "localhost").header("content-type", "text/plain");
    let typed = typed.header("authorization", format!("Bearer {KEY}"));
    assert_eq!(count.gate.call(typed, call()).await.status, 415);
    count.then("another media type", &[("rejected", 415, "unsupported_media_type")]).await;
    for status in [200, 429] {
        let request =
            count.gate.request().uri("/mcp/files").header("authorization", format!("Bearer {ONCE}"));
        assert_eq!(count.gate.call(request, request_ping()).await.status, status);
    }
    count.then("a rate", &[("ok", 200, ""), ("rejected", 429, "rate_limited")]).await;
    for (body, reason) in
        [("{", "parse_error"), ("", "parse_error"), ("7", "invalid_request"), ("[]", "invalid_request")]
    {
        assert_eq!(post(&count.gate, "/mcp/files", body.into()).await, 400, "{body}");
        count.then(body, &[("rejected", 400, reason)]).await;
    }
    let wrong = modern(as_ada(&count.gate).uri("/mcp/other"), "tools/call", Some("other"));
    assert_eq!(count.gate.call(wrong, modern_tool(1, "add", "{}")).await.status, 400);
    count.then("headers that do not match", &[("rejected", 400, "header_mismatch")]).await;
}

fn request_ping() -> String {
    request(1, "ping")
}

async fn endings(count: &mut Count) {
    let as_ada = |gate: &Gateway, path: &str| {
        gate.request().uri(path.to_owned()).header("authorization", format!("Bearer {KEY}"))
    };
    let post = |gate: &Gateway, path: &str, name: &str| {
        as_ada(gate, path).body(http_body_util::Full::new(tool(1, name, "{}").into())).unwrap()
    };
    let late = whole(send_to(count.gate.addr, post(&count.gate, "/mcp/late", "hang")).await).await;
    assert_eq!(late.status, 504);
    count.then("a server that is late", &[("upstream_failed", 504, "upstream_timeout")]).await;
    let gone = whole(send_to(count.gate.addr, post(&count.gate, "/mcp/gone", "add")).await).await;
    assert_eq!(gone.status, 502);
    count.then("a server that is not there", &[("upstream_failed", 502, "upstream_connect")]).await;
    let mut stream = send_to(count.gate.addr, post(&count.gate, "/mcp/files", "stream")).await;
    read_to(stream.body_mut(), "progress").await;
    drop(stream);
    count.then("leaving in mid-stream", &[("client_closed", 200, "")]).await;
    let waiting = tokio::spawn(send_to(count.gate.addr, post(&count.gate, "/mcp/files", "hang")));
    count.gate.in_flight(1).await;
    waiting.abort();
    count.then("leaving before the answer", &[("client_closed", 0, "")]).await;
    let mut raw = count.gate.raw().await;
    raw.send(format!(
        "POST /mcp/files HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    ))
    .await;
    count.gate.in_flight(1).await;
    drop(raw);
    count.then("leaving while sending", &[("client_closed", 0, "")]).await;
    for (method, ending) in [("GET", ("rpc_error", 405, "")), ("DELETE", ("ok", 200, ""))] {
        let request = as_ada(&count.gate, "/mcp/files").method(method);
        assert_eq!(u64::from(count.gate.call(request, "").await.status), ending.1);
        count.then(method, &[ending]).await;
    }
}

async fn transports(count: &mut Count, post: &impl AsyncFn(&Gateway, &str, String) -> u16) {
    let batch = |gate: &Gateway, members: &[String]| {
        let request = gate.request().uri("/mcp/files").header("authorization", format!("Bearer {KEY}"));
        (request.header("mcp-protocol-version", "2025-03-26"), format!("[{}]", members.join(",")))
    };
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned();
    let members = [tool(1, "add", "{}"), note, tool(2, "delete_all", "{}"), "7".to_owned()];
    let (request_of, body) = batch(&count.gate, &members);
    assert_eq!(count.gate.call(request_of, body).await.status, 200);
    let four = [
        ("ok", 200, ""),
        ("ok", 202, ""),
        ("rejected", 403, "forbidden"),
        ("rejected", 400, "invalid_request"),
    ];
    count.then("a batch of four", &four).await;
    let (request_of, body) = batch(&count.gate, &[]);
    assert_eq!(count.gate.call(request_of, body).await.status, 400);
    count.then("a batch of none", &[("rejected", 400, "invalid_request")]).await;

    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}"#;
    assert_eq!(post(&count.gate, "/mcp/other", hello.into()).await, 200);
    assert_eq!(post(&count.gate, "/mcp/other", tool(1, "add", "{}")).await, 200);
    count.then("bridged calls", &[("ok", 200, ""); 2]).await;

    let mut client = Client::open(&count.gate, "/sse/files", Some(KEY)).await;
    client.initialize().await;
    client.ask(tool(1, "add", "{}")).await;
    assert_eq!(client.post(tool(2, "delete_all", "{}")).await.status, 403);
    drop(client);
    // initialize, its notification, two calls; the client's stream, and the session's stream and end behind it.
    let before = count.expected;
    count.expected += 7;
    let records = count.gate.recorded(count.expected).await;
    let of = |method: &str| records[before..].iter().filter(|r| r["method"] == method).count();
    let found = ["initialize", "notifications/initialized", "tools/call", "GET", "DELETE"].map(of);
    assert_eq!(found, [1, 1, 2, 2, 1]);
}

/// None for what is no message.
async fn silent(count: &mut Count) {
    let preflight = count.gate.request().method("OPTIONS").header("origin", "http://localhost:3000");
    let preflight = preflight.header("access-control-request-method", "POST");
    assert_eq!(count.gate.call(preflight, "").await.status, 204);
    for page in ["/healthz", "/readyz", "/metrics", "/nowhere"] {
        count.gate.page(page).await;
    }
    let mut raw = count.gate.raw().await;
    raw.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n").await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 400"));
    // What comes after shows that nothing of it came before.
    let request = count.gate.request().uri("/mcp/files").header("authorization", format!("Bearer {KEY}"));
    assert_eq!(count.gate.call(request, request_ping()).await.status, 200);
    count.then("a call after what is none", &[("ok", 200, "")]).await;
}
