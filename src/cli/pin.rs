//! `smartgate pin`: what the lock files of pinned upstreams say, and accepting what waits in them. A gateway that runs
//! notices within seconds.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use super::{FAILURE, print, usage};
use crate::{config, upstream::catalog::Lock};

/// `pin`
#[derive(Debug, Parser)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show each pinned tool, and which are withheld because their definition is another one or new
    #[command(after_help = "Example:\n  smartgate pin show -c smartgate.toml files")]
    Show {
        /// The upstream; every pinned one if left out
        name: Option<String>,
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = "smartgate.toml")]
        config: PathBuf,
    },
    /// Accept the definitions that wait: of one tool, or all
    #[command(after_help = "Example:\n  smartgate pin accept -c smartgate.toml files read_file\n\n\
        Exit code: 0 if something was accepted, 1 if nothing waits, 64 for wrong usage.")]
    Accept {
        /// The upstream
        name: String,
        /// Its tool, by its own name
        tool: Option<String>,
        /// Configuration file
        #[arg(short, long, value_name = "FILE", default_value = "smartgate.toml")]
        config: PathBuf,
    },
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let done = match args.command {
        Command::Show { name, config } => show(&config, name.as_deref()),
        Command::Accept { name, tool, config } => accept(&config, &name, tool.as_deref()),
    };
    done.unwrap_or_else(|why| usage(&why))
}

/// The pinned upstreams of a configuration, with their lock files.
fn pinned(file: &Path, name: Option<&str>) -> Result<Vec<(String, PathBuf)>, String> {
    let config = config::load(file).map_err(|problems| problems.to_string())?.config;
    let known = |name: &str| config.upstreams.iter().any(|u| &*u.name == name);
    if let Some(name) = name.filter(|n| !known(n)) {
        return Err(format!("{} has no upstream `{name}`", file.display()));
    }
    let pinned = config.upstreams.iter().filter(|u| name.is_none_or(|n| n == &*u.name));
    let pinned: Vec<_> = pinned.filter_map(|u| Some((u.name.to_string(), u.show.pins.clone()?))).collect();
    match (pinned.is_empty(), name) {
        (true, Some(name)) => Err(format!("`upstreams.{name}` has no `pin = true`")),
        (true, None) => Err(format!("{} has no upstream with `pin = true`", file.display())),
        (false, _) => Ok(pinned),
    }
}

fn show(file: &Path, name: Option<&str>) -> Result<ExitCode, String> {
    let mut out = String::new();
    for (name, path) in pinned(file, name)? {
        let lock = Lock::read(&path)?.unwrap_or_default();
        if lock.tools.is_empty() && lock.withheld.is_empty() {
            eprintln!(
                "smartgate: nothing of `{name}` is pinned yet; a gateway that runs pins what the server lists first"
            );
        }
        page(&name, &lock, &mut out);
    }
    Ok(print(&out))
}

/// One line for each tool: upstream, tool, state.
fn page(name: &str, lock: &Lock, out: &mut String) {
    let mut line = |tool: &str, state: &str| {
        writeln!(out, "{name}\t{tool}\t{state}").expect("writing to a string never fails");
    };
    for tool in lock.tools.keys() {
        line(tool, if lock.withheld.contains_key(tool) { "changed, withheld" } else { "pinned" });
    }
    for tool in lock.withheld.keys().filter(|t| !lock.tools.contains_key(*t)) {
        line(tool, "new, withheld");
    }
}

fn accept(file: &Path, name: &str, tool: Option<&str>) -> Result<ExitCode, String> {
    for (name, path) in pinned(file, Some(name))? {
        let mut lock = Lock::read(&path)?.unwrap_or_default();
        match lock.accept(tool) {
            Ok(names) if !names.is_empty() => {
                lock.write(&path)?;
                let lines = names.iter().map(|tool| format!("{name}\t{tool}\taccepted\n"));
                return Ok(print(&lines.collect::<String>()));
            }
            Ok(_) => eprintln!("smartgate: nothing of `{name}` waits"),
            Err(why) => eprintln!("smartgate: {why}"),
        }
    }
    Ok(ExitCode::from(FAILURE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_shown_and_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("smartgate.toml");
        std::fs::write(&file, "[upstreams.files]\nurl = 'http://h/'\npin = true\npins = 'lock.json'")
            .unwrap();
        let path = folder.path().join("lock.json");
        let of = |names: &[&str]| names.iter().map(|n| ((*n).to_owned(), "0".to_owned())).collect();
        let lock = Lock { tools: of(&["read", "old"]), withheld: of(&["read", "fresh"]) };
        lock.write(&path).unwrap();
        let mut out = String::new();
        page("files", &lock, &mut out);
        let expected = "files\told\tpinned\nfiles\tread\tchanged, withheld\nfiles\tfresh\tnew, withheld\n";
        assert_eq!(out, expected);
        assert_eq!(accept(&file, "files", Some("read")), Ok(ExitCode::SUCCESS));
        assert_eq!(Lock::read(&path).unwrap().unwrap().withheld, of(&["fresh"]));
        assert_eq!(accept(&file, "files", Some("read")), Ok(ExitCode::from(FAILURE)));
        assert_eq!(accept(&file, "files", None), Ok(ExitCode::SUCCESS));
        assert!(accept(&file, "other", None).unwrap_err().contains("no upstream `other`"));
    }
}
