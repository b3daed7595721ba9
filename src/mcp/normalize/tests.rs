mod coercion;
mod full;
mod properties;
mod rules;

use super::{Coercion, Normalized, Rules, normalize};
use crate::mcp::tools::ToolSet;

/// Normalises in one mode, checks that a second time changes nothing, and gives the text with what fired.
fn run(body: &str, mode: Coercion, tools: &ToolSet) -> (String, Normalized) {
    let rules = Rules { coercion: mode, ..Rules::default() };
    let done = normalize(body.as_bytes(), &rules, tools);
    assert_eq!(done.body.is_some(), !done.rules.is_empty(), "a change has a rule, a rule changes: {body}");
    let text = done.body.clone().map_or(body.to_owned(), |b| String::from_utf8(b).unwrap());
    let again = normalize(text.as_bytes(), &rules, tools);
    assert_eq!(again, Normalized::default(), "not a fixed point: {body} -> {text}");
    (text, done)
}

fn names() -> ToolSet {
    ToolSet::from_names(["get_weather", "echo", "add", "create_user", "ping", "tools/call"])
}

/// Rules 1 to 8, without schemas: the text and the rules that fired; `!` for lossy.
fn plain(body: &str) -> (String, String) {
    let (text, done) = run(body, Coercion::Safe, &names());
    (text, done.rules.join(" ") + if done.lossy { " !" } else { "" })
}

#[track_caller]
fn becomes(body: &str, rules: &str, text: &str) {
    assert_eq!(plain(body), (text.to_owned(), rules.to_owned()));
}

#[track_caller]
fn stays(body: &str) {
    becomes(body, "", body);
}
