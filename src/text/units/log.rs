//! Logs: a record is a line that begins with a time or a level, with the lines after it that do not. Records of a
//! rare form and of a grave level weigh more.

use std::collections::HashMap;

use super::{Parts, Role, lines};

/// Lines that are looked at to tell a log from text.
const SAMPLE: usize = 200;
/// A level stands within this many bytes of a record's beginning.
const HEAD: usize = 160;
/// Levels and what tells them, the gravest first.
const LEVELS: [(f64, &[&str]); 4] = [
    (1.0, &["fatal", "critical", "panic", "emerg"]),
    (0.9, &["error", "severe", "exception", "traceback", "failed"]),
    (0.5, &["warn"]),
    (0.1, &["info", "notice"]),
];
const LEVEL_NAMES: [&str; 9] =
    ["trace", "debug", "info", "notice", "warn", "error", "fatal", "critical", "panic"];
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Whether at least half of the lines begin a record.
pub(super) fn is_log(text: &str) -> bool {
    let sample = || text.lines().filter(|line| !line.trim().is_empty()).take(SAMPLE);
    let (records, all) = (sample().filter(|line| begins(line)).count(), sample().count());
    all > 2 && records * 2 >= all
}

pub(super) fn split(text: &str, parts: &mut Parts) {
    let every_line = !is_log(text);
    for (at, line) in lines(text) {
        if every_line || begins(line) {
            parts.until(at, Role::Body);
            parts.next_paragraph();
        }
    }
    parts.until(text.len(), Role::Body);
    weigh(text, parts);
}

fn weigh(text: &str, parts: &mut Parts) {
    let forms: Vec<u64> = parts.units.iter().map(|unit| form(&text[unit.span.clone()])).collect();
    let mut seen: HashMap<u64, usize> = HashMap::new();
    forms.iter().for_each(|form| *seen.entry(*form).or_default() += 1);
    let all = (forms.len().max(2) as f64).ln();
    for (unit, form) in parts.units.iter_mut().zip(&forms) {
        let rarity = 1.0 - (seen[form] as f64).ln() / all;
        unit.weight = level(&text[unit.span.clone()]) + 0.5 * rarity;
    }
}

/// Equal for records that differ in numbers only.
fn form(record: &str) -> u64 {
    let words =
        record.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.bytes().any(|b| b.is_ascii_digit()));
    words.filter(|word| !word.is_empty()).fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        word.bytes()
            .chain([0])
            .fold(hash, |hash, b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
    })
}

fn level(record: &str) -> f64 {
    let head = record[..record.floor_char_boundary(HEAD)].to_ascii_lowercase();
    LEVELS
        .iter()
        .find(|(_, names)| names.iter().any(|name| head.contains(name)))
        .map_or(0.0, |(level, _)| *level)
}

/// Whether a line begins with a date, a time, seconds since 1970 or a level.
fn begins(line: &str) -> bool {
    let line = line.trim_start_matches(['[', '<', '(', '"']);
    let bytes = line.as_bytes();
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    match (digits, bytes.get(digits)) {
        (4, Some(b'-' | b'/')) | (2, Some(b':' | b'/' | b'.')) => {
            bytes.get(digits + 1).is_some_and(u8::is_ascii_digit)
        }
        (10.., _) => true,
        (0, _) => {
            let word: String = line
                .chars()
                .take_while(char::is_ascii_alphabetic)
                .take(9)
                .collect::<String>()
                .to_ascii_lowercase();
            let dated = MONTHS.contains(&word.as_str())
                && line[3..].trim_start().starts_with(|c: char| c.is_ascii_digit());
            dated || LEVEL_NAMES.contains(&word.as_str()) || word == "warning" || line.starts_with("{\"")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, split, tests::shown};

    const LOG: &str = "2024-05-01 10:00:00 INFO served 1\n2024-05-01 10:00:01 ERROR broken\n  at main\n  at run\n\
                       2024-05-01 10:00:02 INFO served 2\n2024-05-01 10:00:03 INFO served 3\n";

    #[test]
    fn what_follows_a_record_belongs_to_it() {
        let records = shown(LOG, Kind::Log);
        assert_eq!(records.len(), 4);
        assert!(records[1].ends_with("at run"));
    }

    #[test]
    fn rare_and_grave_records_weigh_more() {
        let weights: Vec<_> = split(LOG, Kind::Log).iter().map(|unit| unit.weight).collect();
        assert!(weights[1] > 2.0 * weights[0], "{weights:?}");
        assert_eq!(weights[0], weights[2]);
    }

    #[test]
    fn records_begin_in_many_ways() {
        for line in [
            "12:00:01 x",
            "[2024/05/01] x",
            "Jan  5 12:00 x",
            "WARNING: x",
            "<error> x",
            "1714557600 x",
            "{\"level\":1}",
        ] {
            assert!(super::begins(line), "{line}");
        }
        for line in ["at main", "Maybe later", "12 apples", "  File x", "", "may"] {
            assert!(!super::begins(line), "{line}");
        }
    }
}
