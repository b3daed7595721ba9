//! When checkpoints are made, that they hold, and what is kept of old segments.

use super::*;
use crate::{
    audit::{
        segments,
        verify::{self, Checks, Held},
    },
    config::Secret,
    signing::{PublicKey, new_key},
};

fn signing(path: &Path, every: Duration) -> (Audit, PublicKey) {
    let (private, public) = new_key().unwrap();
    (Audit { signing_key: Some(Secret::new(&private)), checkpoint: every, ..settings(path) }, public)
}

fn checkpoints(path: &Path) -> Vec<Value> {
    lines(path).into_iter().filter(|l| l["kind"] == "checkpoint").collect()
}

#[test]
fn one_is_due_after_its_time_and_none_while_nothing_happens() {
    let (_folder, path) = place();
    let (audit, public) = signing(&path, Duration::from_millis(30));
    let (recorder, thread, _) = start(&audit);
    wait_until("the first", || checkpoints(&path).len() == 1);
    recorder.record(example());
    wait_until("the second", || checkpoints(&path).len() == 2);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(checkpoints(&path).len(), 2);
    thread.stop();
    let all = checkpoints(&path);
    let told: Vec<_> =
        all.iter().map(|c| (c["reason"].as_str().unwrap(), c["records"].as_u64().unwrap())).collect();
    assert_eq!(told, [("due", 1), ("due", 3), ("stop", 4)]);
    let checks = Checks { keys: vec![public], held: Held::default() };
    let report = verify::journal_with(&path, &checks).unwrap();
    let (covered, after) = report.covered.unwrap();
    assert_eq!((report.signed, covered.seq, after), (3, 4, 0));
}

#[test]
fn a_long_interval_makes_one_at_the_end_and_none_at_all_makes_none() {
    for (every, expected) in [(Duration::from_secs(300), 1), (Duration::ZERO, 0)] {
        let (_folder, path) = place();
        let (audit, _) = signing(&path, every);
        let (recorder, thread, _) = start(&audit);
        recorder.record(example());
        thread.stop();
        assert_eq!(checkpoints(&path).len(), expected);
    }
}

#[test]
fn each_segment_has_one_and_old_segments_go_when_they_are_too_much() {
    let (_folder, path) = place();
    let (mut audit, public) = signing(&path, Duration::from_secs(300));
    (audit.journal.rotate, audit.journal.keep_bytes) = (4 * 1024, Some(16 * 1024));
    let (recorder, thread, metrics) = start(&audit);
    // One by one: what is written at once stays together, also beyond a segment's size.
    for _ in 0..40 {
        let before = metrics.journal_records.get();
        recorder.record(example());
        wait_until("a record", || metrics.journal_records.get() > before);
    }
    thread.stop();
    let old = segments::old(&path).unwrap();
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    let all: u64 = old.iter().map(|(_, p)| size(p)).sum::<u64>() + size(&path);
    assert!(all <= 20 * 1024 && old.len() >= 2, "{all} bytes in {} segments", old.len());
    for (_, segment) in &old {
        assert!(checkpoints(segment).iter().any(|c| c["reason"] == "rotation"), "{}", segment.display());
    }
    let checks = Checks { keys: vec![public], held: Held::default() };
    assert!(!verify::journal_with(&path, &checks).unwrap().from_the_beginning);
}

#[test]
fn a_self_test_reads_its_line_back_and_says_where_none_arrives() {
    let (_folder, path) = place();
    let (recorder, thread, _) = start(&settings(&path));
    assert_eq!(recorder.status().proof.passed(), None);
    let proof = recorder.prove();
    assert_eq!(proof.passed(), Some(true), "{proof}");
    assert_eq!(lines(&path)[1]["kind"], "selftest");
    // The file is replaced behind the recorder's back: what it writes is not where people look.
    fs::rename(&path, path.with_extension("moved")).unwrap();
    fs::write(&path, "").unwrap();
    let proof = recorder.prove();
    assert_eq!(proof.passed(), Some(false));
    assert!(proof.to_string().contains("no record reaches the journal: "), "{proof}");
    assert_eq!(recorder.accepting(), Err(crate::audit::AuditUnavailable));
    thread.stop();
    std::os::unix::fs::symlink("/dev/full", path.with_extension("full")).unwrap();
    let (recorder, thread, _) = start(&settings(&path.with_extension("full")));
    assert_eq!(recorder.prove().passed(), Some(false));
    thread.stop();
}
