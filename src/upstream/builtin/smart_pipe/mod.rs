//! `smart_pipe`: several steps in one call, of which the caller reads only what it names. Owns the contract:
//! arguments and errors. What may be written is decided in [`plan`], how it runs in [`run`], what is returned in [`report`].

mod plan;
mod reference;
mod report;
mod run;
mod templates;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::{
    plan::Plan,
    report::{lines, report},
    run::{Progress, Stopped},
};
use super::{
    arguments::{Arguments, invalid},
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::upstream::BoxFuture;

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_pipe",
    title: "Run a pipeline",
    description: "Purpose: Run several smart_* steps in one call and return only the results you name. When to use: search \
        then fetch then compress, or the same step over many urls; intermediate text never enters your context. When NOT \
        to use: A single step. Give a template with input, or up to 10 steps; a value \
        {\"$from\":\"step_id\",\"path\":\"/results/*/url\"} takes an earlier result. Returns: the named outputs, one status \
        line per step, and refs (1 hour) to the rest. dry_run checks the plan without running it.",
    input,
    output,
    hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: true },
    run: start,
};

/// Of a template, in characters.
const MAX_NAME: usize = 64;
const DEFAULT_TOKENS: u64 = 4_000;
const DEFAULT_SECONDS: u64 = 60;

fn input() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {
        "template": {"enum": ["research", "deep_read", "recall_or_research"]},
        "input": {"type": "object", "description": "Values for the template, or for {\"$from\":\"input\"}."},
        "steps": {"type": "array", "minItems": 1, "maxItems": 10, "items": {
            "type": "object", "required": ["id", "tool"], "additionalProperties": false, "properties": {
                "id": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,31}$"},
                "tool": {"enum": ["smart_fetch", "smart_search", "smart_context_gate", "smart_dedup", "smart_memory"]},
                "args": {"type": "object"},
                "each": {"type": "object", "required": ["over"], "properties": {
                    "over": {},
                    "limit": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5},
                    "concurrency": {"type": "integer", "minimum": 1, "maximum": 4, "default": 3}}},
                "when": {"type": "object", "properties": {
                    "value": {}, "is": {"enum": ["present", "absent", "empty", "nonempty"]}}},
                "on_error": {"enum": ["fail", "skip"], "default": "fail"}}}},
        "output": {"type": "array", "maxItems": 10, "items": {"type": "string"},
            "description": "Step ids whose results are returned; default the last."},
        "max_tokens": {"type": "integer", "minimum": 64, "maximum": 50_000, "default": DEFAULT_TOKENS},
        "timeout": {"type": "integer", "minimum": 1, "maximum": 120, "default": DEFAULT_SECONDS},
        "dry_run": {"type": "boolean", "default": false},
    }})
}

fn output() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    json!({"type": "object", "required": ["outputs", "steps", "sources", "truncated", "usage"], "properties": {
        "outputs": {"type": "object"},
        "steps": {"type": "array", "items": {"type": "object", "required": ["id", "tool", "status"], "properties": {
            "id": {"type": "string"}, "tool": {"type": "string"}, "status": {"enum": ["ok", "error", "skipped", "planned"]},
            "ms": count, "items": count, "tokens_in": count, "tokens_out": count,
            "error": {"type": "object"}, "ref": {"type": "string"}}}},
        "sources": {"type": "array", "items": {"type": "object", "required": ["url"], "properties": {
            "url": {"type": "string"}, "title": {"type": "string"}}}},
        "truncated": {"type": "boolean"},
        "usage": {"type": "object"},
    }})
}

struct Options {
    max_tokens: u64,
    timeout: Duration,
    dry_run: bool,
}

fn start(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let (plan, options) = read(arguments)?;
        if options.dry_run {
            return Ok(planned(&plan));
        }
        let mut progress = Progress::default();
        let deadline = Instant::now() + options.timeout;
        match run::run(&context, &plan, deadline, &mut progress).await {
            Ok(()) => report(&context, &plan, progress, options.max_tokens).await,
            Err(Stopped::Failed { step, error }) => {
                let why = error["message"].as_str().unwrap_or("it failed").to_owned();
                let details = json!({"step": step, "error": error, "steps": lines(&progress.steps)});
                Err(ToolError::new("step_failed", format!("step {step} failed: {why}")).with_details(details))
            }
            Err(Stopped::Late) => {
                let why = format!(
                    "not done within {} s; ask for less, or raise timeout",
                    options.timeout.as_secs()
                );
                let error =
                    ToolError::new("timeout", why).with_details(json!({"steps": lines(&progress.steps)}));
                Err(ToolError { retryable: true, ..error })
            }
        }
    })
}

fn read(mut arguments: Arguments) -> Result<(Plan, Options), ToolError> {
    let template = arguments.text("template", 0..=MAX_NAME)?;
    let input = match arguments.take("input") {
        None => Map::new(),
        Some(Value::Object(input)) => input,
        Some(_) => return Err(invalid("input must be an object")),
    };
    let steps = arguments.take("steps");
    let output = match arguments.take("output") {
        None => None,
        Some(Value::Array(ids)) => {
            let ids: Option<Vec<_>> = ids.iter().map(|id| id.as_str().map(str::to_owned)).collect();
            Some(ids.ok_or_else(|| invalid("output must be a list of step ids"))?)
        }
        Some(_) => return Err(invalid("output must be a list of step ids")),
    };
    let max_tokens = arguments.whole("max_tokens", 64..=50_000)?.unwrap_or(DEFAULT_TOKENS);
    let timeout = Duration::from_secs(arguments.whole("timeout", 1..=120)?.unwrap_or(DEFAULT_SECONDS));
    let dry_run = arguments.boolean("dry_run", false)?;
    arguments.finish()?;
    let plan = Plan::read(template.as_deref(), input, steps, output)?;
    Ok((plan, Options { max_tokens, timeout, dry_run }))
}

fn planned(plan: &Plan) -> Done {
    let steps: Vec<_> =
        plan.steps.iter().map(|s| json!({"id": s.id, "tool": s.tool.name, "status": "planned"})).collect();
    let value = Map::from_iter([
        ("outputs".to_owned(), json!({})),
        ("steps".to_owned(), steps.into()),
        ("sources".to_owned(), json!([])),
        ("truncated".to_owned(), false.into()),
    ]);
    Done { value, tokens_in: 0, basis: Basis::None }
}
