//! HTTP+SSE, the transport of 2024-11-05, on both sides of the gateway.

use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{
    KEY,
    bridge::{modern_server, names, several},
    key, modern, modern_tool, request, tool,
};
use crate::support::{
    fake::Fake,
    process::{Answer, Gateway, next},
};

/// A client by hand.
pub(super) struct Client<'a> {
    gate: &'a Gateway,
    key: Option<&'a str>,
    stream: Incoming,
    read: String,
    address: String,
}

fn with_key(request: http::request::Builder, key: Option<&str>) -> http::request::Builder {
    match key {
        Some(key) => request.header("authorization", format!("Bearer {key}")),
        None => request,
    }
}

impl<'a> Client<'a> {
    pub(super) async fn open(gate: &'a Gateway, path: &str, key: Option<&'a str>) -> Self {
        let request = http::Request::get(path).header("host", gate.addr.to_string());
        let answer = gate.open(with_key(request.header("accept", "text/event-stream"), key), "").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut client =
            Self { gate, key, stream: answer.into_body(), read: String::new(), address: String::new() };
        let first = client.event().await;
        client.address = first.strip_prefix("event: endpoint\ndata: ").unwrap().to_owned();
        client
    }

    /// The next event that is no comment.
    async fn event(&mut self) -> String {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                if !event.starts_with(':') {
                    return event;
                }
                continue;
            }
            let bytes = next(&mut self.stream).await.expect("the stream goes on").unwrap();
            self.read.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    async fn message(&mut self) -> Value {
        let event = self.event().await;
        serde_json::from_str(event.strip_prefix("event: message\ndata: ").unwrap()).unwrap()
    }

    pub(super) async fn post(&self, body: String) -> Answer {
        // A client of this transport knows of no `Accept`.
        let request = http::Request::post(&self.address).header("host", self.gate.addr.to_string());
        self.gate.call(with_key(request.header("content-type", "application/json"), self.key), body).await
    }

    pub(super) async fn ask(&mut self, body: String) -> Value {
        let id = serde_json::from_str::<Value>(&body).unwrap()["id"].clone();
        let posted = self.post(body).await;
        assert_eq!((posted.status, posted.text()), (202, ""));
        let message = self.message().await;
        assert_eq!(message["id"], id);
        message
    }

    pub(super) async fn initialize(&mut self) -> Value {
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"older-host","version":"1"}}}"#;
        let opened = self.ask(hello.to_owned()).await;
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(self.post(ready.to_owned()).await.status, 202);
        opened
    }
}

#[tokio::test]
async fn before_a_legacy_server_each_message_is_a_call_like_any_other() {
    let server = Fake::plain().await;
    let keys = key("ada", KEY, "tools = [\"*\", \"!files__delete_all\"]");
    let gate = Gateway::before(&server.url(), &keys).await;
    gate.knows("files").await;
    let mut client = Client::open(&gate, "/sse", Some(KEY)).await;
    assert!(client.address.starts_with("/messages?sessionId="), "{}", client.address);
    assert_eq!(client.initialize().await["result"]["protocolVersion"], "2024-11-05");
    let listed = client.ask(request(1, "tools/list")).await;
    assert_eq!(names(&listed), ["add", "files__read", "fail"]);
    // Repaired like the body of any POST.
    let called = client.ask(tool(2, "add", r#"{"n":"5"}"#)).await;
    assert_eq!(called["result"]["isError"], false, "{called}");
    let seen = server.calls().into_iter().find(|s| s.rpc() == "tools/call").unwrap();
    assert_eq!(seen.json()["params"]["arguments"], json!({"n": 5}));
    assert_eq!(seen.header("mcp-session-id"), Some("session-of-the-client"));
    assert_eq!(seen.header("authorization"), None);
    let hidden = client.post(tool(3, "files__delete_all", "{}")).await;
    assert_eq!((hidden.status, hidden.json()["id"].clone()), (403, json!(3)));
    assert_eq!(client.post("[]".to_owned()).await.status, 400);
    drop(client);
    crate::support::until("the session's end", || gate.records().iter().any(|r| r["method"] == "DELETE"))
        .await;
    let records = gate.stop().await;
    let record = records.iter().find(|r| r["tool"] == "add").unwrap();
    assert_eq!((&record["outcome"], &record["principal"]), (&json!("ok"), &json!("ada")));
    assert_eq!(record["client"]["name"], "older-host", "{record}");
    assert!(record["normalized"].as_array().is_some_and(|n| !n.is_empty()), "{record}");
    let of = |method: &str| records.iter().filter(|r| r["method"] == method).count();
    assert_eq!((of("initialize"), of("tools/list"), of("tools/call")), (1, 1, 2));
    // The client's stream and, behind it, the one of the session; then the session's end.
    assert_eq!((of("GET"), of("DELETE")), (2, 1));
}

#[tokio::test]
async fn a_modern_server_is_translated() {
    let server = modern_server().await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let mut client = Client::open(&gate, "/sse/files", None).await;
    assert!(client.address.starts_with("/messages/files?sessionId="), "{}", client.address);
    assert_eq!(client.initialize().await["result"]["serverInfo"]["name"], "fake");
    let called = client.ask(tool(7, "add", r#"{"n":1}"#)).await;
    assert_eq!(called["result"]["content"][0]["text"], "add");
    let modern = modern_tool(8, "add", "{}");
    assert_eq!(client.post(modern).await.status, 400);
    drop(client);
    let records = gate.stop().await;
    let record = records.iter().find(|r| r["tool"] == "add" && r["outcome"] == "ok").unwrap();
    assert_eq!((&record["bridged"], &record["upstream_version"]), (&json!(true), &json!("2026-07-28")));
}

#[tokio::test]
async fn several_servers_are_one_or_each_alone() {
    let (_old, _new, gate) = several("").await;
    let mut client = Client::open(&gate, "/sse", None).await;
    client.initialize().await;
    let listed = names(&client.ask(request(1, "tools/list")).await);
    assert!(["old__add", "new__add"].iter().all(|t| listed.contains(&(*t).to_owned())), "{listed:?}");
    for name in ["old__add", "new__add"] {
        let called = client.ask(tool(2, name, r#"{"n":1}"#)).await;
        assert_eq!(called["result"]["isError"], false, "{called}");
    }
    let mut alone = Client::open(&gate, "/sse/old", None).await;
    alone.initialize().await;
    assert!(names(&alone.ask(request(1, "tools/list")).await).contains(&"add".to_owned()));
    // The address is good where its stream is, and nowhere else.
    alone.address = alone.address.replace("/messages/old", "/messages");
    assert_eq!(alone.post(request(2, "ping")).await.status, 404);
}

#[tokio::test]
async fn streams_and_messages_need_the_key_the_origin_and_the_method() {
    let server = Fake::plain().await;
    let keys = key("ada", KEY, "") + &key("bob", "sg-the-key-of-bob-0123456789abcdef", "");
    let gate = Gateway::before(&server.url(), &keys).await;
    gate.knows("files").await;
    let host = gate.addr.to_string();
    let plain =
        |method: &str, path: &str| http::Request::builder().method(method).uri(path).header("host", &host);
    assert_eq!(gate.call(plain("GET", "/sse"), "").await.status, 401);
    let bearer = format!("Bearer {KEY}");
    let mine = |method: &str, path: &str| plain(method, path).header("authorization", &bearer);
    assert_eq!(gate.call(mine("GET", "/sse").header("origin", "http://evil.example"), "").await.status, 403);
    assert_eq!(
        gate.call(mine("POST", "/sse").header("content-type", "application/json"), "{}").await.status,
        405
    );
    assert_eq!(gate.call(mine("GET", "/messages"), "").await.status, 405);
    assert_eq!(gate.call(mine("GET", "/sse/none"), "").await.status, 404);
    let mut client = Client::open(&gate, "/sse", Some(KEY)).await;
    client.key = Some("sg-the-key-of-bob-0123456789abcdef");
    let stolen = client.post(request(1, "ping")).await;
    assert_eq!((stolen.status, stolen.reason()), (404, "session_not_found".to_owned()));
    client.key = None;
    assert_eq!(client.post(request(1, "ping")).await.status, 401);
    client.key = Some(KEY);
    client.initialize().await;
    assert_eq!(client.ask(request(1, "ping")).await["result"], json!({}));
    gate.stop().await;
}

/// Both sides at once: a gateway is a server over HTTP+SSE to another one.
#[tokio::test]
async fn a_server_over_http_sse_serves_clients_of_either_era() {
    let server = Fake::plain().await;
    let behind = Gateway::before(&server.url(), "").await;
    behind.knows("files").await;
    let config = format!("upstreams.old = {{ url = \"http://{}/sse\", protocol = \"sse\" }}\n", behind.addr);
    let gate = Gateway::start(&config).await;
    gate.knows("old").await;
    let body = modern_tool(4, "add", r#"{"n":"1"}"#);
    let called = gate.call(modern(gate.request(), "tools/call", Some("add")), body).await;
    assert_eq!(called.json()["result"]["isError"], json!(false), "{}", called.text());
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}"#;
    let opened = gate.post(hello).await;
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-03-26");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let called =
        gate.call(gate.request().header("mcp-session-id", &session), tool("\"x\"", "add", "{}")).await;
    assert_eq!((&called.json()["id"], called.status), (&json!("x"), 200));
    // The stream ends with the server, and the session with the stream.
    drop(behind);
    let lost = async {
        loop {
            let answer =
                gate.call(gate.request().header("mcp-session-id", &session), request(9, "ping")).await;
            if answer.status == 404 {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    crate::support::soon("the end of the session", lost).await;
    gate.stop().await;
}
