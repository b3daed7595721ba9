//! Repairs of what hosts send, as splices into the received bytes. Owns the rules and their order; decides
//! nothing about access. Invariants: bytes that need no repair are not copied; normalising twice equals once.
//!
//! Rules 1 and 2 concern the envelope and are here, rule 3 is `direct`; rules 4 to 9 concern `params` and are in
//! `params`, with the coercion of values in `coerce`.

mod coerce;
mod direct;
mod lift;
mod params;
mod reading;
#[cfg(test)]
mod tests;

use super::json::edit::{self, Splice};
use super::message::{Body, Message, parse};
use super::method;
use super::tools::ToolSet;

/// Audit name of rule 9.
const RULE_COERCION: &str = "schema_coercion";

/// Edits that are listed. A longer list helps nobody, and it would let a body grow the audit record.
pub const MAX_EDITS: usize = 1000;

/// Bytes of a UTF-8 byte-order mark.
const BOM_LEN: usize = 3;

/// How far arguments are bent to the tool's input schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coercion {
    /// Not at all.
    Off,
    /// Only values that the schema refuses and that have exactly one reading.
    #[default]
    Safe,
    /// Also wrapping, dropping of plumbing, tool name prefixes and misplaced arguments.
    Full,
}

/// Which repairs are wanted: the mirror of `[normalize]` in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `params` and `cursor`.
    pub params: bool,
    /// `arguments` that are null, a list or text.
    pub arguments: bool,
    /// A tool's name as method.
    pub direct_tool_method: bool,
    /// `tools/call` without `arguments`.
    pub fill_arguments: bool,
    /// Schema coercion.
    pub coercion: Coercion,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            params: true,
            arguments: true,
            direct_tool_method: true,
            fill_arguments: true,
            coercion: Coercion::Safe,
        }
    }
}

/// One repair inside the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Name of the rule, for example `schema_coercion`.
    pub rule: &'static str,
    /// JSON Pointer (RFC 6901) below `arguments`. `1/name` (a relative pointer) is the tool's name itself.
    pub path: String,
    /// JSON type before; `"absent"` where a member was added.
    pub from: &'static str,
    /// JSON type after; `"absent"` where a member was dropped.
    pub to: &'static str,
}

/// What normalising a body came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Normalized {
    /// The repaired body; `None` if the received bytes go on as they are.
    pub body: Option<Vec<u8>>,
    /// Names of the rules that fired, in order.
    pub rules: Vec<&'static str>,
    /// Whether values were thrown away.
    pub lossy: bool,
    /// Repairs inside the arguments, at most [`MAX_EDITS`].
    pub edits: Vec<Edit>,
}

/// Normalises a body that has not been parsed.
#[must_use]
pub fn normalize(body: &[u8], rules: &Rules, tools: &ToolSet) -> Normalized {
    match parse(body) {
        Ok(Body::Object(message)) => normalize_message(body, &message, rules, tools),
        _ => Normalized::default(),
    }
}

/// Normalises a body that was parsed into `message`.
#[must_use]
pub fn normalize_message(body: &[u8], message: &Message<'_>, rules: &Rules, tools: &ToolSet) -> Normalized {
    if message.duplicate.is_some() || message.is_wrong_jsonrpc() {
        return Normalized::default();
    }
    let text = &body[if message.bom { BOM_LEN } else { 0 }..];
    let mut plan = Plan::default();
    if message.bom {
        plan.rules.push("bom");
    }
    plan.jsonrpc(message);
    let feasible = if rules.direct_tool_method && is_direct_tool(message, tools) {
        direct::rewrite(message, rules, tools, &mut plan)
    } else {
        params::repair(message, rules, tools, &mut plan)
    };
    if feasible { plan.apply(text) } else { Normalized::default() }
}

/// What is going to be done to one text.
#[derive(Debug, Default)]
struct Plan {
    splices: Vec<Splice>,
    rules: Vec<&'static str>,
    lossy: bool,
    edits: Vec<Edit>,
}

impl Plan {
    /// Notes that a rule fired.
    fn rule(&mut self, name: &'static str) {
        if !self.rules.contains(&name) {
            self.rules.push(name);
        }
    }

    /// Rule 2.
    fn jsonrpc(&mut self, message: &Message<'_>) {
        if message.method.is_none() || message.is_jsonrpc_2() {
            return;
        }
        self.rule("jsonrpc_missing");
        match message.jsonrpc {
            Some(raw) => self.splices.push(Splice::replace(raw.range(), &b"\"2.0\""[..])),
            None => self.append(message, &b"\"jsonrpc\":\"2.0\""[..]),
        }
    }

    /// Adds a member at the end of the envelope, which is not empty: it has a `method`.
    fn append(&mut self, message: &Message<'_>, member: &[u8]) {
        if let Some(end) = message.last_end {
            self.splices.push(Splice::insert(end, [b",", member].concat()));
        }
    }

    /// The result on `text`, if anything fired.
    fn apply(self, text: &[u8]) -> Normalized {
        let body = (!self.rules.is_empty()).then(|| edit::apply(text, self.splices));
        Normalized { body, rules: self.rules, lossy: self.lossy, edits: self.edits }
    }
}

/// Whether the message's method is the name of a known tool and no method of MCP.
#[must_use]
pub fn is_direct_tool(message: &Message<'_>, tools: &ToolSet) -> bool {
    message.method.as_deref().is_some_and(|m| tools.contains(m) && !method::is_mcp(m))
}
