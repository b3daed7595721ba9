//! `smartgate audit`, as a user runs it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use crate::support::recorder;

fn smartgate(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    command.args(args).env("XDG_STATE_HOME", state).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Starts and stops a recorder: a journal of one line for each boot.
fn boots(path: &Path, count: usize) {
    for _ in 0..count {
        let (_recorder, thread) = recorder::boot(path, None, Duration::ZERO);
        thread.stop();
    }
}

#[test]
fn a_good_journal_passes_with_its_figures() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("smartgate/audit.jsonl");
    boots(&path, 3);
    // Without a FILE it is the one in the state directory.
    for args in [&["audit", "verify"][..], &["audit", "verify", path.to_str().unwrap()]] {
        let output = smartgate(state.path(), args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        for row in ["segments   1", "records    3", "boots      3", "result     ok"] {
            assert!(out.lines().any(|l| l == row), "{row} is missing in\n{out}");
        }
        assert!(out.contains("(the very first record)"), "{out}");
    }
}

#[test]
fn a_changed_journal_fails_and_the_line_is_named() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("audit.jsonl");
    boots(&path, 3);
    let changed = fs::read_to_string(&path).unwrap().replacen("\"pid\":", "\"pid\":1", 2);
    fs::write(&path, changed).unwrap();
    let output = smartgate(state.path(), &["audit", "verify", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let expected = format!("{}:1: the line was changed: it does not match its hash\n", path.display());
    assert_eq!(text(&output.stderr), expected);
}

#[test]
fn segments_are_taken_in_the_order_given() {
    let state = tempfile::tempdir().unwrap();
    let path = state.path().join("audit.jsonl");
    boots(&path, 2);
    let whole = fs::read_to_string(&path).unwrap();
    let (first, second) = whole.split_at(whole.find('\n').unwrap() + 1);
    let [old, new] = ["a", "b"].map(|name| state.path().join(name));
    fs::write(&old, first).unwrap();
    fs::write(&new, second).unwrap();
    let run = |files: [&Path; 2]| {
        let files = files.map(|f| f.to_str().unwrap());
        smartgate(state.path(), &["audit", "verify", files[0], files[1]]).status.code()
    };
    assert_eq!(run([&old, &new]), Some(0));
    assert_eq!(run([&new, &old]), Some(1));
}

#[test]
fn an_unknown_subcommand_is_wrong_usage() {
    let state = tempfile::tempdir().unwrap();
    let output = smartgate(state.path(), &["audit", "verfy"]);
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn a_missing_journal_fails() {
    let state = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["audit", "verify"][..], "there is no journal at"),
        (&["audit", "verify", "missing.jsonl"], "missing.jsonl: No such file"),
    ] {
        let output = smartgate(state.path(), args);
        assert_eq!(output.status.code(), Some(64));
        assert!(text(&output.stderr).contains(says), "{}", text(&output.stderr));
    }
}
