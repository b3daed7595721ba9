//! `smartgate doctor` against servers over real sockets.

use std::process::Output;

use serde_json::{Value, json};

use super::support::{
    fake::{Fake, Reply, Seen, error, result, status, typed},
    process::program,
};

/// Has the fake server leave every answer to the script.
const SCRIPT: &str = "X-Script: yes";

/// A server that takes nothing but what the specification shows, in one legacy revision.
fn strict(seen: &Seen) -> Reply {
    if seen.method == http::Method::GET {
        return status(405);
    }
    let message = seen.json();
    if seen.body.starts_with(b"\xef\xbb\xbf") || message["jsonrpc"] != "2.0" {
        return typed(400, "application/json", r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}"#);
    }
    if message.get("id").is_none() {
        return status(202);
    }
    let params = &message["params"];
    match seen.rpc().as_str() {
        "initialize" => result(
            seen,
            &json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "strict", "version": "3"}}),
        ),
        "ping" => result(seen, &json!({})),
        "tools/list" if params.is_object() && params.get("cursor").is_none() => result(
            seen,
            &json!({"tools": [
                {"name": "erase", "inputSchema": {"type": "object"}},
                {"name": "look", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
                    "annotations": {"readOnlyHint": true}},
            ]}),
        ),
        "tools/call" if params["name"] == "look" && takes(&params["arguments"]) => {
            result(seen, &json!({"content": []}))
        }
        "tools/list" | "tools/call" => error(seen, -32602, "no"),
        _ => error(seen, -32601, "no"),
    }
}

fn takes(arguments: &Value) -> bool {
    arguments.is_object() && arguments.get("n").is_none_or(Value::is_u64)
}

async fn doctor(args: &[&str]) -> Output {
    let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    tokio::task::spawn_blocking(move || program().arg("doctor").args(args).output().unwrap()).await.unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_server_is_examined_without_touching_it() {
    let server = Fake::start(|seen| async move { strict(&seen) }).await;
    let output = doctor(&[&server.url(), "--json", "--header", SCRIPT]).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(report["versions"], json!(["2025-06-18"]));
    assert_eq!(report["server"], "strict 3");
    assert_eq!(report["tools"], 2);
    assert_eq!(report["transports"]["streamable_http"], "json");
    assert_eq!(report["transports"]["get_stream"], false);
    assert_eq!(report["eras"], json!(["legacy"]));
    assert_eq!(report["called"], json!({"tool": "look", "arguments": {}, "plain": "works"}));
    assert!(report["latency_ms"]["median"].is_number());
    let shapes = report["shapes"].as_array().unwrap();
    assert_eq!(shapes.len(), 13);
    for shape in shapes {
        assert!(shape["direct"].as_str().unwrap().starts_with("refused"), "{shape}");
        assert_eq!(shape["repaired"], "works", "{shape}");
        assert_ne!(shape["rules"], json!([]), "{shape}");
    }
    let called = |seen: &Seen| seen.json()["params"]["name"] == "erase" || seen.rpc() == "erase";
    assert!(!server.calls().iter().any(called), "a tool that may write was called");

    let people = text(&doctor(&[&server.url(), "--header", SCRIPT]).await);
    assert!(
        people.contains("13 odd requests refused by the server; 13 of them work through the gateway"),
        "{people}"
    );
    for row in
        ["2025-06-18 yes", "eras           legacy", "called         look {}: works", "OAuth  ", "latency  "]
    {
        assert!(people.contains(row), "{row} is missing in {people}");
    }
}

/// Tools that need arguments, one of them destructive.
fn needy(seen: &Seen) -> Reply {
    let params = &seen.json()["params"];
    let needs = json!({"type": "object", "properties": {"id": {"type": "integer", "minimum": 3}}, "required": ["id"]});
    match seen.rpc().as_str() {
        "tools/list" => result(
            seen,
            &json!({"tools": [
                {"name": "erase", "inputSchema": {"type": "object"}, "annotations": {"destructiveHint": true}},
                {"name": "write", "inputSchema": {"type": "object"}},
                {"name": "find", "inputSchema": needs, "annotations": {"readOnlyHint": true}},
            ]}),
        ),
        "tools/call" if params["name"] == "write" => result(seen, &json!({"content": []})),
        "tools/call" if params["arguments"]["id"].as_u64().is_some_and(|id| id >= 3) => {
            result(seen, &json!({"content": []}))
        }
        "tools/call" => error(seen, -32602, "id is missing"),
        _ => strict(seen),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_needs_arguments_gets_the_smallest_valid_ones() {
    let server = Fake::start(|seen| async move { needy(&seen) }).await;
    let output = doctor(&[&server.url(), "--json", "--header", SCRIPT]).await;
    let report: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(report["called"], json!({"tool": "find", "arguments": {"id": 3}, "plain": "works"}));
    let direct = |name: &str| {
        let shapes = report["shapes"].as_array().unwrap();
        let shape = shapes.iter().find(|s| s["request"] == name).unwrap();
        (shape["direct"].as_str().unwrap().to_owned(), shape["repaired"].clone())
    };
    for name in ["arguments: []", "arguments: null", "no arguments"] {
        assert_eq!(direct(name).0, "not tried: 'find' needs arguments");
    }
    for name in ["arguments as JSON text", "a tool's name as method", "a number or flag as text"] {
        assert!(direct(name).0.starts_with("refused") && direct(name).1 == "works", "{name}: {report:#}");
    }

    let chosen = doctor(&[&server.url(), "--header", SCRIPT, "--tool", "write"]).await;
    assert!(text(&chosen).contains("called         write {}: works"), "{}", text(&chosen));
    let refused = doctor(&[&server.url(), "--header", SCRIPT, "--tool", "erase"]).await;
    assert!(text(&refused).contains("not tried: 'erase' is annotated destructive"), "{}", text(&refused));
    let called = |seen: &Seen| seen.json()["params"]["name"] == "erase" || seen.rpc() == "erase";
    assert!(!server.calls().iter().any(called), "a destructive tool was called");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_path_is_told_with_what_to_try() {
    let at_mcp =
        |seen: Seen| async move { if seen.uri.path() == "/mcp" { strict(&seen) } else { status(404) } };
    let server = Fake::start(at_mcp).await;
    let wrong = server.url().replace("/mcp", "/wrong");
    let output = doctor(&[&wrong, "--header", SCRIPT]).await;
    assert_eq!(output.status.code(), Some(1));
    let told = "HTTP 404 and no JSON-RPC response; nothing speaks MCP at /wrong, but at /mcp something does";
    assert!(text(&output).contains(told), "{}", text(&output));

    let empty = Fake::start(|_| async { status(404) }).await;
    let output = doctor(&[&empty.url(), "--header", SCRIPT]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("nor at /sse, /: look up the path"), "{}", text(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_server_exits_with_1_and_says_why() {
    let nobody = doctor(&["http://127.0.0.1:1/mcp"]).await;
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody).contains("cannot connect"), "{}", text(&nobody));

    let locked = Fake::start(|_| async move { status(401) }).await;
    let refused = doctor(&[&locked.url()]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("give credentials with --header"), "{}", text(&refused));

    let web = Fake::start(|_| async move { typed(200, "text/html", "<p>hello</p>") }).await;
    let html = doctor(&[&web.url()]).await;
    assert_eq!(html.status.code(), Some(1));
    assert!(text(&html).contains("no JSON-RPC response"), "{}", text(&html));

    assert_eq!(doctor(&["not a url"]).await.status.code(), Some(64));
    assert_eq!(doctor(&[&web.url(), "--header", "nothing"]).await.status.code(), Some(64));
}
