//! `smartgate audit verify`. Owns what is printed; the library checks.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::{
    audit::verify::{self, Report},
    cli::{FAILURE, print, usage},
    config,
};

/// `audit verify`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit verify                        the journal in the state directory\n  \
    smartgate audit verify audit.jsonl            a journal with its rotated segments\n  \
    smartgate audit verify audit.jsonl.0000*      segments alone, oldest first\n\n\
    Exit code: 0 if no line was changed, moved, added or taken away; 1 if one was, and where; 64 if a file\n  \
    cannot be read.")]
pub(super) struct Args {
    /// The journal; or several segments, oldest first
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: Args) -> ExitCode {
    let mut files = args.files;
    if files.is_empty() {
        let Some(journal) = config::default_journal() else {
            return usage("there is no state directory: name a FILE");
        };
        files.push(journal);
    }
    let result = match &files[..] {
        [journal] => verify::journal(journal),
        segments => verify::segments_in_order(segments),
    };
    match result {
        Ok(report) => print(&table(&report)),
        // A file that cannot be read says nothing about its lines.
        Err(fault @ verify::Fault::Io(..)) => usage(&fault.to_string()),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::from(FAILURE)
        }
    }
}

fn table(report: &Report) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: &dyn std::fmt::Display| {
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
    if report.unfinished {
        row("note", &"the last line is still being written");
    }
    row("result", &"ok");
    out
}
