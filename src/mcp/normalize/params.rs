//! Rules 4 to 9: `params`, `arguments`, `cursor`, and what the tool's schema adds.
//!
//! Invariant: the rules see each other's outcome in their order without the text being written in between.

use std::borrow::Cow;

use super::{
    Coercion, Edit, Plan, RULE_COERCION, Rules,
    coerce::{self, Arguments, Changes},
    lift, reading,
};
use crate::mcp::{
    json::{
        MAX_DEPTH, Raw, Type,
        edit::{self, Slot, Splice},
        text,
    },
    message::Message,
    schema::Schema,
    tools::ToolSet,
};

/// JSON levels open around `arguments`.
pub(super) const ARGUMENTS_DEPTH: usize = 2;

/// Plans the repairs of `params`. False if that cannot be done.
pub(super) fn repair(message: &Message<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    if message.method_raw.is_none() {
        return true;
    }
    match message.params {
        Some(params) if params.is_object() => inside(message, params, rules, tools, plan),
        other => {
            if rules.params {
                whole(message, other, rules, plan);
            }
            true
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
        Some("tools/call") => return call(message, params, rules, tools, plan),
        Some("prompts/get") if rules.arguments => {
            if let Some(raw) = message.arguments.filter(|raw| empties(*raw, plan)) {
                plan.splices.push(Splice::replace(raw.range(), &b"{}"[..]));
            }
        }
        Some(
            "tools/list" | "resources/list" | "resources/templates/list" | "prompts/list" | "tasks/list",
        ) if rules.params && message.cursor.is_some_and(|c| c.kind() == Type::Null) => {
            plan.rule("cursor_null");
            plan.splices.extend(edit::cuts_of(message.slots.cursor.as_slice()).map(Splice::cut));
        }
        _ => {}
    }
    true
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

/// The tool that a call means, as far as it is known.
pub(super) struct Target<'t> {
    /// The tool's own name, where the host spelt it otherwise.
    renamed: Option<&'t str>,
    schema: Option<&'t Schema>,
    full: bool,
}

impl<'t> Target<'t> {
    pub(super) fn of(name: Option<&str>, rules: &Rules, tools: &'t ToolSet) -> Self {
        let full = rules.coercion == Coercion::Full;
        let meant = name.filter(|_| full).and_then(|n| tools.meant_by(n));
        let tool = meant.or_else(|| name.and_then(|n| tools.get(n)));
        let schema = tool.and_then(|t| t.schema.as_ref()).filter(|_| rules.coercion != Coercion::Off);
        Self { renamed: meant.map(|t| t.name.as_str()), schema, full }
    }

    /// Rule 9, `full`: the tool's own name instead of the host's spelling of it.
    pub(super) fn rename(&self, raw: Option<Raw<'_>>, plan: &mut Plan) {
        let (Some(name), Some(raw)) = (self.renamed, raw) else { return };
        plan.rule(RULE_COERCION);
        let mut quoted = Vec::new();
        text::quote(name, &mut quoted);
        plan.splices.push(Splice::replace(raw.range(), quoted));
        plan.edits.push(Edit { rule: RULE_COERCION, path: "1/name".into(), from: "string", to: "string" });
    }

    /// Rule 9 on the arguments: what to change at their own document, and the members to cut out there.
    /// `readable`: there is text in them that may read as something else; without it `safe` changes nothing.
    pub(super) fn coerce(
        &self,
        arguments: &Arguments<'_>,
        readable: bool,
        plan: &mut Plan,
    ) -> (Vec<Splice>, Vec<Slot>) {
        let Some(schema) = self.schema.filter(|_| readable || self.full) else { return Default::default() };
        let Changes { splices, edits, drops } = coerce::arguments(arguments, schema, self.full);
        if !splices.is_empty() || !drops.is_empty() {
            plan.rule(RULE_COERCION);
            plan.lossy |= !drops.is_empty();
            plan.edits.extend(edits);
        }
        (splices, drops)
    }

    /// As [`Target::coerce`], with the members cut out.
    pub(super) fn coerced(&self, object: Raw<'_>, readable: bool, plan: &mut Plan) -> Vec<Splice> {
        let arguments = Arguments { object, except: &[], depth: ARGUMENTS_DEPTH };
        let (mut splices, drops) = self.coerce(&arguments, readable, plan);
        splices.extend(edit::cuts_of(&drops).map(Splice::cut));
        splices
    }
}

/// Where the arguments of a call come from, after rules 5 to 7.
enum Source<'a> {
    /// As they came.
    Given(Raw<'a>),
    /// Made new: replaces what was there, or is appended. The flag: text in it may read as something else.
    New(Cow<'a, str>, bool),
}

/// Rules 5, 6, 7 and 9 on a `tools/call`. False if arguments would have to move too deep.
fn call(message: &Message<'_>, params: Raw<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    let target = Target::of(message.name.as_deref(), rules, tools);
    let source = match message.arguments {
        Some(raw) => Some(given(raw, rules, plan)),
        None => match target.schema.filter(|_| target.full).and_then(|s| lift::arguments(params, s)) {
            Some(_) if message.deepest >= MAX_DEPTH => return false,
            Some(lifted) => Some(lifted_out(params, lifted, plan)),
            None => filled(rules, plan),
        },
    };
    target.rename(message.name_raw, plan);
    match source {
        Some(Source::Given(object)) if object.is_object() => {
            let splices = target.coerced(object, message.readable, plan);
            plan.splices.extend(splices);
        }
        Some(Source::New(text, readable)) => {
            let splices = target.coerced(Raw::whole(&text), readable, plan);
            place(message, params, edit::apply(text.as_bytes(), splices), plan);
        }
        _ => {}
    }
    true
}

/// Puts new arguments in.
fn place(message: &Message<'_>, params: Raw<'_>, text: Vec<u8>, plan: &mut Plan) {
    plan.splices.push(match (message.arguments, message.params_last_end) {
        (Some(before), _) => Splice::replace(before.range(), text),
        (None, Some(end)) => Splice::insert(end, [b",\"arguments\":", &text[..]].concat()),
        (None, None) => Splice::insert(params.start() + 1, [b"\"arguments\":", &text[..]].concat()),
    });
}

/// Rules 5 and 7.
fn given<'a>(raw: Raw<'a>, rules: &Rules, plan: &mut Plan) -> Source<'a> {
    if !rules.arguments {
        return Source::Given(raw);
    }
    if empties(raw, plan) {
        return Source::New("{}".into(), false);
    }
    match decoded(raw) {
        Some((text, readable)) => {
            plan.rule("arguments_string");
            Source::New(text, readable)
        }
        None => Source::Given(raw),
    }
}

/// Rule 7: text that is exactly one object, and whether text in it may read as something else.
fn decoded(raw: Raw<'_>) -> Option<(Cow<'_, str>, bool)> {
    let text = raw.as_exact_str()?;
    let json = reading::json_text(&text, ARGUMENTS_DEPTH).filter(|json| json.value.is_object())?;
    let (object, readable) = (json.value.range(), json.readable);
    let text = match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[object]),
        Cow::Owned(text) if object.len() == text.len() => Cow::Owned(text),
        Cow::Owned(text) => Cow::Owned(text[object].to_owned()),
    };
    Some((text, readable))
}

/// Rule 6.
fn filled<'a>(rules: &Rules, plan: &mut Plan) -> Option<Source<'a>> {
    rules.fill_arguments.then(|| {
        plan.rule("arguments_missing");
        Source::New("{}".into(), false)
    })
}

/// Rule 9, `full`: members of `params` that were meant as arguments leave it.
fn lifted_out<'a>(params: Raw<'a>, lifted: lift::Lifted<'a>, plan: &mut Plan) -> Source<'a> {
    plan.rule(RULE_COERCION);
    plan.splices.extend(edit::cuts(params, |name| lifted.takes(name)).into_iter().map(Splice::cut));
    plan.edits.extend(lifted.edits);
    Source::New(lifted.text.into(), true)
}
