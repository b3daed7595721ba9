//! One record for each call, however it ends well: counted from the journal after the process has stopped.

use serde_json::json;

use super::{KEY, ending, key, request, sha256, tool};
use crate::support::{
    fake::{Fake, channel, error, event, mcp, result, sse, status},
    process::{Gateway, read_to},
    soon,
};

#[tokio::test]
async fn every_answered_call_leaves_one_record() {
    let fake = Fake::start(|seen| async move {
        if seen.method == http::Method::GET {
            return status(405);
        }
        if seen.method == http::Method::DELETE {
            return status(200);
        }
        match seen.json()["params"]["name"].as_str() {
            Some("stream") => {
                let (sender, body) = channel();
                sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
                sender.send(event(r#"{"jsonrpc":"2.0","id":3,"result":{"content":[]}}"#)).await.unwrap();
                sse(body)
            }
            Some("wrong") => error(&seen, -32602, "no such thing"),
            _ => mcp(&seen),
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    assert_eq!(gate.post(tool(1, "add", "{}")).await.status, 200);
    assert_eq!(gate.post(tool(2, "fail", "{}")).await.status, 200);
    assert_eq!(gate.post(tool(3, "stream", "{}")).await.status, 200);
    assert_eq!(gate.post(tool(4, "wrong", "{}")).await.status, 200);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let noted = gate.post(note).await;
    assert_eq!((noted.status, noted.text()), (202, ""));
    let reply = gate.post(r#"{"jsonrpc":"2.0","id":"s1","result":{}}"#).await;
    assert_eq!(reply.status, 202);
    assert_eq!(gate.call(gate.request().method("GET"), "").await.status, 405);
    assert_eq!(gate.call(gate.request().method("DELETE"), "").await.status, 200);
    assert_eq!(gate.call(gate.request().method("OPTIONS"), "").await.status, 204);
    let records = gate.stop().await;
    let told: Vec<_> = records.iter().map(|r| (r["method"].as_str(), ending(r))).collect();
    let call = Some("tools/call");
    assert_eq!(
        told,
        [
            (call, ("ok", Some(200), None, None)),
            (call, ("tool_error", Some(200), None, None)),
            (call, ("ok", Some(200), None, None)),
            (call, ("rpc_error", Some(200), None, Some(-32602))),
            (Some("notifications/cancelled"), ("ok", Some(202), None, None)),
            (None, ("ok", Some(202), None, None)),
            (Some("GET"), ("rpc_error", Some(405), None, None)),
            (Some("DELETE"), ("ok", Some(200), None, None)),
        ]
    );
    // Before them are the start, the self-test and its checkpoint.
    let seqs: Vec<_> = records.iter().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (3..=10).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_record_tells_what_was_called_by_whom_and_how_it_went() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), &key("ada", KEY, "")).await;
    gate.knows("files").await;
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"cursor","version":"2.1"}}}"#;
    let opened = gate.post_as(KEY, hello).await;
    assert_eq!(opened.header("mcp-session-id"), Some("session-of-the-client"));
    let in_session = || {
        gate.request()
            .header("authorization", format!("Bearer {KEY}"))
            .header("mcp-session-id", "session-of-the-client")
            .header("mcp-protocol-version", "2025-06-18")
    };
    let body = tool("\"seven\"", "add", r#"{"n":1}"#);
    let answer = gate.call(in_session(), body.clone()).await;
    let mut records = gate.stop().await;
    let (call, hello) = (records.remove(1), records.remove(0));
    assert_eq!(hello["method"], "initialize");
    assert_eq!(hello["upstream_version"], "2025-06-18");
    assert_eq!(hello["session"], call["session"]);
    let session = call["session"].as_str().unwrap();
    assert!(!session.is_empty() && !session.contains("session-of-the-client"));
    assert_eq!(call["v"], 1);
    assert_eq!(call["principal"], "ada");
    assert_eq!(call["client"], json!({"name": "cursor", "version": "2.1", "address": "127.0.0.1"}));
    assert_eq!(call["era"], "legacy");
    assert_eq!(call["protocol_version"], "2025-06-18");
    assert_eq!((&call["bridged"], &call["lossy"]), (&json!(false), &json!(false)));
    assert_eq!(call["request_id"], "\"seven\"");
    assert_eq!((&call["upstream"], &call["tool"]), (&json!("files"), &json!("add")));
    assert_eq!(call["original_method"], "tools/call");
    assert_eq!((&call["normalized"], &call["shadow"]), (&json!([]), &json!(null)));
    assert_eq!((&call["attempts"], &call["error"]), (&json!(1), &json!(null)));
    assert_eq!(call["request_bytes"], body.len());
    assert_eq!(call["response_bytes"], answer.body.len());
    assert_eq!(call["arguments"], json!({"sha256": sha256(r#"{"n":1}"#)}));
    let text = answer.text();
    let result = &text[text.find("\"result\":").unwrap() + 9..text.len() - 1];
    assert_eq!(call["result"], json!({"sha256": sha256(result)}));
    assert!(call["upstream_ms"].as_f64().unwrap() <= call["duration_ms"].as_f64().unwrap());
}

#[tokio::test]
async fn a_client_that_leaves_once_it_has_its_answer_was_answered() {
    let (kept, streams) = (std::sync::Arc::new(std::sync::Mutex::new(Vec::new())), 1);
    let keep = std::sync::Arc::clone(&kept);
    let fake = Fake::start(move |_| {
        let keep = std::sync::Arc::clone(&keep);
        async move {
            let (sender, body) = channel();
            sender.send(event(r#"{"jsonrpc":"2.0","id":1,"result":{"isError":true}}"#)).await.unwrap();
            keep.lock().unwrap().push(sender);
            sse(body)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut answer = gate.open(gate.request(), tool(1, "add", "{}")).await;
    read_to(answer.body_mut(), "isError").await;
    drop(answer);
    let records = gate.recorded(streams).await;
    assert_eq!(ending(&records[0]), ("tool_error", Some(200), None, None));
    assert!(records[0]["result"]["sha256"].is_string());
    assert_eq!(gate.stop().await.len(), 1);
}

#[tokio::test]
async fn what_is_refused_before_the_handler_leaves_no_record_and_preflights_leave_none() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut raw = gate.raw().await;
    raw.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n").await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 400"));
    let sample = "smartgate_http_refused_total{reason=\"malformed\"} 1";
    soon("the refusal to be counted", async {
        while !gate.page("/metrics").await.text().contains(sample) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    })
    .await;
    let preflight = gate
        .call(
            gate.request()
                .method("OPTIONS")
                .header("origin", "http://localhost:3000")
                .header("access-control-request-method", "POST"),
            "",
        )
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("http://localhost:3000"));
    assert_eq!(gate.stop().await.len(), 0);
}

#[tokio::test]
async fn messages_of_one_connection_are_recorded_each() {
    let fake = Fake::start(|seen| async move { result(&seen, &json!({})) }).await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut raw = gate.raw().await;
    for id in 0..20 {
        let body = request(id, "ping");
        raw.send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        assert_eq!(raw.answer().await.status, 200);
    }
    drop(raw);
    let records = gate.stop().await;
    let ids: Vec<_> = records.iter().map(|r| r["request_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..20).map(|i| i.to_string()).collect::<Vec<_>>());
}
