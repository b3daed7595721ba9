//! Walls of budgets that a result could pass, and the one gateway that keeps their levels.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    KEY,
    budgets::{config, guard, level, post},
    ending, key, refused, tool,
};
use crate::support::{fake::Fake, process::Gateway};

#[tokio::test]
async fn a_long_document_behind_a_reference_passes_no_wall() {
    let fake = Fake::plain().await;
    let gate = Gateway::start(&config(&fake.url(), "8k tokens/day", "")).await;
    gate.knows("smart").await;
    let text: String = (0..1_200).map(|n| format!("Sentence {n} of a long page about it.\n\n")).collect();
    let cut = json!({"text": text, "max_tokens": 64, "purpose": "page 7"}).to_string();
    guard(&gate, json!({"action": "open_run", "limit_tokens": 10})).await;
    // The text itself is not charged for, and less than a twentieth of it comes back.
    let answer = post(&gate, "smart", tool(1, "smart_context_gate", &cut)).await.json();
    let reference = answer["result"]["structuredContent"]["original_ref"].clone();
    assert!(reference.is_string(), "{answer}");
    let before = level(&gate).await;
    // It says no size of its own: what is held for it is less than what it gives.
    let whole = json!({"ref": reference, "ratio": 1}).to_string();
    let answer = post(&gate, "smart", tool(2, "smart_context_gate", &whole)).await;
    refused(&answer, 429, 429, "budget_exhausted", Some("2"));
    let data = answer.json()["error"]["data"].clone();
    assert!(data["requested"].as_u64().unwrap() > 8_000, "{data}");
    assert_eq!(level(&gate).await, before, "a result that does not pass is not paid for");
    assert_eq!(guard(&gate, json!({"action": "check"})).await.get("over_by"), None);
    // What fits passes, also where it is more than was held.
    let half = json!({"ref": reference, "ratio": 0.5}).to_string();
    let answer = post(&gate, "smart", tool(3, "smart_context_gate", &half)).await.json();
    let usage = &answer["result"]["structuredContent"]["usage"];
    let charged = usage["tokens_charged"].as_u64().unwrap_or_else(|| panic!("{answer}"));
    assert!(charged > 4_000, "{usage}");
    let after = level(&gate).await;
    assert_eq!((after.0, after.1), (before.0 + charged, 0));
    assert_eq!(usage["budget_remaining"], after.2);
    let records = gate.stop().await;
    let second = records.iter().find(|r| r["request_id"] == "2").unwrap();
    assert_eq!(ending(second), ("rejected", Some(429), Some("budget_exhausted"), Some(429)));
    assert_eq!(second["tokens"], Value::Null);
}

#[tokio::test]
async fn one_gateway_serves_from_a_storage_and_commands_work_beside_it() {
    let text = format!(
        "storage.path = \"state.db\"\naudit.journal.path = \"JOURNAL\"\nupstreams.smart.builtin = true\n{}",
        key("ada", KEY, "budget = \"5k tokens/month\"")
    );
    let gate = Gateway::start(&text.replace("JOURNAL", "audit.jsonl")).await;
    gate.knows("smart").await;
    let folder = gate.folder.path();
    let other = folder.join("other.toml");
    let head = "server.listen = \"127.0.0.1:0\"\nadmin.listen = \"127.0.0.1:0\"\n";
    std::fs::write(&other, format!("{head}{}", text.replace("JOURNAL", "other.jsonl"))).unwrap();
    let smartgate = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
        let output = command.args(arguments).arg("-c").arg(&other).current_dir(folder).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, told) = smartgate(&["serve"]);
    assert_eq!(code, Some(64), "{told}");
    assert!(told.contains("state.db") && told.contains("another smartgate serves from it"), "{told}");
    std::fs::write(folder.join("harbour.md"), "The harbour was dug in 1862.").unwrap();
    let (code, _, told) = smartgate(&["index", "add", "harbour.md"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, found, told) = smartgate(&["call", "smart_search", "query=harbour", "--json"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(found.contains("1862"), "{found}");
    let answer = post(&gate, "smart", tool(1, "smart_search", r#"{"query":"harbour"}"#)).await;
    assert!(answer.text().contains("1862"), "{}", answer.text());
}
