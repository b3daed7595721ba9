//! An index never makes another answer than the lines do.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Broken, Dimension, Entry, Filter, Journals, Names, Order, places::Places, segment::Sizes};
use crate::audit::segments;

/// Small enough that a few lines make several blocks, and every block is worth an index.
const SMALL: Sizes = Sizes { block: 2_000, worth: 1 };

fn journal(folder: &Path) -> PathBuf {
    folder.join("audit.jsonl")
}

fn open(path: &Path) -> Journals {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".index");
    let places = Places::in_folders(vec![beside.into()]);
    Journals::open_with(&[path.to_owned()], SMALL, Some(places)).unwrap()
}

fn found(journals: &Journals, filter: &Filter, order: Order, limit: Option<usize>) -> (Vec<Vec<u8>>, Broken) {
    let mut lines = Vec::new();
    let broken = journals.find(filter, order, limit, |row| {
        lines.push(row.line);
        ControlFlow::Continue(())
    });
    (lines, broken.unwrap())
}

/// What the lines of all segments say, one by one.
fn scanned(path: &Path, filter: &Filter) -> (Vec<Vec<u8>>, u64) {
    let mut text = Vec::new();
    for (_, old) in segments::old(path).unwrap() {
        text.extend(fs::read(old).unwrap());
    }
    text.extend(fs::read(path).unwrap());
    let mut lines: Vec<_> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    // What follows the last line feed is no line.
    lines.pop();
    let broken = lines.iter().filter(|l| Entry::parse(l).is_err()).count();
    lines.retain(|line| Entry::parse(line).is_ok_and(|entry| filter.matches(&entry)));
    (lines, broken as u64)
}

/// Rotates as the gateway does.
fn rotate(path: &Path) {
    let last = segments::old(path).unwrap().last().map_or(0, |(n, _)| *n);
    fs::rename(path, segments::numbered(path, last + 1)).unwrap();
    fs::write(path, "").unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

fn name() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => prop::sample::select(vec!["a", "ab", "b__c", "ok", "rejected", "-", "é\u{1}\"/"]).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => "[a-c/,]{0,3}".prop_map(Value::from),
    ]
}

fn line() -> impl Strategy<Value = Vec<u8>> {
    let names = (name(), name(), name(), name(), name(), name(), name(), name());
    let numbers = (0u64..40, 0i64..100, 0u32..2_000_000, 0u32..4, any::<bool>());
    let good = (names, numbers, prop::collection::vec(prop::sample::select(vec!["r1", "r2", "r3"]), 0..3));
    let good = good.prop_map(|((key, tool, up, outcome, method, client, version, reason), n, rules)| {
        let (seq, second, duration, trace, call) = n;
        let client = json!({"name": client, "version": version, "address": null});
        let mut line = json!({
            "v": 1, "kind": if call { "call" } else { "start" }, "boot": format!("B{}", trace % 2), "seq": seq,
            "time": format!("2026-11-30T08:{:02}:{:02}.{:06}Z", second / 60, second % 60, duration % 1_000_000),
            "duration_ms": f64::from(duration) / 1_000.0,
            "trace_id": format!("{:032x}", u128::from(trace) << 96 | u128::from(seq)),
            "principal": key, "client": client, "method": method, "upstream": up, "tool": tool,
            "normalized": rules, "outcome": outcome, "request_bytes": duration % 300, "response_bytes": seq * 7_000,
            "error": {"reason": reason, "code": 1, "message": "x".repeat((duration % 200) as usize)},
            "tokens": {"in": seq, "out": 2, "saved": 0},
        });
        if seq % 5 == 0 {
            line.as_object_mut().unwrap().retain(|k, _| ["v", "kind", "boot", "seq", "time"].contains(&k.as_str()));
        }
        line.to_string().into_bytes()
    });
    prop_oneof![
        20 => good,
        1 => Just(b"{\"v\":1,\"kind\":\"call\"".to_vec()),
        1 => Just(Vec::new()),
        1 => prop::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 0..40),
        1 => Just(vec![b'x'; 5_000]),
    ]
}

fn names() -> impl Strategy<Value = Names> {
    let pattern =
        prop::sample::select(vec!["*", "a*", "b", "!a", "-", "ok", "!ok", "r1", "r?", "nothing", "é*"]);
    prop_oneof![
        4 => Just(Names::default()),
        1 => prop::collection::vec(pattern, 1..3).prop_map(|p| Names::new(&p)),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let all = (names(), names(), names(), names(), names(), names(), names(), names());
    let base = 1_796_025_600_000_000i64;
    let time = move || prop::option::weighted(0.2, (0i64..100).prop_map(move |s| base + s * 1_000_000));
    let ids = (
        prop::option::weighted(0.1, (0u128..4, 0u128..40).prop_map(|(t, s)| format!("{:032x}", t << 96 | s))),
        prop::option::weighted(0.1, prop::sample::select(vec!["B0".to_owned(), "B1".to_owned()])),
        prop::option::weighted(0.1, (0u64..40, 0u64..40)),
    );
    (all, time(), time(), ids, any::<bool>()).prop_map(|(n, since, until, (trace, boot, seq), calls)| {
        let (key, tool, upstream, outcome, method, client, rule, reason) = n;
        let kind = if calls { Names::new(&["call"]) } else { Names::default() };
        Filter {
            kind,
            key,
            tool,
            upstream,
            outcome,
            method,
            client,
            rule,
            reason,
            since,
            until,
            trace,
            boot,
            seq,
        }
    })
}

/// By rule and client: records, failures and bytes.
type Groups = BTreeMap<(Option<String>, Option<String>), (u64, u64, u64)>;

fn groups_by_hand(lines: &[Vec<u8>]) -> Groups {
    let mut groups = Groups::new();
    for line in lines {
        let entry = Entry::parse(line).unwrap();
        let client = entry.client_name().map(|c| c.into_owned());
        let rules = entry.rules().map(|r| r.into_owned()).unwrap_or_default();
        for rule in rules.split(',').filter(|r| !r.is_empty()) {
            let sums = groups.entry((Some(rule.to_owned()), client.clone())).or_default();
            sums.0 += 1;
            sums.1 += u64::from(entry.outcome.as_deref() != Some("ok"));
            sums.2 += entry.response_bytes.unwrap_or(0);
        }
    }
    groups
}

fn same_answers(journals: &Journals, path: &Path, filter: &Filter) -> Result<(), TestCaseError> {
    let (expected, broken) = scanned(path, filter);
    let (oldest, report) = found(journals, filter, Order::OldestFirst, None);
    prop_assert_eq!(&oldest, &expected);
    prop_assert_eq!(report.lines, broken);
    let (mut newest, _) = found(journals, filter, Order::NewestFirst, None);
    newest.reverse();
    prop_assert_eq!(&newest, &expected);
    let (some, _) = found(journals, filter, Order::NewestFirst, Some(3));
    prop_assert_eq!(some, expected.iter().rev().take(3).cloned().collect::<Vec<_>>());
    // A trace id is only looked for by its beginning, which figures cannot be about.
    let filter = &Filter { trace: None, ..filter.clone() };
    let (expected, _) = scanned(path, filter);
    let by = [vec![Dimension::Rule, Dimension::Client], vec![Dimension::Outcome]];
    let stats = journals.stats(filter, &by).unwrap();
    prop_assert_eq!(stats.total.calls, expected.len() as u64);
    let mut durations: Vec<u64> = expected.iter().map(|l| Entry::parse(l).unwrap().duration_us()).collect();
    durations.sort_unstable();
    prop_assert_eq!(stats.total.latency_us(0.5), durations.get((durations.len().max(1) - 1) / 2).copied());
    let groups: BTreeMap<_, _> = stats.groupings[0]
        .iter()
        .map(|g| {
            let f = &g.figures;
            ((g.names[0].clone(), g.names[1].clone()), (f.calls, f.failed(), f.response_bytes))
        })
        .collect();
    prop_assert_eq!(groups, groups_by_hand(&expected));
    Ok(())
}

/// The files of the index.
fn indexes(path: &Path) -> Vec<PathBuf> {
    let folder = path.with_extension("jsonl.index");
    fs::read_dir(folder).map(|all| all.map(|e| e.unwrap().path()).collect()).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_index_says_what_the_lines_say(
        parts in prop::collection::vec((prop::collection::vec(line(), 0..40), any::<bool>()), 1..4),
        filters in prop::collection::vec(filter(), 1..5),
        torn in prop::option::of(1usize..30),
    ) {
        let folder = TempDir::new().unwrap();
        let path = journal(folder.path());
        fs::write(&path, "").unwrap();
        for (lines, then_rotate) in &parts {
            append(&path, &lines.iter().flat_map(|l| [l.as_slice(), b"\n"].concat()).collect::<Vec<_>>());
            // The first reads lines, the second what the first kept, grown or not.
            for filter in &filters {
                let journals = open(&path);
                same_answers(&journals, &path, filter)?;
                journals.keep_indexes();
            }
            if *then_rotate {
                rotate(&path);
            }
        }
        if let Some(bytes) = torn {
            append(&path, &b"{\"v\":1,\"kind\":\"call\",\"boot\":\"B\",\"seq\":1"[..bytes]);
        }
        for filter in &filters {
            same_answers(&open(&path), &path, filter)?;
        }
    }

    #[test]
    fn a_damaged_index_changes_nothing(
        lines in prop::collection::vec(line(), 30..60),
        filter in filter(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let folder = TempDir::new().unwrap();
        let path = journal(folder.path());
        append(&path, &lines.iter().flat_map(|l| [l.as_slice(), b"\n"].concat()).collect::<Vec<_>>());
        let journals = open(&path);
        journals.stats(&Filter::default(), &[]).unwrap();
        journals.keep_indexes();
        for index in indexes(&path) {
            let file = fs::OpenOptions::new().write(true).open(&index).unwrap();
            let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
            for (at, byte) in &damage {
                file.write_at(&[*byte], at.index(length) as u64).unwrap();
            }
            if let Some(cut) = cut {
                file.set_len(cut.index(length) as u64).unwrap();
            }
        }
        let journals = open(&path);
        same_answers(&journals, &path, &filter)?;
        journals.keep_indexes();
        same_answers(&open(&path), &path, &filter)?;
    }
}

fn numbered(n: u64) -> String {
    let line = json!({"v": 1, "kind": "call", "boot": "B", "seq": n, "time": "2026-11-30T08:00:00.000000Z",
        "tool": format!("t{}", n % 10), "outcome": "ok", "padding": "x".repeat(100)});
    format!("{line}\n")
}

fn written(path: &Path, numbers: std::ops::Range<u64>) {
    append(path, numbers.map(numbered).collect::<String>().as_bytes());
}

fn tool(name: &str) -> Filter {
    Filter { tool: Names::new(&[name]), ..Filter::default() }
}

#[test]
fn an_index_is_used_and_stays_good_over_growth_and_rotation() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..100);
    let journals = open(&path);
    assert_eq!(found(&journals, &tool("t3"), Order::OldestFirst, None).0.len(), 10);
    journals.keep_indexes();
    let [index] = &indexes(&path)[..] else { panic!("one index") };
    let before = fs::metadata(index).unwrap().len();
    // What the index says is believed for the lines that it covers: that is how we see that it is used.
    let names = fs::read(&path).unwrap();
    let changed = String::from_utf8(names).unwrap();
    let old = numbered(53);
    assert!(changed.contains(&old));
    fs::write(&path, changed.replace(&old, &old.replace("t3", "t4"))).unwrap();
    written(&path, 100..200);
    rotate(&path);
    written(&path, 200..300);
    let journals = open(&path);
    assert_eq!(found(&journals, &tool("t3"), Order::OldestFirst, None).0.len(), 29);
    assert_eq!(found(&journals, &tool("t4"), Order::OldestFirst, None).0.len(), 30);
    journals.keep_indexes();
    assert_eq!(indexes(&path).len(), 2);
    assert!(fs::metadata(index).unwrap().len() > before);
}

#[test]
fn a_segment_that_was_changed_gets_another_index() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..100);
    let journals = open(&path);
    assert_eq!(found(&journals, &tool("t4"), Order::OldestFirst, None).0.len(), 10);
    journals.keep_indexes();
    let text = fs::read_to_string(&path).unwrap().replacen("\"t3\"", "\"t4\"", 1);
    fs::write(&path, text).unwrap();
    assert_eq!(found(&open(&path), &tool("t4"), Order::OldestFirst, None).0.len(), 11);
    fs::write(&path, (0..50).map(numbered).collect::<String>()).unwrap();
    assert_eq!(found(&open(&path), &tool("t4"), Order::OldestFirst, None).0.len(), 5);
}

#[test]
fn indexes_of_deleted_segments_are_cleared_away() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..100);
    rotate(&path);
    written(&path, 100..200);
    let look = || {
        let journals = open(&path);
        journals.stats(&Filter::default(), &[]).unwrap();
        journals.keep_indexes();
    };
    look();
    assert_eq!(indexes(&path).len(), 2);
    fs::remove_file(segments::numbered(&path, 1)).unwrap();
    look();
    assert_eq!(indexes(&path).len(), 1);
}

#[test]
fn closed_segments_are_indexed_before_anybody_asks() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..100);
    rotate(&path);
    written(&path, 100..200);
    open(&path).index_closed().unwrap();
    assert_eq!(indexes(&path).len(), 1);
    assert_eq!(found(&open(&path), &tool("t3"), Order::OldestFirst, None).0.len(), 20);
}

#[test]
fn records_come_by_arrival_if_asked_so() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    let at = |seq: u64, second: u64| {
        format!(
            "{{\"kind\":\"call\",\"boot\":\"B\",\"seq\":{seq},\"time\":\"2026-11-30T08:00:{second:02}Z\"}}\n"
        )
    };
    append(&path, [at(1, 5), at(2, 3)].concat().as_bytes());
    rotate(&path);
    append(&path, [at(3, 4), at(4, 3), at(5, 9)].concat().as_bytes());
    let mut seqs = Vec::new();
    let filter = Filter { seq: Some((1, 4)), ..Filter::default() };
    let each = |row: super::Row| {
        seqs.extend(row.entry().map(|e| e.seq));
        ControlFlow::Continue(())
    };
    open(&path).find_by_arrival(&filter, each).unwrap();
    assert_eq!(seqs, [2, 4, 3, 1]);
}

#[test]
fn where_no_index_can_be_kept_answers_are_the_same() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..100);
    // A file where the folder would be.
    fs::write(path.with_extension("jsonl.index"), "").unwrap();
    for _ in 0..2 {
        let journals = open(&path);
        assert_eq!(found(&journals, &tool("t3"), Order::NewestFirst, None).0.len(), 10);
        journals.keep_indexes();
    }
}

#[test]
fn the_latest_records_need_no_more_than_the_last_blocks() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..2_000);
    let journals = open(&path);
    let (lines, _) = found(&journals, &Filter::default(), Order::NewestFirst, Some(2));
    let seqs: Vec<u64> = lines.iter().map(|l| Entry::parse(l).unwrap().seq).collect();
    assert_eq!(seqs, [1_999, 1_998]);
    // Not all of it was read, so there is nothing to keep.
    journals.keep_indexes();
    assert!(indexes(&path).is_empty());
}

#[test]
fn a_journal_that_is_not_there_is_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("none/audit.jsonl");
    let error = Journals::open(std::slice::from_ref(&path)).unwrap_err();
    assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
    assert!(Journals::open(&[folder.path().to_owned()]).is_err());
}

#[test]
fn a_follower_sees_every_line_once_over_rotations() {
    let folder = TempDir::new().unwrap();
    let path = journal(folder.path());
    written(&path, 0..5);
    append(&path, b"{\"v\":1,\"kind\":");
    let mut follower = open(&path).follow().unwrap();
    let mut seen = Vec::new();
    let mut poll = || {
        follower
            .poll(|row| {
                seen.push(row.entry().map(|e| e.seq));
                ControlFlow::Continue(())
            })
            .unwrap();
        std::mem::take(&mut seen)
    };
    assert_eq!(poll(), []);
    // The torn line is completed; then cut lines, several rotations at once, and one that is deleted.
    append(&path, b"\"call\",\"boot\":\"B\",\"seq\":5,\"time\":\"2026-11-30T08:00:00Z\"}\nnonsense\n");
    assert_eq!(poll(), [Some(5), None]);
    written(&path, 6..8);
    rotate(&path);
    written(&path, 8..9);
    rotate(&path);
    written(&path, 9..11);
    assert_eq!(poll(), (6..11).map(Some).collect::<Vec<_>>());
    fs::remove_file(segments::numbered(&path, 1)).unwrap();
    rotate(&path);
    written(&path, 11..12);
    assert_eq!(poll(), [Some(11)]);
    append(&path, b"{\"torn");
    assert_eq!(poll(), []);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 6).unwrap();
    written(&path, 12..13);
    assert_eq!(poll(), [Some(12)]);
}
