//! Budgets: what a key's calls take of them, what is refused when they are used up, and what stays over a reload, a
//! kill and a broken answer.

use crate::support::free::free;
use std::time::Duration;

use serde_json::{Value, json};
use smartgate::text::tokens;
use tempfile::TempDir;

use super::{KEY, ending, key, modern_tool, refused, request, tool};
use crate::support::{
    fake::{Fake, channel, event, json_reply, mcp, sse},
    process::{Answer, Gateway, read_to, send_to},
    soon, until,
};

/// Two upstreams: `files` at `url`, and the built-in tools as `smart`.
pub(super) fn config(url: &str, budget: &str, more: &str) -> String {
    format!(
        "{more}\nupstreams.files.url = \"{url}\"\nupstreams.smart.builtin = true\n{}",
        key("ada", KEY, &format!("budget = \"{budget}\""))
    )
}

pub(super) async fn post(gate: &Gateway, upstream: &str, body: impl Into<bytes::Bytes>) -> Answer {
    let request = gate.request().uri(format!("/mcp/{upstream}"));
    gate.call(request.header("authorization", format!("Bearer {KEY}")), body).await
}

/// What an action of the guard answers.
pub(super) async fn guard(gate: &Gateway, arguments: Value) -> Value {
    let answer = post(gate, "smart", tool(1, "smart_budget_guard", &arguments.to_string())).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut body = answer.json();
    assert_eq!(body["result"]["isError"], false, "{body}");
    body["result"]["structuredContent"].take()
}

/// Used, held and remaining.
pub(super) async fn level(gate: &Gateway) -> (u64, u64, u64) {
    let checked = guard(gate, json!({"action": "check"})).await;
    let of = |name: &str| checked["walls"][0][name].as_u64().unwrap();
    assert_eq!(of("used") + of("held") + of("remaining"), of("limit"));
    (of("used"), of("held"), of("remaining"))
}

/// Waits until so much is used and held.
async fn until_level(gate: &Gateway, used: u64, held: u64) {
    soon("the level", async {
        loop {
            let now = level(gate).await;
            if (now.0, now.1) == (used, held) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

fn result_of(answer: &Answer) -> String {
    let text = answer.text();
    let from = text.find("\"result\":").unwrap() + "\"result\":".len();
    text[from..text.len() - 1].to_owned()
}

#[tokio::test]
async fn a_used_up_budget_refuses_tools_and_nothing_else() {
    let fake = Fake::plain().await;
    let gate = Gateway::start(&config(&fake.url(), "5k tokens/day", "")).await;
    gate.knows("smart").await;
    let dedup = |id| tool(id, "smart_dedup", r#"{"texts":["one","One."]}"#);
    let first = post(&gate, "smart", dedup(1)).await;
    let usage = first.json()["result"]["structuredContent"]["usage"].clone();
    let charged = usage["tokens_charged"].as_u64().unwrap();
    assert_eq!(usage["budget_remaining"], 5_000 - charged);
    assert_eq!(level(&gate).await, (charged, 0, 5_000 - charged));
    guard(&gate, json!({"action": "record", "tokens": 1_500})).await;

    let answer = post(&gate, "smart", dedup(2)).await;
    refused(&answer, 429, 429, "budget_exhausted", Some("2"));
    let data = answer.json()["error"]["data"].clone();
    assert_eq!(
        (&data["wall"], &data["window"], &data["limit"], &data["used"], &data["requested"]),
        (&"key".into(), &"day".into(), &5_000.into(), &(charged + 1_500).into(), &4_000.into())
    );
    assert!(data["resets_at"].as_str().unwrap().ends_with("T00:00:00Z"));
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert!(answer.header("ratelimit").is_none());
    // A tool that asks for less than is left may go on; here it only gets as far as its own check of arguments.
    let less = tool(3, "smart_dedup", r#"{"texts":["one"],"max_tokens":"100"}"#);
    assert_eq!(post(&gate, "smart", less).await.status, 200);

    guard(&gate, json!({"action": "record", "tokens": 5_000})).await;
    refused(&post(&gate, "files", tool(4, "add", "{}")).await, 429, 429, "budget_exhausted", Some("4"));
    for (upstream, body) in [
        ("smart", request(5, "tools/list")),
        ("smart", request(6, "ping")),
        ("smart", request(7, "initialize").replace("{}", r#"{"protocolVersion":"2025-11-25"}"#)),
        ("files", request(8, "tools/list")),
        ("files", request(9, "ping")),
    ] {
        let answer = post(&gate, upstream, body.clone()).await;
        assert_eq!((answer.status, answer.json().get("error")), (200, None), "{body}");
    }
    let discover = request(10, "server/discover").replace("{}", &format!("{{{}}}", super::META));
    let builder = gate.request().uri("/mcp/smart").header("authorization", format!("Bearer {KEY}"));
    let answer = gate.call(super::modern(builder, "server/discover", None), discover).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(guard(&gate, json!({"action": "check"})).await["allowed"], false);

    assert_eq!(fake.count(), 2, "a refusal reaches no upstream");
    let limited = gate.metric("smartgate_rate_limited_total{wall=\"key\"}").await;
    assert!(limited < 0.5, "a budget is no rate");
    let records = gate.stop().await;
    let by_id = |id: &str| records.iter().find(|r| r["request_id"] == id).unwrap();
    assert_eq!(ending(by_id("4")), ("rejected", Some(429), Some("budget_exhausted"), Some(429)));
    assert_eq!(by_id("4")["tokens"], Value::Null);
}

#[tokio::test]
async fn a_refusal_can_be_a_tool_s_result() {
    let fake = Fake::plain().await;
    let gate =
        Gateway::start(&config(&fake.url(), "1 tokens/month", "limits.refusal = \"tool_error\"")).await;
    let answer = post(&gate, "files", tool(1, "add", r#"{"n": 12345}"#)).await;
    assert_eq!(answer.status, 200);
    let result = answer.json()["result"].clone();
    assert_eq!(result["isError"], true);
    let told: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&told["error"]["code"], &told["error"]["retryable"]),
        (&"budget_exhausted".into(), &false.into())
    );
    assert_eq!(told["error"]["details"]["wall"], "key");
    assert!(told["error"]["details"]["resets_at"].as_str().unwrap().ends_with("-01T00:00:00Z"));
    let builder = gate.request().uri("/mcp/smart").header("authorization", format!("Bearer {KEY}"));
    let builder = super::modern(builder, "tools/call", Some("smart_dedup"));
    let answer = gate.call(builder, modern_tool(2, "smart_dedup", r#"{"texts":[]}"#)).await;
    assert_eq!((answer.status, &answer.json()["result"]["resultType"]), (200, &"complete".into()));
    let records = gate.stop().await;
    assert_eq!(ending(&records[0]), ("rejected", Some(200), Some("budget_exhausted"), Some(429)));
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn a_call_of_another_server_takes_its_arguments_and_its_result() {
    let fake = Fake::plain().await;
    let gate = Gateway::start(&config(&fake.url(), "1M tokens/month", "")).await;
    gate.knows("files").await;
    let mut sum = 0;
    for (id, name, arguments) in
        [(1, "add", r#"{"n":5}"#), (2, "fail", "{}"), (3, "add", r#"{"x": "größer 大"}"#)]
    {
        let answer = post(&gate, "files", tool(id, name, arguments)).await;
        let (input, output) = (tokens::count(arguments), tokens::count(&result_of(&answer)));
        sum += input + output;
        assert_eq!(level(&gate).await, (sum, 0, 1_000_000 - sum));
        let record = gate.recorded(2 * id).await[2 * id - 2].clone();
        assert_eq!(record["tokens"], json!({"in": input, "out": output, "saved": 0}));
    }
    for (sample, count) in [
        ("smartgate_calls_total{method=\"tools/call\",tool=\"add\",upstream=\"files\",outcome=\"ok\"}", 2.0),
        (
            "smartgate_calls_total{method=\"tools/call\",tool=\"fail\",upstream=\"files\",outcome=\"tool_error\"}",
            1.0,
        ),
        ("smartgate_calls_in_flight", 0.0),
    ] {
        assert!((gate.metric(sample).await - count).abs() < 0.1, "{sample}");
    }
    // A tool's name as the method is a call, too.
    let direct = request(4, "add");
    let answer = post(&gate, "files", direct).await;
    sum += tokens::count("{}") + tokens::count(&result_of(&answer));
    assert_eq!(level(&gate).await.0, sum);
    // What the server refuses has taken its arguments.
    let fail = Fake::start(|seen| async move { crate::support::fake::error(&seen, -32602, "no") }).await;
    gate.rewrite(&config(&fail.url(), "2M tokens/month", ""));
    gate.logged("configuration reloaded").await;
    post(&gate, "files", tool(5, "add", r#"{"n":5}"#)).await;
    sum += tokens::count(r#"{"n":5}"#);
    assert_eq!(level(&gate).await, (sum, 0, 2_000_000 - sum), "a reload keeps levels");
    // Calls that no budget applies to have no size.
    let records = gate.stop().await;
    assert!(records.iter().filter(|r| r["method"] == "ping").all(|r| r["tokens"].is_null()));
}

#[tokio::test]
async fn a_pipeline_pays_once_for_what_it_returns() {
    let fake = Fake::plain().await;
    let gate = Gateway::start(&config(&fake.url(), "10k tokens/month", "")).await;
    gate.knows("smart").await;
    let steps = r#"{"steps":[
        {"id":"a","tool":"smart_dedup","args":{"texts":["one two three","one two three","four"]}},
        {"id":"b","tool":"smart_dedup","args":{"texts":{"$from":"a","path":"/texts"}}}]}"#;
    let answer = post(&gate, "smart", tool(1, "smart_pipe", steps)).await;
    let usage = answer.json()["result"]["structuredContent"]["usage"].clone();
    let charged = usage["tokens_charged"].as_u64().unwrap_or_else(|| panic!("{}", answer.text()));
    assert_eq!(level(&gate).await, (charged, 0, 10_000 - charged));
    assert_eq!(usage["budget_remaining"], 10_000 - charged);
}

#[tokio::test]
async fn long_results_are_counted_and_very_long_ones_estimated() {
    let long = "word ".repeat(60_000);
    let very_long = "y".repeat(5 << 20);
    let fake = Fake::start(move |seen| {
        let body = match seen.json()["params"]["name"].as_str() {
            Some("long") => format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{long}"}}"#),
            _ => format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{very_long}"}}"#),
        };
        async move { json_reply(200, body) }
    })
    .await;
    let gate = Gateway::start(&config(&fake.url(), "100M tokens/month", "limits.rate = \"none\"")).await;
    let answer = post(&gate, "files", tool(1, "long", "{}")).await;
    let used = tokens::count("{}") + tokens::count(&result_of(&answer));
    until_level(&gate, used, 0).await;
    let answer = post(&gate, "files", tool(1, "very_long", "{}")).await;
    let estimate = tokens::count("{}") + result_of(&answer).len() as u64 / 4;
    until_level(&gate, used + estimate, 0).await;
    let records = gate.stop().await;
    let sizes: Vec<_> = records.iter().filter(|r| r["upstream"] == "files").collect();
    assert_eq!(sizes[0]["tokens"]["out"], used - tokens::count("{}"));
    assert_eq!(sizes[1]["tokens"]["out"], estimate - tokens::count("{}"));
}

#[tokio::test]
async fn an_answer_that_is_left_or_breaks_off_takes_what_passed() {
    let half = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"as far as this"#;
    let (broken, breaks) = tokio::sync::watch::channel(false);
    let fake = Fake::start(move |_| {
        let mut breaks = breaks.clone();
        async move {
            let (sender, body) = channel();
            sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
            sender.send(format!("data: {half}").into()).await.unwrap();
            tokio::spawn(async move {
                breaks.wait_for(|broken| *broken).await.unwrap();
                sender.send("BREAK".into()).await.unwrap();
            });
            sse(body)
        }
    })
    .await;
    let text = config(&fake.url(), "100k tokens/month", "limits.rate = \"none\"");
    let gate = Gateway::start(&text).await;
    let part = &half[half.find("\"result\":").unwrap() + 9..];
    let each = tokens::count("{}") + tokens::count(part);
    let builder = || gate.request().uri("/mcp/files").header("authorization", format!("Bearer {KEY}"));
    let mut left = gate.open(builder(), tool(1, "hangs", "{}")).await;
    read_to(left.body_mut(), "as far as this").await;
    drop(left);
    until_level(&gate, each, 0).await;
    let mut cut = gate.open(builder(), tool(1, "breaks", "{}")).await;
    read_to(cut.body_mut(), "as far as this").await;
    broken.send(true).unwrap();
    while let Some(Ok(_)) = crate::support::process::next(cut.body_mut()).await {}
    until_level(&gate, 2 * each, 0).await;
    let records = gate.stop().await;
    let sizes: Vec<_> = records.iter().filter(|r| r["upstream"] == "files").collect();
    assert_eq!(
        (&sizes[0]["outcome"], &sizes[1]["outcome"]),
        (&"client_closed".into(), &"upstream_failed".into())
    );
    assert_eq!(sizes[1]["tokens"]["out"], tokens::count(part));
}

#[tokio::test]
async fn what_was_never_sent_takes_nothing() {
    let url = format!("http://{}/mcp", free());
    let gate = Gateway::start(&config(&url, "100k tokens/month", "")).await;
    refused(&post(&gate, "files", tool(1, "add", "{}")).await, 502, 502, "upstream_connect", Some("1"));
    assert_eq!(level(&gate).await, (0, 0, 100_000));
    let invalid = post(&gate, "smart", tool(1, "smart_dedup", "{}")).await;
    assert_eq!(invalid.json()["result"]["isError"], true);
    assert_eq!(level(&gate).await, (0, 0, 100_000));
}

#[tokio::test]
async fn sixty_four_callers_at_once_never_pass_the_wall() {
    let fake = Fake::plain().await;
    let gate = Gateway::start(&config(&fake.url(), "20k tokens/month", "limits.rate = \"none\"")).await;
    gate.knows("smart").await;
    let mut calls = tokio::task::JoinSet::new();
    for id in 0..64 {
        let request = gate.request().uri("/mcp/smart").header("authorization", format!("Bearer {KEY}"));
        let body = tool(id, "smart_dedup", r#"{"texts":["a b c d","a b c d"]}"#);
        calls.spawn(send_to(gate.addr, request.body(http_body_util::Full::new(body.into())).unwrap()));
    }
    let mut passed = 0;
    while let Some(answer) = calls.join_next().await {
        match answer.unwrap().status().as_u16() {
            200 => passed += 1,
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert!(passed > 0);
    let (used, held, _) = level(&gate).await;
    assert!(used <= 20_000 && held == 0, "{used} {held}");
    assert_eq!(guard(&gate, json!({"action": "check"})).await.get("over_by"), None);
}

#[tokio::test]
async fn a_kill_frees_what_was_held_and_keeps_what_was_used() {
    let fake = Fake::start(|seen| async move {
        match seen.json()["params"]["name"].as_str() {
            Some("hang") => std::future::pending().await,
            _ => mcp(&seen),
        }
    })
    .await;
    let text = config(&fake.url(), "100k tokens/month", "storage.path = \"state.db\"");
    let mut gate = Gateway::start(&text).await;
    post(&gate, "files", tool(1, "add", r#"{"n":5}"#)).await;
    guard(&gate, json!({"action": "record", "tokens": 777})).await;
    guard(&gate, json!({"action": "reserve", "tokens": 5_000})).await;
    let hang = gate.request().uri("/mcp/files").header("authorization", format!("Bearer {KEY}"));
    let hang = hang.body(http_body_util::Full::new(tool(2, "hang", r#"{"n":12345}"#).into())).unwrap();
    let hanging = tokio::spawn(send_to(gate.addr, hang));
    fake.received(2).await;
    let (used, held, _) = level(&gate).await;
    assert!(used > 777 && held > 5_000, "{used} {held}");
    // It is written behind.
    let stored = || {
        let file = rusqlite::Connection::open(gate.folder.path().join("state.db")).unwrap();
        let sql = "SELECT used FROM ledger WHERE scope = 'key' AND name = 'ada' AND window = 'month'";
        file.query_row(sql, [], |row| row.get::<_, i64>(0)).ok()
    };
    until("the use to be stored", || stored() == i64::try_from(used).ok()).await;
    gate.signal("KILL");
    gate.exit().await;
    hanging.abort();
    let folder = std::mem::replace(&mut gate.folder, TempDir::new().unwrap());
    drop(gate);
    let file = folder.path().join("smartgate.toml");
    let gate = Gateway::run(folder, &file, &[]).await;
    assert_eq!(level(&gate).await, (used, 0, 100_000 - used));
    // An orderly end loses nothing that was written behind.
    guard(&gate, json!({"action": "record", "tokens": 3})).await;
    let mut gate = gate;
    gate.signal("TERM");
    assert!(gate.exit().await.success());
    let folder = std::mem::replace(&mut gate.folder, TempDir::new().unwrap());
    drop(gate);
    let file = folder.path().join("smartgate.toml");
    let gate = Gateway::run(folder, &file, &[]).await;
    assert_eq!(level(&gate).await, (used + 3, 0, 100_000 - used - 3));
}
