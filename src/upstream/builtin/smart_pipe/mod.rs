//! `smart_pipe`: several steps in one call, of which the caller reads only what it names. Owns the contract:
//! arguments, the form of the result and of errors. What may be written is decided in [`plan`], how it runs in [`run`].

mod plan;
mod reference;
mod run;
mod templates;

#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use self::{
    plan::Plan,
    run::{Ended, Progress, Stopped},
};
use super::{
    arguments::{Arguments, invalid},
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{store::refs, text::tokens, upstream::BoxFuture};

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
    let template = match arguments.take("template") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(_) => return Err(invalid("template must be a string")),
    };
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
    let max_tokens = whole(&mut arguments, "max_tokens", DEFAULT_TOKENS, 64, 50_000)?;
    let timeout = Duration::from_secs(whole(&mut arguments, "timeout", DEFAULT_SECONDS, 1, 120)?);
    let dry_run = arguments.boolean("dry_run", false)?;
    arguments.finish()?;
    let plan = Plan::read(template.as_deref(), input, steps, output)?;
    Ok((plan, Options { max_tokens, timeout, dry_run }))
}

fn whole(
    arguments: &mut Arguments,
    name: &'static str,
    default: u64,
    min: u64,
    max: u64,
) -> Result<u64, ToolError> {
    let number = arguments.number(name)?.unwrap_or(default as f64);
    if number.fract() != 0.0 || number < min as f64 || number > max as f64 {
        return Err(invalid(format!("{name} must be a whole number from {min} to {max}")));
    }
    Ok(number as u64)
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

fn lines(steps: &[Ended]) -> Vec<Value> {
    let line = |step: &Ended| {
        let mut line = json!({"id": step.id, "tool": step.tool, "status": step.status.as_str(),
            "ms": step.took.as_millis() as u64, "tokens_in": step.tokens_in, "tokens_out": step.tokens_out});
        if let Some(items) = step.items {
            line["items"] = items.into();
        }
        if let Some(error) = &step.error {
            line["error"] = error.clone();
        }
        line
    };
    steps.iter().map(line).collect()
}

async fn report(
    context: &Context,
    plan: &Plan,
    mut progress: Progress,
    max_tokens: u64,
) -> Result<Done, ToolError> {
    let tokens_in = progress.steps.iter().map(|s| s.tokens_out).sum();
    let sources = sources(&progress);
    let mut lines = lines(&progress.steps);
    let (mut outputs, mut truncated, mut left) = (Map::new(), false, max_tokens);
    for id in &plan.output {
        let Some(mut result) = progress.results.remove(id) else { continue };
        drop_usage(&mut result);
        let text = result.to_string();
        let size = tokens::count(&text);
        if size <= left {
            left -= size;
            outputs.insert(id.clone(), result);
            continue;
        }
        truncated = true;
        let kept = context.keep(text, refs::TTL).await?;
        let shown = shortened(result, left);
        left = left.saturating_sub(tokens::count(&shown.to_string()));
        outputs.insert(id.clone(), json!({"truncated": true, "ref": kept.id, "part": shown}));
    }
    for (id, result) in &progress.results {
        let kept = context.keep(result.to_string(), refs::TTL).await?;
        if let Some(line) = lines.iter_mut().find(|line| line["id"] == id.as_str()) {
            line["ref"] = kept.id.into();
        }
    }
    let value = Map::from_iter([
        ("outputs".to_owned(), outputs.into()),
        ("steps".to_owned(), lines.into()),
        ("sources".to_owned(), sources.into()),
        ("truncated".to_owned(), truncated.into()),
    ]);
    Ok(Done { value, tokens_in, basis: Basis::Pipe })
}

/// One usage block, that of the pipeline, is enough.
fn drop_usage(result: &mut Value) {
    match result {
        Value::Array(items) => items.iter_mut().for_each(drop_usage),
        Value::Object(members) => drop(members.remove("usage")),
        _ => {}
    }
}

/// The beginning of what the result is about, in at most `limit` tokens.
fn shortened(result: Value, limit: u64) -> Value {
    let text = match &result {
        Value::Object(members) => {
            ["text", "content"].iter().find_map(|name| members.get(*name)?.as_str().map(str::to_owned))
        }
        _ => None,
    };
    let text = text.unwrap_or_else(|| result.to_string());
    tokens::head(&text, usize::try_from(limit).unwrap_or(usize::MAX)).into()
}

/// Pages that were read.
fn sources(progress: &Progress) -> Vec<Value> {
    let fetched = progress.steps.iter().filter(|step| step.tool == "smart_fetch");
    let mut sources: Vec<Value> = Vec::new();
    for step in fetched {
        let pages = match progress.results.get(&step.id) {
            Some(Value::Array(pages)) => pages.as_slice(),
            Some(page) => std::slice::from_ref(page),
            None => &[],
        };
        for page in pages {
            let mut source = json!({"url": page["final_url"]});
            if page["title"].is_string() {
                source["title"] = page["title"].clone();
            }
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    sources
}
