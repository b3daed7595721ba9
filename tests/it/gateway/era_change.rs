//! A server that begins to speak otherwise while the gateway runs: replaced by one of the other era at the same address.
//! The next call works, or gets an honest error; soon after it works.

use serde_json::{Value, json};

use super::{
    KEY,
    bridge::{initialize, modern_server_at},
    modern, modern_tool,
    parked::{ask, gate_before, parked, post, two_keys},
    tool,
};
use crate::support::{
    asking::Asking,
    fake::{Fake, Speaks, strict},
    process::{Answer, Gateway},
    soon,
};

async fn legacy_server_at(addr: std::net::SocketAddr) -> Fake {
    Fake::at(addr, Speaks::Legacy, |seen| async move { strict(&seen) }).await
}

fn anywhere() -> std::net::SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

async fn modern_call(gate: &Gateway) -> Answer {
    gate.call(modern(gate.request(), "tools/call", Some("add")), modern_tool(7, "add", r#"{"n":1}"#)).await
}

async fn legacy_call(gate: &Gateway, session: &str) -> Answer {
    let request = gate.request().header("mcp-session-id", session);
    gate.call(request.header("mcp-protocol-version", "2025-06-18"), tool(7, "add", r#"{"n":1}"#)).await
}

/// Calls until it works; every answer before that says what is wrong.
async fn works_soon<F: Future<Output = Answer>>(what: &str, mut call: impl FnMut() -> F) -> Value {
    soon(what, async {
        loop {
            let answer = call().await;
            if answer.status == 200 && answer.json().get("result").is_some() {
                return answer.json();
            }
            if answer.status != 404 || !answer.body.is_empty() {
                let error = answer.json()["error"].clone();
                assert!(error["code"].is_i64(), "{}", answer.text());
                assert!(error["message"].as_str().is_some_and(|m| m.len() > 10), "{}", answer.text());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await
}

/// The last call was translated, or was not.
async fn ends(gate: Gateway, bridged: bool) {
    let records = gate.stop().await;
    let last = records.iter().rev().find(|r| r["tool"] == "add").unwrap();
    assert_eq!((&last["outcome"], &last["bridged"]), (&json!("ok"), &json!(bridged)), "{last}");
    let strange: Vec<_> = records
        .iter()
        .filter(|r| {
            !["ok", "rpc_error", "upstream_failed", "rejected"].contains(&r["outcome"].as_str().unwrap())
        })
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[tokio::test]
async fn a_modern_client_of_a_server_that_became_legacy() {
    let server = modern_server_at(anywhere(), Speaks::Modern).await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    assert_eq!(modern_call(&gate).await.status, 200);
    let addr = server.addr;
    server.kill().await;
    let _server = legacy_server_at(addr).await;
    let found = works_soon("a call of the legacy server", || modern_call(&gate)).await;
    assert_eq!(found["result"]["resultType"], "complete");
    ends(gate, true).await;
}

/// No stream of changes breaks, and the lists would not be read again for minutes: the refused call is the evidence.
#[tokio::test]
async fn a_refused_call_is_evidence_enough() {
    let server = modern_server_at(anywhere(), Speaks::ModernAndSilent).await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    assert_eq!(modern_call(&gate).await.status, 200);
    let addr = server.addr;
    server.kill().await;
    let _server = legacy_server_at(addr).await;
    let first = modern_call(&gate).await;
    assert_eq!(
        (first.status, &first.json()["error"]["code"]),
        (400, &json!(-32000)),
        "as the server said it"
    );
    works_soon("a call of the legacy server", || modern_call(&gate)).await;
    ends(gate, true).await;
}

#[tokio::test]
async fn a_legacy_client_of_a_server_that_became_legacy() {
    let server = modern_server_at(anywhere(), Speaks::ModernAndSilent).await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    assert_eq!(legacy_call(&gate, &session).await.status, 200);
    let addr = server.addr;
    server.kill().await;
    let _server = legacy_server_at(addr).await;
    // Its session is of the gateway, and the server knows its own alone: 404, upon which clients initialize again.
    soon("a session that is not known", async {
        while legacy_call(&gate, &session).await.status != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    let (opened, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    assert_eq!(
        (opened["result"]["protocolVersion"].as_str(), &*session),
        (Some("2025-06-18"), "session-of-the-client")
    );
    works_soon("a call in the new session", || legacy_call(&gate, &session)).await;
    ends(gate, false).await;
}

#[tokio::test]
async fn a_modern_client_of_a_server_that_became_modern() {
    let server = legacy_server_at(anywhere()).await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    assert_eq!(modern_call(&gate).await.status, 200);
    let addr = server.addr;
    server.kill().await;
    let _server = modern_server_at(addr, Speaks::Modern).await;
    works_soon("a call of the modern server", || modern_call(&gate)).await;
    soon("the server is known to be modern", async {
        while !gate.page("/readyz").await.text().contains("modern") {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(modern_call(&gate).await.status, 200);
    ends(gate, false).await;
}

#[tokio::test]
async fn a_legacy_client_of_a_server_that_became_modern() {
    let server = legacy_server_at(anywhere()).await;
    let gate = Gateway::before(&server.url(), "").await;
    gate.knows("files").await;
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    assert_eq!(legacy_call(&gate, &session).await.status, 200);
    let addr = server.addr;
    server.kill().await;
    let _server = modern_server_at(addr, Speaks::Modern).await;
    soon("a session that is not known", async {
        loop {
            let answer = legacy_call(&gate, &session).await;
            if answer.status == 404 {
                assert_eq!(answer.reason(), "session_not_found");
                break;
            }
            assert!(answer.json()["error"]["code"].is_i64(), "{}", answer.text());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    let (_, session) = initialize(&gate, "/mcp", "2025-06-18").await;
    works_soon("a call in the new session", || legacy_call(&gate, &session)).await;
    ends(gate, true).await;
}

/// What one server asked is nothing to the other: its state goes to whoever answers now, who says what it makes of it.
#[tokio::test]
async fn a_retry_after_the_change_gets_an_honest_answer() {
    let asking = Asking::start().await;
    let addr = asking.fake.addr;
    let gate = gate_before(&asking, &two_keys("")).await;
    let state = parked(&gate, KEY, 1).await;
    asking.fake.kill().await;
    let server = modern_server_at(addr, Speaks::Modern).await;
    let answers = json!({"1": {"action": "accept", "content": {}}});
    let retry = || post(&gate, KEY, ask(1, Some((&state, &answers))));
    // First the bridge, which finds no server that waits; then the modern server, by its own rules.
    works_soon("the modern server's answer", retry).await;
    let seen = server.calls().into_iter().rev().find(|s| s.rpc() == "tools/call").unwrap();
    assert_eq!(seen.json()["params"]["requestState"], state.as_str());
    server.kill().await;
    let again = Asking::at(addr).await;
    let foreign = ask(1, Some(("a state of the modern server", &answers)));
    soon("the bridge's word about a foreign state", async {
        loop {
            let answer = post(&gate, KEY, foreign.clone()).await;
            // Until it is asked anew, the server's own 404 passes, which has no body.
            if answer.text().contains("not one of this gateway") {
                assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32602)));
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(again.asked(), 0);
}
