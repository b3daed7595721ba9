//! Runs a checked plan: steps in order, the items of one step side by side, all under one deadline. Invariant: a
//! step runs only when every step before it has ended well or was skipped, so a failure leaves nothing half done
//! behind it.

use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{
    super::{
        context::Context,
        tool::{self, Tool, ToolError},
    },
    plan::{Each, Plan, Step},
    reference::{self, Reference},
};
use crate::text::tokens;

/// Most that the references of one step may copy, in bytes.
const MAX_COPIED: usize = 8 * 1024 * 1024;

/// What became of one step.
pub(super) struct Ended {
    pub(super) id: String,
    pub(super) tool: &'static str,
    pub(super) status: Status,
    pub(super) took: Duration,
    /// Results of a step with `each`.
    pub(super) items: Option<usize>,
    pub(super) tokens_in: u64,
    pub(super) tokens_out: u64,
    pub(super) error: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Error,
    Skipped,
}

impl Status {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

/// Steps that have ended, and what they gave.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) steps: Vec<Ended>,
    pub(super) results: HashMap<String, Value>,
}

/// Why a pipeline did not come to its end.
pub(super) enum Stopped {
    /// This step failed.
    Failed { step: String, error: Value },
    /// The time was over.
    Late,
}

/// Runs `plan`; `progress` has what was done, also when it stops early.
pub(super) async fn run(
    context: &Context,
    plan: &Plan,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<(), Stopped> {
    for step in &plan.steps {
        let begun = Instant::now();
        let outcome = timeout_at(deadline, one(context, plan, step, progress)).await;
        let Ok(outcome) = outcome else { return Err(Stopped::Late) };
        let mut ended = Ended {
            id: step.id.clone(),
            tool: step.tool.name,
            status: Status::Ok,
            took: begun.elapsed(),
            items: None,
            tokens_in: 0,
            tokens_out: 0,
            error: None,
        };
        match outcome {
            Outcome::Skipped => ended.status = Status::Skipped,
            Outcome::Done(done) => {
                ended.items = step.each.is_some().then_some(done.results.len());
                ended.error = done.errors.into_iter().next();
                (ended.tokens_in, ended.tokens_out) = sizes(&done.results);
                let value = match &step.each {
                    Some(_) => Value::Array(done.results),
                    None => done.results.into_iter().next().unwrap_or_default(),
                };
                progress.results.insert(step.id.clone(), value);
            }
            Outcome::Failed(error) if step.skip_errors => {
                ended.status = Status::Skipped;
                ended.error = Some(error);
            }
            Outcome::Failed(error) => {
                ended.status = Status::Error;
                ended.error = Some(error.clone());
                progress.steps.push(ended);
                return Err(Stopped::Failed { step: step.id.clone(), error });
            }
        }
        progress.steps.push(ended);
    }
    Ok(())
}

enum Outcome {
    Skipped,
    Done(Done),
    Failed(Value),
}

/// Results in order; with `on_error: skip`, also what went wrong beside them.
struct Done {
    results: Vec<Value>,
    errors: Vec<Value>,
}

async fn one(context: &Context, plan: &Plan, step: &Step, progress: &Progress) -> Outcome {
    let copied = AtomicUsize::new(0);
    let find = |r: &Reference<'_>| {
        if copied.load(Relaxed) > MAX_COPIED {
            return None;
        }
        let found = match r.from {
            "input" => reference::at(&plan.input, r.path),
            id => progress.results.get(id).and_then(|value| reference::at(value, r.path)),
        }?;
        copied.fetch_add(reference::weight(&found), Relaxed);
        Some(found)
    };
    if let Some(when) = &step.when
        && !when.is.holds(reference::resolve(&when.value, &find).as_ref())
    {
        return Outcome::Skipped;
    }
    let items = match &step.each {
        None => vec![None],
        Some(each) => match items(each, &find) {
            Ok(Some(items)) => items.into_iter().map(Some).collect(),
            Ok(None) => return Outcome::Skipped,
            Err(why) => return Outcome::Failed(failure(why)),
        },
    };
    let concurrency = step.each.as_ref().map_or(1, |e| e.concurrency);
    let calls = items.into_iter().map(|item| {
        let args = reference::resolve(&step.args, &|r| match (r.from, &item) {
            ("item", Some(item)) => reference::at(item, r.path),
            _ => find(r),
        });
        async move {
            match args {
                Some(args) => Some(call(context, step.tool, fitted(step.tool, args)).await),
                None => None,
            }
        }
    });
    let calls: Vec<_> = calls.collect();
    if copied.load(Relaxed) > MAX_COPIED {
        return Outcome::Failed(
            ToolError::new(
                "too_large",
                "the references of this step copy over 8 MiB; take less, or pass a ref",
            )
            .to_json(),
        );
    }
    let mut done = Done { results: Vec::new(), errors: Vec::new() };
    for outcome in side_by_side(calls, concurrency).await {
        match outcome {
            // What it needs was skipped, or is not there.
            None if step.each.is_none() => return Outcome::Skipped,
            None => {}
            Some(Ok(value)) => done.results.push(value),
            Some(Err(error)) if step.skip_errors => done.errors.push(error),
            Some(Err(error)) => return Outcome::Failed(error),
        }
    }
    if step.each.is_none() && done.results.is_empty() {
        return Outcome::Failed(done.errors.into_iter().next().unwrap_or_default());
    }
    Outcome::Done(done)
}

/// Runs futures, `most` at a time; what they give is in their order. Dropping it drops them all.
async fn side_by_side<T>(futures: Vec<impl Future<Output = T>>, most: usize) -> Vec<T> {
    let (places, mut ended) = (Semaphore::new(most), Vec::new());
    let mut running: Vec<_> = futures
        .into_iter()
        .map(|future| {
            Box::pin(async {
                let _place = places.acquire().await.expect("the semaphore is never closed");
                future.await
            })
        })
        .map(Some)
        .collect();
    ended.resize_with(running.len(), || None);
    poll_fn(|cx| {
        for (future, ended) in running.iter_mut().zip(&mut ended) {
            if let Some(running) = future
                && let Poll::Ready(value) = running.as_mut().poll(cx)
            {
                (*future, *ended) = (None, Some(value));
            }
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    ended.into_iter().flatten().collect()
}

/// The items that a step runs over; `None` if they come from a step that was skipped.
fn items(each: &Each, find: &impl Fn(&Reference<'_>) -> Option<Value>) -> Result<Option<Vec<Value>>, String> {
    let limit = reference::resolve(&each.limit, find).and_then(|n| n.as_u64()).unwrap_or(5).clamp(1, 10);
    match reference::resolve(&each.over, find) {
        None => Ok(None),
        Some(Value::Array(mut items)) => {
            items.truncate(limit as usize);
            Ok(Some(items))
        }
        Some(_) => Err("each.over is no list".into()),
    }
}

/// A list of texts where the tool takes one text becomes that text, its parts apart by blank lines.
fn fitted(tool: &Tool, mut args: Value) -> Value {
    let schema = (tool.input)();
    for (name, value) in args.as_object_mut().into_iter().flatten() {
        let wants_text = schema["properties"][name]["type"] == "string";
        if let Some(parts) = value.as_array().filter(|_| wants_text) {
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            if let Some(parts) = parts {
                *value = parts.join("\n\n").into();
            }
        }
    }
    // Inside a pipeline nothing that is there may be overwritten.
    if tool.name == "smart_memory" && args["action"] == "store" {
        args["if_version"] = 0.into();
    }
    args
}

/// One call, through the gateway's checks and into its record where there is a gateway.
async fn call(context: &Context, tool: &'static Tool, args: Value) -> Result<Value, Value> {
    if tool.name == "smart_memory" && args["action"] == "forget" {
        return Err(failure("smart_memory forget is refused inside a pipeline"));
    }
    match &context.caller.nested {
        Some(nested) => Arc::clone(nested).call(tool.name, args).await,
        None => tool::run(tool, args, context.clone()).await.0.map_err(|e| e.to_json()),
    }
}

fn failure(why: impl Into<String>) -> Value {
    ToolError::new("invalid_arguments", why).to_json()
}

/// Tokens that the steps' tools worked on, and that their results are.
fn sizes(results: &[Value]) -> (u64, u64) {
    let worked_on = |v: &Value| v["usage"]["tokens_in"].as_u64().unwrap_or(0);
    (results.iter().map(worked_on).sum(), results.iter().map(size).sum())
}

/// Tokens of a result without its usage block, as the tool has counted them.
fn size(result: &Value) -> u64 {
    result["usage"]["tokens_out"].as_u64().unwrap_or_else(|| tokens::count(&result.to_string()))
}
