//! Rule 3: a tool's name used as the method becomes `tools/call`.
//!
//! Invariant: every member of the old `params` is in the new one, unless the plan is marked lossy.

use super::{
    Plan, Rules,
    coerce::Arguments,
    params::{ARGUMENTS_DEPTH, Target},
};
use crate::mcp::{
    json::{
        MAX_DEPTH, Raw, Type,
        edit::{self, Slot, Splice},
    },
    message::Message,
    tools::ToolSet,
};

/// Rewrites a message whose method is a known tool's name and no method of MCP. False if that cannot be done.
pub(super) fn rewrite(message: &Message<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) -> bool {
    let Some(method) = message.method_raw else { return false };
    plan.rule("direct_tool_method");
    plan.splices.push(Splice::replace(method.range(), &b"\"tools/call\""[..]));
    match message.params {
        Some(params) if params.is_object() => match message.arguments {
            Some(arguments) if arguments.is_object() => {
                nested(message, params, arguments, rules, tools, plan)
            }
            // The arguments move one level down.
            _ if message.deepest >= MAX_DEPTH => return false,
            _ => flat(message, params, rules, tools, plan),
        },
        Some(other) => {
            plan.lossy |= other.kind() != Type::Null && !other.is_empty();
            plan.splices.push(Splice::replace(other.range(), named(method, b"{}}")));
        }
        None => plan.append(message, &[b"\"params\":", &named(method, b"{}}")[..]].concat()),
    }
    true
}

/// `{"name":NAME,"arguments":` and what follows.
fn named(name: Raw<'_>, rest: &[u8]) -> Vec<u8> {
    [b"{\"name\":", name.bytes(), b",\"arguments\":", rest].concat()
}

/// `params` already has an `arguments` object: only the name may be missing.
fn nested(
    message: &Message<'_>,
    params: Raw<'_>,
    arguments: Raw<'_>,
    rules: &Rules,
    tools: &ToolSet,
    plan: &mut Plan,
) {
    let method = message.method_raw.unwrap_or_default();
    let mut name = message.method.as_deref();
    match message.name_raw {
        Some(raw) if raw.kind() == Type::String => name = message.name.as_deref(),
        Some(raw) => {
            plan.lossy |= raw.kind() != Type::Null;
            plan.splices.push(Splice::copy(raw.range(), method.range()));
        }
        None => {
            let member = [b"\"name\":", method.bytes(), b","].concat();
            plan.splices.push(Splice::insert(params.start() + 1, member));
        }
    }
    let target = Target::of(name, rules, tools);
    target.rename(message.name_raw, plan);
    let splices = target.coerced(arguments, message.readable, plan);
    plan.splices.extend(splices);
}

/// The members of `params` are the arguments.
fn flat(message: &Message<'_>, params: Raw<'_>, rules: &Rules, tools: &ToolSet, plan: &mut Plan) {
    let names_tool = message.name.as_deref().is_some_and(|n| tools.contains(n));
    let name_leaves = message.name_raw.is_some() && (names_tool || message.name.is_none());
    let is_thrown = |v: Option<Raw<'_>>| v.is_some_and(|v| v.kind() != Type::Null);
    plan.lossy |= is_thrown(message.arguments) || (name_leaves && !names_tool && is_thrown(message.name_raw));
    let leave = [message.slots.name.filter(|_| name_leaves), message.slots.arguments, message.slots.meta];
    let mut leave: Vec<Slot> = leave.into_iter().flatten().collect();
    let except: Vec<usize> = leave.iter().map(|s| s.start).collect();
    let called = if names_tool { message.name.as_deref() } else { message.method.as_deref() };
    let arguments = Arguments { object: params, except: &except, depth: ARGUMENTS_DEPTH };
    let (splices, drops) = Target::of(called, rules, tools).coerce(&arguments, message.readable, plan);
    leave.extend(drops);
    leave.sort_unstable_by_key(|s| s.start);

    let name = message.name_raw.filter(|_| names_tool).or(message.method_raw).unwrap_or_default();
    let end = match message.meta {
        Some(meta) => [b"},\"_meta\":", meta.bytes(), b"}"].concat(),
        None => b"}}".to_vec(),
    };
    plan.splices.push(Splice::insert(params.start(), named(name, b"")));
    plan.splices.extend(splices);
    plan.splices.extend(edit::cuts_of(&leave).map(Splice::cut));
    plan.splices.push(Splice::replace(params.end() - 1..params.end(), end));
}
