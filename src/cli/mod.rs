//! The command line: one module per command. Owns the exit codes; what a command does lives in the library.
//! Invariant: nothing here prints a secret, except `key new` and `init`, once.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand, error::ErrorKind};

pub mod audit;
pub mod call;
pub mod check;
pub mod completions;
pub mod connect;
pub mod doctor;
pub mod health;
pub mod index;
pub mod init;
pub mod inject;
pub mod key;
pub mod normalize;
pub mod pin;
pub mod replay;
pub mod schema;
pub mod serve;
mod table;
pub mod tools;

use crate::upstream::stdio::warden;

/// Exit code for wrong usage or configuration (`EX_USAGE` of sysexits.h).
pub const USAGE: u8 = 64;
/// Exit code for everything else that went wrong.
pub const FAILURE: u8 = 1;

/// Version and commit, as `--version` shows them.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SMARTGATE_COMMIT"), ")");

/// A reverse-proxy sidecar for MCP servers: repairs, polices, forwards and audits every call.
#[derive(Debug, Parser)]
#[command(name = "smartgate", version = VERSION, max_term_width = 100)]
#[command(after_help = "Example:\n  smartgate serve --upstream http://127.0.0.1:3001/mcp")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    Serve(serve::Args),
    /// Read journals: tail, query, stats, verify
    Audit(Box<audit::Args>),
    /// Show what another configuration would have done with recorded calls
    Replay(Box<replay::Args>),
    /// Write a configuration with comments, after a few questions
    Init(init::Args),
    /// Find all problems of configuration files
    Check(check::Args),
    /// Ask a running gateway whether it is ready
    Health(health::Args),
    /// Make bearer keys
    Key(key::Args),
    /// Show what to paste into a host: cursor, claude-desktop, claude-code, windsurf, vscode, openclaw, generic
    Connect(connect::Args),
    /// Show what would be forwarded for the JSON-RPC body on stdin
    Normalize(normalize::Args),
    /// Fill the local search engine: add, list, remove
    Index(index::Args),
    /// Show and accept the definitions of pinned tools
    Pin(pin::Args),
    /// List the built-in tools and what each costs a model
    Tools(tools::Args),
    /// Examine an MCP server: what it speaks, what it refuses, what the gateway repairs
    Doctor(doctor::Args),
    /// Call a built-in tool here, without a gateway
    Call(call::Args),
    /// Add the gateway as a sidecar to Kubernetes workloads
    Inject(inject::Args),
    /// Print the JSON Schema of the configuration, for editors
    Schema(schema::Args),
    /// Print completions for a shell
    Completions(completions::Completions),
    /// Print the manual page, or write one for each command
    Man(completions::Man),
    /// End the commands of a gateway that was killed; the gateway itself starts this
    #[command(hide = true, name = warden::COMMAND, after_help = "Started by: smartgate serve")]
    Warden,
    /// What clap does not know: a typing error
    #[command(external_subcommand)]
    Unknown(Vec<OsString>),
}

/// Runs the program with these arguments (the first is the program's own name).
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Cli::try_parse_from(args) {
        Ok(cli) => run(cli.command),
        Err(error) => refuse(&error),
    }
}

fn run(command: Command) -> ExitCode {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Audit(args) => audit::run(*args),
        Command::Replay(args) => replay::run(*args),
        Command::Init(args) => init::run(args),
        Command::Check(args) => check::run(args),
        Command::Health(args) => health::run(&args),
        Command::Key(args) => key::run(args),
        Command::Connect(args) => connect::run(args),
        Command::Normalize(args) => normalize::run(args),
        Command::Index(args) => index::run(args),
        Command::Pin(args) => pin::run(args),
        Command::Tools(args) => tools::run(args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Call(args) => call::run(args),
        Command::Inject(args) => inject::run(args),
        Command::Schema(args) => schema::run(args),
        Command::Completions(args) => completions::completions(&args),
        Command::Man(args) => completions::man(&args),
        Command::Warden => {
            warden::run(io::stdin().lock());
            ExitCode::SUCCESS
        }
        Command::Unknown(words) => unknown(&words),
    }
}

/// Help and version go to stdout with success; everything else is wrong usage.
fn refuse(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    match error.print() {
        Ok(()) if asked => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(USAGE),
        Err(_) => ExitCode::from(FAILURE),
    }
}

fn unknown(words: &[OsString]) -> ExitCode {
    let word = words.first().map(|w| w.to_string_lossy()).unwrap_or_default();
    let known: Vec<String> = known_commands();
    let near = known.iter().min_by_key(|k| strsim::damerau_levenshtein(k, &word));
    let near = near.map(|k| format!("; the nearest command is '{k}'")).unwrap_or_default();
    usage(&format!("'{word}' is no command{near}. See smartgate --help"))
}

fn known_commands() -> Vec<String> {
    let all = <Cli as clap::CommandFactory>::command();
    all.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_owned()).collect()
}

/// Says on stderr why the command cannot run.
pub(crate) fn usage(why: &str) -> ExitCode {
    eprintln!("smartgate: {why}");
    ExitCode::from(USAGE)
}

/// A runtime for a command that waits for a few answers; without one, why.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, ExitCode> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        eprintln!("smartgate: cannot start: {error}");
        ExitCode::from(FAILURE)
    })
}

/// Writes to stdout. A reader that has left is a failure, not a panic.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        fn walk(command: &clap::Command) {
            for sub in command.get_subcommands() {
                let deeper = sub.get_subcommands().next().is_some();
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(deeper || help.contains("smartgate "), "{} has no example", sub.get_name());
                walk(sub);
            }
        }
        walk(&Cli::command());
    }

    fn exit(args: &[&str]) -> ExitCode {
        main(args.iter().map(Into::into))
    }

    #[test]
    fn exit_codes_tell_usage_from_success() {
        let wrong = ExitCode::from(USAGE);
        assert_eq!(exit(&["smartgate", "--version"]), ExitCode::SUCCESS);
        assert_eq!(exit(&["smartgate", "check", "--help"]), ExitCode::SUCCESS);
        assert_eq!(exit(&["smartgate", "check", "config/minimal.toml"]), ExitCode::SUCCESS);
        assert_eq!(exit(&["smartgate", "check", "-c", "tests/fixtures/bad-config/units.toml"]), wrong);
        for args in
            [&["smartgate"][..], &["smartgate", "check"], &["smartgate", "bogus"], &["smartgate", "chekc"]]
        {
            assert_eq!(exit(args), wrong, "{args:?}");
        }
        assert_eq!(exit(&["smartgate", "key", "new", ""]), wrong);
        assert_eq!(exit(&["smartgate", "connect", "emacs"]), wrong);
        assert_eq!(exit(&["smartgate", "connect"]), ExitCode::SUCCESS);
    }
}
