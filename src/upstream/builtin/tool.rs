//! What all built-in tools share: the table of them, how one is run, and the form of results and errors.
//! Invariant: whatever a tool does, the caller gets a result; a failure is one with `isError`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::{
    smart_dedup,
    usage::{self, Usage},
};

/// Every built-in tool, in the order of `tools/list`.
pub(super) static TOOLS: [Tool; 1] = [smart_dedup::TOOL];

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
    /// The work itself; runs on a thread that may block.
    pub(super) run: fn(Map<String, Value>) -> Result<Done, ToolError>,
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
    /// Tokens of the material worked on, which came inline.
    pub(super) tokens_in: u64,
}

/// A tool's failure, for the model to act on.
#[derive(Debug)]
pub(super) struct ToolError {
    pub(super) code: &'static str,
    /// One sentence that says what to change.
    pub(super) message: String,
    pub(super) retryable: bool,
    pub(super) details: Option<Value>,
}

impl ToolError {
    /// One that the same arguments will meet again.
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, details: None }
    }

    pub(super) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    fn into_result(self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message, "retryable": self.retryable});
        if let Some(details) = self.details {
            error["details"] = details;
        }
        let text = json!({ "error": error }).to_string();
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
            "inputSchema": (self.input)(),
            "outputSchema": (self.output)(),
            "annotations": {
                "title": self.title,
                "readOnlyHint": self.hints.read_only,
                "destructiveHint": self.hints.destructive,
                "idempotentHint": self.hints.idempotent,
                "openWorldHint": self.hints.open_world,
            },
        })
    }
}

/// Runs a tool on a blocking thread, when one of `workers` is free. The permit stays with the work: a caller
/// that leaves does not make room before the work has ended.
pub(super) async fn run(
    tool: &'static Tool,
    arguments: Value,
    workers: &Arc<Semaphore>,
) -> (Value, Option<Usage>) {
    let arguments = match arguments {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        Value::Array(list) if list.is_empty() => Map::new(),
        _ => return (ToolError::new("invalid_arguments", "arguments must be an object").into_result(), None),
    };
    let permit = workers.clone().acquire_owned().await.expect("the semaphore is never closed");
    let work = tokio::task::spawn_blocking(move || {
        let result = (tool.run)(arguments).map(finish);
        drop(permit);
        result
    });
    match work.await {
        Ok(Ok((result, usage))) => (result, Some(usage)),
        Ok(Err(error)) => (error.into_result(), None),
        Err(_panicked) => {
            tracing::error!(tool = tool.name, "a built-in tool panicked");
            (
                ToolError::new("internal", "the tool failed inside; report it if it happens again")
                    .into_result(),
                None,
            )
        }
    }
}

/// Adds the usage block, and the same JSON as text for hosts that know only that.
fn finish(done: Done) -> (Value, Usage) {
    let mut value = Value::Object(done.value);
    let usage = Usage::inline(done.tokens_in, usage::count(&value.to_string()));
    value["usage"] = serde_json::to_value(usage.block()).expect("a struct of plain numbers is JSON");
    let text = value.to_string();
    (
        json!({"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": false}),
        usage,
    )
}
