//! Batches of 2025-03-26: each message goes its own way, and there is one answer.

use serde_json::{Value, json};

use super::{
    KEY,
    bridge::{initialize, modern_server},
    ending, key, refused, request, tool,
};
use crate::support::{
    fake::{Fake, Speaks, channel, event, mcp, result, sse},
    process::{Answer, Gateway, send_to, whole},
};

const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{}}"#;

fn batch(members: &[String]) -> String {
    format!(" [\n{}\n]", members.join(" , "))
}

async fn post(gate: &Gateway, body: String) -> Answer {
    gate.call(gate.request().header("mcp-protocol-version", "2025-03-26"), body).await
}

async fn post_as(gate: &Gateway, key: &str, body: String) -> Answer {
    let request = gate.request().header("authorization", format!("Bearer {key}"));
    gate.call(request.header("mcp-protocol-version", "2025-03-26"), body).await
}

fn ids(answer: &Answer) -> Vec<Value> {
    let answers = answer.json();
    let answers = answers.as_array().unwrap_or_else(|| panic!("{}", answer.text()));
    answers.iter().map(|m| m["id"].clone()).collect()
}

#[tokio::test]
async fn each_message_is_sent_and_recorded_and_the_answers_keep_its_order() {
    let fake = Fake::start(|seen| async move {
        if seen.json()["params"]["name"] == "slow" {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        mcp(&seen)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let members =
        [tool("\"a\"", "slow", r#"{"n":1.50}"#), NOTE.into(), request(2, "ping"), tool(3, "fail", "{}")];
    let answer = post(&gate, batch(&members)).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(ids(&answer), [json!("a"), json!(2), json!(3)]);
    assert_eq!(fake.count(), 4);
    for seen in fake.calls() {
        assert!(members.iter().any(|m| m == seen.text()), "{} is not as it came", seen.text());
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-03-26"));
    }
    let records = gate.stop().await;
    let mut seen: Vec<_> = records
        .iter()
        .map(|r| (r["method"].as_str().unwrap().to_owned(), r["tool"].clone(), ending(r).0.to_owned()))
        .collect();
    seen.sort_by_key(|(method, tool, _)| format!("{method} {tool}"));
    let of = |method: &str, tool: Value, outcome: &str| (method.to_owned(), tool, outcome.to_owned());
    assert_eq!(seen[0], of("notifications/roots/list_changed", Value::Null, "ok"));
    assert_eq!(seen[1], of("ping", Value::Null, "ok"));
    assert_eq!(seen[2], of("tools/call", json!("fail"), "tool_error"));
    assert_eq!(seen[3], of("tools/call", json!("slow"), "ok"));
    assert_eq!(seen.len(), 4);
    assert!(records.iter().all(|r| r["trace_id"] == records[0]["trace_id"]));
    let mut spans: Vec<_> = records.iter().map(|r| r["span_id"].as_str().unwrap()).collect();
    spans.sort_unstable();
    spans.dedup();
    assert_eq!(spans.len(), 4, "each record has its own span");
}

#[tokio::test]
async fn what_becomes_of_one_message_decides_nothing_about_the_others() {
    let fake = Fake::plain().await;
    let config = format!(
        "limits.per_tool = {{ \"add\" = \"1/h\" }}\n{}",
        key("ada", KEY, "tools = [\"*\", \"!files__delete_all\"]\nrate = \"100/h\"")
    );
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    let hello = r#"{"jsonrpc":"2.0","id":6,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}"#;
    let members = [
        tool(1, "add", "{}"),
        tool(2, "files__delete_all", "{}"),
        tool(3, "add", "{}"),
        "[]".to_owned(),
        request(4, "ping"),
        hello.to_owned(),
    ];
    let answer = post_as(&gate, KEY, batch(&members)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answers = answer.json();
    let reason = |n: usize| answers[n]["error"]["data"]["reason"].as_str().unwrap_or("none").to_owned();
    assert_eq!(ids(&answer)[..3], [json!(1), json!(2), json!(3)]);
    // Both calls of `add` run at once, and there is one place.
    let mut adds = [reason(0), reason(2)];
    adds.sort();
    assert_eq!(adds, ["none", "rate_limited"]);
    assert_eq!(
        (reason(1), reason(3), reason(4), reason(5)),
        (
            "forbidden".to_owned(),
            "invalid_request".to_owned(),
            "none".to_owned(),
            "invalid_request".to_owned()
        )
    );
    assert_eq!(
        (&answers[3]["id"], &answers[4]["id"], &answers[5]["id"]),
        (&Value::Null, &json!(4), &json!(6))
    );
    assert_eq!(fake.count(), 2);
    let records = gate.stop().await;
    let mut endings: Vec<_> = records.iter().map(|r| (ending(r).0, ending(r).1)).collect();
    endings.sort_unstable();
    assert_eq!(
        endings,
        [
            ("ok", Some(200)),
            ("ok", Some(200)),
            ("rejected", Some(400)),
            ("rejected", Some(400)),
            ("rejected", Some(403)),
            ("rejected", Some(429))
        ]
    );
    assert!(records.iter().all(|r| r["principal"] == "ada"));
}

#[tokio::test]
async fn a_stream_among_the_answers_makes_all_of_them_one() {
    let fake = Fake::start(|seen| async move {
        if seen.json()["params"]["name"] != "stream" {
            return mcp(&seen);
        }
        let (sender, body) = channel();
        tokio::spawn(async move {
            drop(
                sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#)).await,
            );
            drop(sender.send(event(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#)).await);
        });
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let answer = post(&gate, batch(&[tool(1, "stream", "{}"), tool(2, "add", "{}")])).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let data: Vec<Value> =
        answer.text().lines().filter_map(|l| l.strip_prefix("data: ")).map(|l| l.parse().unwrap()).collect();
    assert_eq!(data.len(), 3, "{}", answer.text());
    for id in [1, 2] {
        assert_eq!(data.iter().filter(|m| m["id"] == id && m.get("result").is_some()).count(), 1);
    }
    let records = gate.stop().await;
    assert_eq!(records.iter().map(|r| ending(r).0).collect::<Vec<_>>(), ["ok", "ok"]);
}

#[tokio::test]
async fn what_is_no_batch_is_refused_and_notices_alone_have_no_answer() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    refused(&post(&gate, "[]".into()).await, 400, -32600, "invalid_request", None);
    refused(&post(&gate, "[{}".into()).await, 400, -32700, "parse_error", None);
    let long = batch(&vec![request(1, "ping"); 101]);
    refused(&post(&gate, long).await, 400, -32600, "invalid_request", None);
    let one = batch(&[request(1, "ping")]);
    refused(&gate.post(one.clone()).await, 400, -32600, "invalid_request", None);
    let newer = gate.request().header("mcp-protocol-version", "2025-06-18");
    refused(&gate.call(newer, one.clone()).await, 400, -32600, "invalid_request", None);
    let twice = gate.request().header("mcp-protocol-version", "2025-03-26");
    let twice = twice.header("mcp-protocol-version", "2025-06-18");
    assert_eq!(gate.call(twice, one).await.status, 400);
    assert_eq!(fake.count(), 0);
    let answer = post(&gate, batch(&[NOTE.into(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into()])).await;
    assert_eq!((answer.status, answer.text()), (202, ""));
    assert_eq!(fake.count(), 2);
    assert_eq!(gate.stop().await.len(), 8);
}

/// What a client of this revision sends: the header that tells it came later.
#[tokio::test]
async fn a_session_of_the_revision_is_enough() {
    let (old, new) = (Fake::plain().await, modern_server().await);
    let config = format!(
        "sealing.keys = [\"env:SEAL\"]\nupstreams.old.url = \"{}\"\nupstreams.new.url = \"{}\"",
        old.url(),
        new.url()
    );
    let secret = [("SEAL", "a-sealing-key-for-batches-0123456789")];
    let gate = Gateway::try_start(tempfile::TempDir::new().unwrap(), &config, &secret).await;
    gate.knows("old").await;
    gate.knows("new").await;
    let in_session = async |gate: &Gateway, path: &str, session: &str| {
        let members = [tool(1, "add", "{}"), NOTE.into(), request(2, "ping")];
        gate.call(gate.request().uri(path).header("mcp-session-id", session), batch(&members)).await
    };
    for path in ["/mcp/old", "/mcp/new"] {
        let (_, session) = initialize(&gate, path, "2025-03-26").await;
        let answer = in_session(&gate, path, &session).await;
        assert_eq!(ids(&answer), [json!(1), json!(2)], "{path}: {}", answer.text());
        // A session of a revision without them.
        let newer =
            if path == "/mcp/new" { initialize(&gate, path, "2025-11-25").await.1 } else { "who".into() };
        refused(&in_session(&gate, path, &newer).await, 400, -32600, "invalid_request", None);
    }
    // The sealed id tells it to a process that has never seen the session.
    let (_, session) = initialize(&gate, "/mcp/new", "2025-03-26").await;
    drop(gate.stop().await);
    let replica = Gateway::try_start(tempfile::TempDir::new().unwrap(), &config, &secret).await;
    replica.knows("new").await;
    assert_eq!(ids(&in_session(&replica, "/mcp/new", &session).await), [json!(1), json!(2)]);
}

#[tokio::test]
async fn at_most_eight_run_and_leaving_ends_all_with_a_record_each() {
    let fake = Fake::start(|seen| async move {
        if seen.json()["params"]["name"] == "hang" {
            std::future::pending::<()>().await;
        }
        mcp(&seen)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let members: Vec<_> = (0..12).map(|n| tool(n, "hang", "{}")).collect();
    let request = gate.request().header("mcp-protocol-version", "2025-03-26");
    let request = request.body(http_body_util::Full::new(batch(&members).into())).unwrap();
    let hanging = tokio::spawn(send_to(gate.addr, request));
    fake.received(8).await;
    assert_eq!(gate.metric("smartgate_calls_in_flight").await as u64, 12);
    hanging.abort();
    let records = gate.recorded(12).await;
    assert!(records.iter().all(|r| ending(r).0 == "client_closed"));
    assert_eq!(fake.count(), 8);
}

#[tokio::test]
async fn a_server_of_the_other_era_and_several_servers_take_batches_too() {
    let new = Fake::speaking(Speaks::Modern, |seen| async move {
        result(&seen, &json!({"resultType": "complete", "content": [], "isError": false}))
    })
    .await;
    let old = Fake::plain().await;
    let config = format!("upstreams.old.url = \"{}\"\nupstreams.new.url = \"{}\"", old.url(), new.url());
    let gate = Gateway::start(&config).await;
    gate.knows("old").await;
    gate.knows("new").await;
    let at = async |path: &str, members: &[String]| {
        let request = gate.request().uri(path).header("mcp-protocol-version", "2025-03-26");
        gate.call(request, batch(members)).await
    };
    let answer =
        at("/mcp", &[tool(1, "old__add", "{}"), tool(2, "new__add", "{}"), tool(3, "no", "{}")]).await;
    assert_eq!(ids(&answer), [json!(1), json!(2), json!(3)], "{}", answer.text());
    assert!(answer.json()[0]["result"].is_object(), "{}", answer.text());
    assert!(answer.json()[1]["result"].is_object(), "{}", answer.text());
    assert!(answer.json()[2]["error"].is_object());
    let answer = at("/mcp/new", &[tool(4, "add", "{}"), NOTE.into(), tool(5, "add", "{}")]).await;
    assert_eq!(ids(&answer), [json!(4), json!(5)], "{}", answer.text());
    let records = gate.stop().await;
    assert_eq!(records.len(), 6);
    let upstream = |tool: &str| records.iter().find(|r| r["tool"] == tool).unwrap()["upstream"].clone();
    assert_eq!((upstream("old__add"), upstream("new__add")), (json!("old"), json!("new")));
    assert!(records.iter().filter(|r| r["tool"] == "add").all(|r| r["bridged"] == true));
}

#[tokio::test]
async fn the_end_of_the_drain_answers_each_message_that_hangs() {
    let fake = Fake::start(|_| std::future::pending()).await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"100ms\"").await;
    let request = gate.request().header("mcp-protocol-version", "2025-03-26");
    let body = http_body_util::Full::new(batch(&[tool(1, "add", "{}"), tool(2, "add", "{}")]).into());
    let hanging = tokio::spawn(send_to(gate.addr, request.body(body).unwrap()));
    fake.received(2).await;
    gate.signal("TERM");
    refused(&whole(hanging.await.unwrap()).await, 503, 503, "draining", Some("1"));
    gate.exit().await;
    assert!(gate.records().len() == 2 && gate.records().iter().all(|r| ending(r).0 == "drained"));
}
