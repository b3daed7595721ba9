//! `smartgate audit tail`. Owns what is printed and how often the journal is looked at; the library reads.

use std::{io, ops::ControlFlow, path::PathBuf, process::ExitCode, thread, time::Duration};

use clap::Parser;

use super::{
    filters::{Filters, journals},
    query::exit,
    rows::{Printer, nothing, tell},
};
use crate::{
    audit::query::{Entry, Filter, Follower, Journals, Order, Row},
    cli::usage,
};

/// Between two looks at a journal that is followed.
const PAUSE: Duration = Duration::from_millis(100);

/// `audit tail`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit tail                                the last ten records\n  \
    smartgate audit tail -f --outcome '!ok'             whatever goes wrong, as it happens\n  \
    smartgate audit tail -f -n 0 --tool 'files__*' --json audit.jsonl\n\n\
    It follows over rotations; a line that is still being written is shown when it is whole.\n\n\
    Exit code: 0; 1 if the output cannot be written; 64 for wrong usage, or if a file cannot be read.")]
pub(super) struct Args {
    /// The journal [default: the one in the state directory]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Show what is written from now on, too
    #[arg(short, long)]
    follow: bool,
    /// How many of the last records
    #[arg(short = 'n', long = "lines", visible_alias = "limit", value_name = "NUMBER", default_value_t = 10)]
    lines: usize,
    /// Print the journal's lines as they are
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

pub(super) fn run(args: Args) -> ExitCode {
    let opened = args.filters.compile().and_then(|filter| {
        let files = journals(args.file.into_iter().collect())?;
        let journals = Journals::open(&files).map_err(|e| e.to_string())?;
        Ok((filter, journals))
    });
    let (filter, journals) = match opened {
        Ok(opened) => opened,
        Err(why) => return usage(&why),
    };
    let mut last = Vec::new();
    let found = journals.find(&filter, Order::NewestFirst, Some(args.lines), |row| {
        last.push(row);
        ControlFlow::Continue(())
    });
    let broken = match found {
        Ok(broken) => broken,
        Err(error) => return usage(&error.to_string()),
    };
    let mut printer = Printer::new(args.json);
    let printed = last.iter().rev().try_for_each(|row| printer.row(row)).and_then(|()| printer.flush());
    if last.is_empty() {
        nothing();
    }
    if printed.is_err() || !args.follow {
        tell(&broken);
        return exit(&printed);
    }
    let followed = journals.follow();
    drop(journals);
    match followed {
        Ok(follower) => follow(follower, &filter, printer),
        Err(error) => usage(&error.to_string()),
    }
}

/// Runs until somebody ends it or nobody reads it.
fn follow(mut follower: Follower, filter: &Filter, mut printer: Printer) -> ExitCode {
    loop {
        let mut printed = Ok(());
        let looked = follower.poll(|row| {
            printed = show(&mut printer, filter, &row);
            if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if let Err(error) = looked {
            return usage(&error.to_string());
        }
        let printed = printed.and_then(|()| printer.flush());
        if printed.is_err() {
            return exit(&printed);
        }
        thread::sleep(PAUSE);
    }
}

fn show(printer: &mut Printer, filter: &Filter, row: &Row) -> io::Result<()> {
    match Entry::parse(&row.line) {
        Ok(entry) if filter.matches(&entry) => printer.row(row),
        Ok(_) => Ok(()),
        Err(_) => {
            let (file, offset) = (row.file.display(), row.offset);
            eprintln!("smartgate: a line that is no record is left out, at byte {offset} of {file}");
            Ok(())
        }
    }
}
