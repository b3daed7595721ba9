//! Whose sessions are kept, for how long, and what happens when one is gone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use http::Method;
use serde_json::json;

use super::{
    Bench, EVERYTHING,
    fake::{Does, Fake, Streams, error, result, text, until},
    request, tool,
};
use crate::upstream::legacy::Settings;

#[tokio::test]
async fn one_session_for_each_principal_and_what_it_can_be_asked() {
    let bench = Bench::new(|_| Does::AsUsual);
    let many = (0..8).map(|_| bench.call());
    for call in many {
        assert_eq!(call.await.0, 200);
    }
    assert_eq!(bench.fake.of("initialize").len(), 1);
    bench.ask_as("ada", "{}", "tools/call", tool()).await;
    assert_eq!(bench.fake.of("initialize")[1].body["params"]["capabilities"], json!({}));
    bench.ask_as("bob", "{}", "tools/call", tool()).await;
    bench.ask_as("bob", r#"{"extensions":{"x/y":{}}}"#, "tools/call", tool()).await;
    assert_eq!(bench.fake.of("initialize").len(), 3);
    let sessions: Vec<_> =
        bench.fake.of("tools/call").iter().map(|s| s.header("mcp-session-id").unwrap().to_owned()).collect();
    assert_eq!(sessions[8..], ["s2", "s3", "s3"]);
    let mut other = request("bob", "{}", json!(1), "tools/call", tool());
    other.headers_mut().insert("authorization", "Bearer other".parse().unwrap());
    bench.send(other).await;
    assert_eq!(bench.fake.of("initialize").len(), 4, "another credential is another principal");
}

#[tokio::test]
async fn calls_at_once_share_one_initialize() {
    let bench = Bench::new(|_| Does::AsUsual);
    let (a, b, c) = tokio::join!(bench.call(), bench.call(), bench.call());
    assert!([a, b, c].iter().all(|(status, answer)| *status == 200 && answer["id"] == "c-1"));
    assert_eq!(bench.fake.of("initialize").len(), 1);
    let ids: std::collections::HashSet<_> =
        bench.fake.of("tools/call").iter().map(|s| s.body["id"].to_string()).collect();
    assert_eq!(ids.len(), 3, "the same id of three requests is three ids upstream");
}

#[tokio::test]
async fn initialize_may_be_answered_on_a_stream_and_without_a_session() {
    let bench = Bench::of(Fake {
        stateless: true,
        ..Fake::new(|seen| {
            if seen.method() != "initialize" {
                return Does::AsUsual;
            }
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"],
                "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}}});
            text(200, "text/event-stream", format!("id: 1\ndata:\n\ndata: {answer}\n\n")).into()
        })
    });
    assert_eq!(bench.call().await.0, 200);
    let call = &bench.fake.of("tools/call")[0];
    assert_eq!(
        (call.header("mcp-protocol-version"), call.header("mcp-session-id")),
        (Some("2025-06-18"), None)
    );
}

#[tokio::test]
async fn a_server_may_want_another_revision() {
    let bench = Bench::of(Fake {
        version: "2025-06-18",
        ..Fake::new(|seen| {
            if seen.method() == "initialize" && seen.body["params"]["protocolVersion"] == "2025-11-25" {
                let data = json!({"supported": ["2025-03-26", "2025-06-18"], "requested": "2025-11-25"});
                return error(seen, 200, json!({"code": -32602, "message": "no", "data": data})).into();
            }
            Does::AsUsual
        })
    });
    assert_eq!(bench.call().await.0, 200);
    assert_eq!(bench.fake.of("initialize")[1].body["params"]["protocolVersion"], "2025-06-18");
}

#[tokio::test]
async fn a_server_that_refuses_initialize_says_so_to_the_client() {
    let bench = Bench::new(|seen| match seen.method() {
        "initialize" => error(seen, 400, json!({"code": -32602, "message": "no"})).into(),
        _ => Does::AsUsual,
    });
    let (status, answer) = bench.call().await;
    assert_eq!((status, &answer["error"]["code"]), (502, &json!(502)));
    assert_eq!(bench.legacy.sessions(), 0);
}

#[tokio::test]
async fn a_refusal_of_the_client_keeps_its_status_and_challenge() {
    let bench = Bench::new(|seen| {
        let mut denied = error(seen, 401, json!({"code": -32001, "message": "who?"}));
        denied.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
        denied.headers_mut().insert("mcp-session-id", "theirs".parse().unwrap());
        denied.into()
    });
    let denied = bench.send(request("ada", "{}", json!(1), "tools/call", tool())).await;
    assert_eq!(denied.headers()["www-authenticate"], "Bearer");
    assert!(!denied.headers().contains_key("mcp-session-id"));
    let (status, answer) = super::whole(denied).await;
    assert_eq!((status, &answer["id"]), (401, &json!(1)));
    assert_eq!(bench.legacy.sessions(), 0);
}

#[tokio::test]
async fn a_session_that_is_gone_costs_a_new_one_and_no_second_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let bench = Bench::new(move |seen| {
        if seen.method() == "tools/call" {
            counted.fetch_add(1, SeqCst);
        }
        Does::AsUsual
    });
    bench.call().await;
    bench.fake.forget_sessions();
    assert_eq!(bench.call().await.0, 200);
    assert_eq!((runs.load(SeqCst), bench.fake.of("initialize").len()), (2, 2));
    assert!(bench.fake.verbs(&Method::DELETE).is_empty(), "the server knows already");
    assert!(bench.fake.of("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn a_400_about_the_session_means_the_same() {
    let bench = Bench::new(|seen| {
        if seen.method() == "tools/call" && seen.header("mcp-session-id") == Some("s1") {
            let error = json!({"jsonrpc": "2.0", "id": null,
                "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}});
            return text(400, "application/json", error.to_string()).into();
        }
        Does::AsUsual
    });
    assert_eq!(bench.call().await.0, 200);
    assert_eq!(bench.fake.of("tools/call").len(), 2);
}

#[tokio::test]
async fn a_server_that_forgets_at_once_is_not_asked_for_ever() {
    let bench = Bench::new(|seen| match seen.method() {
        "tools/call" => text(404, "text/plain", "gone").into(),
        _ => Does::AsUsual,
    });
    let (status, answer) = bench.call().await;
    assert_eq!((status, &answer["error"]["code"]), (502, &json!(502)));
    assert_eq!(bench.fake.of("tools/call").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_is_ended() {
    let bench = Bench::new(|_| Does::AsUsual);
    bench.call().await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    bench.call().await;
    tokio::time::sleep(Duration::from_secs(400)).await;
    assert_eq!((bench.legacy.sessions(), bench.fake.of("initialize").len()), (1, 1));
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert_eq!(bench.legacy.sessions(), 0);
    until("the server knows", || bench.fake.sessions() == 0).await;
    let deleted = &bench.fake.verbs(&Method::DELETE)[0];
    assert_eq!(
        (deleted.header("mcp-session-id"), deleted.header("mcp-protocol-version")),
        (Some("s1"), Some("2025-11-25"))
    );
}

#[tokio::test]
async fn the_number_of_sessions_is_bounded() {
    let streams = Streams::default();
    let theirs = streams.clone();
    let fake = Fake::new(move |seen| match seen.method() {
        "prompts/get" => theirs.open(seen).into(),
        _ => Does::AsUsual,
    });
    let bench = Bench::with(fake, Settings { sessions: 2, ..Settings::default() });
    for who in ["ada", "bob", "cid"] {
        bench.ask_as(who, "{}", "tools/call", tool()).await;
    }
    assert_eq!(bench.legacy.sessions(), 2);
    until("the one unused for longest is ended", || bench.fake.verbs(&Method::DELETE).len() == 1).await;
    assert_eq!(bench.fake.verbs(&Method::DELETE)[0].header("mcp-session-id"), Some("s1"));
    let held = tokio::join!(
        bench.send(request("bob", "{}", json!(1), "prompts/get", tool())),
        bench.send(request("cid", "{}", json!(1), "prompts/get", tool())),
    );
    let (status, answer) = bench.ask_as("dan", "{}", "tools/call", tool()).await;
    assert_eq!((status, &answer["error"]["data"]["reason"]), (503, &json!("sessions_exhausted")));
    drop(held);
}

#[tokio::test]
async fn the_end_of_the_bridge_is_the_end_of_its_sessions() {
    let Bench { legacy, fake } = Bench::new(|seen| match seen.method() {
        "tools/list" => result(seen, json!({"tools": []})).into(),
        _ => Does::AsUsual,
    });
    let bench = Bench { legacy, fake: fake.clone() };
    bench.ask_as("ada", EVERYTHING, "tools/list", json!({})).await;
    drop(bench);
    until("the server knows", || fake.sessions() == 0).await;
}
