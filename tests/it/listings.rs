//! Commands that list things and find none say so, on stderr: stdout stays what a program can read.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn smartgate(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    command.args(args).current_dir(state).env("XDG_STATE_HOME", state).output().unwrap()
}

#[test]
fn empty_lists_are_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("audit.jsonl"), "").unwrap();
    fs::write(
        folder.path().join("pinned.toml"),
        "[upstreams.files]\nurl = 'http://127.0.0.1:1/'\npin = true\npins = 'lock.json'\n",
    )
    .unwrap();
    for (args, said) in [
        (&["pin", "show", "-c", "pinned.toml"][..], "nothing of `files` is pinned yet"),
        (&["index", "list"], "there are no documents; smartgate index add"),
        (&["audit", "query", "audit.jsonl"], "no record of the journal fits"),
        (&["audit", "tail", "audit.jsonl"], "no record of the journal fits"),
    ] {
        let output = smartgate(folder.path(), args);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {told}");
        assert!(output.stdout.is_empty() && told.contains(said), "{args:?}: {told}");
    }
}
