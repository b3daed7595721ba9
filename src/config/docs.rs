//! `docs/configuration.md`, made from the schema: a test compares, and writes it with `UPDATE_DOCS=1`.

use std::fmt::Write;

use serde_json::Value;

use super::{
    schema,
    tests::{compare, root},
};

const HEAD: &str = "# Configuration

The file is TOML. This page is made from the same source as `smartgate schema`, and a test keeps it that way; do not
edit it by hand. `config/` has examples, `config/defaults.toml` every key at its default.

- `smartgate check FILE` reports every problem at once as `file:line:col: message`.
- Durations: `500ms`, `20s`, `5m`, `2h`. Sizes: `512B`, `64KiB`, `4MiB`, `1GB`. Rates: `10/s`, `120/min`, `1000/h`.
- Budgets: `500k tokens/day`, `2M tokens/month`, in o200k tokens and by the calendar in UTC. Each tool call of the key holds before it goes out
  what it will probably take, and takes what it took: of a built-in tool the result, of another server the arguments and the result.
  A call that does not fit is refused with `budget_exhausted`. A result of a built-in tool that is larger than what was held passes only if it
  fits as well. What another server will answer is estimated (19 of the key's team's last 20 results of the tool were no larger), so that one
  of its results may pass a limit; what is over it is shown as `over_by`, and the next call is refused. Lists, `ping`, `initialize`, `server/discover` and the
  tool `smart_budget_guard` always go on. What was used outlives restarts and changes of the budget; it belongs to the key's name.
- A tenant is a key's team, else the key's name; calls without a key are the tenant `local`. The storage is divided among the tenants of all
  keys and `local`, and those that left something in it.
- A secret is the value itself, `env:NAME` or `file:PATH` (without the line break at its end). It never shows up in
  problems, logs or records.
- Relative paths start at the folder of the file. Without a file, journal and storage lie in `$XDG_STATE_HOME/smartgate`, else
  `~/.local/state/smartgate`.
- Globs know `*` and `?`; `!` in front excludes, and the last match wins.
- Unknown keys are refused with the nearest known one. What a later version will have is refused by name.
- A listener on an address that is not loopback needs `[[keys]]`, `auth.mode = \"passthrough\"` or a written
  `auth.mode = \"none\"`.
- With `auth.mode = \"keys\"` written and no `[[keys]]`, every call is refused; so taking the last key out of a running
  gateway's file locks it instead of opening it.
- With several upstreams, `PATH` shows them as one, with names as `prefix`, `rename`, `tools` and `fixed` make them; each alone is at
  `PATH/NAME` with its own names. A name that two upstreams would have is shown of neither.
- The standard `OTEL_*` variables work and yield to the file, except `OTEL_TRACES_SAMPLER*`: audit spans are never
  sampled out.
";

fn page() -> String {
    let schema = schema();
    let mut out = HEAD.to_owned();
    let mut sections = Vec::new();
    collect(&schema, &schema, "", &mut sections);
    for (title, text, rows) in sections {
        write!(out, "\n## {title}\n\n{text}\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
            .unwrap();
        rows.iter().for_each(|row| writeln!(out, "{row}").unwrap());
    }
    out
}

/// Title, text and rows of every table of the file, in its order.
fn collect(schema: &Value, root: &Value, path: &str, sections: &mut Vec<(String, String, Vec<String>)>) {
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let text = property["description"].as_str().unwrap_or_default().to_owned();
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let (title, table) = match property["type"].as_str() {
            Some("array") => (format!("`[[{at}]]`"), resolve(&property["items"], root)),
            Some("object") if property["additionalProperties"]["$ref"].is_string() => {
                (format!("`[{at}.NAME]`"), resolve(&property["additionalProperties"], root))
            }
            _ => (format!("`[{at}]`"), resolve(property, root)),
        };
        let Some(properties) = table["properties"].as_object() else { continue };
        let mut rows = Vec::new();
        for (key, property) in properties {
            row(key, property, root, &mut rows);
        }
        sections.push((title, text, rows));
    }
}

fn row(key: &str, property: &Value, root: &Value, rows: &mut Vec<String>) {
    let resolved = resolve(property, root);
    if let Some(inner) = resolved["properties"].as_object() {
        let text = property["description"].as_str().unwrap_or_default();
        rows.push(format!("| `{key}` | table | | {text} |"));
        inner.iter().for_each(|(k, p)| row(&format!("{key}.{k}"), p, root, rows));
        return;
    }
    // Tables by name, each with keys of its own.
    let each = resolve(&resolved["additionalProperties"], root);
    if let Some(inner) = each["properties"].as_object() {
        let text = property["description"].as_str().unwrap_or_default();
        rows.push(format!("| `{key}.NAME` | table | | {text} |"));
        inner.iter().for_each(|(k, p)| row(&format!("{key}.NAME.{k}"), p, root, rows));
        return;
    }
    let default = property.get("default").map(|d| format!("`{}`", toml_text(d))).unwrap_or_default();
    rows.push(format!(
        "| `{key}` | {} | {default} | {} |",
        kind(resolved, root),
        meaning(property, resolved)
    ));
}

fn meaning(property: &Value, resolved: &Value) -> String {
    let mut text = property["description"].as_str().unwrap_or_default().to_owned();
    for choice in resolved["oneOf"].as_array().into_iter().flatten() {
        let word = choice["const"].as_str().unwrap();
        write!(text, "<br>`{word}`: {}", choice["description"].as_str().unwrap()).unwrap();
    }
    text
}

fn kind(schema: &Value, root: &Value) -> String {
    if schema["oneOf"].is_array() {
        return "word".into();
    }
    match schema["type"].as_str().unwrap_or_default() {
        "array" => format!("list of {}", kind(resolve(&schema["items"], root), root)),
        "object" => format!("table of {}", kind(resolve(&schema["additionalProperties"], root), root)),
        "integer" => "whole number".into(),
        "number" => "number".into(),
        "boolean" => "true or false".into(),
        _ => schema["title"].as_str().unwrap_or("text").to_owned(),
    }
}

fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/"));
    name.map_or(schema, |name| &root["$defs"][name])
}

fn toml_text(value: &Value) -> String {
    match value {
        Value::Object(_) => "{}".into(),
        other => other.to_string(),
    }
}

#[test]
fn documentation_is_made_from_the_schema() {
    compare(&root().join("docs/configuration.md"), &page(), "UPDATE_DOCS");
}
