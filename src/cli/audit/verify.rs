//! `smartgate audit verify`. Owns what is printed; the library checks.

use std::{
    fmt::{Display, Write},
    fs,
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;

use super::{filters::standard_journal, held};
use crate::{
    audit::verify::{self, Checks, Report},
    cli::{FAILURE, print, usage},
    signing::PublicKey,
};

/// `audit verify`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit verify                        the journal in the state directory\n  \
    smartgate audit verify audit.jsonl            a journal with its rotated segments\n  \
    smartgate audit verify audit.jsonl.0000*      segments alone, oldest first\n  \
    smartgate audit verify audit.jsonl --public-key audit.pub --against checkpoints.log\n  \
    smartgate audit verify audit.jsonl --against spans.jsonl\n\n\
    Exit code: 0 if no line was changed, moved, added or taken away; 1 if one was, and where; 64 if a file\n  \
    cannot be read.")]
pub(super) struct Args {
    /// The journal; or several segments, oldest first
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Check the checkpoints' signatures with this key: 64 hex digits, base64, or a file with them or with PEM;
    /// more than one where the key was changed
    #[arg(long, value_name = "KEY")]
    public_key: Vec<String>,
    /// Compare with what was kept elsewhere: a checkpoint BOOT:SEQ:HASH, or a file of checkpoints, log lines,
    /// journal lines, or spans as JSON lines (as an OpenTelemetry Collector's file exporter writes them)
    #[arg(long, value_name = "KEPT")]
    against: Vec<String>,
}

pub(super) fn run(args: Args) -> ExitCode {
    let mut files = args.files;
    if files.is_empty() {
        match standard_journal() {
            Ok(journal) => files.push(journal),
            Err(why) => return usage(&why),
        }
    }
    let mut checks = Checks::default();
    for key in &args.public_key {
        match public_key(key) {
            Ok(key) => checks.keys.push(key),
            Err(why) => return usage(&format!("--public-key: {why}")),
        }
    }
    for kept in &args.against {
        if let Err(why) = held::add(&mut checks.held, kept) {
            return usage(&why);
        }
    }
    checks.held.sort();
    let result = match &files[..] {
        [journal] => verify::journal_with(journal, &checks),
        segments => verify::segments_in_order(segments, &checks),
    };
    match result {
        Ok(report) => print(&table(&report, &checks)),
        // A file that cannot be read says nothing about its lines.
        Err(fault @ verify::Fault::Io(..)) => usage(&fault.to_string()),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::from(FAILURE)
        }
    }
}

fn public_key(written: &str) -> Result<PublicKey, String> {
    PublicKey::read(written).or_else(|why| match fs::read_to_string(written) {
        Ok(text) => PublicKey::read(&text).map_err(|why| format!("{written} {why}")),
        Err(_) => Err(format!("{written} {why}, nor a file")),
    })
}

fn table(report: &Report, checks: &Checks) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: &dyn Display| {
        writeln!(out, "{name:<10} {value}").expect("a String takes every write");
    };
    row("segments", &report.segments);
    row("records", &report.records);
    row("boots", &report.boots);
    if let (Some(first), Some(last)) = (&report.first, &report.last) {
        let since =
            if report.from_the_beginning { "the very first record" } else { "older ones are not here" };
        row("first", &format_args!("seq {} of boot {} ({since})", first.seq, first.boot));
        row("last", &format_args!("seq {} of boot {}", last.seq, last.boot));
        row("last hash", &report.last_hash);
    }
    if report.lost > 0 {
        row(
            "lost",
            &format_args!("{} records found no room while the journal could not be written", report.lost),
        );
    }
    signatures(report, &mut row);
    if !checks.held.is_empty() {
        compared(report, checks, &mut row);
    }
    if report.unfinished {
        row("note", &"the last line is still being written");
    }
    row("result", &"ok");
    out
}

type Row<'a> = &'a mut dyn FnMut(&str, &dyn Display);

fn signatures(report: &Report, row: Row<'_>) {
    match &report.covered {
        Some((at, after)) => row(
            "signed",
            &format_args!(
                "up to seq {} of boot {}, {} checkpoints; {after} records after it",
                at.seq, at.boot, report.signed
            ),
        ),
        None if report.signed > 0 => row(
            "signed",
            &format_args!("{} checkpoints, not checked: --public-key was not given", report.signed),
        ),
        None => {}
    }
    if report.unsigned > 0 {
        row("unsigned", &format_args!("{} checkpoints", report.unsigned));
    }
}

fn compared(report: &Report, checks: &Checks, row: Row<'_>) {
    let found = &report.compared;
    row(
        "compared",
        &format_args!("{} of {} kept records are here, unchanged", found.matched, checks.held.len()),
    );
    if found.older > 0 {
        row("older", &format_args!("{} kept records are from before the first one here", found.older));
    }
    for lost in &found.lost {
        row(
            "crash",
            &format_args!(
                "{} kept records of boot {} (seq {} to {}) come after its last one here: lost when it crashed, or \
                 not written yet",
                lost.lines, lost.boot, lost.first, lost.last
            ),
        );
    }
}
