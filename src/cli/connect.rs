//! `smartgate connect [HOST]`: prints what [`hosts`](crate::hosts) knows. The block alone is on stdout, so that it can be
//! sent into a file.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use super::{USAGE, print, usage};
use crate::{
    config::{self, CliOverrides},
    hosts::{Endpoints, HOSTS, Host, YOUR_KEY},
};

/// `connect`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate connect                          lists the hosts\n  \
    smartgate connect cursor\n  \
    smartgate connect vscode -c smartgate.toml")]
pub struct Args {
    /// Which host; without one, all are listed
    host: Option<String>,
    /// Configuration file that the endpoint is taken from
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let Some(name) = args.host else { return print(&list()) };
    let Some(host) = Host::named(&name) else {
        let near = HOSTS.iter().min_by_key(|h| strsim::damerau_levenshtein(h.name, &name));
        let near = near.map_or("", |h| h.name);
        return usage(&format!("'{name}' is no known host; the nearest is '{near}', and 'generic' fits any"));
    };
    let loaded = match &args.config {
        Some(file) => config::load(file),
        None => config::default_with(&CliOverrides::default()),
    };
    match loaded {
        Ok(loaded) => {
            let endpoints = Endpoints::of(&loaded.config);
            let block = host.block(&endpoints);
            let key = if block.contains(YOUR_KEY) {
                format!(", with your key for {YOUR_KEY}")
            } else {
                String::new()
            };
            eprintln!("For {}{key}:", host.place);
            if let Some(note) = endpoints.note().filter(|note| !block.contains(note)) {
                eprintln!("{note}");
            }
            print(&format!("{block}\n"))
        }
        Err(problems) => {
            eprintln!("{problems}");
            ExitCode::from(USAGE)
        }
    }
}

fn list() -> String {
    let line = |h: &Host| format!("{:<16}{}\n", h.name, h.place);
    HOSTS.iter().map(line).collect::<String>() + "\nExample: smartgate connect cursor\n"
}
