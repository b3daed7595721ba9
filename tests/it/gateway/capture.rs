//! What a record keeps of arguments and results.

use serde_json::{Value, json};

use super::{sha256, tool};
use crate::support::{
    fake::{Fake, json_reply},
    process::Gateway,
};

const ARGUMENTS: &str = r#"{"n":1.0,"password":"p-secret","deep":{"apiToken":"t-secret","ok":[1]}}"#;
const RESULT: &str = r#"{"content":[{"type":"text","text":"fine"}],"clientSecret":"c-secret"}"#;

async fn one(capture: &str, arguments: &str, result: &str) -> Value {
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
    let fake = Fake::start(move |_| {
        let body = body.clone();
        async move { json_reply(200, body) }
    })
    .await;
    let gate = Gateway::before(&fake.url(), &format!("audit.capture = \"{capture}\"")).await;
    assert_eq!(gate.post(tool(1, "add", arguments)).await.status, 200);
    gate.stop().await.remove(0)
}

#[tokio::test]
async fn nothing() {
    let record = one("none", ARGUMENTS, RESULT).await;
    assert_eq!((&record["arguments"], &record["result"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn hashes() {
    let record = one("hash", ARGUMENTS, RESULT).await;
    assert_eq!(record["arguments"], json!({"sha256": sha256(ARGUMENTS)}));
    assert_eq!(record["result"], json!({"sha256": sha256(RESULT)}));
}

#[tokio::test]
async fn payloads_with_what_is_named_masked() {
    let record = one("redacted", ARGUMENTS, RESULT).await;
    assert_eq!(record["arguments"]["sha256"], sha256(ARGUMENTS));
    assert_eq!(
        record["arguments"]["value"],
        json!({"n": 1.0, "password": "***", "deep": {"apiToken": "***", "ok": [1]}})
    );
    assert_eq!(record["result"]["value"]["content"][0]["text"], "fine");
    assert_eq!(record["result"]["value"]["clientSecret"], "***");
    assert!(!record.to_string().contains("-secret"));
}

#[tokio::test]
async fn payloads_in_full() {
    let record = one("full", ARGUMENTS, RESULT).await;
    assert_eq!(record["arguments"]["value"], serde_json::from_str::<Value>(ARGUMENTS).unwrap());
    assert_eq!(record["result"]["value"], serde_json::from_str::<Value>(RESULT).unwrap());
    assert_eq!(record["result"]["truncated"], false);
}

#[tokio::test]
async fn long_payloads_are_cut_and_say_so_and_are_hashed_whole() {
    let arguments = format!("{{\"t\":\"{}\",\"password\":\"p-secret\"}}", "x".repeat(200 * 1024));
    let result = format!("{{\"content\":[],\"t\":\"{}\",\"token\":\"t-secret\"}}", "y".repeat(200 * 1024));
    for capture in ["redacted", "full"] {
        let record = one(capture, &arguments, &result).await;
        assert_eq!(record["arguments"]["sha256"], sha256(&arguments));
        assert_eq!(record["result"]["sha256"], sha256(&result));
        assert_eq!(
            (&record["arguments"]["truncated"], &record["result"]["truncated"]),
            (&json!(true), &json!(true))
        );
        assert!(record.to_string().len() < 200 * 1024);
        assert!(!record.to_string().contains("-secret"));
    }
}

#[tokio::test]
async fn tools_have_their_own_capture_which_a_reload_changes() {
    let fake = Fake::start(|_| async {
        json_reply(200, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{RESULT}}}"#))
    })
    .await;
    let config = |tools: &str| {
        format!(
            "upstreams.files.url = \"{}\"\naudit.capture = \"hash\"\naudit.capture_tools = {{ {tools} }}",
            fake.url()
        )
    };
    let gate = Gateway::start(&config(r#""*" = "none", "ad?" = "redacted", "vault" = "full""#)).await;
    for name in ["add", "other", "vault"] {
        gate.post(tool(1, name, ARGUMENTS)).await;
    }
    gate.post(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#).await;
    gate.rewrite(&config(r#""add" = "none""#));
    gate.logged("configuration reloaded").await;
    gate.post(tool(1, "add", ARGUMENTS)).await;
    let records = gate.stop().await;
    let [add, other, vault, list, later] = &records[..] else { panic!("{} records", records.len()) };
    assert_eq!(add["arguments"]["value"]["password"], "***");
    assert_eq!(add["result"]["value"]["clientSecret"], "***");
    assert_eq!((&other["arguments"], &other["result"]), (&Value::Null, &Value::Null));
    assert_eq!(vault["arguments"]["value"], serde_json::from_str::<Value>(ARGUMENTS).unwrap());
    assert_eq!(list["result"], json!({"sha256": sha256(RESULT)}));
    assert_eq!((&later["arguments"], &later["result"]), (&Value::Null, &Value::Null));
}
