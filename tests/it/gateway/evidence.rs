//! What calls show of a server reaches what is known of it: also of one of several, of one under other names, and where the
//! gateway has not been let in or has not reached it.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{
    META,
    bridge::{initialize, modern_server_at, names},
    modern, modern_tool, request, tool,
};
use crate::support::{
    fake::{Fake, Speaks, default_tools, error, mcp, result, status, strict},
    free::free,
    process::{Answer, Gateway},
    soon, until,
};

/// A modern server that tells of no changes, so that nothing but a call says that it is another one.
async fn silent_at(addr: SocketAddr) -> Fake {
    modern_server_at(addr, Speaks::ModernAndSilent).await
}

async fn legacy_at(addr: SocketAddr) -> Fake {
    Fake::at(addr, Speaks::Legacy, |seen| async move { strict(&seen) }).await
}

/// Two servers as one, the first at `addr`.
async fn two(addr: SocketAddr, other: &Fake) -> Gateway {
    let config = format!("upstreams.a.url = \"http://{addr}/mcp\"\nupstreams.b.url = \"{}\"\n", other.url());
    let gate = Gateway::start(&config).await;
    gate.ready_until("the first look", |r| r["ready"] == true).await;
    gate.knows("b").await;
    gate
}

async fn call(gate: &Gateway, name: &str) -> Answer {
    gate.call(modern(gate.request(), "tools/call", Some(name)), modern_tool(7, name, r#"{"n":1}"#)).await
}

async fn list(gate: &Gateway) -> Value {
    let body = format!(r#"{{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{{{META}}}}}"#);
    gate.call(modern(gate.request(), "tools/list", None), body).await.json()
}

async fn works_soon(gate: &Gateway, name: &str) {
    soon("a call that works", async {
        while call(gate, name).await.json().get("result").is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_of_several_that_became_legacy_is_found_by_a_modern_call() {
    let (server, other) = (silent_at(free()).await, Fake::plain().await);
    let addr = server.addr;
    let gate = two(addr, &other).await;
    gate.knows("a").await;
    assert_eq!(call(&gate, "a__add").await.status, 200);
    server.kill().await;
    let _server = legacy_at(addr).await;
    assert_eq!(call(&gate, "a__add").await.status, 400, "as the server said it");
    works_soon(&gate, "a__add").await;
    gate.ready_until("its era", |r| r["upstreams"]["a"]["detail"].as_str().unwrap().contains("legacy")).await;
    assert_eq!(call(&gate, "b__add").await.status, 200);
}

#[tokio::test]
async fn one_of_several_that_became_legacy_is_found_by_a_legacy_call() {
    let (server, other) = (silent_at(free()).await, Fake::plain().await);
    let addr = server.addr;
    let gate = two(addr, &other).await;
    gate.knows("a").await;
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    let call = || {
        let request = gate.request().header("mcp-session-id", &session);
        gate.call(request.header("mcp-protocol-version", "2025-06-18"), tool(7, "a__add", r#"{"n":1}"#))
    };
    assert!(call().await.json().get("result").is_some());
    server.kill().await;
    let _server = legacy_at(addr).await;
    soon("a call that works, in the same session", async {
        while call().await.json().get("result").is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
}

/// A server without sessions and without a stream: nothing breaks when it goes.
#[tokio::test]
async fn one_of_several_that_became_modern_is_found() {
    let other = Fake::plain().await;
    let server = Fake::speaking(Speaks::LegacyAndSilent, |seen| async move { mcp(&seen) }).await;
    let addr = server.addr;
    let gate = two(addr, &other).await;
    gate.knows("a").await;
    assert_eq!(call(&gate, "a__add").await.status, 200);
    server.kill().await;
    let server = silent_at(addr).await;
    works_soon(&gate, "a__add").await;
    gate.ready_until("its era", |r| r["upstreams"]["a"]["detail"].as_str().unwrap().contains("modern")).await;
    assert_eq!(call(&gate, "a__add").await.status, 200);
    let seen = server.calls().into_iter().next_back().unwrap();
    assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"), "no longer translated");
}

/// The tool `gone` is not there any more.
#[tokio::test]
async fn a_tool_that_one_of_several_has_lost_leaves_the_list() {
    let other = Fake::plain().await;
    let server = Fake::speaking(Speaks::ModernAndSilent, |seen| async move {
        match seen.json()["params"]["name"].as_str() {
            Some("gone") => error(&seen, -32602, "Unknown tool"),
            _ => result(&seen, &json!({"resultType": "complete", "content": []})),
        }
    })
    .await;
    let tools = |names: &[&str]| -> Value {
        names.iter().map(|n| json!({"name": n, "inputSchema": {"type": "object"}})).collect()
    };
    server.set_tools(tools(&["gone", "kept"])).await;
    let gate = two(server.addr, &other).await;
    gate.knows("a").await;
    assert!(names(&list(&gate).await).contains(&"a__gone".to_owned()));
    server.set_tools(tools(&["kept", "new"])).await;
    assert_eq!(call(&gate, "a__gone").await.json()["error"]["message"], "Unknown tool");
    soon("the list as it is now", async {
        loop {
            let names = names(&list(&gate).await);
            if !names.contains(&"a__gone".to_owned()) {
                assert!(names.contains(&"a__new".to_owned()), "{names:?}");
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn one_server_under_another_name_is_looked_at_too() {
    let server = silent_at(free()).await;
    let addr = server.addr;
    let gate = Gateway::before(&server.url(), "upstreams.files.prefix = \"p\"").await;
    gate.knows("files").await;
    assert_eq!(call(&gate, "p__add").await.status, 200);
    server.kill().await;
    let _server = legacy_at(addr).await;
    works_soon(&gate, "p__add").await;
}

#[tokio::test]
async fn one_of_several_that_is_gone_is_known_to_be_and_comes_back_by_itself() {
    let (server, other) = (silent_at(free()).await, Fake::plain().await);
    let addr = server.addr;
    let gate = two(addr, &other).await;
    gate.knows("a").await;
    let up = "smartgate_upstream_up{upstream=\"a\"}";
    assert!(gate.metric(up).await > 0.5);
    server.kill().await;
    assert_eq!(call(&gate, "a__add").await.reason(), "upstream_connect");
    gate.ready_until("it is known to be gone", |r| r["upstreams"]["a"]["state"] == "unreachable").await;
    assert!(gate.metric(up).await < 0.5);
    let partial = list(&gate).await;
    assert_eq!(
        (&partial["result"]["ttlMs"], &partial["result"]["cacheScope"]),
        (&json!(0), &json!("private"))
    );
    assert!(names(&partial).contains(&"a__add".to_owned()), "what it had is still shown");
    for _ in 0..20 {
        call(&gate, "a__add").await;
    }
    assert_eq!(gate.log().matches("cannot learn the upstream's tools").count(), 1, "{}", gate.log());
    let record = gate.recorded(2).await.into_iter().find(|r| r["outcome"] == "upstream_failed").unwrap();
    assert_eq!(record["upstream"], "a", "{record}");
    let _server = silent_at(addr).await;
    gate.knows("a").await;
    assert!(gate.metric(up).await > 0.5);
}

#[tokio::test]
async fn a_hundred_refusals_are_one_look_a_second() {
    let other = Fake::plain().await;
    let server = Fake::speaking(Speaks::ModernAndSilent, |seen| async move {
        error(&seen, -32602, "Unknown tool, whatever it is")
    })
    .await;
    let gate = two(server.addr, &other).await;
    gate.knows("a").await;
    let (before, began) = (server.lists(), std::time::Instant::now());
    for _ in 0..100 {
        call(&gate, "a__add").await;
    }
    until("a look", || server.lists() > before).await;
    let allowed = 1 + began.elapsed().as_secs() as usize;
    assert!(server.lists() - before <= allowed, "{} looks", server.lists() - before);
}

#[tokio::test]
async fn a_revision_that_is_fixed_counts_where_the_gateway_is_not_let_in() {
    let fake = Fake::speaking(Speaks::OnlyWithCredentials, |seen| async move { strict(&seen) }).await;
    let config = "auth.mode = \"passthrough\"\nupstreams.files.protocol = \"2025-11-25\"";
    let gate = Gateway::before(&fake.url(), config).await;
    gate.ready_until("a refusal", |r| r["upstreams"]["files"]["state"] == "unauthorized").await;
    let theirs = gate.request().header("authorization", "Bearer theirs");
    let answer = gate.call(modern(theirs, "tools/call", Some("add")), modern_tool(1, "add", "{}")).await;
    assert_eq!((answer.status, &answer.json()["result"]["resultType"]), (200, &json!("complete")));
    assert!(fake.calls().iter().all(|seen| seen.header("authorization") == Some("Bearer theirs")));
}

/// Servers whose clients log in by OAuth refuse the gateway itself.
#[tokio::test]
async fn a_server_that_lets_only_its_clients_in_is_translated_for() {
    let fake = Fake::speaking(Speaks::OnlyWithCredentials, |seen| async move {
        if seen.header("authorization") == Some("Bearer theirs") { strict(&seen) } else { status(401) }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "auth.mode = \"passthrough\"").await;
    gate.ready_until("a refusal", |r| r["upstreams"]["files"]["state"] == "unauthorized").await;
    let call = async |token: Option<&str>| {
        let request = token.into_iter().fold(gate.request(), |r, token| r.header("authorization", token));
        gate.call(modern(request, "tools/call", Some("add")), modern_tool(1, "add", "{}")).await
    };
    assert_eq!(call(None).await.status, 401, "as the server said it");
    let answer = call(Some("Bearer theirs")).await;
    assert_eq!((answer.status, &answer.json()["result"]["resultType"]), (200, &json!("complete")));
    assert_eq!(gate.recorded(2).await[1]["bridged"], true);
}

#[tokio::test]
async fn a_revision_that_is_fixed_counts_for_a_server_that_was_down_at_the_start() {
    let addr = free();
    for (protocol, legacy) in [("2025-11-25", true), ("2026-07-28", false)] {
        let config = format!("upstreams.files.protocol = \"{protocol}\"");
        let gate = Gateway::before(&format!("http://{addr}/mcp"), &config).await;
        gate.ready_until("the first look, which fails", |r| r["ready"] == true).await;
        let server = if legacy { legacy_at(addr).await } else { silent_at(addr).await };
        if legacy {
            assert_eq!(call(&gate, "add").await.json()["result"]["resultType"], "complete");
        } else {
            let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
            let request = gate.request().header("mcp-session-id", &session);
            let request = request.header("mcp-protocol-version", "2025-06-18");
            assert!(gate.call(request, tool(2, "add", "{}")).await.json().get("result").is_some());
        }
        server.kill().await;
    }
}

/// Lists that come from the catalog are there at once after a restart, and the first call is translated.
#[tokio::test]
async fn one_server_under_another_name_is_remembered_over_a_restart() {
    let addr = free();
    let server = legacy_at(addr).await;
    let config = "storage.path = \"state.db\"\nupstreams.files.prefix = \"p\"";
    let gate = Gateway::before(&server.url(), config).await;
    gate.knows("files").await;
    let before = names(&list(&gate).await);
    assert_eq!(before.len(), default_tools().as_array().unwrap().len());
    let (_, folder) = gate.end().await;
    server.kill().await;
    let file = folder.path().join("smartgate.toml");
    let gate = Gateway::run(folder, &file, &[]).await;
    gate.ready_until("the first look, which fails", |r| r["ready"] == true).await;
    let kept = list(&gate).await;
    assert_eq!((names(&kept), &kept["result"]["ttlMs"]), (before, &json!(0)));
    let server = Fake::at(addr, Speaks::Legacy, |seen| async move { strict(&seen) }).await;
    assert_eq!(call(&gate, "p__add").await.json()["result"]["resultType"], "complete");
    assert!(server.calls().iter().any(|seen| seen.rpc() == "initialize"));
}

/// One server as it is makes no database; what it speaks is known at once after a restart, also if it is away then.
#[tokio::test]
async fn one_server_as_it_is_is_remembered_over_a_restart() {
    let addr = free();
    let server = legacy_at(addr).await;
    let gate = Gateway::before(&server.url(), "storage.path = \"state/storage.db\"").await;
    gate.knows("files").await;
    let (_, folder) = gate.end().await;
    server.kill().await;
    let state = folder.path().join("state");
    assert!(state.join("catalogs/files.json").exists() && !state.join("storage.db").exists());
    let file = folder.path().join("smartgate.toml");
    let gate = Gateway::run(folder, &file, &[]).await;
    let away = call(&gate, "add").await;
    assert_eq!((away.status, &away.json()["error"]["data"]["reason"]), (502, &json!("upstream_connect")));
    let server = Fake::at(addr, Speaks::Legacy, |seen| async move { strict(&seen) }).await;
    assert_eq!(call(&gate, "add").await.json()["result"]["resultType"], "complete");
    assert!(server.calls().iter().any(|seen| seen.rpc() == "initialize"));
}

#[tokio::test]
async fn a_state_folder_that_cannot_be_written_stops_nobody() {
    let fake = Fake::start(|seen| async move { mcp(&seen) }).await;
    // No folder can be made below a file.
    let gate = Gateway::before(&fake.url(), "storage.path = \"smartgate.toml/state.db\"").await;
    gate.knows("files").await;
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
}
