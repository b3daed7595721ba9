//! Rates of keys, tools and addresses, and the number of calls in flight.

use serde_json::Value;

use super::{KEY, ending, key, refused, request, tool};
use crate::support::{
    fake::{Fake, Speaks, mcp},
    process::{Answer, Gateway, send_to},
};

/// Checks a refusal by a rate and its headers.
#[track_caller]
fn limited(answer: &Answer, wall: &str, limit: u64, window: u64, id: &str) {
    refused(answer, 429, 429, "rate_limited", Some(id));
    let data = answer.json()["error"]["data"].clone();
    assert_eq!((&data["wall"], &data["limit"], &data["used"]), (&wall.into(), &limit.into(), &limit.into()));
    assert!(data["resets_at"].as_str().unwrap().ends_with('Z'));
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1 && wait <= window, "{wait}");
    assert_eq!(answer.header("ratelimit-policy"), Some(format!("\"{wall}\";q={limit};w={window}").as_str()));
    assert_eq!(answer.header("ratelimit"), Some(format!("\"{wall}\";r=0;t={wait}").as_str()));
}

#[tokio::test]
async fn a_key_has_one_window_s_worth_and_others_have_their_own() {
    let fake = Fake::plain().await;
    let bob = "sg-the-key-of-bob-0123456789abcdef";
    let config =
        format!("limits.rate = \"3/h\"\n{}{}", key("ada", KEY, "rate = \"2/h\""), key("bob", bob, ""));
    let gate = Gateway::before(&fake.url(), &config).await;
    for _ in 0..2 {
        assert_eq!(gate.post_as(KEY, request(1, "ping")).await.status, 200);
    }
    limited(&gate.post_as(KEY, tool("\"t\"", "add", "{}")).await, "key", 2, 3600, "\"t\"");
    // Notifications, responses, GET and DELETE are not requests.
    for body in [r#"{"jsonrpc":"2.0","method":"notifications/x"}"#, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#]
    {
        assert_eq!(gate.post_as(KEY, body).await.status, 202);
    }
    for _ in 0..3 {
        assert_eq!(gate.post_as(bob, request(1, "ping")).await.status, 200);
    }
    limited(&gate.post_as(bob, request(9, "ping")).await, "key", 3, 3600, "9");
    assert!((gate.metric("smartgate_rate_limited_total{wall=\"key\"}").await - 2.0).abs() < 0.1);
    let records = gate.stop().await;
    assert_eq!(records.len(), 9);
    assert_eq!(ending(&records[2]), ("rejected", Some(429), Some("rate_limited"), Some(429)));
    assert_eq!(fake.count(), 7);
}

#[tokio::test]
async fn a_tool_s_rate_is_one_bucket_for_each_key_and_glob() {
    let fake = Fake::plain().await;
    let bob = "sg-the-key-of-bob-0123456789abcdef";
    let config = format!(
        "limits.rate = \"none\"\nlimits.per_tool = {{ \"files__*\" = \"1/h\" }}\n{}{}",
        key("ada", KEY, ""),
        key("bob", bob, "")
    );
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    assert_eq!(gate.post_as(KEY, tool(1, "files__read", "{}")).await.status, 200);
    limited(&gate.post_as(KEY, tool(2, "files__delete_all", "{}")).await, "tool", 1, 3600, "2");
    let direct = r#"{"jsonrpc":"2.0","id":3,"method":"files__read","params":{}}"#;
    limited(&gate.post_as(KEY, direct).await, "tool", 1, 3600, "3");
    assert_eq!(gate.post_as(KEY, tool(4, "add", "{}")).await.status, 200);
    assert_eq!(gate.post_as(bob, tool(5, "files__read", "{}")).await.status, 200);
}

#[tokio::test]
async fn without_keys_the_address_pays() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "limits.rate = \"2/h\"").await;
    for _ in 0..2 {
        assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    }
    limited(&gate.post(request(3, "ping")).await, "address", 2, 3600, "3");
}

#[tokio::test]
async fn without_keys_and_a_written_rate_there_is_none() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    for id in 0..130 {
        assert_eq!(gate.post(request(id, "ping")).await.status, 200);
    }
}

#[tokio::test]
async fn calls_in_flight_are_bounded_and_streams_do_not_count() {
    let fake = Fake::speaking(Speaks::Both, |seen| async move {
        if seen.json()["params"]["name"] == "hang" {
            return std::future::pending().await;
        }
        if seen.method == http::Method::GET || seen.rpc() == "subscriptions/listen" {
            let (sender, body) = crate::support::fake::channel();
            tokio::spawn(async move { sender.closed().await });
            return crate::support::fake::sse(body);
        }
        mcp(&seen)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "limits.concurrency = 1").await;
    gate.knows("files").await;
    let get = gate.open(gate.request().method("GET"), "").await;
    let listen = request(1, "subscriptions/listen").replace("{}", &format!("{{{}}}", super::META));
    let listen = gate.open(super::modern(gate.request(), "subscriptions/listen", None), listen).await;
    assert_eq!((get.status(), listen.status()), (http::StatusCode::OK, http::StatusCode::OK));
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    let hang = gate.request().body(http_body_util::Full::new(tool(2, "hang", "{}").into())).unwrap();
    let hanging = tokio::spawn(send_to(gate.addr, hang));
    fake.received(4).await;
    let answer = gate.post(request(3, "ping")).await;
    refused(&answer, 429, 429, "rate_limited", Some("3"));
    assert_eq!(answer.json()["error"]["data"]["wall"], "concurrency");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.header("ratelimit-policy").unwrap().starts_with("\"concurrency\";q=1"));
    assert_eq!(answer.header("ratelimit"), Some("\"concurrency\";r=0"));
    hanging.abort();
    gate.recorded(3).await;
    assert_eq!(gate.post(request(4, "ping")).await.status, 200);
}

#[tokio::test]
async fn a_refusal_can_be_a_tool_s_result() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "limits.rate = \"1/h\"\nlimits.refusal = \"tool_error\"").await;
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    let answer = gate.post(tool("\"ü\"", "add", "{}")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.text().starts_with("{\"jsonrpc\":\"2.0\",\"id\":\"ü\",\"result\":{"), "{}", answer.text());
    let result = &answer.json()["result"];
    assert_eq!(result["isError"], true);
    assert!(result.get("resultType").is_none());
    let told: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(told["error"]["code"], "rate_limited");
    assert_eq!(told["error"]["retryable"], true);
    assert!(told["error"]["retry_after_ms"].as_u64().unwrap() >= 1000);
    // Other requests have no tool result to put it in.
    refused(&gate.post(request(2, "tools/list")).await, 429, 429, "rate_limited", Some("2"));
    let only_sse = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "text/event-stream");
    let framed = gate.call(only_sse, tool(3, "add", "{}")).await;
    assert_eq!((framed.status, framed.header("content-type")), (200, Some("text/event-stream")));
    assert!(framed.text().starts_with("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{"));
    let records = gate.stop().await;
    assert_eq!(ending(&records[1]), ("rejected", Some(200), Some("rate_limited"), Some(429)));
    assert_eq!(records[1]["trace_id"], told["error"]["details"]["trace_id"]);
    assert_eq!(records.len(), 4);
}

#[tokio::test]
async fn a_modern_refusal_as_a_result_has_its_type() {
    let fake = Fake::speaking(Speaks::Modern, |seen| async move { mcp(&seen) }).await;
    let config = "limits.per_tool = { add = \"1/h\" }\nlimits.refusal = \"tool_error\"";
    let gate = Gateway::before(&fake.url(), config).await;
    gate.knows("files").await;
    let call = async || {
        let builder = super::modern(gate.request(), "tools/call", Some("add"));
        gate.call(builder, super::modern_tool(1, "add", "{}")).await
    };
    call().await;
    let answer = call().await;
    assert_eq!(answer.json()["result"]["resultType"], "complete");
    assert_eq!(answer.json()["result"]["isError"], true);
}
