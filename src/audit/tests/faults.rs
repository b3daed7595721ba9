//! Disks that refuse: nothing is lost, new calls are denied where that is asked for, and it heals.

use std::{fs, os::unix::fs::symlink, process::Command};

use super::*;
use crate::audit::{AuditUnavailable, JournalState, verify};

/// A small file system of its own, gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None`, with a message, where this user may not mount.
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "none"])
            .arg(folder.path())
            .output()
            .is_ok_and(|o| o.status.success());
        if !mounted {
            eprintln!("skipped: a tmpfs cannot be mounted here");
            return None;
        }
        Some(Self(folder))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("audit.jsonl")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|s| s.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_disk_denies_and_heals_without_a_loss() {
    let Some(disk) = SmallDisk::new() else { return };
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 220 * 1024]).unwrap();
    let (recorder, thread, metrics) = start(&settings(&disk.path()));
    assert_eq!(recorder.accepting(), Ok(()));
    let mut sent = 0;
    wait_until("the disk to be full", || {
        recorder.record(example());
        sent += 1;
        recorder.accepting() == Err(AuditUnavailable)
    });
    let JournalState::Failing { message, .. } = recorder.status().journal else { panic!("not failing") };
    assert!(message.contains("No space left"), "{message}");
    assert!(recorder.status().denying);
    // Calls in flight end meanwhile; the file ends in a whole line all the same.
    (0..50).for_each(|_| recorder.record(example()));
    sent += 50;
    let before = metrics.journal_errors.get();
    wait_until("another try", || metrics.journal_errors.get() > before);
    assert!(fs::read(disk.path()).unwrap().ends_with(b"\"}\n"));
    fs::remove_file(&ballast).unwrap();
    wait_until("the journal to recover", || recorder.accepting().is_ok());
    wait_until("the rest", || metrics.journal_records.get() == sent + 1);
    assert_eq!(recorder.status().journal, JournalState::Ok);
    thread.stop();
    let report = verify::journal(&disk.path()).unwrap();
    assert_eq!((report.records, report.lost, report.last.unwrap().seq), (sent + 1, 0, sent));
}

#[test]
fn a_disk_that_never_takes_a_byte_denies_from_the_start() {
    let (_folder, path) = place();
    symlink("/dev/full", &path).unwrap();
    let (recorder, thread, metrics) = start(&settings(&path));
    assert_eq!(recorder.accepting(), Err(AuditUnavailable));
    recorder.record(example());
    wait_until("metrics in spite of it", || metrics.encode().contains("outcome=\"ok\"} 1"));
    thread.stop();
    assert_eq!(metrics.journal_lost.get(), 2);
}

#[test]
fn on_error_serve_goes_on_and_counts_what_found_no_room() {
    let (_folder, path) = place();
    symlink("/dev/full", &path).unwrap();
    let mut audit = settings(&path);
    audit.journal.deny_on_error = false;
    let (recorder, thread, metrics) = start(&audit);
    let heavy = Payload::Kept { sha256: [0; 32], bytes: vec![b' '; 4 << 20], truncated: true, full: false };
    for _ in 0..20 {
        recorder.record(Record { arguments: heavy.clone(), ..example() });
        assert_eq!(recorder.accepting(), Ok(()));
    }
    wait_until("a loss", || recorder.status().lost > 0);
    assert!(!recorder.status().denying);
    thread.stop();
    // Every call is in the metrics, whether its line found room or not.
    assert!(metrics.encode().contains("outcome=\"ok\"} 20"), "{}", metrics.encode());
}

#[test]
fn with_deny_only_refusals_are_dropped_when_too_much_waits() {
    let (_folder, path) = place();
    symlink("/dev/full", &path).unwrap();
    let (recorder, thread, metrics) = start(&settings(&path));
    let heavy = Payload::Kept { sha256: [0; 32], bytes: vec![b' '; 4 << 20], truncated: true, full: false };
    (0..20).for_each(|_| recorder.record(Record { arguments: heavy.clone(), ..example() }));
    assert_eq!(metrics.journal_lost.get(), 0);
    recorder.record(refused());
    assert_eq!(metrics.journal_lost.get(), 1);
    thread.stop();
}

#[test]
fn a_deleted_journal_is_begun_again_on_the_same_chain() {
    let (_folder, path) = place();
    let (recorder, thread, metrics) = start(&settings(&path));
    recorder.record(example());
    wait_until("the first record", || metrics.journal_records.get() == 2);
    fs::remove_file(&path).unwrap();
    recorder.record(example());
    thread.stop();
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.records, report.from_the_beginning, report.last.unwrap().seq), (1, false, 2));
}

#[test]
fn a_journal_cut_by_somebody_else_is_never_filled_up() {
    let (_folder, path) = place();
    let (recorder, thread, metrics) = start(&settings(&path));
    recorder.record(example());
    wait_until("the first record", || metrics.journal_records.get() == 2);
    fs::write(&path, "").unwrap();
    recorder.record(example());
    thread.stop();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\"v\":1") && text.lines().count() == 1);
}

#[test]
fn a_segment_that_cannot_be_renamed_is_written_on() {
    let (folder, path) = place();
    let mut audit = settings(&path);
    audit.journal.rotate = 4 * 1024;
    let (recorder, thread, metrics) = start(&audit);
    // Renaming needs the folder under its name; writing to the open file does not.
    let moved = folder.path().with_extension("moved");
    fs::rename(folder.path(), &moved).unwrap();
    for n in 1..=20 {
        recorder.record(example());
        wait_until("a record", || metrics.journal_records.get() > n);
    }
    thread.stop();
    fs::rename(&moved, folder.path()).unwrap();
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.records, report.segments), (21, 1));
}

#[test]
fn every_batch_is_synced_where_the_interval_is_zero() {
    let (_folder, path) = place();
    let mut audit = settings(&path);
    audit.journal.fsync = Duration::ZERO;
    let (recorder, thread, metrics) = start(&audit);
    (0..100).for_each(|_| recorder.record(example()));
    thread.stop();
    assert_eq!((metrics.journal_records.get(), metrics.journal_errors.get()), (101, 0));
    assert_eq!(verify::journal(&path).unwrap().records, 101);
}
