//! `smartgate audit query`. Owns what is printed; the library finds.

use std::{io, ops::ControlFlow, path::PathBuf, process::ExitCode};

use clap::{Parser, ValueEnum};

use super::{
    filters::{Filters, journals},
    rows::{Printer, nothing, tell},
};
use crate::{
    audit::query::{Journals, Order},
    cli::{FAILURE, usage},
};

/// `audit query`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit query --outcome '!ok' --since 2h      what went wrong lately\n  \
    smartgate audit query --key 'cursor-*' --tool 'files__*' --limit 20\n  \
    smartgate audit query --trace 0af7651916cd43dd8448eb211c80319c --json\n  \
    smartgate audit query --rule '*' --order oldest --limit 0 --json audit.jsonl\n\n\
    Exit code: 0, also if nothing is found; 1 if the output cannot be written; 64 for wrong usage, or if a file\n  \
    cannot be read. Lines that are no records are left out, and counted on stderr.")]
pub(super) struct Args {
    /// The journal; or several segments, oldest first [default: the journal in the state directory]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which come first, by the order in which calls ended
    #[arg(long, value_enum, default_value_t = First::Newest)]
    order: First,
    /// Most records; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
    /// Print the journal's lines as they are
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum First {
    Newest,
    Oldest,
}

pub(super) fn run(args: Args) -> ExitCode {
    let order = match args.order {
        First::Newest => Order::NewestFirst,
        First::Oldest => Order::OldestFirst,
    };
    let opened = args.filters.compile().and_then(|filter| {
        let journals = Journals::open(&journals(args.files)?).map_err(|e| e.to_string())?;
        Ok((filter, journals))
    });
    let (filter, journals) = match opened {
        Ok(opened) => opened,
        Err(why) => return usage(&why),
    };
    let mut printer = Printer::new(args.json);
    let (mut printed, mut empty) = (Ok(()), true);
    let limit = (args.limit > 0).then_some(args.limit);
    let found = journals.find(&filter, order, limit, |row| {
        empty = false;
        printed = printer.row(&row);
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let broken = match found {
        Ok(broken) => broken,
        Err(error) => return usage(&error.to_string()),
    };
    let done = printed.and_then(|()| printer.flush());
    journals.keep_indexes();
    if done.is_ok() {
        tell(&broken);
        if empty {
            nothing();
        }
    }
    exit(&done)
}

/// A reader that has left is a failure, and nothing is said of it.
pub(super) fn exit(printed: &io::Result<()>) -> ExitCode {
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILURE),
    }
}
