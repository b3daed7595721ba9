//! Rule 3: a tool's name used as the method becomes `tools/call`.
//!
//! Invariant: every member of the old `params` is in the new one, unless the plan is marked lossy.

use super::Plan;
use crate::mcp::{
    json::{
        Raw, Type,
        edit::{self, Splice},
    },
    message::Message,
    tools::ToolSet,
};

/// Rewrites a message whose method is a known tool's name and no method of MCP.
pub(super) fn rewrite(message: &Message<'_>, tools: &ToolSet, plan: &mut Plan) {
    let Some(method) = message.method_raw else { return };
    plan.rule("direct_tool_method");
    plan.splices.push(Splice::replace(method.range(), &b"\"tools/call\""[..]));
    match message.params {
        Some(params) if params.is_object() => match message.arguments {
            Some(arguments) if arguments.is_object() => nested(message, params, method, plan),
            _ => {
                let text = flat(message, params, method, tools, plan);
                plan.splices.push(Splice::replace(params.range(), text));
            }
        },
        Some(other) => {
            plan.lossy |= other.kind() != Type::Null && !other.is_empty();
            plan.splices.push(Splice::replace(other.range(), named(method, b"{}")));
        }
        None => plan.append(message, &[b"\"params\":", &named(method, b"{}")[..]].concat()),
    }
}

/// `{"name":NAME,"arguments":ARGUMENTS}`
fn named(name: Raw<'_>, arguments: &[u8]) -> Vec<u8> {
    [b"{\"name\":", name.text().as_bytes(), b",\"arguments\":", arguments, b"}"].concat()
}

/// `params` already has an `arguments` object: only the name may be missing.
fn nested(message: &Message<'_>, params: Raw<'_>, method: Raw<'_>, plan: &mut Plan) {
    match message.name_raw {
        Some(name) if name.kind() == Type::String => {}
        Some(other) => {
            plan.lossy |= other.kind() != Type::Null;
            plan.splices.push(Splice::replace(other.range(), method.text().as_bytes().to_vec()));
        }
        None => {
            let member = [b"\"name\":", method.text().as_bytes(), b","].concat();
            plan.splices.push(Splice::insert(params.start() + 1, member));
        }
    }
}

/// The members of `params` are the arguments.
fn flat(
    message: &Message<'_>,
    params: Raw<'_>,
    method: Raw<'_>,
    tools: &ToolSet,
    plan: &mut Plan,
) -> Vec<u8> {
    let names_tool = message.name.as_deref().is_some_and(|n| tools.contains(n));
    let name_leaves = names_tool || message.name.is_none();
    let thrown_away = |v: Option<Raw<'_>>| v.is_some_and(|v| v.kind() != Type::Null);
    plan.lossy |=
        thrown_away(message.arguments) || (!names_tool && name_leaves && thrown_away(message.name_raw));
    let leaves = |name: &Raw<'_>| {
        name.is_string("arguments") || name.is_string("_meta") || (name_leaves && name.is_string("name"))
    };
    let cuts = edit::cuts(params, leaves).into_iter();
    let here = |r: std::ops::Range<usize>| r.start - params.start()..r.end - params.start();
    let splices = cuts.map(|r| Splice::replace(here(r), &b""[..])).collect();
    let arguments = edit::apply(params.text().as_bytes(), splices);
    let name = message.name_raw.filter(|_| names_tool).unwrap_or(method);
    let mut out = named(name, &arguments);
    if let Some(meta) = message.meta {
        out.pop();
        out.extend_from_slice(b",\"_meta\":");
        out.extend_from_slice(meta.text().as_bytes());
        out.push(b'}');
    }
    out
}
