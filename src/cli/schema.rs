//! `smartgate schema`: the JSON Schema of the configuration, for editors.

use std::process::ExitCode;

use clap::Parser;

use super::print;
use crate::config;

/// `schema`
#[derive(Debug, Parser)]
#[command(after_help = "Example:\n  smartgate schema > smartgate.schema.json\n\n\
    Editors that use taplo take it from the first line of the file: #:schema ./smartgate.schema.json")]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> ExitCode {
    print(&format!("{:#}\n", config::schema()))
}
