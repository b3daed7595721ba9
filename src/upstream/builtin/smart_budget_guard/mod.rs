//! `smart_budget_guard`: tells a caller of its budget, and lets it hold and record. Owns the contract: schemas and
//! the remembered answers. The walls stand in the gateway whether or not this tool is called.
//!
//! Invariant: an action under an idempotency key is done once. Its answer is looked up and kept on the storage's one
//! writer, so that two calls at the same time do not both act.

mod act;
mod count;
mod read;

#[cfg(test)]
mod tests;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Map, Value, json};

use self::read::{Action, Request};
use super::{
    arguments::Arguments,
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{store, upstream::BoxFuture};

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

/// How long an answer is kept under its idempotency key, in milliseconds.
const KEPT: i64 = 24 * 3_600_000;

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
            "required": ["scope", "window", "unit", "limit", "used", "held", "remaining", "resets_at"],
            "properties": {
                "scope": scope, "window": window, "unit": {"enum": ["tokens", "calls"]},
                "limit": count, "used": count, "held": count, "remaining": count,
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
            Some(key) => once(context, key, request).await?,
            None => act::act(&context, &request, counted)?,
        };
        Ok(Done { value, tokens_in, basis: Basis::None })
    })
}

/// Acts, unless the tenant has the answer already.
async fn once(context: Context, key: String, request: Request) -> Result<Map<String, Value>, ToolError> {
    let store = context.services.store.clone();
    let acted = store.write(move |connection| {
        let tenant = &*context.caller.tenant;
        // Another key of the tenant, or another action, is another request.
        let payer =
            context.caller.wallet.as_ref().and_then(|w| w.walls().first().map(|w| w.account.name.clone()));
        let key = format!("{}\n{}\n{key}", payer.as_deref().unwrap_or_default(), request.action.name());
        if let Some(known) = known(connection, tenant, &key)? {
            return Ok(Ok(known));
        }
        let answer = act::act(&context, &request, None);
        if let Ok(answer) = &answer {
            keep(connection, tenant, &key, answer)?;
        }
        Ok(answer)
    });
    acted.await?
}

fn known(connection: &Connection, tenant: &str, key: &str) -> rusqlite::Result<Option<Map<String, Value>>> {
    let sql = "SELECT answer FROM answers WHERE tenant = ?1 AND key = ?2 AND expires > ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![tenant, key, store::now()], |row| row.get::<_, String>(0));
    Ok(found.optional()?.and_then(|text| serde_json::from_str(&text).ok()))
}

fn keep(
    connection: &Connection,
    tenant: &str,
    key: &str,
    answer: &Map<String, Value>,
) -> rusqlite::Result<()> {
    let text = serde_json::to_string(answer).expect("a map with string keys is JSON");
    let sql = "INSERT OR REPLACE INTO answers (tenant, key, answer, expires) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![tenant, key, text, store::now() + KEPT]).map(drop)
}
