//! Recorded calls under another configuration: the real program records, the real program replays.

use std::{fs, path::Path, process::Output};

use serde_json::{Value, json};

use super::{KEY, key, sha256, tool};
use crate::support::{
    fake::Fake,
    process::{Gateway, program},
};

const HEAD: &str = "server.listen = \"127.0.0.1:0\"\naudit.capture = \"full\"\n";

/// Replays the journal under `config`.
fn replay(folder: &Path, config: &str, more: &[&str]) -> Output {
    let file = folder.join("new.toml");
    fs::write(&file, format!("{HEAD}{config}")).unwrap();
    let mut command = program();
    command.env("SMARTGATE_LOG", "off").arg("replay").arg(folder.join("audit.jsonl")).arg("-c").arg(file);
    command.args(more).output().unwrap()
}

fn report(folder: &Path, config: &str, more: &[&str]) -> Value {
    let out = replay(folder, config, &[&["--json"], more].concat());
    let stderr = String::from_utf8_lossy(&out.stderr);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    let changed = report["counts"]["changed"] != 0;
    assert_eq!(out.status.code(), Some(i32::from(changed)), "{report}");
    report
}

/// Seq and what changed: `what before after`.
fn changes(report: &Value) -> Vec<String> {
    let all = report["changed"].as_array().unwrap().iter().flat_map(|call| {
        call["changes"].as_array().unwrap().iter().filter(|c| c["what"] != "forwarded").map(|c| {
            let text = |v: &Value| v.as_str().unwrap_or("-").to_owned();
            format!("{} {} | {} | {}", call["seq"], text(&c["what"]), text(&c["before"]), text(&c["after"]))
        })
    });
    all.collect()
}

#[tokio::test]
async fn what_would_change_is_told_and_nothing_is_sent() {
    let fake = Fake::plain().await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let keys = key("ada", KEY, "") + &key("bob", "sg-the-key-of-bob-0123456789abcdef", "");
    let gate = Gateway::start(&format!("{upstream}audit.capture = \"full\"\n{keys}")).await;
    gate.knows("files").await;
    let bodies = [
        tool(1, "add", r#"{"n":7}"#),
        tool(2, "add", r#"{"n":"7"}"#),
        r#"{"jsonrpc":"2.0","id":3,"method":"add","params":{"n":8}}"#.to_owned(),
        "[1]".to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#.to_owned(),
        tool(6, "add", &format!("{{\"t\":\"{}\"}}", "x".repeat(100_000))),
        tool(7, "add", &format!("{{\"key\":\"{KEY}\"}}")),
    ];
    for body in &bodies {
        gate.post_as(KEY, body.clone()).await;
    }
    gate.post_as("sg-unknown", bodies[0].clone()).await;
    gate.recorded(8).await;
    let folder = gate.folder.path().to_owned();
    let sent = fake.calls().len();
    let list = json!({"tools": [{"name": "add", "inputSchema":
        {"type": "object", "properties": {"n": {"type": "integer"}}}}]});
    fs::write(folder.join("tools.json"), list.to_string()).unwrap();
    let schemas = ["--schemas", &format!("files={}", folder.join("tools.json").display())];

    // The same configuration: nothing.
    let same = report(&folder, &format!("{upstream}{keys}"), &schemas);
    assert_eq!(same["changed"], json!([]), "{same}");
    let counts =
        json!({"replayed": 6, "changed": 0, "not_captured": 1, "too_long": 1, "no_message": 0, "masked": 1});
    assert_eq!(same["counts"], counts);

    // Less repair, another access, another upstream.
    let other = format!(
        "{upstream}normalize.schema_coercion = \"off\"\nnormalize.direct_tool_method = false\n{keys}"
    );
    assert_eq!(
        changes(&report(&folder, &other, &schemas)),
        [
            "4 repairs | schema_coercion | -",
            "4 edits | schema_coercion /n | -",
            "5 tool | add | -",
            "5 repairs | direct_tool_method | -",
        ]
    );
    let other = format!("{upstream}{}", key("ada", KEY, "tools = [\"!add\"]"));
    let refused = changes(&report(&folder, &other, &schemas));
    assert_eq!(refused[0], "3 outcome | forwarded | refused: forbidden");
    assert_eq!(refused.len(), 4);
    let other = format!("{upstream}{}", key("eve", KEY, ""));
    let refused = report(&folder, &other, &schemas);
    assert_eq!(refused["kinds"], json!({"now refused: unauthenticated": 6}));
    let renamed = format!("upstreams.other.url = \"{}\"\n{keys}", fake.url());
    let moved = report(&folder, &renamed, &[]);
    assert_eq!(moved["kinds"]["upstream"], 5, "{moved}");
    assert_eq!(moved["tools_unknown"], json!(["other"]));

    // Rates count by the recorded times: two in a day, and the third is one too many.
    let limited = report(&folder, &format!("limits.rate = \"2/h\"\n{upstream}{keys}"), &schemas);
    assert_eq!(limited["kinds"], json!({"now refused: rate_limited": 3}), "{limited}");

    // Nothing of all that reached the upstream.
    assert_eq!(fake.calls().len(), sent);
    let journal = fs::read_to_string(folder.join("audit.jsonl")).unwrap();
    assert!(!journal.contains(KEY));
    let record = &gate.records()[1];
    assert_eq!(record["received"]["body"], bodies[1]);
    assert_eq!(record["received"]["forwarded"], sha256(tool(2, "add", r#"{"n":7}"#)));
    gate.stop().await;
}

#[tokio::test]
async fn stored_catalogs_are_used_and_several_upstreams_routed() {
    let (one, two) = (Fake::plain().await, Fake::plain().await);
    let config = format!(
        "storage.path = \"store.db\"\nupstreams.one.url = \"{}\"\nupstreams.two.url = \"{}\"\n",
        one.url(),
        two.url()
    );
    let gate = Gateway::start(&format!("{config}audit.capture = \"full\"\n")).await;
    gate.knows("one").await;
    gate.knows("two").await;
    gate.post(tool(1, "one__add", r#"{"n":"7"}"#)).await;
    gate.post(tool(2, "two__add", r#"{"n":7}"#)).await;
    gate.recorded(2).await;
    let folder = gate.folder.path().to_owned();
    // While the gateway runs, on its storage.
    assert_eq!(report(&folder, &config, &[])["changed"], json!([]));
    let swapped = config.replace("upstreams.one", "upstreams.x").replace("upstreams.two", "upstreams.one");
    let swapped = swapped.replace("upstreams.x", "upstreams.two");
    assert_ne!(report(&folder, &swapped, &[])["counts"]["changed"], 0);
    // The built-in tools are known without anybody's help.
    let builtin = report(&folder, "upstreams.smart.builtin = true\nstorage.path = \"store.db\"\n", &[]);
    assert_eq!(builtin["tools_unknown"], json!([]));
    gate.stop().await;
}

#[tokio::test]
async fn a_journal_without_messages_cannot_be_replayed() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "audit.capture = \"hash\"").await;
    gate.post(tool(1, "add", "{}")).await;
    gate.recorded(1).await;
    let upstream = format!("upstreams.files.url = \"{}\"\n", fake.url());
    let out = replay(gate.folder.path(), &upstream, &[]);
    assert_eq!(out.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&out.stdout).contains("1 not replayed"));
    assert!(String::from_utf8_lossy(&out.stderr).contains("audit.capture = \"full\""));
    assert!(!gate.records()[0].as_object().unwrap().contains_key("received"));
}
