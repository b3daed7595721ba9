//! The tools of an upstream as the gateway knows them: learned before any client asks, also when the upstream
//! comes late, changes its tools, or goes and comes back.

use crate::support::free::free;
use serde_json::json;

use super::{ending, request};
use crate::support::{
    fake::{Fake, Speaks, mcp},
    process::Gateway,
    until,
};

fn direct(id: u32, name: &str) -> String {
    request(id, name)
}

#[tokio::test]
async fn tools_are_known_without_a_client_asking() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let fake = Fake::speaking(speaks, |seen| async move { mcp(&seen) }).await;
        let gate = Gateway::before(&fake.url(), "").await;
        gate.knows("files").await;
        assert_eq!(fake.count(), 0);
        let answer = gate.post(direct(1, "add")).await;
        assert_eq!(answer.status, 200);
        assert_eq!(fake.only().rpc(), "tools/call");
        let records = gate.stop().await;
        assert_eq!(records.len(), 1, "the gateway's own requests are no calls");
        assert_eq!(records[0]["normalized"], json!(["direct_tool_method"]));
    }
}

#[tokio::test]
async fn the_gateway_serves_while_its_upstream_is_away_and_repairs_once_it_is_there() {
    let addr = free();
    let gate = Gateway::before(&format!("http://{addr}/mcp"), "").await;
    gate.ready_until("the first look, which fails", |r| r["ready"] == true).await;
    assert_eq!(gate.post(direct(1, "add")).await.reason(), "upstream_connect");
    let fake = Fake::at(addr, Speaks::Legacy, |seen| async move { mcp(&seen) }).await;
    gate.knows("files").await;
    assert_eq!(gate.post(direct(2, "add")).await.status, 200);
    assert_eq!(fake.only().rpc(), "tools/call");
    assert!((gate.metric("smartgate_upstream_up{upstream=\"files\"}").await - 1.0).abs() < 0.1);
    // It goes, and the gateway still knows what it had.
    fake.kill().await;
    assert_eq!(gate.post(direct(3, "add")).await.status, 502);
    let record = gate.recorded(3).await.remove(2);
    assert_eq!((&record["tool"], ending(&record).0), (&json!("add"), "upstream_failed"));
}

#[tokio::test]
async fn the_gateway_is_ready_when_each_upstream_has_answered_or_failed() {
    let fake = Fake::plain().await;
    // Takes connections and never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "upstreams.files.url = \"{}\"\nupstreams.mute.url = \"http://{}/mcp\"\nupstreams.mute.timeout = \"2s\"",
        fake.url(),
        mute.local_addr().unwrap()
    );
    let gate = Gateway::start(&config).await;
    gate.knows("files").await;
    let page = gate.page("/readyz").await;
    assert_eq!((page.status, &page.json()["state"]), (503, &json!("starting")));
    assert_eq!(page.json()["upstreams"]["mute"]["state"], "learning");
    assert_eq!(gate.page("/healthz").await.status, 200);
    let state = gate.ready_until("the end of the first look", |r| r["ready"] == true).await;
    assert_eq!(
        (&state["state"], &state["upstreams"]["mute"]["state"]),
        (&json!("serving"), &json!("unreachable"))
    );
    assert_eq!(gate.page("/readyz").await.status, 200);
}

#[tokio::test]
async fn new_tools_are_known_when_the_upstream_tells_of_them() {
    for speaks in [Speaks::Legacy, Speaks::Modern] {
        let fake = Fake::speaking(speaks, |seen| async move { mcp(&seen) }).await;
        let gate = Gateway::before(&fake.url(), "").await;
        gate.knows("files").await;
        until("the gateway watches", || fake.watchers() == 1).await;
        gate.post(direct(1, "fresh")).await;
        assert_eq!(fake.calls()[0].rpc(), "fresh");
        fake.set_tools(json!([{"name": "fresh", "inputSchema": {"type": "object"}}])).await;
        until("a second list", || fake.lists() >= 2).await;
        gate.ready_until("one tool", |r| {
            r["upstreams"]["files"]["detail"].as_str().is_some_and(|d| d.starts_with("1 tools"))
        })
        .await;
        gate.post(direct(2, "fresh")).await;
        assert_eq!(fake.calls()[1].rpc(), "tools/call");
    }
}

#[tokio::test]
async fn a_change_that_passes_on_a_client_s_stream_counts_too() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = crate::support::fake::channel();
        let note = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        sender.send(crate::support::fake::event(note)).await.unwrap();
        crate::support::fake::sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let before = fake.lists();
    gate.call(gate.request().method("GET"), "").await;
    until("another look", || fake.lists() > before).await;
}

#[tokio::test]
async fn in_pass_through_the_tools_are_learned_from_passing_lists() {
    let fake = Fake::speaking(Speaks::OnlyWithCredentials, |seen| async move { mcp(&seen) }).await;
    let gate = Gateway::before(&fake.url(), "auth.mode = \"passthrough\"").await;
    gate.ready_until("a refusal", |r| r["upstreams"]["files"]["state"] == "unauthorized").await;
    gate.post_as("theirs", direct(1, "add")).await;
    assert_eq!(fake.calls()[0].rpc(), "add");
    assert_eq!(gate.post_as("theirs", request(2, "tools/list")).await.status, 200);
    gate.recorded(2).await;
    gate.post_as("theirs", direct(3, "add")).await;
    assert_eq!(fake.calls()[2].rpc(), "tools/call");
}
