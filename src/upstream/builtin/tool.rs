//! What all built-in tools share: the table of them, how one is run, and the form of results and errors.
//! Invariant: whatever a tool does, the caller gets a result; a failure is one with `isError`.

use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{
    arguments::Arguments,
    context::Context,
    smart_budget_guard, smart_context_gate, smart_dedup, smart_fetch, smart_memory, smart_pipe, smart_search,
    usage::{Basis, Charge, Usage},
};
use crate::{
    text::tokens,
    upstream::{BoxFuture, Caller},
};

/// Every built-in tool, in the order of `tools/list`.
pub(super) static TOOLS: [Tool; 7] = [
    smart_fetch::TOOL,
    smart_search::TOOL,
    smart_context_gate::TOOL,
    smart_dedup::TOOL,
    smart_budget_guard::TOOL,
    smart_memory::TOOL,
    smart_pipe::TOOL,
];

/// One tool.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    /// JSON Schema of the arguments.
    pub(super) input: fn() -> Value,
    /// JSON Schema of the structured result.
    pub(super) output: fn() -> Value,
    /// `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`.
    pub(super) hints: Hints,
    /// The work itself.
    pub(super) run: fn(Context, Arguments) -> BoxFuture<'static, Result<Done, ToolError>>,
}

/// Tool annotations; all four are always sent.
pub(super) struct Hints {
    pub(super) read_only: bool,
    pub(super) destructive: bool,
    pub(super) idempotent: bool,
    pub(super) open_world: bool,
}

/// A tool's success.
pub(super) struct Done {
    /// The structured result without its usage block: an object.
    pub(super) value: Map<String, Value>,
    /// Tokens of the material worked on.
    pub(super) tokens_in: u64,
    /// Where the material came from.
    pub(super) basis: Basis,
}

/// A tool's failure, for the model to act on.
#[derive(Debug)]
pub(super) struct ToolError {
    pub(super) code: &'static str,
    /// One sentence that says what to change.
    pub(super) message: String,
    pub(super) retryable: bool,
    /// When the same may pass, where that is known.
    pub(super) retry_after_ms: Option<u64>,
    pub(super) details: Option<Box<Value>>,
}

impl ToolError {
    /// One that the same arguments will meet again.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, retry_after_ms: None, details: None }
    }

    pub(super) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// As results show it.
    pub(super) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message, "retryable": self.retryable});
        if let Some(wait) = self.retry_after_ms {
            error["retry_after_ms"] = wait.into();
        }
        if let Some(details) = &self.details {
            error["details"] = Value::clone(details);
        }
        error
    }

    fn into_result(self) -> Value {
        let text = json!({ "error": self.to_json() }).to_string();
        json!({"content": [{"type": "text", "text": text}], "isError": true})
    }
}

impl Tool {
    /// The tool as `tools/list` shows it.
    pub(super) fn listed(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": without_text_limits((self.input)()),
            "outputSchema": (self.output)(),
            "annotations": {
                "readOnlyHint": self.hints.read_only,
                "destructiveHint": self.hints.destructive,
                "idempotentHint": self.hints.idempotent,
                "openWorldHint": self.hints.open_world,
            },
        })
    }
}

/// A schema as a model reads it: nobody counts characters while writing, each limit costs tokens in every
/// conversation, and text beyond one is refused with the limit's name anyway.
fn without_text_limits(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "string") {
                members.retain(|name, _| !matches!(name.as_str(), "minLength" | "maxLength"));
            }
            members.values_mut().for_each(|member| *member = without_text_limits(member.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_text_limits(item.take())),
        _ => {}
    }
    schema
}

/// Runs a tool.
pub(super) async fn run(
    tool: &'static Tool,
    arguments: Value,
    context: Context,
) -> (Result<Value, ToolError>, Option<Usage>) {
    let arguments = match arguments {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        Value::Array(list) if list.is_empty() => Map::new(),
        _ => return (Err(ToolError::new("invalid_arguments", "arguments must be an object")), None),
    };
    let caller = context.caller.clone();
    // A task of its own, so that a panic ends the call alone; a caller that leaves ends it.
    let work = AbortOnDropHandle::new(tokio::spawn((tool.run)(context, Arguments::new(arguments))));
    match work.await {
        Ok(Ok(done)) => {
            let (value, usage) = finish(tool, done, &caller);
            (Ok(value), Some(usage))
        }
        Ok(Err(error)) => (Err(error), None),
        Err(_panicked) => {
            tracing::error!(tool = tool.name, "a built-in tool panicked");
            (Err(ToolError::new("internal", "the tool failed inside; report it if it happens again")), None)
        }
    }
}

/// The result as hosts want it: structured, and the same JSON as text for those that know only that.
pub(super) fn as_result(outcome: Result<Value, ToolError>) -> Value {
    match outcome {
        Ok(value) => {
            let text = value.to_string();
            json!({"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": false})
        }
        Err(error) => error.into_result(),
    }
}

/// Adds the usage block.
fn finish(tool: &Tool, done: Done, caller: &Caller) -> (Value, Usage) {
    let mut value = Value::Object(done.value);
    let usage = Usage::of(done.basis, done.tokens_in, tokens::count(&value.to_string()), caller.program);
    let pays = caller.wallet.is_some() && tool.name != smart_budget_guard::TOOL.name;
    let tokens = if pays { usage.tokens_out } else { 0 };
    let left = caller.wallet.as_ref().and_then(|w| w.remaining(caller.held));
    let charge = Charge { tokens, remaining: left.map(|left| left.saturating_sub(tokens)) };
    value["usage"] = serde_json::to_value(usage.block(charge)).expect("a struct of plain numbers is JSON");
    (value, usage)
}
