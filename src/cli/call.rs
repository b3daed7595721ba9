//! `smartgate call`: one built-in tool in this process. Owns how arguments are written on the command line, the line
//! that shows that work goes on, and the readable form of a result.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Read, Write as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use super::{FAILURE, USAGE, print, usage};
use crate::{
    config::{self, CliOverrides, Config, Smart, Target},
    policy::budget::Ledger,
    snapshot::tenants,
    store::Store,
    upstream::{
        Caller,
        builtin::{Builtin, definitions},
    },
};

/// How long a call takes before the line shows.
const QUIET: Duration = Duration::from_millis(700);

/// `call`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    smartgate call smart_fetch url=https://example.com\n  \
    smartgate call smart_context_gate text=@page.md purpose='Who wrote it?' ratio=0.2\n  \
    smartgate call smart_dedup 'texts=[\"one text\",\"one text\"]' --json\n\n\
    VALUE is text where the tool wants text, and JSON elsewhere; @FILE takes it from a file, @- from stdin.\n\
    Exit code: 0; 1 if the tool failed; 64 for wrong usage.")]
pub struct Args {
    /// Name of the tool; `smartgate tools` lists them
    tool: String,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,
    /// Configuration file whose storage and settings are used
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Store nothing on disk
    #[arg(long)]
    ephemeral: bool,
    /// Print the structured result as one line of JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let Some(definition) = definitions().into_iter().find(|d| d["name"] == args.tool.as_str()) else {
        let names: Vec<_> =
            definitions().iter().filter_map(|d| d["name"].as_str().map(str::to_owned)).collect();
        return usage(&format!("there is no tool {:?}; there are {}", args.tool, names.join(", ")));
    };
    let arguments = match arguments(&args.arguments, &definition["inputSchema"]) {
        Ok(arguments) => arguments,
        Err(why) => return usage(&why),
    };
    let over = CliOverrides { ephemeral: args.ephemeral, ..CliOverrides::default() };
    let loaded = match &args.config {
        Some(file) => config::load_with(file, &over),
        None => config::default_with(&over),
    };
    let config = match loaded {
        Ok(loaded) => loaded.config,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(USAGE);
        }
    };
    match call(&config, &args.tool, arguments.into()) {
        Ok(Ok(result)) if args.json => print(&format!("{result}\n")),
        Ok(Ok(result)) => print(&readable(&result)),
        Ok(Err(error)) if args.json => failed(&format!("{}\n", serde_json::json!({ "error": error }))),
        Ok(Err(error)) => {
            let text = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
            eprintln!("{}: {}", text("code"), text("message"));
            if !error["details"].is_null() {
                eprintln!("{:#}", error["details"]);
            }
            ExitCode::from(FAILURE)
        }
        Err(why) => {
            eprintln!("smartgate: {why}");
            ExitCode::from(USAGE)
        }
    }
}

fn failed(text: &str) -> ExitCode {
    let _: ExitCode = print(text);
    ExitCode::from(FAILURE)
}

/// The arguments as the tool's schema has them.
fn arguments(written: &[String], schema: &Value) -> Result<Map<String, Value>, String> {
    let mut arguments = Map::new();
    for argument in written {
        let Some((name, value)) = argument.split_once('=') else {
            return Err(format!("{argument:?} is no KEY=VALUE"));
        };
        let text = match value.strip_prefix('@') {
            Some("-") => read(io::stdin().lock()).map_err(|e| format!("stdin: {e}"))?,
            Some(file) => {
                let file = std::fs::File::open(file).and_then(read);
                file.map_err(|e| format!("{}: {e}", &value[1..]))?
            }
            None => value.to_owned(),
        };
        let wants = &schema["properties"][name];
        let is_text = wants["type"] == "string" || wants.get("enum").is_some();
        let value = if is_text {
            text.into()
        } else {
            serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text))
        };
        arguments.insert(name.to_owned(), value);
    }
    Ok(arguments)
}

fn read(mut from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.read_to_string(&mut text).map(|_| text)
}

/// The outer error is about the surroundings, the inner one is the tool's.
fn call(config: &Config, tool: &str, arguments: Value) -> Result<Result<Value, Value>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
    let store = Store::open(config.storage.path.as_deref(), config.storage.quota)?;
    store.divide(tenants(config));
    let ledger = Arc::new(Ledger::open(store.clone())?);
    let smart = config.upstreams.iter().find(|u| u.target == Target::Builtin).map(|u| u.smart.clone());
    runtime.block_on(async {
        let builtin = Builtin::new(&smart.unwrap_or_else(Smart::default), store, ledger);
        let caller = Caller { program: true, ..Caller::default() };
        let work = builtin.run(tool, arguments, caller);
        Ok(with_a_line(tool, work).await.expect("the tool was found before"))
    })
}

/// Shows on a terminal that work goes on.
async fn with_a_line<T>(what: &str, work: impl Future<Output = T>) -> T {
    if !io::stderr().is_terminal() {
        return work.await;
    }
    let begun = Instant::now();
    let mut work = std::pin::pin!(work);
    let mut shown = false;
    loop {
        if let Ok(done) = tokio::time::timeout(QUIET, &mut work).await {
            if shown {
                eprint!("\r\x1b[K");
            }
            return done;
        }
        shown = true;
        eprint!("\r{what} ... {} s\x1b[K", begun.elapsed().as_secs());
        drop(io::stderr().flush());
    }
}

/// A result for people: short members first, then lists and texts, the usage last.
fn readable(result: &Value) -> String {
    let mut out = String::new();
    let Some(members) = result.as_object() else { return format!("{result:#}\n") };
    let is_long = |value: &Value| match value {
        Value::String(text) => text.contains('\n') || text.len() > 100,
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
        _ => false,
    };
    let width = members.iter().filter(|(_, v)| !is_long(v)).map(|(k, _)| k.len()).max().unwrap_or(0);
    for (name, value) in members.iter().filter(|(_, v)| !is_long(v)) {
        line(&mut out, &format!("{name:width$}  {}", plain(value)));
    }
    for (name, value) in members.iter().filter(|(name, v)| is_long(v) && *name != "usage") {
        line(&mut out, &format!("\n{name}:"));
        match value {
            Value::String(text) => line(&mut out, text),
            Value::Array(items) => items.iter().for_each(|item| entry(&mut out, item)),
            other => line(&mut out, &format!("{other:#}")),
        }
    }
    if let Some(usage) = members.get("usage") {
        let count = |name: &str| usage[name].as_u64().unwrap_or(0);
        let (worked, gave, saved) = (count("tokens_in"), count("tokens_out"), count("tokens_saved"));
        line(&mut out, &format!("\ntokens: {worked} in, {gave} out, {saved} saved"));
    }
    out
}

fn entry(out: &mut String, item: &Value) {
    match item {
        Value::Object(members) => {
            let mut members = members.iter().filter(|(_, v)| !v.is_null());
            if let Some((name, value)) = members.next() {
                line(out, &format!("- {name}: {}", plain(value)));
            }
            members.for_each(|(name, value)| line(out, &format!("  {name}: {}", plain(value))));
        }
        other => line(out, &format!("- {}", plain(other))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a String takes it");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_stays_text_and_the_rest_is_json() {
        let schema = json!({"properties": {"query": {"type": "string"}, "n": {"type": "integer"}, "mode": {"enum": ["a"]}, "list": {"type": "array"}}});
        let written = ["query=7", "n=7", "mode=a", "list=[\"x\"]", "query2=a=b"].map(str::to_owned);
        let read = arguments(&written, &schema).unwrap();
        assert_eq!(
            Value::Object(read),
            json!({"query": "7", "n": 7, "mode": "a", "list": ["x"], "query2": "a=b"})
        );
        assert!(arguments(&["no value".to_owned()], &schema).is_err());
    }

    #[test]
    fn a_result_reads_from_short_to_long() {
        let result = json!({"text": "one\ntwo", "ratio": 0.5, "items": [{"url": "u", "title": "t"}], "usage": {"tokens_in": 4, "tokens_out": 2, "tokens_saved": 0}});
        let expected =
            "ratio  0.5\n\ntext:\none\ntwo\n\nitems:\n- url: u\n  title: t\n\ntokens: 4 in, 2 out, 0 saved\n";
        assert_eq!(readable(&result), expected);
    }
}
