//! `smart_budget_guard`: tells a caller of its budget, and lets it hold and record. Owns the contract: its schemas. The
//! walls stand in the gateway whether or not this tool is called.

mod act;
mod count;
mod once;
mod read;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub(super) use self::once::Unconfirmed;
use self::read::Action;
use super::{
    arguments::Arguments,
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::upstream::BoxFuture;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_budget_guard",
    title: "Check and hold token budget",
    description: "Purpose: See, count, hold and record token budget for this key, team or run. When to use: check or \
        count before large work; reserve before parallel work, then commit or release; record what the model spent \
        elsewhere. When NOT to use: To get around a limit: the gateway enforces every cap whether or not you call this. \
        If allowed is false, stop and report; do not retry. Returns: the tightest limit, what remains and when it resets. \
        Holds last 120 s unless ttl_seconds is given; runs 1 hour.",
    input,
    output,
    hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: false },
    run,
};

fn input() -> Value {
    json!({"type": "object", "required": ["action"], "additionalProperties": false, "properties": {
        "action": {"enum": Action::NAMES},
        "text": {"type": "string", "maxLength": read::MAX_TEXT},
        "messages": {"type": "array", "maxItems": read::MAX_MESSAGES, "items": {"type": "object"}},
        "ref": {"type": "string", "maxLength": read::MAX_NAME},
        "model": {"type": "string", "maxLength": read::MAX_NAME, "default": read::MODEL},
        "tokens": {"type": "integer", "minimum": 0, "maximum": read::MAX_TOKENS},
        "completion_tokens": {"type": "integer", "minimum": 0, "maximum": read::MAX_TOKENS},
        "team_id": {"type": "string", "maxLength": read::MAX_NAME},
        "monthly_limit": {"type": "integer", "minimum": 0},
        "run": {"type": "string", "maxLength": read::MAX_NAME,
            "description": "Handle from open_run; several agents may share it."},
        "reservation": {"type": "string", "maxLength": read::MAX_NAME},
        "limit_tokens": {"type": "integer", "minimum": 1},
        "limit_calls": {"type": "integer", "minimum": 1},
        "ttl_seconds": {"type": "integer", "minimum": read::MIN_TTL, "maximum": read::MAX_TTL},
        "idempotency_key": {"type": "string", "maxLength": read::MAX_KEY},
    }})
}

fn output() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    let scope = json!({"enum": ["run", "key", "team"]});
    let window = json!({"enum": ["run", "day", "month"]});
    json!({"type": "object", "required": ["action", "walls", "effective", "warn", "usage"], "properties": {
        "action": {"enum": Action::NAMES},
        "allowed": {"type": "boolean"},
        "reason": {"type": "string"},
        "counted_tokens": count,
        "exact": {"type": "boolean"},
        "reservation": {"type": "string"},
        "run": {"type": "string"},
        "expires_at": {"type": "string"},
        "walls": {"type": "array", "items": {"type": "object",
            "required": ["scope", "window", "unit", "limit", "used", "held", "remaining", "over_by", "resets_at"],
            "properties": {
                "scope": scope, "window": window, "unit": {"enum": ["tokens", "calls"]},
                "limit": count, "used": count, "held": count, "remaining": count, "over_by": count,
                "resets_at": {"type": ["string", "null"]}}}},
        "effective": {"type": ["object", "null"],
            "properties": {"scope": scope, "window": window, "remaining": count}},
        "warn": {"type": "boolean", "description": "80 % of a limit is used or held."},
        "over_by": count,
        "usage": {"type": "object"},
    }})
}

fn run(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let request = read::read(arguments, &context.caller.tenant)?;
        let counted = match request.action {
            Action::Count => Some(count::count(&context, &request).await?),
            _ => None,
        };
        let tokens_in = counted.map_or(0, |c| c.tokens);
        let value = match request.idempotency_key.clone().filter(|_| request.action.writes()) {
            Some(key) => once::once(context, key, request).await?,
            None => act::act(&context, &request, counted)?,
        };
        Ok(Done { value, tokens_in, basis: Basis::None })
    })
}
