//! The built-in tools on the command line.

use std::process::{Command, Output};

use serde_json::Value;

fn smartgate(args: &[&str]) -> Output {
    let state = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    command.args(args).env("XDG_STATE_HOME", state.path()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn tools_are_listed_with_what_they_cost() {
    let listed = out(&smartgate(&["tools"]));
    let rows: Vec<_> = listed.lines().map(|l| l.split_whitespace().next().unwrap()).collect();
    let seven = [
        "smart_fetch",
        "smart_search",
        "smart_context_gate",
        "smart_dedup",
        "smart_budget_guard",
        "smart_memory",
        "smart_pipe",
        "all",
    ];
    assert_eq!(rows, seven, "{listed}");
    let json: Value = serde_json::from_str(&out(&smartgate(&["tools", "--json"]))).unwrap();
    assert_eq!(json["tools"].as_array().unwrap().len(), 7);
}

#[test]
fn a_call_prints_its_result_for_people_or_as_json() {
    let texts = r#"texts=["one and the same text","one and the same text","another one"]"#;
    let people = out(&smartgate(&["call", "smart_dedup", texts, "--ephemeral"]));
    assert!(people.contains("texts:\n- one and the same text\n- another one"), "{people}");
    let json = smartgate(&["call", "smart_dedup", texts, "--ephemeral", "--json"]);
    let json: Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(json["kept"], serde_json::json!([0, 2]));
}

#[test]
fn a_failed_call_exits_with_1_and_a_wrong_one_with_64() {
    let failed = smartgate(&["call", "smart_dedup", "texts=[]", "--ephemeral"]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&failed.stderr).starts_with("invalid_arguments: "));
    let json = smartgate(&["call", "smart_dedup", "texts=[]", "--ephemeral", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    assert!(out(&json).starts_with("{\"error\""));
    assert_eq!(smartgate(&["call", "smart_dedupe"]).status.code(), Some(64));
    assert_eq!(smartgate(&["call", "smart_dedup", "texts"]).status.code(), Some(64));
}

#[test]
fn what_a_call_remembers_is_there_for_the_next() {
    let state = tempfile::tempdir().unwrap();
    let call = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
        let output = command
            .arg("call")
            .args(args)
            .arg("--json")
            .env("XDG_STATE_HOME", state.path())
            .output()
            .unwrap();
        serde_json::from_str::<Value>(&out(&output)).unwrap()
    };
    let stored = call(&["smart_memory", "action=store", "key=colour", "content=The house is blue."]);
    assert_eq!(stored["stored"]["created"], true, "{stored}");
    let found = call(&["smart_memory", "action=recall", "query=which colour has the house"]);
    assert_eq!(found["items"][0]["content"], "The house is blue.", "{found}");
}
