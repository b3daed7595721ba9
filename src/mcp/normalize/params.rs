//! Rules 4 to 9: `params`, `arguments`, `cursor`, and what the tool's schema adds.
//!
//! Invariant: the rules see each other's outcome in their order without the text being written in between.

use std::borrow::Cow;

use super::{Coercion, Edit, Plan, RULE_COERCION, Rules, coerce, lift, reading};
use crate::mcp::{
    json::{
        Raw, Type,
        edit::{self, Splice},
        text,
    },
    message::Message,
    schema::Schema,
    tools::ToolSet,
};

/// JSON levels open around `arguments`.
const ARGUMENTS_DEPTH: usize = 2;

/// Members that hosts leave in the arguments for themselves.
const PLUMBING: [&str; 5] = ["action", "chatInput", "sessionId", "tool", "toolCallId"];

/// Plans the repairs of `params`. True if values move to a deeper place, so that the outcome must be checked.
pub(super) fn repair(message: &Message<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    if message.method_raw.is_none() {
        return false;
    }
    match message.params {
        Some(params) if params.is_object() => inside(message, params, rules, tools, plan),
        other => {
            if rules.params {
                whole(message, other, rules, plan);
            }
            false
        }
    }
}

/// Rule 4, and rule 6 on its outcome.
fn whole(message: &Message<'_>, params: Option<Raw<'_>>, rules: &Rules, plan: &mut Plan) {
    let rule = match params.map(|p| p.kind()) {
        None => "params_missing",
        Some(Type::Null) => "params_null",
        Some(Type::Array) => "params_array",
        Some(_) => return,
    };
    plan.rule(rule);
    plan.lossy |= params.is_some_and(|p| p.kind() == Type::Array && !p.is_empty());
    let fill = rules.fill_arguments && is_call(message);
    if fill {
        plan.rule("arguments_missing");
    }
    let text: &[u8] = if fill { b"{\"arguments\":{}}" } else { b"{}" };
    match params {
        Some(raw) => plan.splices.push(Splice::replace(raw.range(), text.to_vec())),
        None => plan.append(message, &[b"\"params\":", text].concat()),
    }
}

fn is_call(message: &Message<'_>) -> bool {
    message.method.as_deref() == Some("tools/call")
}

/// Rules 5 to 9 on a `params` object.
fn inside(message: &Message<'_>, params: Raw<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    match message.method.as_deref() {
        Some("tools/call") => call(message, params, rules, tools, plan),
        Some("prompts/get") if rules.arguments => {
            if let Some(raw) = message.arguments.filter(|raw| empties(*raw, plan)) {
                plan.splices.push(Splice::replace(raw.range(), &b"{}"[..]));
            }
            false
        }
        Some(
            "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" | "tasks/list",
        ) if rules.params && message.cursor.is_some_and(|c| c.kind() == Type::Null) => {
            plan.rule("cursor_null");
            cut(params, plan, |name| name.is_string("cursor"));
            false
        }
        _ => false,
    }
}

/// Rule 5: whether `arguments` becomes `{}`.
fn empties(arguments: Raw<'_>, plan: &mut Plan) -> bool {
    match arguments.kind() {
        Type::Array => {
            plan.rule("arguments_array");
            plan.lossy |= !arguments.is_empty();
            true
        }
        Type::Null => {
            plan.rule("arguments_null");
            true
        }
        _ => false,
    }
}

fn cut(object: Raw<'_>, plan: &mut Plan, drop: impl FnMut(&Raw<'_>) -> bool) {
    let cuts = edit::cuts(object, drop).into_iter();
    plan.splices.extend(cuts.map(|range| Splice::replace(range, &b""[..])));
}

/// Where the arguments of a call come from, after rules 5 to 7.
enum Source<'a> {
    /// As they came.
    Given(Raw<'a>),
    /// Made new: replaces what was there, or is appended.
    New(Cow<'a, str>),
}

/// Rules 5, 6, 7 and 9 on a `tools/call`.
fn call(message: &Message<'_>, params: Raw<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    let full = rules.coercion == Coercion::Full;
    let mapped = message.name.as_deref().filter(|_| full).and_then(|n| tools.meant_by(n));
    let tool = mapped.or_else(|| message.name.as_deref().and_then(|n| tools.get(n)));
    let schema = tool.and_then(|t| t.schema.as_ref()).filter(|_| rules.coercion != Coercion::Off);
    let (source, moved) = match message.arguments {
        Some(raw) => (Some(given(raw, rules, plan)), false),
        None => match schema.filter(|_| full).and_then(|s| lift::arguments(params, s)) {
            Some(lifted) => (Some(lifted_out(params, lifted, plan)), true),
            None => (filled(rules, plan), false),
        },
    };
    if let (Some(tool), Some(raw)) = (mapped, message.name_raw) {
        rename(raw, &tool.name, plan);
    }
    if let Some(source) = source {
        settle(params, message.arguments, source, schema, full, plan);
    }
    moved
}

/// Rules 5 and 7.
fn given<'a>(raw: Raw<'a>, rules: &Rules, plan: &mut Plan) -> Source<'a> {
    if !rules.arguments {
        return Source::Given(raw);
    }
    if empties(raw, plan) {
        return Source::New("{}".into());
    }
    match decoded(raw) {
        Some(text) => {
            plan.rule("arguments_string");
            Source::New(text)
        }
        None => Source::Given(raw),
    }
}

/// Rule 7: text that is exactly one object.
fn decoded(raw: Raw<'_>) -> Option<Cow<'_, str>> {
    let text = raw.as_exact_str()?;
    let object = reading::json_text(&text, ARGUMENTS_DEPTH).filter(Raw::is_object)?.range();
    Some(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[object]),
        Cow::Owned(text) => Cow::Owned(text[object].to_owned()),
    })
}

/// Rule 6.
fn filled<'a>(rules: &Rules, plan: &mut Plan) -> Option<Source<'a>> {
    rules.fill_arguments.then(|| {
        plan.rule("arguments_missing");
        Source::New("{}".into())
    })
}

/// Rule 9, `full`: members of `params` that were meant as arguments leave it.
fn lifted_out<'a>(params: Raw<'a>, lifted: lift::Lifted<'a>, plan: &mut Plan) -> Source<'a> {
    plan.rule(RULE_COERCION);
    cut(params, plan, |name| lifted.takes(name));
    plan.edits.extend(lifted.edits);
    Source::New(lifted.text.into())
}

/// Rule 9, `full`: the tool's own name instead of the host's spelling of it.
fn rename(raw: Raw<'_>, name: &str, plan: &mut Plan) {
    plan.rule(RULE_COERCION);
    let mut quoted = Vec::new();
    text::quote(name, &mut quoted);
    plan.splices.push(Splice::replace(raw.range(), quoted));
    plan.edits.push(Edit { rule: RULE_COERCION, path: "1/name".into(), from: "string", to: "string" });
}

/// Rule 9 on the arguments, and their way into the text.
fn settle(
    params: Raw<'_>,
    before: Option<Raw<'_>>,
    source: Source<'_>,
    schema: Option<&Schema>,
    full: bool,
    plan: &mut Plan,
) {
    let arguments = match &source {
        Source::Given(raw) => *raw,
        Source::New(text) => Raw::new(text, 0),
    };
    let splices = match schema.filter(|_| arguments.is_object()) {
        Some(schema) => coerced(arguments, schema, full, plan),
        None => Vec::new(),
    };
    match (&source, before) {
        (Source::Given(_), _) => plan.splices.extend(splices),
        (Source::New(text), Some(before)) => {
            plan.splices.push(Splice::replace(before.range(), edit::apply(text.as_bytes(), splices)));
        }
        (Source::New(text), None) => {
            let member = [b"\"arguments\":", &edit::apply(text.as_bytes(), splices)[..]].concat();
            append(params, &member, plan);
        }
    }
}

/// Adds a member at the end of an object.
fn append(object: Raw<'_>, member: &[u8], plan: &mut Plan) {
    let splice = match object.members().last() {
        Some(last) => Splice::insert(last.value.end(), [b",", member].concat()),
        None => Splice::insert(object.start() + 1, member.to_vec()),
    };
    plan.splices.push(splice);
}

/// The splices of rule 9 in the arguments, at their places in the arguments' own document.
fn coerced(arguments: Raw<'_>, schema: &Schema, full: bool, plan: &mut Plan) -> Vec<Splice> {
    let mut splices = coerce::arguments(arguments.text(), ARGUMENTS_DEPTH, schema, full, &mut plan.edits);
    for splice in &mut splices {
        splice.range.start += arguments.start();
        splice.range.end += arguments.start();
    }
    if full {
        let drop = |name: &Raw<'_>| PLUMBING.iter().any(|p| name.is_string(p) && !schema.declares(p));
        for member in arguments.members().filter(|m| drop(&m.name)) {
            let path = format!("/{}", member.name.as_str().unwrap_or_default());
            plan.edits.push(Edit {
                rule: RULE_COERCION,
                path,
                from: member.value.kind().as_str(),
                to: "absent",
            });
            plan.lossy = true;
        }
        splices.extend(edit::cuts(arguments, drop).into_iter().map(|range| Splice::replace(range, &b""[..])));
    }
    if !splices.is_empty() {
        plan.rule(RULE_COERCION);
    }
    splices
}
