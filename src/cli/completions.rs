//! `smartgate completions` and `smartgate man`: what a package ships beside the program, made from the same
//! definition as `--help`.

use std::{io, path::PathBuf, process::ExitCode};

use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use super::{Cli, FAILURE, print};

/// `completions`
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  \
    smartgate completions bash > /usr/share/bash-completion/completions/smartgate")]
pub struct Completions {
    /// Which shell
    shell: Shell,
}

/// `man`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate man | man -l -                 this program's page\n  \
    smartgate man /usr/share/man/man1        one page for each command")]
pub struct Man {
    /// Where pages go, one for each command; without it the main page goes to stdout
    folder: Option<PathBuf>,
}

/// Runs `completions`.
pub fn completions(args: &Completions) -> ExitCode {
    let mut out = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "smartgate", &mut out);
    print(&String::from_utf8_lossy(&out))
}

/// Runs `man`.
pub fn man(args: &Man) -> ExitCode {
    let written = match &args.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command(), folder))
        }
        None => page(),
    };
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smartgate: cannot write the manual: {error}");
            ExitCode::from(FAILURE)
        }
    }
}

fn page() -> io::Result<()> {
    let mut out = Vec::new();
    clap_mangen::Man::new(command()).render(&mut out)?;
    let shown = print(&String::from_utf8_lossy(&out));
    if shown == ExitCode::SUCCESS { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
}

/// The definition without what people do not type.
fn command() -> clap::Command {
    Cli::command().disable_help_subcommand(true)
}
