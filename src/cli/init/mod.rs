//! `smartgate init`: asks a few questions and writes a configuration with comments. Owns the command line and what
//! becomes of the answers. Invariant: the file is checked before it is written, and never overwrites another unasked.

mod ask;
mod page;
mod server;

use std::{
    fs,
    io::{self, IsTerminal, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;

use self::server::Target;
use super::{FAILURE, USAGE, key, print, usage};
use crate::config;

/// The upstream that the built-in tools are; kept for them, so that they can be added later.
const SMART: &str = "smart";

/// `init`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate init                                    asks, and writes smartgate.toml\n  \
    smartgate init --yes --upstream files=http://127.0.0.1:3001/mcp\n  \
    smartgate init --yes --upstream 'time=uvx mcp-server-time' --key ada -o gate.toml\n  \
    smartgate init --yes --upstream 'files=TOKEN=env:FILES_TOKEN npx files-server' -o - | less\n\n\
    What a flag says is not asked. NAME= names a server (a-z, 0-9, -); variables in front of a command become its env.\n\
    Questions go to stderr; answers may come from a pipe, where a wrong one ends it instead of being asked again.\n\
    The secret of a key is shown once, on stderr.\n\
    Exit code: 0 if the file was written, 64 if an answer is wrong or the file exists.")]
pub struct Args {
    /// Where the configuration goes; - for stdout
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
    listen: Option<SocketAddr>,
    /// Names of keys.
    keys: Vec<String>,
    otlp: Option<String>,
}

/// A key that was made: its table for the file, and the secret for its owner.
struct Key {
    name: String,
    secret: String,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let to_stdout = args.output == Path::new("-");
    if !to_stdout && let Err(why) = writable(&args.output, args.force) {
        return usage(&why);
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
    let (base, shown) = match args.output.parent() {
        Some(base) if !to_stdout => (base, args.output.display().to_string()),
        _ => (Path::new(""), "what would be written".to_owned()),
    };
    if let Err(problems) = config::from_str(&text, base, &shown) {
        eprintln!("{problems}\nsmartgate: nothing was written");
        return ExitCode::from(USAGE);
    }
    if to_stdout {
        secrets(&keys);
        return print(&text);
    }
    if let Err(error) = save(&args.output, &text, args.force) {
        return fail(&format!("{}: {error}", args.output.display()));
    }
    eprintln!("\nWritten: {}", args.output.display());
    secrets(&keys);
    eprint!("{}", next(&args.output));
    ExitCode::SUCCESS
}

/// Before anything is asked: whether the file may be written where it is wanted.
fn writable(file: &Path, force: bool) -> Result<(), String> {
    if file.exists() && !force {
        return Err(format!("{} exists; --force overwrites it, -o FILE writes another", file.display()));
    }
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("there is no folder {}; make it first", folder.display()))
        }
        _ => Ok(()),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("smartgate: {why}");
    ExitCode::from(FAILURE)
}

/// Why there are no answers.
#[derive(Debug)]
enum Refusal {
    Wrong(String),
    Input(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Input(error)
    }
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Wrong(why)
    }
}

/// What the flags say, and for the rest what the user says.
fn answers(args: &Args) -> Result<Answers, Refusal> {
    let mut answers = Answers { builtin: args.builtin, ..Answers::default() };
    for written in &args.upstream {
        answers.add(written).map_err(|why| format!("--upstream: {why}"))?;
    }
    for name in &args.key {
        answers.add_key(name).map_err(|why| format!("--key: {why}"))?;
    }
    answers.listen = args.listen.as_deref().map(listen).transpose()?;
    answers.otlp = args.otlp.as_deref().map(collector).transpose()?;
    if !args.yes {
        let stdin = io::stdin();
        let patient = stdin.is_terminal();
        ask::rest(&mut answers, patient, &mut stdin.lock(), &mut io::stderr())?;
    }
    Ok(answers)
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let wrong =
        "--listen wants an address with a port: 127.0.0.1:8787 for this machine, 0.0.0.0:8787 for all";
    text.parse().map_err(|_| format!("{wrong}; not '{text}'"))
}

fn collector(text: &str) -> Result<String, String> {
    let checked = config::http_url(text).map(|()| text.to_owned());
    checked.map_err(|why| format!("the collector's address {why}, such as http://127.0.0.1:4317"))
}

impl Answers {
    /// Takes `[NAME=]URL|COMMAND`.
    fn add(&mut self, written: &str) -> Result<(), String> {
        let (name, target) = server::parse(written)?;
        let name = match name {
            Some(name) if name == SMART => {
                return Err(format!(
                    "'{SMART}' is the name of the built-in tools; write another, such as {SMART}-2=..."
                ));
            }
            Some(name) if self.has(&name) => {
                return Err(format!(
                    "there is a server '{name}' already; write another name in front: NAME=..."
                ));
            }
            Some(name) => name,
            None => self.free(&target.name()),
        };
        self.upstreams.push((name, target));
        Ok(())
    }

    fn add_key(&mut self, name: &str) -> Result<(), String> {
        config::key_name(name).map_err(|why| format!("the name of a key {why}"))?;
        if self.keys.iter().any(|other| other == name) {
            return Err(format!("there is a key '{name}' already"));
        }
        self.keys.push(name.to_owned());
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        name == SMART || self.upstreams.iter().any(|(other, _)| other == name)
    }

    /// The name, or with the first number that makes it another's no more.
    fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names.find(|name| !self.has(name)).unwrap_or_default()
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

/// Shown once, on stderr.
fn secrets(keys: &[Key]) {
    for key in keys {
        eprintln!(
            "The secret of '{}', shown only this once. The client sends it as: Authorization: Bearer {}",
            key.name, key.secret
        );
    }
}

/// The next commands, which can be pasted into a shell.
fn next(file: &Path) -> String {
    let file = quoted(&file.display().to_string());
    let called = std::env::args_os().next().map(|program| program.to_string_lossy().into_owned());
    // As it was called, for a program that is not on the path.
    let program = called.filter(|p| p.contains('/')).map_or_else(|| "smartgate".to_owned(), |p| quoted(&p));
    format!(
        "Next, run it; and see what to paste into a host (`{program} connect` lists the hosts):\n  \
         {program} serve -c {file}\n  \
         {program} connect cursor -c {file}\n"
    )
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Into::into)
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
            "https://smart.example.com/mcp",
            "a=http://x",
        ];
        assert_eq!(named(&urls), ["server", "server-2", "docs", "smart-2", "a"]);
    }

    #[test]
    fn names_that_are_taken_are_refused() {
        let mut answers = Answers::default();
        answers.add("a=http://x").unwrap();
        assert!(answers.add("a=http://y").unwrap_err().contains("already"));
        assert!(answers.add("smart=http://y").unwrap_err().contains("built-in tools"));
        answers.add_key("ada").unwrap();
        assert!(answers.add_key("ada").unwrap_err().contains("already"));
        assert!(answers.add_key(" ").unwrap_err().contains("blanks"));
    }

    #[test]
    fn addresses_are_checked() {
        assert_eq!(listen("0.0.0.0:1").unwrap().port(), 1);
        for wrong in ["8787", "localhost:8787", "127.0.0.1"] {
            assert!(listen(wrong).unwrap_err().contains("127.0.0.1:8787"), "{wrong}");
        }
        assert!(collector("http://127.0.0.1:4317").is_ok());
        assert!(collector("localhost:4317").unwrap_err().contains("such as http://127.0.0.1:4317"));
    }
}
