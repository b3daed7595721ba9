//! `smartgate audit tail`, `query` and `stats`, as a user runs them.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

fn smartgate(args: &[&str], journal: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    command.arg("audit").args(args).arg(journal).env("HOME", journal.parent().unwrap());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn line(n: u64) -> String {
    let bad = n.is_multiple_of(4);
    let record = json!({
        "v": 1, "kind": "call", "boot": "01J", "seq": n, "time": format!("2026-11-30T08:00:{:02}.000000Z", n % 60),
        "duration_ms": n as f64 / 2.0, "trace_id": format!("{n:032x}"),
        "principal": if n.is_multiple_of(2) { json!("ada") } else { Value::Null },
        "client": {"name": "cursor", "version": "2.1", "address": "10.0.0.7"}, "method": "tools/call",
        "upstream": "files", "tool": format!("files__t{}", n % 3), "normalized": if bad { json!(["bom"]) } else { json!([]) },
        "outcome": if bad { "rejected" } else { "ok" },
        "error": if bad { json!({"reason": "forbidden", "code": 403, "message": "no"}) } else { Value::Null },
        "request_bytes": 10, "response_bytes": 100,
    });
    format!("{record}\n")
}

fn journal(lines: std::ops::Range<u64>) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("audit.jsonl");
    fs::write(&path, lines.map(line).collect::<String>()).unwrap();
    (folder, path)
}

fn seqs(out: &[u8]) -> Vec<u64> {
    text(out).lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_query_filters_orders_and_limits() {
    let (_folder, path) = journal(1..21);
    let ask = |args: &[&str]| {
        let out = smartgate(&[&["query", "--json"], args].concat(), &path);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        seqs(&out.stdout)
    };
    assert_eq!(ask(&["--outcome", "!ok"]), [20, 16, 12, 8, 4]);
    assert_eq!(ask(&["--outcome", "!ok", "--order", "oldest", "--limit", "2"]), [4, 8]);
    assert_eq!(ask(&["--key", "-", "--limit", "2"]), [19, 17]);
    assert_eq!(ask(&["--tool", "files__t1,files__t2", "--rule", "b?m"]), [20, 16, 8, 4]);
    assert_eq!(ask(&["--reason", "forbidden", "--client", "cursor/2.*", "--upstream", "f*"]).len(), 5);
    assert_eq!(ask(&["--since", "2026-11-30T08:00:05Z", "--until", "2026-11-30T09:00:07+01:00"]), [6, 5]);
    assert_eq!(ask(&["--trace", &format!("{:032X}", 10)]), [10]);
    assert_eq!(ask(&["--boot", "01j", "--seq", "3-4"]), [4, 3]);
    assert_eq!(ask(&["--limit", "0"]).len(), 20);
    assert_eq!(ask(&["--tool", "nothing"]), [0; 0]);
    // Lines come out as they are.
    let out = smartgate(&["query", "--json", "--seq", "7"], &path);
    assert_eq!(text(&out.stdout), line(7));
}

#[test]
fn wrong_usage_and_missing_files_are_64() {
    let (folder, path) = journal(1..3);
    let fails = |args: &[&str], path: &Path, why: &str| {
        let out = smartgate(args, path);
        assert_eq!(out.status.code(), Some(64), "{args:?}");
        assert!(text(&out.stderr).contains(why), "{}", text(&out.stderr));
        assert!(out.stdout.is_empty());
    };
    fails(&["query", "--since", "soon"], &path, "--since: \"soon\" is no time");
    fails(&["query", "--trace", "7"], &path, "32 hex digits");
    fails(&["query", "--seq", "x"], &path, "FROM-TO");
    fails(&["stats", "--by", "colour"], &path, "\"colour\" is none of key");
    let missing = folder.path().join("missing.jsonl");
    for command in ["query", "tail", "stats"] {
        fails(&[command], &missing, "missing.jsonl: No such file");
    }
}

#[test]
fn tables_have_no_colours_in_a_pipe_and_obey_no_terminal_codes() {
    let (_folder, path) = journal(4..5);
    let evil = line(5).replace("\"cursor\"", "\"\\u001b[31mred\\u202e\"").replace("files__t2", "two\\nlines");
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(evil.as_bytes()).unwrap();
    let out = text(&smartgate(&["query"], &path).stdout);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].trim_start().starts_with("TIME"), "{out}");
    assert!(lines[1].contains("\\u{1b}[31mred\\u{202e}/2.1") && lines[1].contains("two\\u{a}lines"), "{out}");
    assert!(lines[2].contains("rejected") && lines[2].contains("forbidden; repaired: bom"), "{out}");
    assert!(!out.contains('\u{1b}'), "{out}");
}

#[test]
fn broken_lines_are_left_out_and_counted() {
    let (_folder, path) = journal(1..3);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\xff\0{}\n\n{\"torn").unwrap();
    for args in [&["query", "--json"][..], &["tail", "--json"], &["stats", "--json"]] {
        let out = smartgate(args, &path);
        assert!(out.status.success());
        assert_eq!(text(&out.stdout).lines().count(), if args[0] == "stats" { 1 } else { 2 });
        assert!(
            text(&out.stderr).contains("2 lines that are no records are left out"),
            "{}",
            text(&out.stderr)
        );
    }
}

#[test]
fn stats_are_tables_or_one_object() {
    let (_folder, path) = journal(1..21);
    let out = smartgate(&["stats", "--json", "--by", "tool", "--by", "rule,client"], &path);
    let stats: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&stats["total"]["calls"], &stats["total"]["failed"]), (&json!(20), &json!(5)));
    assert_eq!(stats["total"]["outcomes"], json!({"ok": 15, "rejected": 5}));
    assert_eq!((&stats["total"]["p50_ms"], &stats["total"]["p99_ms"]), (&json!(5.0), &json!(10.0)));
    assert_eq!(stats["by"]["rule,client"][0]["rule"], "bom");
    assert_eq!(stats["by"]["rule,client"][0]["client"], "cursor/2.1");
    assert_eq!(stats["by"]["tool"].as_array().unwrap().len(), 3);
    assert_eq!(stats["span"]["first"], "2026-11-30T08:00:01.000000Z");
    let table = text(&smartgate(&["stats"], &path).stdout);
    for head in ["KEY", "TOOL", "UPSTREAM", "OUTCOME", "RULE"] {
        assert!(table.lines().any(|l| l.starts_with(head)), "{head} is missing in\n{table}");
    }
    let none = smartgate(&["stats", "--tool", "nothing"], &path);
    assert!(none.status.success());
    assert_eq!(text(&none.stdout), "0 calls\n");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let (_folder, path) = journal(1..5_000);
    let mut child = Command::new(env!("CARGO_BIN_EXE_smartgate"))
        .args(["audit", "query", "--json", "--limit", "0"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(1), String::new()));
}

#[test]
fn tail_shows_the_last_and_follows_over_rotation() {
    let (folder, path) = journal(1..21);
    assert_eq!(seqs(&smartgate(&["tail", "-n", "3", "--json"], &path).stdout), [18, 19, 20]);
    assert_eq!(
        seqs(&smartgate(&["tail", "-n", "2", "--json", "--outcome", "rejected"], &path).stdout),
        [16, 20]
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_smartgate"))
        .args(["audit", "tail", "-f", "-n", "1", "--json", "--outcome", "ok"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|l| sender.send(l)));
    let next = || {
        let line = receiver.recv_timeout(Duration::from_secs(30)).expect("a line comes");
        seqs(line.as_bytes())[0]
    };
    assert_eq!(next(), 19);
    let append = |text: &str| {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let (begin, end) = (line(21), line(22));
    append(&begin[..30]);
    append(&begin[30..]);
    append(&line(24));
    assert_eq!(next(), 21);
    append(&end);
    fs::rename(&path, folder.path().join("audit.jsonl.000001")).unwrap();
    append(&line(23));
    assert_eq!((next(), next()), (22, 23));
    child.kill().unwrap();
    child.wait().unwrap();
}
