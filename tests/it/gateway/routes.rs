//! Which upstream a call reaches: one of several by name, the built-in one, or the one of the command line.

use crate::support::free::free;
use std::process::Stdio;

use serde_json::json;

use super::{KEY, key, refused, request, tool};
use crate::support::{
    fake::Fake,
    process::{Gateway, program},
};

#[tokio::test]
async fn each_of_several_upstreams_has_its_own_path() {
    let (one, two) = (Fake::plain().await, Fake::plain().await);
    let config = format!("upstreams.one.url = \"{}\"\nupstreams.two.url = \"{}\"\n", one.url(), two.url());
    let gate = Gateway::start(&config).await;
    assert_eq!(gate.call(gate.request().uri("/mcp/one"), request(1, "ping")).await.status, 200);
    assert_eq!(gate.call(gate.request().uri("/mcp/two/"), request(1, "ping")).await.status, 200);
    assert_eq!((one.count(), two.count()), (1, 1));
    assert_eq!(gate.call(gate.request().uri("/mcp/three"), request(1, "ping")).await.status, 404);
    let records = gate.stop().await;
    let names: Vec<_> = records.iter().map(|r| r["upstream"].clone()).collect();
    assert_eq!(names, [json!("one"), json!("two"), json!(null)]);
}

#[tokio::test]
async fn who_has_no_key_does_not_learn_which_upstreams_there_are() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), &key("ada", KEY, "")).await;
    for path in ["/mcp", "/mcp/files", "/mcp/nobody"] {
        let answer = gate.call(gate.request().uri(path), request(1, "ping")).await;
        refused(&answer, 401, 401, "unauthenticated", None);
    }
    let known = gate.request().uri("/mcp/nobody").header("authorization", format!("Bearer {KEY}"));
    refused(&gate.call(known, request(1, "ping")).await, 404, 404, "no_route", None);
}

#[tokio::test]
async fn the_built_in_tools_are_an_upstream_like_any_other() {
    let gate = Gateway::start("").await;
    gate.knows("builtin").await;
    let list = gate.post(request(1, "tools/list")).await.json();
    assert!(list["result"]["tools"].as_array().is_some_and(|t| !t.is_empty()), "{list}");
    let text = "\"one paragraph that is long enough to be a paragraph of its own\"";
    let arguments = format!("{{\"texts\":[{text},{text},{text}]}}");
    let direct =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"smart_dedup\",\"params\":{arguments}}}");
    for (nth, body) in [tool(2, "smart_dedup", &arguments), direct].into_iter().enumerate() {
        let answer = gate.post(body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.json()["result"]["isError"] != true, "{}", answer.text());
        let record = gate.recorded(nth + 2).await.remove(nth + 1);
        assert_eq!((&record["outcome"], &record["tool"]), (&json!("ok"), &json!("smart_dedup")));
        assert!(record["tokens"]["in"].as_u64().is_some_and(|n| n > 0), "{record}");
    }
    gate.stop().await;
}

#[tokio::test]
async fn one_upstream_of_the_command_line_is_passed_through() {
    let fake = Fake::plain().await;
    let home = tempfile::TempDir::new().unwrap();
    let addr = free();
    let mut child = program()
        .args(["serve", "--listen", &addr.to_string(), "--upstream", &fake.url()])
        .env("XDG_STATE_HOME", home.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    crate::support::soon("the listener", async {
        while tokio::net::TcpStream::connect(addr).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let call = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("authorization", "Bearer theirs");
    let call = call.body(http_body_util::Full::new(request(1, "ping").into())).unwrap();
    let status = crate::support::process::send_to(addr, call).await.status();
    crate::support::process::signal(child.id(), "TERM");
    let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status == 200 && ended.success());
    assert_eq!(fake.only().header("authorization"), Some("Bearer theirs"));
    let journal = std::fs::read_to_string(home.path().join("smartgate/audit.jsonl")).unwrap();
    assert_eq!(journal.matches("\"kind\":\"call\"").count(), 1);
}
