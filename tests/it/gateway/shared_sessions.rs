//! A legacy client's session with several servers, of which one fails: the failure is of that call alone, and what comes
//! back is found again in the same session.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::json;

use super::{modern, modern_tool, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, json_reply, mcp, result, status, typed},
    process::{Answer, Gateway},
};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old-host","version":"1"}}}"#;

/// `frail` has failed, and `other` has not.
async fn before(frail: &Fake, other: &Fake) -> Gateway {
    let config = format!("upstreams.frail.url = {:?}\nupstreams.other.url = {:?}", frail.url(), other.url());
    let gate = Gateway::start(&config).await;
    gate.knows("frail").await;
    gate.knows("other").await;
    gate
}

async fn session(gate: &Gateway, path: &str) -> String {
    let answer = gate.call(gate.request().uri(path), HELLO).await;
    answer.header("mcp-session-id").expect("a session").to_owned()
}

async fn within(gate: &Gateway, path: &str, session: &str, name: &str) -> Answer {
    let request = gate.request().uri(path).header("mcp-session-id", session);
    gate.call(request.header("mcp-protocol-version", "2025-06-18"), tool(3, name, "{}")).await
}

fn echo(seen: &Seen) -> Reply {
    match seen.rpc().as_str() {
        "tools/call" => {
            result(seen, &json!({"content": [{"type": "text", "text": "done"}], "isError": false}))
        }
        _ => mcp(seen),
    }
}

#[tokio::test]
async fn a_server_that_is_gone_does_not_end_the_session_with_the_others() {
    let frail = Fake::speaking(Speaks::Legacy, |seen| async move { echo(&seen) }).await;
    let other = Fake::speaking(Speaks::Legacy, |seen| async move { echo(&seen) }).await;
    let gate = before(&frail, &other).await;
    let (all, alone) = (session(&gate, "/mcp").await, session(&gate, "/mcp/frail").await);
    frail.kill().await;
    let answer = within(&gate, "/mcp", &all, "frail__add").await;
    assert_eq!((answer.status, answer.reason().as_str()), (200, "upstream_connect"));
    assert_eq!((&answer.json()["error"]["code"], &answer.json()["id"]), (&json!(502), &json!(3)));
    assert_eq!(within(&gate, "/mcp", &all, "other__add").await.json()["result"]["isError"], false);
    assert_eq!(within(&gate, "/mcp/frail", &alone, "add").await.status, 502, "nobody shares that session");
    let request = modern(gate.request(), "tools/call", Some("frail__add"));
    let answer = gate.call(request, modern_tool(4, "frail__add", "{}")).await;
    assert_eq!(answer.status, 502, "there is no session to be ended");
    let records = gate.stop().await;
    let failed = records.iter().filter(|r| r["outcome"] == "upstream_failed").count();
    assert_eq!(failed, 3);
}

#[tokio::test]
async fn statuses_of_failure_are_in_band_too_and_the_servers_words_are_kept() {
    let frail = Fake::speaking(Speaks::Modern, |seen| async move {
        match (seen.rpc().as_str(), seen.json()["params"]["name"].as_str()) {
            ("tools/call", Some("add")) => json_reply(
                500,
                format!(
                    r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32000,"message":"no room"}}}}"#,
                    seen.json()["id"]
                ),
            ),
            ("tools/call", _) => typed(503, "text/html", "<p>busy</p>"),
            _ => mcp(&seen),
        }
    })
    .await;
    let other = Fake::plain().await;
    let gate = before(&frail, &other).await;
    let all = session(&gate, "/mcp").await;
    let said = within(&gate, "/mcp", &all, "frail__add").await;
    assert_eq!((said.status, &said.json()["error"]["message"]), (200, &json!("no room")));
    let page = within(&gate, "/mcp", &all, "frail__fail").await;
    assert_eq!((page.status, page.reason().as_str()), (200, "upstream_protocol"));
}

#[tokio::test]
async fn a_session_that_a_server_does_not_know_is_opened_again_also_if_the_refusal_names_the_request() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&opened);
    let frail = Fake::speaking(Speaks::Legacy, move |seen| {
        let known = format!("s{}", count.load(SeqCst));
        let reply = match seen.rpc().as_str() {
            "initialize" => {
                let mut reply = mcp(&seen);
                let id = format!("s{}", count.fetch_add(1, SeqCst) + 1);
                reply.headers_mut().insert("mcp-session-id", id.parse().unwrap());
                reply
            }
            "tools/call" if seen.header("mcp-session-id") != Some(&known) => {
                let why = r#""error":{"code":-32600,"message":"there is no such session"}"#;
                json_reply(404, format!(r#"{{"jsonrpc":"2.0","id":{},{why}}}"#, seen.json()["id"]))
            }
            "tools/call" => echo(&seen),
            _ if seen.method == http::Method::POST => mcp(&seen),
            _ => status(405),
        };
        async move { reply }
    })
    .await;
    let other = Fake::plain().await;
    let gate = before(&frail, &other).await;
    let all = session(&gate, "/mcp").await;
    for _ in 0..2 {
        let answer = within(&gate, "/mcp", &all, "frail__add").await;
        assert_eq!(answer.json()["result"]["isError"], false, "{}", answer.text());
        // The server forgets all sessions.
        opened.fetch_add(1, SeqCst);
    }
}
