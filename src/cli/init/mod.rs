//! `smartgate init`: asks a few questions and writes a configuration with comments. Owns the command line and what
//! becomes of the answers. Invariant: the file is checked before it is written, and never overwrites another unasked.

mod ask;
mod page;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

use super::{FAILURE, USAGE, key, usage};
use crate::config;

/// `init`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate init                                    asks, and writes smartgate.toml\n  \
    smartgate init --yes --upstream files=http://127.0.0.1:3001/mcp\n  \
    smartgate init --yes --upstream 'time=uvx mcp-server-time' --key ada -o gate.toml\n\n\
    What a flag says is not asked. The secret of a key is shown once, on stderr.\n\
    Exit code: 0 if the file was written, 64 if the answers make no configuration or the file exists.")]
pub struct Args {
    /// Where the configuration goes
    #[arg(short, long, value_name = "FILE", default_value = "smartgate.toml")]
    output: PathBuf,
    /// Overwrite FILE
    #[arg(long)]
    force: bool,
    /// Ask nothing; what no flag says has its default
    #[arg(short, long)]
    yes: bool,
    /// A server: its URL, or the command that runs it; may be given more than once
    #[arg(long, value_name = "[NAME=]URL|COMMAND")]
    upstream: Vec<String>,
    /// The built-in tools (fetch, search, memory and others)
    #[arg(long)]
    builtin: bool,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Make a key of this name; may be given more than once
    #[arg(long, value_name = "NAME")]
    key: Vec<String>,
    /// An OpenTelemetry collector that gets every call as a span
    #[arg(long, value_name = "URL")]
    otlp: Option<String>,
}

/// What the file is made of.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answers {
    /// Names and targets.
    upstreams: Vec<(String, Target)>,
    builtin: bool,
    listen: Option<String>,
    /// Names of keys.
    keys: Vec<String>,
    otlp: Option<String>,
}

/// What runs or is reached.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Url(String),
    Command(Vec<String>),
}

/// A key that was made: its table for the file, and the secret for its owner.
struct Key {
    name: String,
    secret: String,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    if args.output.exists() && !args.force {
        return usage(&format!("{} exists; --force overwrites it", args.output.display()));
    }
    let answers = match answers(&args) {
        Ok(answers) => answers,
        Err(Refusal::Wrong(why)) => return usage(&why),
        Err(Refusal::Input(error)) => return fail(&format!("cannot read the answers: {error}")),
    };
    let mut keys = Vec::new();
    for name in &answers.keys {
        match key::secret() {
            Ok(secret) => keys.push(Key { name: name.clone(), secret }),
            Err(error) => return fail(&format!("cannot get random bytes: {error}")),
        }
    }
    let text = page::text(&answers, &keys);
    let base = args.output.parent().unwrap_or(Path::new(""));
    if let Err(problems) = config::from_str(&text, base, &args.output.display().to_string()) {
        eprintln!("{problems}\nsmartgate: nothing was written");
        return ExitCode::from(USAGE);
    }
    if let Err(error) = save(&args.output, &text, args.force) {
        return fail(&format!("{}: {error}", args.output.display()));
    }
    farewell(&args.output, &keys);
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("smartgate: {why}");
    ExitCode::from(FAILURE)
}

/// Why there are no answers.
enum Refusal {
    Wrong(String),
    Input(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

/// What the flags say, and for the rest what the user says.
fn answers(args: &Args) -> Result<Answers, Refusal> {
    let mut answers = Answers {
        builtin: args.builtin,
        listen: args.listen.clone(),
        keys: args.key.clone(),
        otlp: args.otlp.clone(),
        ..Answers::default()
    };
    for written in &args.upstream {
        answers.add(written).map_err(Refusal::Wrong)?;
    }
    if !args.yes {
        ask::rest(&mut answers, &mut io::stdin().lock(), &mut io::stderr())?;
    }
    for name in &answers.keys {
        config::key_name(name).map_err(|why| Refusal::Wrong(format!("the name of a key {why}")))?;
    }
    Ok(answers)
}

impl Answers {
    /// Takes `[NAME=]URL|COMMAND`.
    fn add(&mut self, written: &str) -> Result<(), String> {
        let (name, target) = match written.split_once('=') {
            Some((name, target)) if is_name(name) => (Some(name.to_owned()), target.trim()),
            _ => (None, written.trim()),
        };
        let target = if target.starts_with("http://") || target.starts_with("https://") {
            Target::Url(target.to_owned())
        } else {
            let words = shlex::split(target).filter(|words| !words.is_empty());
            Target::Command(words.ok_or_else(|| format!("'{written}' is neither a URL nor a command"))?)
        };
        let name = self.free(name.unwrap_or_else(|| target.name()));
        self.upstreams.push((name, target));
        Ok(())
    }

    /// The name, or with the first number that makes it another's no more.
    fn free(&self, name: String) -> String {
        let taken = |name: &str| self.upstreams.iter().any(|(other, _)| other == name);
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

impl Target {
    /// A name that says what it is: of a package `@scope/server-files` or `mcp-server-time` its last part, of a URL
    /// the first label of its host.
    fn name(&self) -> String {
        let name = match self {
            Self::Url(url) => {
                let host = url.split("://").nth(1).unwrap_or_default();
                let label = host.split(['/', ':', '.']).next().unwrap_or_default();
                if label.starts_with(|c: char| c.is_ascii_alphabetic()) { label } else { "server" }
            }
            Self::Command(words) => {
                let of_server = words.iter().find_map(|word| word.split("server-").nth(1));
                let program = words.first().map_or("server", |w| w.rsplit('/').next().unwrap_or(w));
                of_server.unwrap_or(program)
            }
        };
        let name = name.to_ascii_lowercase();
        let kept: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        if kept.is_empty() || kept == "localhost" { "server".to_owned() } else { kept }
    }
}

fn save(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if !force {
        options.create_new(true);
    }
    options.open(path)?.write_all(text.as_bytes())
}

/// What to do next, on stderr.
fn farewell(file: &Path, keys: &[Key]) {
    let file = file.display();
    eprintln!("\nWritten: {file}");
    for key in keys {
        eprintln!(
            "The secret of '{}', shown only this once. The client sends it as: Authorization: Bearer {}",
            key.name, key.secret
        );
    }
    eprintln!("Next: smartgate serve -c {file}\nand:  smartgate connect -c {file}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(written: &[&str]) -> Vec<String> {
        let mut answers = Answers::default();
        written.iter().for_each(|w| answers.add(w).unwrap());
        answers.upstreams.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn names_come_from_what_is_run() {
        let commands =
            ["npx -y @modelcontextprotocol/server-filesystem /data", "uvx mcp-server-time", "./my.py"];
        assert_eq!(named(&commands), ["filesystem", "time", "my"]);
        let urls = [
            "http://127.0.0.1:3001/mcp",
            "http://localhost/mcp",
            "https://docs.example.com/mcp",
            "a=http://x",
        ];
        assert_eq!(named(&urls), ["server", "server-2", "docs", "a"]);
    }

    #[test]
    fn commands_are_split_as_a_shell_would() {
        let mut answers = Answers::default();
        answers.add("notes=npx server 'my notes'").unwrap();
        let words = ["npx", "server", "my notes"].map(String::from).to_vec();
        assert_eq!(answers.upstreams, [("notes".to_owned(), Target::Command(words))]);
        assert!(answers.add("notes='unfinished").is_err());
        assert!(answers.add("").is_err());
    }
}
