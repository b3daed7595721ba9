//! Repairs through the whole gateway: what leaves, what is recorded, and what shadow mode does instead.

use serde_json::json;

use super::{META, modern, request, tool};
use crate::support::{
    fake::{Fake, Speaks, mcp},
    process::Gateway,
};

#[tokio::test]
async fn broken_calls_are_repaired_and_recorded() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let cases = [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
            json!(["params_array"]),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":null}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{}}}"#,
            json!(["arguments_null"]),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"n":"7"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"n":7}}}"#,
            json!(["schema_coercion"]),
        ),
        (
            "\u{feff}{\"id\":1,\"method\":\"ping\",\"params\":{}}",
            "{\"id\":1,\"method\":\"ping\",\"params\":{},\"jsonrpc\":\"2.0\"}",
            json!(["bom", "jsonrpc_missing"]),
        ),
    ];
    for (nth, (sent, arrives, rules)) in cases.into_iter().enumerate() {
        assert_eq!(gate.post(sent).await.status, 200);
        assert_eq!(fake.calls()[nth].text(), arrives);
        let record = gate.recorded(nth + 1).await.remove(nth);
        assert_eq!(record["normalized"], rules);
        assert_eq!(record["request_bytes"], sent.len());
    }
    let direct = gate.post(r#"{"jsonrpc":"2.0","id":9,"method":"add","params":{"n":"7"}}"#).await;
    assert_eq!(direct.status, 200);
    assert_eq!(fake.calls()[4].json()["params"], json!({"name": "add", "arguments": {"n": 7}}));
    let record = gate.recorded(5).await.remove(4);
    assert_eq!((&record["method"], &record["original_method"]), (&json!("tools/call"), &json!("add")));
    assert_eq!(record["tool"], "add");
    assert_eq!(
        record["edits"],
        json!([{"rule": "schema_coercion", "path": "/n", "from": "string", "to": "integer"}])
    );
    assert_eq!(record["arguments"]["sha256"], super::sha256(r#"{"n":7}"#));
    gate.page("/metrics").await;
    let page = gate.page("/metrics").await;
    assert!(page.text().contains("smartgate_repairs_total{rule=\"schema_coercion\""), "{}", page.text());
}

#[tokio::test]
async fn mirrored_headers_are_derived_afresh_after_a_repair() {
    let fake = Fake::speaking(Speaks::Modern, |seen| async move { mcp(&seen) }).await;
    fake.set_tools(json!([{"name": "add", "inputSchema": {"type": "object", "properties":
        {"n": {"type": "integer", "x-mcp-header": "N"}}}}]))
        .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let direct = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"add","params":{{"n":"7",{META}}}}}"#);
    let answer = gate.call(modern(gate.request(), "add", None), direct).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = fake.only();
    assert_eq!((seen.header("mcp-method"), seen.header("mcp-name")), (Some("tools/call"), Some("add")));
    assert_eq!(seen.header("mcp-param-n"), Some("7"));
    assert_eq!(seen.json()["params"]["arguments"], json!({"n": 7}));
    assert_eq!(seen.json()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test]
async fn shadow_mode_forwards_the_original_and_records_what_would_have_been_done() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "normalize.shadow = true").await;
    gate.knows("files").await;
    let cases = [
        (
            r#"{"id":1,"method":"tools/list","params":[]}"#.to_owned(),
            json!(["jsonrpc_missing", "params_array"]),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"add","params":{"n":1}}"#.to_owned(),
            json!(["direct_tool_method"]),
        ),
        (tool(1, "add", "{\"n\":\"7\"}"), json!(["schema_coercion"])),
        (tool(1, "add", "{\"n\":7}"), json!([])),
    ];
    for (nth, (sent, rules)) in cases.into_iter().enumerate() {
        gate.post(sent.clone()).await;
        assert_eq!(fake.calls()[nth].text(), sent);
        let record = gate.recorded(nth + 1).await.remove(nth);
        assert_eq!((&record["shadow"], &record["normalized"]), (&rules, &json!([])), "{sent}");
        assert_eq!((&record["lossy"], &record["edits"]), (&json!(false), &json!([])));
    }
    assert!(gate.metric("smartgate_repairs_total{rule=\"params_array\"}").await.abs() < 0.1);
}

#[tokio::test]
async fn initialize_goes_to_a_legacy_server_without_the_version_header() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let hello = request(1, "initialize").replace(
        "{}",
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}"#,
    );
    gate.call(gate.request().header("mcp-protocol-version", "2025-06-18"), hello).await;
    assert_eq!(fake.only().header("mcp-protocol-version"), None);
}

#[tokio::test]
async fn coercion_can_differ_by_key() {
    let fake = Fake::plain().await;
    let bob = "sg-the-key-of-bob-0123456789abcdef";
    let config = super::key("ada", super::KEY, "schema_coercion = \"off\"") + &super::key("bob", bob, "");
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    for (key, n) in [(super::KEY, json!("7")), (bob, json!(7))] {
        gate.post_as(key, tool(1, "add", "{\"n\":\"7\"}")).await;
        assert_eq!(fake.calls().last().unwrap().json()["params"]["arguments"]["n"], n);
    }
}
