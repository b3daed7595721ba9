//! Pipelines through the gateway: each step is a call of the client's like any other.

use serde_json::Value;

use super::{KEY, key, tool};
use crate::support::process::Gateway;

const STEPS: &str = r#"{"steps":[{"id":"a","tool":"smart_dedup","args":{"texts":["one text","one text"]}},{"id":"b","tool":"smart_dedup","args":{"texts":{"$from":"a","path":"/texts"}}}]}"#;

fn config(more: &str) -> String {
    format!("[upstreams.smart]\nbuiltin = true\n{more}")
}

#[tokio::test]
async fn every_step_leaves_a_record_below_its_pipeline_s() {
    let gate = Gateway::start(&config("")).await;
    gate.knows("smart").await;
    let answer = gate.post(tool(7, "smart_pipe", STEPS)).await.json();
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let records = gate.stop().await;
    let told: Vec<_> =
        records.iter().map(|r| (r["tool"].as_str().unwrap(), r["outcome"].as_str().unwrap())).collect();
    assert_eq!(told, [("smart_dedup", "ok"), ("smart_dedup", "ok"), ("smart_pipe", "ok")]);
    let pipe = &records[2];
    for step in &records[..2] {
        assert_eq!(step["parent_id"], pipe["span_id"]);
        assert_eq!(step["trace_id"], pipe["trace_id"]);
        assert!(step["span_id"] != pipe["span_id"] && step["arguments"]["sha256"].is_string());
        assert!(step["tokens"]["out"].as_u64().unwrap() > 0);
    }
}

#[tokio::test]
async fn a_step_may_not_do_what_its_caller_may_not() {
    let gate = Gateway::start(&config(&key("ada", KEY, "tools = [\"*\", \"!smart_dedup\"]"))).await;
    gate.knows("smart").await;
    let answer = gate.post_as(KEY, tool(1, "smart_pipe", STEPS)).await.json();
    let error: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "step_failed", "{answer}");
    assert_eq!(error["error"]["details"]["error"]["code"], "forbidden");
    let records = gate.stop().await;
    assert_eq!(records[0]["outcome"], "rejected");
    assert_eq!(records[0]["principal"], "ada");
    assert_eq!(records[1]["outcome"], "tool_error");
}

#[tokio::test]
async fn steps_count_against_the_rate() {
    let gate = Gateway::start(&config(&key("ada", KEY, "rate = \"2/h\""))).await;
    gate.knows("smart").await;
    let answer = gate.post_as(KEY, tool(1, "smart_pipe", STEPS)).await.json();
    let error: Value =
        serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(error["error"]["details"]["step"], "b", "{answer}");
    assert_eq!(error["error"]["details"]["error"]["code"], "rate_limited");
}
