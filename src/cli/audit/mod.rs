//! `smartgate audit`: reading journals. Owns which subcommands there are; each has a file of its own.

mod export;
pub(super) mod filters;
mod held;
mod keygen;
mod query;
mod rows;
mod selftest;
mod stats;
mod tail;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub(super) use rows::{tell, time};

use super::usage;

/// `audit`
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the journal's hash chain
    Verify(verify::Args),
    /// Make the key that signs checkpoints
    Keygen(keygen::Args),
    /// Send a range of the journal to a collector again
    Export(export::Args),
    /// Show that a record reaches the journal and the collector
    Selftest(selftest::Args),
    /// Show the latest records, and follow the journal
    Tail(tail::Args),
    /// Find records
    Query(query::Args),
    /// Figures about calls: counts, failures, durations, bytes, tokens
    Stats(stats::Args),
    /// What clap does not know
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    match args.command {
        Command::Verify(args) => verify::run(args),
        Command::Keygen(args) => keygen::run(&args),
        Command::Export(args) => export::run(args),
        Command::Selftest(args) => selftest::run(&args),
        Command::Tail(args) => tail::run(args),
        Command::Query(args) => query::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            usage(&format!("'audit {word}' is no subcommand. See smartgate audit --help"))
        }
    }
}
