//! What a repair changed, as a diff. The journal has the arguments as they were forwarded; what was there before is in it
//! only under `capture = "full"`. Elsewhere a removed line shows the type, which is all that is known.

use maud::{Markup, html};
use serde_json::Value;

/// Most lines of a diff.
const LINES: usize = 400;

/// One change, as the record lists it.
#[derive(Clone)]
pub(super) struct Edit {
    pub(super) rule: String,
    pub(super) path: String,
    pub(super) from: String,
    pub(super) to: String,
    /// What was there, for people.
    was: String,
}

#[derive(Debug, PartialEq)]
enum Line {
    Same(String),
    Removed(String),
    Added(String),
}

/// The changes of a record's line.
pub(super) fn edits(record: &Value) -> Vec<Edit> {
    let text = |edit: &Value, name: &str| edit[name].as_str().unwrap_or_default().to_owned();
    let edit = |edit: &Value| Edit {
        rule: text(edit, "rule"),
        path: text(edit, "path"),
        from: text(edit, "from"),
        to: text(edit, "to"),
        was: String::new(),
    };
    let edits = record["edits"].as_array().map(|all| all.iter().map(edit).collect()).unwrap_or_default();
    with_values(edits, received(record).as_ref())
}

/// What a rule does, for people.
pub(super) fn meaning(rule: &str) -> &'static str {
    match rule {
        "bom" => "a byte-order mark before the message was removed",
        "jsonrpc_missing" => "the version of JSON-RPC was put in",
        "direct_tool_method" => "the tool's name stood as the method; it became a tools/call",
        "params_missing" => "params were missing; they became an empty object",
        "params_null" => "params were null; they became an empty object",
        "params_array" => "params were an array; they became an object",
        "arguments_missing" => "arguments were missing; they became an empty object",
        "arguments_null" => "arguments were null; they became an empty object",
        "arguments_array" => "arguments were an array; they became an object",
        "arguments_string" => "arguments were JSON inside a text; they became that object",
        "cursor_null" => "a cursor that was null was left out",
        "schema_coercion" => "values got the type that the tool's schema asks for",
        _ => "see the page on repairs",
    }
}

/// The arguments of the message as it was received, where the record has it.
fn received(record: &Value) -> Option<Value> {
    let message: Value = serde_json::from_str(record["received"]["body"].as_str()?).ok()?;
    match &message["params"]["arguments"] {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Null => None,
        arguments => Some(arguments.clone()),
    }
}

/// Puts into edits what was there, where that is known: a scalar as it stands, of anything larger the type.
fn with_values(mut edits: Vec<Edit>, before: Option<&Value>) -> Vec<Edit> {
    for edit in &mut edits {
        let value = before.and_then(|before| before.pointer(&edit.path));
        edit.was = match value {
            Some(Value::Object(_) | Value::Array(_)) | None => format!("‹{}›", edit.from),
            Some(scalar) => scalar.to_string(),
        };
    }
    edits
}

/// The arguments as forwarded, with what was changed in them.
pub(super) fn diff(arguments: &Value, edits: &[Edit]) -> Markup {
    let mut lines = Vec::new();
    walk(&mut lines, arguments, String::new(), "", 0, "", edits);
    let more = lines.len().saturating_sub(LINES);
    lines.truncate(LINES);
    html! {
        pre.diff tabindex="0" aria-label="Arguments as forwarded, with what was changed" {
            @for line in &lines {
                @match line {
                    Line::Same(text) => { span { "  " (text) } }
                    Line::Removed(text) => { del { "- " (text) } }
                    Line::Added(text) => { ins { "+ " (text) } }
                }
            }
            @if more > 0 { span { "  … " (more) " lines more" } }
        }
    }
}

/// Writes a value and what stood in its place. `path` is the place of the value, `name` what stands before it.
fn walk(
    lines: &mut Vec<Line>,
    value: &Value,
    path: String,
    name: &str,
    depth: usize,
    end: &str,
    edits: &[Edit],
) {
    let indent = "  ".repeat(depth);
    let edit = edits.iter().find(|edit| edit.path == path && edit.to != "absent");
    if let Some(edit) = edit.filter(|edit| edit.from != "absent") {
        lines.push(Line::Removed(format!("{indent}{name}{}{end}", edit.was)));
    }
    let line = |text: String| if edit.is_some() { Line::Added(text) } else { Line::Same(text) };
    let (open, close, children) = match value {
        Value::Object(members) if !members.is_empty() => ("{", "}", members.len()),
        Value::Array(items) if !items.is_empty() => ("[", "]", items.len()),
        other => return lines.push(line(format!("{indent}{name}{other}{end}"))),
    };
    lines.push(line(format!("{indent}{name}{open}")));
    let comma = |at: usize| if at + 1 < children { "," } else { "" };
    let start = lines.len();
    match value {
        Value::Object(members) => {
            for (at, (key, value)) in members.iter().enumerate().take(LINES) {
                let name = format!("{}: ", Value::from(key.as_str()));
                walk(lines, value, format!("{path}/{}", escaped(key)), &name, depth + 1, comma(at), edits);
            }
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate().take(LINES) {
                walk(lines, value, format!("{path}/{at}"), "", depth + 1, comma(at), edits);
            }
        }
        _ => {}
    }
    if edit.is_some() {
        lines[start..].iter_mut().for_each(Line::add);
    }
    let inside =
        |edit: &&Edit| edit.to == "absent" && edit.path.rsplit_once('/').is_some_and(|(p, _)| p == path);
    for gone in edits.iter().filter(inside) {
        let key = gone.path.rsplit('/').next().unwrap_or_default();
        lines.push(Line::Removed(format!("{indent}  {}: {}", Value::from(key), gone.was)));
    }
    lines.push(line(format!("{indent}{close}{end}")));
}

impl Line {
    /// What stands inside something new is new.
    fn add(&mut self) {
        if let Self::Same(text) = self {
            *self = Self::Added(std::mem::take(text));
        }
    }
}

/// A name as RFC 6901 has it in a pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(arguments: &Value, edits: &[(&str, &str, &str)], before: Option<&Value>) -> Vec<String> {
        let edit = |(path, from, to): &(&str, &str, &str)| Edit {
            rule: String::new(),
            path: (*path).to_owned(),
            from: (*from).to_owned(),
            to: (*to).to_owned(),
            was: String::new(),
        };
        let edits = with_values(edits.iter().map(edit).collect(), before);
        let mut lines = Vec::new();
        walk(&mut lines, arguments, String::new(), "", 0, "", &edits);
        let text = |line: Line| match line {
            Line::Same(text) => format!("  {text}"),
            Line::Removed(text) => format!("- {text}"),
            Line::Added(text) => format!("+ {text}"),
        };
        lines.into_iter().map(text).collect()
    }

    #[test]
    fn what_was_changed_stands_beside_what_it_was() {
        let arguments = json!({ "n": 5, "list": [{ "a/b": true }], "new": {"x": 1}, "same": "s" });
        let edits = [
            ("/n", "string", "integer"),
            ("/list/0/a~1b", "string", "boolean"),
            ("/new", "absent", "object"),
            ("/toolCallId", "string", "absent"),
        ];
        let text = lines(&arguments, &edits, None).join("\n");
        assert_eq!(
            text,
            "  {\n-   \"n\": ‹string›,\n+   \"n\": 5,\n    \"list\": [\n      {\n-       \"a/b\": ‹string›\n\
             +       \"a/b\": true\n      }\n    ],\n+   \"new\": {\n+     \"x\": 1\n+   },\n    \"same\": \"s\"\n\
             -   \"toolCallId\": ‹string›\n  }"
        );
    }

    #[test]
    fn where_the_message_is_recorded_the_diff_has_what_it_said() {
        let body = r#"{"method":"tools/call","params":{"arguments":{"n":"5","list":{"a":1}}}}"#;
        let record = json!({ "received": { "body": body } });
        let before = received(&record);
        let edits = [("/n", "string", "integer"), ("/list", "object", "array")];
        let text = lines(&json!({ "n": 5, "list": [] }), &edits, before.as_ref()).join("\n");
        assert_eq!(
            text,
            "  {\n-   \"n\": \"5\",\n+   \"n\": 5,\n-   \"list\": ‹object›\n+   \"list\": []\n  }"
        );
        assert_eq!(received(&json!({ "received": { "body": "not json" } })), None);
    }

    #[test]
    fn nothing_is_markup() {
        let hostile = json!({ "<b>": "</pre><script>alert(1)</script>" });
        let text = diff(&hostile, &[]).into_string();
        assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    }
}
