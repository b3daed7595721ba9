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
                {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
            ]}),
        ),
        "tools/call" if params["name"] == "look" && params["arguments"].is_object() => {
            result(seen, &json!({"content": []}))
        }
        "tools/list" | "tools/call" => error(seen, -32602, "no"),
        _ => error(seen, -32601, "no"),
    }
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
    let shapes = report["shapes"].as_array().unwrap();
    assert_eq!(shapes.len(), 12);
    for shape in shapes {
        assert!(shape["direct"].as_str().unwrap().starts_with("refused"), "{shape}");
        assert_eq!(shape["repaired"], "works", "{shape}");
        assert_ne!(shape["rules"], json!([]), "{shape}");
    }
    let called = |seen: &Seen| seen.json()["params"]["name"] == "erase" || seen.rpc() == "erase";
    assert!(!server.calls().iter().any(called), "a tool that may write was called");

    let people = text(&doctor(&[&server.url(), "--header", SCRIPT]).await);
    assert!(
        people.contains("12 odd requests refused by the server; 12 of them work through the gateway"),
        "{people}"
    );
    assert!(people.contains("2025-06-18 yes"), "{people}");
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
