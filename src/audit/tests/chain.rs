//! Lines, their order, rotation, restart, healing.

use std::{fs, io::Write, process::Command};

use sha2::{Digest, Sha256};

use super::*;
use crate::audit::{StartError, segments, verify};

/// Runs one boot that records `count` calls.
fn boot(audit: &Audit, count: usize) {
    let (recorder, thread, _) = start(audit);
    for _ in 0..count {
        recorder.record(example());
    }
    thread.stop();
}

#[test]
fn a_line_is_the_contracts_to_the_byte() {
    let (_folder, path) = place();
    boot(&settings(&path), 1);
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().nth(1).unwrap();
    let start: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let (boot, prev) = (start["boot"].as_str().unwrap(), start["hash"].as_str().unwrap());
    let expected = format!(
        concat!(
            r#"{{"v":1,"kind":"call","boot":"{boot}","seq":1,"time":"2026-11-30T08:00:00.123456Z","#,
            r#""duration_ms":12.4,"trace_id":"abababababababababababababababab","span_id":"cdcdcdcdcdcdcdcd","#,
            r#""parent_id":null,"principal":"cursor-ada","client":{{"name":"cursor","version":"2.1","#,
            r#""address":"10.0.0.7"}},"era":"legacy","protocol_version":"2025-11-25","bridged":false,"#,
            r#""upstream_version":"2025-11-25","session":"5e55","method":"tools/call","request_id":"7","#,
            r#""upstream":"files","tool":"files__read","original_method":"files__read","#,
            r#""normalized":["direct_tool_method"],"lossy":false,"edits":[{{"rule":"schema_coercion","#,
            r#""path":"/n","from":"string","to":"integer"}}],"shadow":null,"outcome":"ok","status":200,"#,
            r#""error":null,"upstream_ms":11.9,"attempts":1,"request_bytes":210,"response_bytes":5120,"#,
            r#""tokens":null,"arguments":{{"sha256":"{one}"}},"result":{{"sha256":"{two}"}},"#,
            r#""http_version":"1.1","client_port":5555,"tries":[{{"span_id":"efefefefefefefef","after_ms":0.3,"#,
            r#""duration_ms":11.9,"server":"127.0.0.1","port":3001,"status":200,"error":null}}],"prev":"{prev}""#,
        ),
        boot = boot,
        prev = prev,
        one = "11".repeat(32),
        two = "22".repeat(32),
    );
    let (covered, hash) = line.rsplit_once(",\"hash\":\"").unwrap();
    assert_eq!(covered, expected);
    let digest: String = Sha256::digest(covered).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hash, format!("{digest}\"}}"));
}

#[test]
fn a_start_opens_every_boot_and_the_chain_goes_on() {
    let (_folder, path) = place();
    let audit = settings(&path);
    boot(&audit, 2);
    boot(&audit, 3);
    let lines = lines(&path);
    let kinds: Vec<_> =
        lines.iter().map(|l| (l["kind"].as_str().unwrap(), l["seq"].as_u64().unwrap())).collect();
    let expected =
        [("start", 0), ("call", 1), ("call", 2), ("start", 0), ("call", 1), ("call", 2), ("call", 3)];
    assert_eq!(kinds, expected);
    assert_eq!(lines[0]["prev"].as_str().unwrap(), "0".repeat(64));
    assert_ne!(lines[0]["boot"], lines[3]["boot"]);
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.records, report.boots, report.from_the_beginning), (7, 2, true));
    assert_eq!(report.last_hash, lines[6]["hash"].as_str().unwrap());
}

#[test]
fn unknown_fields_are_null_and_failures_are_told() {
    let (_folder, path) = place();
    let audit = settings(&path);
    let (recorder, thread, _) = start(&audit);
    recorder.record(refused());
    thread.stop();
    let line = &lines(&path)[1];
    for field in
        ["principal", "era", "method", "request_id", "tool", "upstream_ms", "arguments", "result", "tokens"]
    {
        assert!(line[field].is_null(), "{field} is {}", line[field]);
    }
    assert_eq!(line["client"], serde_json::json!({"name": null, "version": null, "address": null}));
    let error = serde_json::json!({"reason": "parse_error", "code": -32700, "message": "body is not JSON"});
    assert_eq!(line["error"], error);
}

#[test]
fn what_a_stranger_sends_stays_within_one_bounded_line() {
    let (_folder, path) = place();
    let (recorder, thread, _) = start(&settings(&path));
    let nasty = "\n\"}\u{0}\\".repeat(300_000);
    recorder.record(Record {
        method: Some(nasty.clone()),
        tool: Some(nasty.clone()),
        request_id: Some(nasty),
        edits: vec![example().edits[0].clone(); 10_000],
        ..example()
    });
    thread.stop();
    let line = &lines(&path)[1];
    assert_eq!(line["edits"].as_array().unwrap().len(), 256);
    assert_eq!(line["edits_omitted"], 9_744);
    assert!(fs::metadata(&path).unwrap().len() < 64 * 1024);
    verify::journal(&path).unwrap();
}

#[test]
fn kept_payloads_are_masked_as_the_last_reload_says_unless_kept_in_full() {
    let (_folder, path) = place();
    let mut audit = settings(&path);
    audit.capture = Capture::Redacted;
    let (recorder, thread, metrics) = start(&audit);
    let bytes = br#"{"user":"ada","password":"hunter2"}"#.to_vec();
    let kept = Payload::Kept { sha256: [1; 32], bytes, truncated: false, full: false };
    recorder.record(Record { arguments: kept.clone(), ..example() });
    wait_until("the first record", || metrics.journal_records.get() == 2);
    audit.redact = Globs::new(["user"]);
    recorder.reconfigure(&audit);
    recorder.record(Record { arguments: kept, ..example() });
    let bytes = br#"{"user":"ada","password":"hunter2"}"#.to_vec();
    let full = Payload::Kept { sha256: [1; 32], bytes, truncated: false, full: true };
    recorder.record(Record { arguments: full, ..example() });
    thread.stop();
    let lines = lines(&path);
    let masked = serde_json::json!({"user": "ada", "password": "***"});
    assert_eq!(lines[1]["arguments"]["value"], masked);
    assert_eq!(lines[1]["arguments"]["truncated"], false);
    // A password is one by its name, whatever is configured.
    assert_eq!(lines[2]["arguments"]["value"], serde_json::json!({"user": "***", "password": "***"}));
    assert_eq!(lines[3]["arguments"]["value"]["password"], "hunter2");
}

#[test]
fn rotation_keeps_the_chain_and_only_so_many_segments() {
    let (_folder, path) = place();
    let mut audit = settings(&path);
    audit.journal.rotate = 8 * 1024;
    audit.journal.keep = 3;
    let (recorder, thread, metrics) = start(&audit);
    for n in 1..=100 {
        recorder.record(example());
        wait_until("a record", || metrics.journal_records.get() > n);
    }
    thread.stop();
    let old = segments::old(&path).unwrap();
    assert_eq!(old.len(), 3);
    assert!(old[0].0 > 1, "the oldest ones are gone: {old:?}");
    for (_, segment) in &old {
        assert!(fs::metadata(segment).unwrap().len() <= 8 * 1024);
    }
    let report = verify::journal(&path).unwrap();
    assert!(!report.from_the_beginning);
    assert_eq!(report.segments, 4);
    assert_eq!(report.last.unwrap().seq, 100);
    boot(&audit, 1);
    assert_eq!(verify::journal(&path).unwrap().boots, 2);
}

#[test]
fn the_chain_goes_on_after_a_rotation_that_was_cut_short() {
    let (_folder, path) = place();
    let audit = settings(&path);
    boot(&audit, 2);
    fs::rename(&path, segments::numbered(&path, 1)).unwrap();
    assert_eq!(verify::journal(&path).unwrap().records, 3);
    boot(&audit, 1);
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.records, report.segments), (5, 2));
}

#[test]
fn a_torn_line_is_cut_off_and_told() {
    let (_folder, path) = place();
    let audit = settings(&path);
    boot(&audit, 3);
    let whole = fs::read(&path).unwrap();
    for cut in [1, 2, 40, 400] {
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        assert!(verify::journal(&path).unwrap_err().to_string().contains(":4: torn"));
        boot(&audit, 1);
        let lines = lines(&path);
        assert_eq!(lines.len(), 5, "cut {cut}");
        let length =
            whole.len() - cut - whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() - 1;
        assert_eq!(lines[3]["healed_bytes"], length);
        verify::journal(&path).unwrap();
    }
}

#[test]
fn a_journal_torn_in_its_first_line_begins_again() {
    let (_folder, path) = place();
    for torn in [&b"{\"v\":1,\"kind\":\"sta"[..], b"{\"", &[0; 700]] {
        fs::write(&path, torn).unwrap();
        boot(&settings(&path), 0);
        assert_eq!(lines(&path)[0]["healed_bytes"], torn.len());
        assert!(verify::journal(&path).unwrap().from_the_beginning);
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn files_of_others_are_left_alone() {
    let (_folder, path) = place();
    for content in ["root:x:0:0\nnobody", "dear diary", "{\"v\":1,\"hash\":\"abc\"}\n", "\n\n"] {
        fs::write(&path, content).unwrap();
        let result = Recorder::start(&settings(&path), &no_export(), Arc::new(Metrics::new()));
        assert!(matches!(result, Err(StartError::Foreign(_))), "{content:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_second_writer_is_refused_until_the_first_has_stopped() {
    let (_folder, path) = place();
    let audit = settings(&path);
    let (_recorder, thread, _) = start(&audit);
    let second = Recorder::start(&audit, &no_export(), Arc::new(Metrics::new()));
    let message = second.unwrap_err().to_string();
    assert_eq!(
        message,
        format!("journal {} is in use by another process", segments::resolved(&path).display())
    );
    thread.stop();
    boot(&audit, 0);
}

#[test]
fn every_way_to_a_journal_finds_its_lock_and_segments() {
    let (folder, path) = place();
    let other = folder.path().join("elsewhere");
    fs::create_dir(&other).unwrap();
    let link = other.join("link.jsonl");
    boot(&settings(&path), 1);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut audit = settings(&link);
    audit.journal.rotate = 1;
    let (_recorder, thread, _) = start(&audit);
    let second = Recorder::start(&settings(&path), &no_export(), Arc::new(Metrics::new()));
    assert!(matches!(second, Err(StartError::Locked(_))));
    thread.stop();
    assert_eq!(segments::old(&path).unwrap().len(), 1);
    assert_eq!(verify::journal(&link).unwrap(), verify::journal(&path).unwrap());
}

#[test]
fn the_lock_holds_between_processes() {
    let (_folder, path) = place();
    let (_recorder, thread, _) = start(&settings(&path));
    let taken = Command::new("flock").arg("--nonblock").arg(segments::lock(&path)).arg("true").status();
    match taken {
        Ok(status) => assert_eq!(status.code(), Some(1)),
        Err(error) => eprintln!("skipped: flock(1) cannot be run: {error}"),
    }
    thread.stop();
}

#[test]
fn folders_are_made_and_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _) = place();
    let path = folder.path().join("state/smartgate/audit.jsonl");
    boot(&settings(&path), 0);
    let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
}

#[test]
fn a_journal_may_be_a_pipe() {
    let (_folder, path) = place();
    let status = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(status.success());
    let mut reader = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    boot(&settings(&path), 2);
    reader.write_all(b"end\n").unwrap();
    let lines: Vec<String> =
        std::io::BufRead::lines(std::io::BufReader::new(reader)).take(4).map(Result::unwrap).collect();
    assert!(lines[0].contains("\"kind\":\"start\"") && lines[2].contains("\"seq\":2"));
    assert_eq!(lines[3], "end");
}
