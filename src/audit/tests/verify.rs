//! What `verify` finds, and that nothing makes it stumble.

use std::{fs, sync::OnceLock};

use proptest::prelude::*;

use super::*;
use crate::audit::{segments, verify};

/// A good journal of two boots and seven lines.
fn good() -> &'static [u8] {
    static GOOD: OnceLock<Vec<u8>> = OnceLock::new();
    GOOD.get_or_init(|| {
        let (_folder, path) = place();
        for count in [2, 3] {
            let (recorder, thread, _) = start(&settings(&path));
            (0..count).for_each(|_| recorder.record(example()));
            thread.stop();
        }
        fs::read(&path).unwrap()
    })
}

fn good_lines() -> Vec<&'static [u8]> {
    good().split_inclusive(|b| *b == b'\n').collect()
}

/// What is wrong with a journal of these bytes, as `line: what`.
fn fault(bytes: &[u8]) -> String {
    let (_folder, path) = place();
    fs::write(&path, bytes).unwrap();
    let message = verify::journal(&path).unwrap_err().to_string();
    message.strip_prefix(&format!("{}:", path.display())).unwrap().to_owned()
}

#[test]
fn a_changed_line_is_named() {
    let text = String::from_utf8(good().to_vec()).unwrap();
    let changed = text.replacen("cursor-ada", "cursor-eve", 1);
    assert_eq!(fault(changed.as_bytes()), "2: the line was changed: it does not match its hash");
}

#[test]
fn a_changed_line_with_its_hash_mended_breaks_the_next() {
    use sha2::{Digest, Sha256};
    let mut lines: Vec<Vec<u8>> = good_lines().into_iter().map(<[u8]>::to_vec).collect();
    let text = String::from_utf8(lines[1].clone()).unwrap().replacen("cursor-ada", "cursor-eve", 1);
    let covered = text.rsplit_once(",\"hash\":").unwrap().0;
    let hash: String = Sha256::digest(covered).iter().map(|b| format!("{b:02x}")).collect();
    lines[1] = format!("{covered},\"hash\":\"{hash}\"}}\n").into_bytes();
    assert!(fault(&lines.concat()).starts_with("3: `prev` is not the hash of the line before"));
}

#[test]
fn missing_moved_and_doubled_lines_are_named() {
    let lines = good_lines();
    let pick = |order: &[usize]| order.iter().map(|n| lines[*n]).collect::<Vec<_>>().concat();
    assert!(fault(&pick(&[0, 2, 3])).starts_with("2: `prev`"));
    assert!(fault(&pick(&[0, 2, 1])).starts_with("2: `prev`"));
    assert!(fault(&pick(&[0, 1, 1])).starts_with("3: `prev`"));
}

#[test]
fn what_is_no_record_is_named() {
    let start = good_lines()[0];
    assert!(fault(&[start, b"hello\n"].concat()).starts_with("2: not a record: it does not end in a hash"));
    assert!(fault(&[start, b"\n"].concat()).starts_with("2: not a record"));
    assert_eq!(fault(&[start, b"{\"v\":1"].concat()), "2: torn: the line has no end");
}

#[test]
fn a_missing_segment_is_found_across_files() {
    let (_folder, path) = place();
    let lines = good_lines();
    for (number, part) in [(1, &lines[..2]), (2, &lines[2..4])] {
        fs::write(segments::numbered(&path, number), part.concat()).unwrap();
    }
    fs::write(&path, lines[4..].concat()).unwrap();
    assert_eq!(verify::journal(&path).unwrap().segments, 3);
    fs::remove_file(segments::numbered(&path, 2)).unwrap();
    let message = verify::journal(&path).unwrap_err().to_string();
    assert!(message.starts_with(&format!("{}:1: `prev`", path.display())), "{message}");
    fs::remove_file(segments::numbered(&path, 1)).unwrap();
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.from_the_beginning, report.first.unwrap().seq), (false, 1));
}

#[test]
fn numbers_missing_from_a_boot_are_found_even_where_hashes_fit() {
    use crate::audit::{
        chain::{Chain, GENESIS, Start},
        redact::Shown,
    };
    let payloads = [Shown::None, Shown::None];
    let write = |lost: &[u64]| {
        let (mut chain, mut out) = (Chain::new(GENESIS), Vec::new());
        chain.start(&mut out, Start { healed_bytes: 0 });
        for lost in lost {
            chain.call(&mut out, &example(), &payloads, *lost);
        }
        out
    };
    let (_folder, path) = place();
    fs::write(&path, write(&[0, 5, 0])).unwrap();
    let report = verify::journal(&path).unwrap();
    assert_eq!((report.lost, report.last.unwrap().seq), (5, 8));
    // The same gap without the gateway's own account of it.
    let text = String::from_utf8(write(&[0, 5])).unwrap().replace(",\"lost\":5", "");
    assert_eq!(fault(rehash(&text).as_bytes()), "3: `seq` is 7 after 1: records are missing or doubled");
}

/// Mends the hashes of a journal whose lines were changed.
fn rehash(text: &str) -> String {
    use sha2::{Digest, Sha256};
    let mut prev = "0".repeat(64);
    let mut out = String::new();
    for line in text.lines() {
        let covered = line.rsplit_once(",\"prev\":").unwrap().0;
        let covered = format!("{covered},\"prev\":\"{prev}\"");
        prev = Sha256::digest(&covered).iter().map(|b| format!("{b:02x}")).collect();
        out.push_str(&format!("{covered},\"hash\":\"{prev}\"}}\n"));
    }
    out
}

#[test]
fn another_boot_needs_its_start() {
    let text = String::from_utf8(good().to_vec()).unwrap();
    let without: Vec<&str> = text.lines().enumerate().filter(|(n, _)| *n != 3).map(|(_, l)| l).collect();
    assert_eq!(fault(rehash(&without.join("\n")).as_bytes()), "4: another boot without its `start` record");
}

#[test]
fn an_empty_journal_passes_and_a_missing_one_does_not() {
    let (folder, path) = place();
    fs::write(&path, "").unwrap();
    assert_eq!(verify::journal(&path).unwrap().records, 0);
    assert!(verify::journal(&folder.path().join("none")).is_err());
}

#[test]
fn a_line_under_way_is_no_fault_while_the_writer_lives() {
    let (_folder, path) = place();
    let (_recorder, thread, _) = start(&settings(&path));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"{\"v\":1,\"kin").unwrap();
    assert!(verify::journal(&path).unwrap().unfinished);
    thread.stop();
    assert!(verify::journal(&path).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_single_byte_counts(at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let mut bytes = good().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let (_folder, path) = place();
        fs::write(&path, &bytes).unwrap();
        prop_assert!(verify::journal(&path).is_err(), "byte {at}");
    }

    #[test]
    fn arbitrary_bytes_never_panic(junk in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        let (_folder, path) = place();
        let bytes = [&good()[..cut.index(good().len())], &junk].concat();
        fs::write(&path, bytes).unwrap();
        // A cut at a line's end with nothing after it is a good, shorter journal; all else is a fault.
        drop(verify::journal(&path));
    }

    #[test]
    fn how_it_is_cut_into_blocks_changes_nothing(
        block in 1usize..3_000,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut bytes = good().to_vec();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let checks = verify::Checks::default();
        let told = |block| verify::bytes(&bytes, block, &checks).map_err(|fault| fault.to_string());
        prop_assert_eq!(told(block), told(1 << 20));
    }
}
