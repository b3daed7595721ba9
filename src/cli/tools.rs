//! `smartgate tools`: the built-in tools, and what their definitions cost a model that is shown them.

use std::{fmt::Write, process::ExitCode};

use serde_json::{Value, json};

use super::print;
use crate::{text::tokens, upstream::builtin};

/// `tools`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  smartgate tools\n\n\
    Tokens are o200k tokens of name, title, description, input schema and annotations.")]
pub struct Args {
    /// Print the definitions as tools/list shows them
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let definitions = builtin::definitions();
    if args.json {
        return print(&format!("{:#}\n", json!({ "tools": definitions })));
    }
    let mut out = String::new();
    let mut sum = 0;
    let width = definitions.iter().map(|d| name(d).len()).max().unwrap_or(0);
    for definition in &definitions {
        let tokens = cost(definition);
        sum += tokens;
        let title = definition["title"].as_str().unwrap_or_default();
        writeln!(out, "{:width$}  {tokens:>5} tokens  {title}", name(definition)).expect("a String takes it");
    }
    writeln!(out, "{:width$}  {sum:>5} tokens", "all").expect("a String takes it");
    print(&out)
}

fn name(definition: &Value) -> &str {
    definition["name"].as_str().unwrap_or_default()
}

/// What a model reads of a definition: output schemas are for hosts.
fn cost(definition: &Value) -> u64 {
    let mut shown = definition.clone();
    if let Some(members) = shown.as_object_mut() {
        members.remove("outputSchema");
    }
    tokens::count(&shown.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All seven are in every conversation that has them, so their sum has a ceiling.
    #[test]
    fn the_definitions_cost_at_most_2600_tokens() {
        let each: Vec<_> = builtin::definitions().iter().map(|d| (name(d).to_owned(), cost(d))).collect();
        let sum: u64 = each.iter().map(|(_, tokens)| tokens).sum();
        assert!(sum <= 2_600, "{sum}: {each:?}");
    }
}
