//! Clients of one era, servers of the other, and several servers as one: through the whole gateway.

use serde_json::{Value, json};

use super::{KEY, META, key, modern, modern_tool, request, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, json_reply, no_meta, result, status},
    process::{Answer, Gateway},
    until,
};

/// A modern server that echoes what it was called with.
pub(super) async fn modern_server() -> Fake {
    Fake::speaking(Speaks::Modern, |seen| async move { modern_answer(&seen) }).await
}

/// The same at an address of the test's choice; it refuses what is not modern.
pub(super) async fn modern_server_at(addr: std::net::SocketAddr, speaks: Speaks) -> Fake {
    let script = |seen: Seen| async move {
        let is_modern = seen.header("mcp-protocol-version") == Some("2026-07-28");
        if is_modern { modern_answer(&seen) } else { no_meta() }
    };
    Fake::at(addr, speaks, script).await
}

fn modern_answer(seen: &Seen) -> Reply {
    let body = seen.json();
    assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"), "{body}");
    match seen.rpc().as_str() {
        "server/discover" => result(
            seen,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "public",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}}),
        ),
        "tools/call" => result(
            seen,
            &json!({"resultType": "complete", "content": [{"type": "text", "text": body["params"]["name"]}],
                "isError": false}),
        ),
        _ => status(404),
    }
}

/// What a legacy client sends first; gives its session.
pub(super) async fn initialize(gate: &Gateway, path: &str, version: &str) -> (Value, String) {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"old-host","version":"1"}}}}}}"#
    );
    let answer = gate.call(gate.request().uri(path), body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let session = answer.header("mcp-session-id").map(str::to_owned).unwrap_or_default();
    (answer.json(), session)
}

async fn in_session(gate: &Gateway, path: &str, session: &str, body: String) -> Answer {
    let request = gate.request().uri(path).header("mcp-session-id", session);
    gate.call(request.header("mcp-protocol-version", "2025-06-18"), body).await
}

pub(super) fn names(list: &Value) -> Vec<String> {
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("{list}"));
    tools.iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
}

fn discover() -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{{META}}}}}"#)
}

fn modern_list() -> String {
    format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{{{META}}}}}"#)
}

#[tokio::test]
async fn a_legacy_client_meets_its_own_revision_before_a_modern_server() {
    let server = modern_server().await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let (opened, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened["result"]["serverInfo"]["name"], "fake");
    assert!(session.starts_with("v1."), "{session}");
    let called = in_session(&gate, "/mcp", &session, tool(7, "add", r#"{"n":1}"#)).await;
    assert_eq!(
        called.json()["result"],
        json!({"content": [{"type": "text", "text": "add"}], "isError": false})
    );
    assert_eq!(called.json()["id"], 7);
    let seen = server.calls().into_iter().find(|s| s.rpc() == "tools/call").unwrap();
    assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (Some("tools/call"), Some("add")));
    assert_eq!(seen.header("mcp-session-id"), None);
    let foreign = in_session(&gate, "/mcp", "v1.AAAA", request(8, "tools/list")).await;
    assert_eq!((foreign.status, foreign.reason()), (404, "session_not_found".to_owned()));
    let records = gate.stop().await;
    let record = records.iter().find(|r| r["tool"] == "add").unwrap();
    assert_eq!((&record["bridged"], &record["era"]), (&json!(true), &json!("legacy")));
    assert_eq!(record["upstream_version"], "2026-07-28", "{record}");
    assert_eq!(record["outcome"], "ok");
}

#[tokio::test]
async fn a_call_that_a_legacy_client_cancels_is_no_failure_of_the_server() {
    let server = Fake::speaking(Speaks::Modern, |seen| async move {
        if seen.rpc() == "tools/call" {
            std::future::pending::<()>().await;
        }
        modern_answer(&seen)
    })
    .await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    for (calls, accept) in [(1, "application/json, text/event-stream"), (2, "application/json")] {
        let cancelled = async {
            let at_the_server = || server.calls().iter().filter(|s| s.rpc() == "tools/call").count() == calls;
            until("the call is at the server", at_the_server).await;
            let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
            in_session(&gate, "/mcp", &session, note.to_owned()).await
        };
        let mut request = gate.request().uri("/mcp").header("mcp-session-id", &session);
        request.headers_mut().unwrap().insert("accept", accept.parse().unwrap());
        let call = gate.call(request, tool(7, "add", r#"{"n":1}"#));
        let (called, cancelled) = tokio::join!(call, cancelled);
        assert_eq!((called.status, called.text(), cancelled.status), (200, "", 202), "{accept}");
    }
    let records = gate.stop().await;
    let ends: Vec<_> =
        records.iter().filter(|r| r["tool"] == "add").map(|r| (&r["outcome"], &r["error"])).collect();
    assert_eq!(ends, [(&json!("client_closed"), &Value::Null); 2]);
}

#[tokio::test]
async fn a_modern_client_is_served_before_a_legacy_server() {
    let server = Fake::plain().await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let found = gate.call(modern(gate.request(), "server/discover", None), discover()).await;
    assert_eq!(found.json()["result"]["supportedVersions"], json!(["2026-07-28"]), "{}", found.text());
    let body = modern_tool("\"x\"", "add", r#"{"n":1}"#);
    let called = gate.call(modern(gate.request(), "tools/call", Some("add")), body).await;
    assert_eq!(called.status, 200, "{}", called.text());
    assert_eq!(
        (&called.json()["id"], &called.json()["result"]["resultType"]),
        (&json!("x"), &json!("complete"))
    );
    let seen = server.calls().into_iter().find(|s| s.rpc() == "tools/call").unwrap();
    assert_eq!(seen.header("mcp-method"), None);
    assert!(seen.json()["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_none());
    let records = gate.stop().await;
    let record = records.iter().find(|r| r["tool"] == "add").unwrap();
    assert_eq!((&record["bridged"], &record["era"]), (&json!(true), &json!("modern")));
}

#[tokio::test]
async fn what_both_speak_is_not_translated() {
    let server = Fake::plain().await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let body = tool(1, "add", r#"{ "n" : 1.50 }"#);
    gate.post(body.clone()).await;
    assert_eq!(server.only().text(), body);
    assert_eq!(gate.stop().await[0]["bridged"], json!(false));
}

/// A legacy server, a modern one and the built-in tools behind one endpoint.
pub(super) async fn several(config: &str) -> (Fake, Fake, Gateway) {
    let (old, new) = (Fake::plain().await, modern_server().await);
    let upstreams = format!(
        "upstreams.old.url = \"{}\"\nupstreams.new.url = \"{}\"\nupstreams.smart.builtin = true\n{config}",
        old.url(),
        new.url()
    );
    let gate = Gateway::start(&upstreams).await;
    for name in ["old", "new", "smart"] {
        gate.knows(name).await;
    }
    (old, new, gate)
}

#[tokio::test]
async fn clients_of_both_eras_see_and_call_all_servers_as_one() {
    let (old, new, gate) = several("").await;
    let listed = gate.call(modern(gate.request(), "tools/list", None), modern_list()).await.json();
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    let legacy = in_session(&gate, "/mcp", &session, request(3, "tools/list")).await.json();
    assert_eq!(names(&listed), names(&legacy));
    for name in ["old__add", "new__add", "smart_fetch"] {
        assert!(names(&listed).iter().any(|n| n == name), "{name}: {listed}");
    }
    for name in ["old__add", "new__add"] {
        let body = modern_tool(4, name, r#"{"n":1}"#);
        let called = gate.call(modern(gate.request(), "tools/call", Some(name)), body).await;
        assert_eq!(called.json()["result"]["isError"], json!(false), "{}", called.text());
        let called = in_session(&gate, "/mcp", &session, tool(5, name, r#"{"n":1}"#)).await;
        assert_eq!(called.json()["result"]["isError"], json!(false), "{}", called.text());
    }
    for server in [&old, &new] {
        let calls = server.calls().into_iter().filter(|s| s.rpc() == "tools/call");
        assert!(calls.clone().count() == 2 && calls.into_iter().all(|s| s.json()["params"]["name"] == "add"));
    }
    let texts = r#"{"texts":["a paragraph that is long enough","a paragraph that is long enough"]}"#;
    let smart = in_session(&gate, "/mcp", &session, tool(6, "smart_dedup", texts)).await.json();
    assert_eq!(smart["result"]["structuredContent"]["kept"], json!([0]), "{smart}");
    let alone = gate.call(gate.request().uri("/mcp/old"), request(7, "tools/list")).await.json();
    assert!(names(&alone).contains(&"add".to_owned()));
    let records = gate.stop().await;
    let of = |tool: &str| {
        let found = records.iter().filter(|r| r["tool"] == tool);
        found.map(|r| (r["upstream"].clone(), r["bridged"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(of("old__add"), vec![(json!("old"), json!(true)); 2]);
    assert_eq!(of("new__add"), [(json!("new"), json!(false)), (json!("new"), json!(true))]);
    assert_eq!(of("smart_dedup")[0].0, json!("smart"));
}

#[tokio::test]
async fn keys_name_tools_as_the_public_does_at_both_paths() {
    let tools = "tools = [\"old__*\", \"!old__fail\"]";
    let (_old, _new, gate) = several(&key("ada", KEY, tools)).await;
    let bearer = format!("Bearer {KEY}");
    let ask = |path: &str, body: String| {
        let request = gate.request().uri(path).header("authorization", &bearer);
        gate.call(request, body)
    };
    let all = ask("/mcp", request(1, "tools/list")).await.json();
    assert_eq!(names(&all), ["old__add", "old__files__read", "old__files__delete_all"]);
    let one = ask("/mcp/old", request(1, "tools/list")).await.json();
    assert_eq!(names(&one), ["add", "files__read", "files__delete_all"]);
    assert_eq!(ask("/mcp", tool(2, "new__add", "{}")).await.status, 403);
    assert_eq!(ask("/mcp/old", tool(2, "fail", "{}")).await.status, 403);
    assert_eq!(ask("/mcp/old", tool(2, "add", "{}")).await.status, 200);
}

#[tokio::test]
async fn a_server_that_is_away_takes_nobody_along() {
    let old = Fake::plain().await;
    let config =
        format!("upstreams.old.url = \"{}\"\nupstreams.gone.url = \"http://127.0.0.1:1/mcp\"\n", old.url());
    let gate = Gateway::start(&config).await;
    gate.knows("old").await;
    let listed = gate.call(modern(gate.request(), "tools/list", None), modern_list()).await.json();
    assert!(names(&listed).contains(&"old__add".to_owned()), "{listed}");
    assert_eq!(listed["result"]["ttlMs"], 0);
    let body = modern_tool(4, "old__add", "{}");
    assert_eq!(gate.call(modern(gate.request(), "tools/call", Some("old__add")), body).await.status, 200);
}

#[tokio::test]
async fn a_replica_with_the_same_key_serves_the_session_and_no_other() {
    let server = modern_server().await;
    let sealing = "sealing.keys = [\"env:SEAL\"]\n";
    let start = |secret: &'static str| {
        let config = format!("{sealing}upstreams.files.url = \"{}\"\n", server.url());
        async move {
            let folder = tempfile::TempDir::new().unwrap();
            let gate = Gateway::try_start(folder, &config, &[("SEAL", secret)]).await;
            gate.knows("files").await;
            gate
        }
    };
    let one = start("the-first-sealing-key-0123456789abcdef").await;
    let two = start("the-first-sealing-key-0123456789abcdef").await;
    let other = start("another-sealing-key-0123456789abcdefgh").await;
    let (_, session) = initialize(&one, "/mcp", "2025-11-25").await;
    drop(one.stop().await);
    assert_eq!(in_session(&two, "/mcp", &session, tool(1, "add", "{}")).await.status, 200);
    assert_eq!(in_session(&other, "/mcp", &session, tool(1, "add", "{}")).await.status, 404);
}

/// What a server says to one of the gateway's callers is for that one, whichever header tells them apart; and the words of
/// a door reach who has to log in.
#[tokio::test]
async fn what_one_client_is_told_is_not_told_to_another() {
    let fake = Fake::speaking(Speaks::Modern, |seen| async move {
        let words = ["authorization", "cookie", "x-api-key"].into_iter().find_map(|name| seen.header(name));
        let Some(words) = words else {
            let mut reply = json_reply(401, r#"{"error":"invalid_token"}"#);
            reply.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
            return reply;
        };
        result(
            &seen,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "instructions": words,
                "capabilities": {}, "ttlMs": 60_000, "cacheScope": "private"}),
        )
    })
    .await;
    let gate = Gateway::before(&fake.url(), "auth.mode = \"passthrough\"").await;
    gate.knows("files").await;
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}"#;
    for (name, value) in
        [("x-api-key", "a"), ("x-api-key", "b"), ("cookie", "a"), ("authorization", "a"), ("x-api-key", "a")]
    {
        let answer = gate.call(gate.request().header(name, value), body).await;
        assert_eq!(answer.json()["result"]["instructions"], value, "{name}: {}", answer.text());
    }
    assert_eq!(fake.count(), 4, "the last was told what it had been told before");
    let refused = gate.call(gate.request(), body).await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
}
