//! `docs/tools.md`, made from the table of tools: a test compares, and writes it with `UPDATE_DOCS=1`. What was
//! measured is kept by hand below the mark.

use std::fmt::Write;

use serde_json::Value;

use super::tool::{TOOLS, Tool};

const HEAD: &str = "# The built-in tools

`smartgate serve` without upstreams serves them alone, `builtin = true` puts them behind the gateway like any other server.
This part of the page is made from the same table as `tools/list`; a test keeps it that way. `smartgate tools` lists what each costs a
model, `smartgate call TOOL key=value ...` runs one on the command line.

- Results carry `structuredContent` and the same JSON as text. Failures are results with `isError` and the text
  `{\"error\":{\"code\",\"message\",\"retryable\",\"retry_after_ms\",\"details\"}}`, the last two where they say something.
- `usage` says what a call worked on (`tokens_in`), gave back (`tokens_out`) and kept out of the caller's context (`tokens_saved`), in
  o200k tokens. Text that a model sent inline has cost it already and is never counted as saved,
  nor is a result that is given a second time. `tokens_charged` is what the call took from the key's budget, 0 without one and for
  `smart_budget_guard`; a step of `smart_pipe` takes nothing by itself.
- A `ref` (`cx_...`) is a document kept for an hour, for its tenant alone: the key's team, else its name, else `local`. References and kept pages
  of a tenant that is over its share of the storage go, the oldest first; another tenant's never do.
- What belongs to another tenant is unknown: every name that a caller can give (`ref`, `cursor`, `run`, `reservation`, `key`, `id`) is looked
  up once, under the tenant and the name together, so that the answer and the work are the same as for a name that never was.
- `max_tokens` of `smart_pipe` is for the whole result without its `usage`: the lines of the steps first, up to a quarter for the pages that
  were read, and what is left for the outputs; an output that does not fit is cut and kept behind a `ref`. The lines are there in any case.
- `used + held + remaining = limit` on every wall, always; what lies beyond the limit is `over_by` beside them.
- Numbers and booleans are also taken as text, `null` as absent.
";
/// What follows it is written by hand.
const MARK: &str = "<!-- measured -->\n";

fn page() -> String {
    let mut out = HEAD.to_owned();
    for tool in &TOOLS {
        section(tool, &mut out);
    }
    out.push('\n');
    out.push_str(MARK);
    out
}

fn section(tool: &Tool, out: &mut String) {
    write!(out, "\n## {}\n\n**{}.** {}\n\n", tool.name, tool.title, tool.description).unwrap();
    let hints = [
        ("read-only", tool.hints.read_only),
        ("destructive", tool.hints.destructive),
        ("idempotent", tool.hints.idempotent),
        ("open world", tool.hints.open_world),
    ];
    let hints: Vec<_> =
        hints.iter().map(|(name, is)| format!("{name}: {}", if *is { "yes" } else { "no" })).collect();
    write!(
        out,
        "Hints: {}.\n\n| argument | type | default | meaning |\n|---|---|---|---|\n",
        hints.join(", ")
    )
    .unwrap();
    let schema = (tool.input)();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let default = match property.get("default") {
            Some(value) => format!("`{value}`"),
            None if required.iter().any(|r| r == name) => "needed".into(),
            None => String::new(),
        };
        let meaning = property["description"].as_str().unwrap_or_default();
        writeln!(out, "| `{name}` | {} | {default} | {meaning} |", kind(property)).unwrap();
    }
    let output = (tool.output)();
    let members = output["properties"].as_object().into_iter().flatten();
    let members: Vec<_> = members.map(|(name, _)| format!("`{name}`")).collect();
    writeln!(out, "\nResult: {}.", members.join(", ")).unwrap();
}

fn kind(schema: &Value) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        return choices
            .iter()
            .map(|c| format!("`{}`", c.as_str().unwrap_or_default()))
            .collect::<Vec<_>>()
            .join(" ");
    }
    let mut text = schema["type"].as_str().unwrap_or("any value").to_owned();
    if text == "array" {
        text = format!("list of {}", kind(&schema["items"]));
    }
    let bound = |name: &str| schema.get(name).map(Value::to_string);
    match (
        bound("minimum").or(bound("minLength")),
        bound("maximum").or(bound("maxLength")).or(bound("maxItems")),
    ) {
        (Some(low), Some(high)) => write!(text, ", {low} to {high}").unwrap(),
        (Some(low), None) => write!(text, ", from {low}").unwrap(),
        (None, Some(high)) => write!(text, ", at most {high}").unwrap(),
        (None, None) => {}
    }
    text
}

#[test]
fn the_page_is_made_from_the_table() {
    let kept = std::fs::read_to_string("docs/tools.md").unwrap_or_default();
    let measured = kept.split_once(MARK).map(|(_, measured)| measured).unwrap_or_default();
    let now = page() + measured;
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write("docs/tools.md", &now).unwrap();
        return;
    }
    assert!(kept == now, "docs/tools.md differs; set UPDATE_DOCS=1 to write it anew");
}
