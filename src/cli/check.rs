//! `smartgate check`: every problem of every file at once. The whole output is on stdout.

use std::{fmt::Write, path::PathBuf, process::ExitCode};

use clap::Parser;

use super::{USAGE, print};
use crate::config;

/// `check`
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  smartgate check smartgate.toml\n\n\
    Exit code: 0 if all files are right, 64 if one is not.")]
pub struct Args {
    /// Configuration files
    #[arg(value_name = "FILE", required_unless_present = "config")]
    files: Vec<PathBuf>,
    /// A configuration file, as for serve
    #[arg(short, long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let mut report = String::new();
    let mut good = true;
    for file in args.config.iter().chain(&args.files) {
        good &= check(file, &mut report);
    }
    match print(&report) {
        done if good || done != ExitCode::SUCCESS => done,
        _ => ExitCode::from(USAGE),
    }
}

/// Appends what there is to say about one file.
fn check(file: &std::path::Path, report: &mut String) -> bool {
    let loaded = config::load(file);
    let text = match &loaded {
        Ok(loaded) => {
            let warnings = loaded.warnings.iter().map(config::Problem::as_warning);
            warnings.chain([format!("{}: ok", file.display())]).collect::<Vec<_>>().join("\n")
        }
        Err(problems) => problems.to_string(),
    };
    writeln!(report, "{text}").expect("writing to a string never fails");
    loaded.is_ok()
}
