//! `smartgate normalize`: what would be forwarded for a body, on the command line.
//!
//! Owns reading and printing; the rules live in `mcp::normalize`. Invariant: stdout carries the body and nothing
//! else, byte for byte.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::json;

use super::{FAILURE, USAGE};
use crate::mcp::{
    normalize::{Coercion, Normalized, Rules, normalize},
    tools::{ListError, MAX_TOOLS, ToolSet},
};

/// Show what would be forwarded for the JSON-RPC body on stdin
///
/// The normalised body goes to stdout, byte for byte. A body that needs no repair, or that is no JSON, comes
/// out as it went in; the exit code is 0 for those too. What the gateway would refuse (duplicate members, batches, no
/// id where one is needed) is left alone here.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":[]}' |\n    \
                        smartgate normalize --tools echo,add --explain"
)]
pub struct Args {
    /// Names of the tools that the server has, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Vec<String>,
    /// A file with a tools/list result: the tools with their input schemas
    #[arg(long, value_name = "FILE")]
    schemas: Option<PathBuf>,
    /// How far arguments are bent to the tool's schema
    #[arg(long, value_name = "MODE", value_enum, default_value = "safe")]
    coerce: Mode,
    /// Say on stderr which rules fired, as one JSON line
    #[arg(long)]
    explain: bool,
}

/// The values of `--coerce`.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Mode {
    /// Leave arguments alone
    Off,
    /// Change only what the schema refuses and what has one reading
    Safe,
    /// Also wrap scalars, drop plumbing members, map tool names and find misplaced arguments
    Full,
}

/// Runs the command.
#[must_use]
pub fn run(args: Args) -> ExitCode {
    let tools = match tools(&args) {
        Ok(tools) => tools,
        Err(why) => {
            eprintln!("smartgate normalize: {why}");
            return ExitCode::from(USAGE);
        }
    };
    let coercion = match args.coerce {
        Mode::Off => Coercion::Off,
        Mode::Safe => Coercion::Safe,
        Mode::Full => Coercion::Full,
    };
    match filter(&Rules { coercion, ..Rules::default() }, &tools, args.explain) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("smartgate normalize: {error}");
            ExitCode::from(FAILURE)
        }
    }
}

fn tools(args: &Args) -> Result<ToolSet, String> {
    let mut tools = ToolSet::from_names(args.tools.iter().filter(|name| !name.is_empty()));
    if let Some(path) = &args.schemas {
        schemas(path, &mut tools)?;
    }
    Ok(tools)
}

fn schemas(path: &Path, tools: &mut ToolSet) -> Result<(), String> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|e| format!("{shown}: {e}"))?;
    match tools.extend(&bytes) {
        Ok(_) if tools.len() >= MAX_TOOLS => Err(format!("{shown}: more than {MAX_TOOLS} tools")),
        Ok(_) => Ok(()),
        Err(ListError::NotJson(e)) => Err(format!("{shown}: not JSON at byte {}", e.offset)),
        Err(ListError::NoTools) => {
            Err(format!("{shown}: there is no list `tools`, as a tools/list result has"))
        }
    }
}

/// stdin to stdout.
fn filter(rules: &Rules, tools: &ToolSet, explain: bool) -> io::Result<()> {
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    let normalized = normalize(&body, rules, tools);
    let mut out = io::stdout().lock();
    out.write_all(normalized.body.as_deref().unwrap_or(&body))?;
    out.flush()?;
    if explain {
        writeln!(io::stderr().lock(), "{}", explanation(&normalized))?;
    }
    Ok(())
}

fn explanation(normalized: &Normalized) -> String {
    let edits: Vec<_> = normalized
        .edits
        .iter()
        .map(|e| json!({ "rule": e.rule, "path": e.path, "from": e.from, "to": e.to }))
        .collect();
    json!({ "rules": normalized.rules, "lossy": normalized.lossy, "edits": edits }).to_string()
}

#[cfg(test)]
mod tests {
    use super::{ToolSet, explanation, normalize};
    use crate::mcp::normalize::Rules;

    #[test]
    fn an_explanation_names_rules_loss_and_edits() {
        let list = br#"{"tools":[{"name":"t","inputSchema":{"properties":{"n":{"type":"integer"}}}}]}"#;
        let tools = ToolSet::from_list_result(list).unwrap();
        let body = br#"{"id":1,"method":"t","params":{"n":"5","arguments":[1]}}"#;
        let line = explanation(&normalize(body, &Rules::default(), &tools));
        assert_eq!(
            line,
            r#"{"rules":["jsonrpc_missing","direct_tool_method","schema_coercion"],"lossy":true,"#.to_owned()
                + r#""edits":[{"rule":"schema_coercion","path":"/n","from":"string","to":"integer"}]}"#
        );
    }
}
