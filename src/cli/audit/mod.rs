//! `smartgate audit`: reading journals. Owns which subcommands there are; each has a file of its own.

mod export;
mod held;
mod keygen;
mod selftest;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::usage;

/// Subcommands of a later version.
const LATER: &[&str] = &["tail", "query", "stats"];

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
    /// What clap does not know: a later subcommand or a typing error
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
        Command::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            let later = LATER.contains(&word);
            let what =
                if later { "is not in this version" } else { "is no subcommand; see smartgate audit --help" };
            usage(&format!("'audit {word}' {what}"))
        }
    }
}
