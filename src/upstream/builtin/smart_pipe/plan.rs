//! A pipeline as written -> checked steps, before anything runs. Owns the rules: known tools, known arguments,
//! references to earlier steps only, to what those can give. Pure.

use serde_json::{Map, Value, json};

use super::{
    super::tool::{TOOLS, Tool, ToolError},
    reference::{self, Reference},
    templates::TEMPLATES,
};

/// Tools that may be steps.
const ALLOWED: [&str; 5] =
    ["smart_fetch", "smart_search", "smart_context_gate", "smart_dedup", "smart_memory"];
const MAX_STEPS: usize = 10;
/// References in one step: each copies what it names.
const MAX_REFERENCES: usize = 64;
/// Longest message, in bytes: names and paths in it are the caller's.
const MAX_MESSAGE: usize = 400;
const MAX_EACH: u64 = 10;
const MAX_CONCURRENCY: u64 = 4;

/// A checked pipeline.
pub(super) struct Plan {
    pub(super) input: Value,
    pub(super) steps: Vec<Step>,
    /// Ids of the steps whose results are returned.
    pub(super) output: Vec<String>,
}

pub(super) struct Step {
    pub(super) id: String,
    pub(super) tool: &'static Tool,
    pub(super) args: Value,
    pub(super) each: Option<Each>,
    pub(super) when: Option<When>,
    pub(super) skip_errors: bool,
}

pub(super) struct Each {
    pub(super) over: Value,
    /// A number, or a reference to one.
    pub(super) limit: Value,
    pub(super) concurrency: usize,
}

pub(super) struct When {
    pub(super) value: Value,
    pub(super) is: Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    Present,
    Absent,
    Empty,
    Nonempty,
}

impl Plan {
    /// Checks everything that can be known before the first step.
    ///
    /// # Errors
    /// `invalid_pipeline`, with the step in its details.
    pub(super) fn read(
        template: Option<&str>,
        input: Map<String, Value>,
        steps: Option<Value>,
        output: Option<Vec<String>>,
    ) -> Result<Self, ToolError> {
        let (written, input, default) = match (template, steps) {
            (Some(name), None) => {
                let template = TEMPLATES
                    .iter()
                    .find(|t| t.name == name)
                    .ok_or_else(|| invalid(None, format!("there is no template {name:?}")))?;
                let (steps, input) = template.instance(input).map_err(|why| invalid(None, why))?;
                (steps, input, template.output.iter().map(|&id| id.to_owned()).collect())
            }
            (None, Some(steps)) => (steps, Value::Object(input), Vec::new()),
            _ => return Err(invalid(None, "give exactly one of template and steps")),
        };
        let Value::Array(written) = written else { return Err(invalid(None, "steps must be a list")) };
        if written.is_empty() || written.len() > MAX_STEPS {
            return Err(invalid(None, format!("there must be 1 to {MAX_STEPS} steps")));
        }
        let mut steps: Vec<Step> = Vec::with_capacity(written.len());
        for step in written {
            let id = step["id"].as_str().unwrap_or_default().to_owned();
            let step = step_of(step, &steps, &input).map_err(|why| invalid(Some(&id), why))?;
            steps.push(step);
        }
        let last = steps.last().map(|s| s.id.clone()).into_iter().collect();
        let output = output.unwrap_or(if default.is_empty() { last } else { default });
        if output.len() > MAX_STEPS {
            return Err(invalid(
                None,
                format!("output names {} steps; it may name {MAX_STEPS}", output.len()),
            ));
        }
        if let Some(unknown) = output.iter().find(|id| !steps.iter().any(|s| s.id == **id)) {
            let ids = steps.iter().map(|s| s.id.as_str()).collect::<Vec<_>>().join(", ");
            let shown: String = unknown.chars().take(64).collect();
            return Err(invalid(None, format!("output names {shown:?}, which is no step; steps are: {ids}")));
        }
        Ok(Self { input, steps, output })
    }
}

fn invalid(step: Option<&str>, why: impl Into<String>) -> ToolError {
    let mut why: String = why.into();
    why.truncate(why.floor_char_boundary(MAX_MESSAGE));
    let error = ToolError::new("invalid_pipeline", why);
    match step {
        Some(id) => error.with_details(json!({ "step": id })),
        None => error,
    }
}

fn step_of(step: Value, before: &[Step], input: &Value) -> Result<Step, String> {
    let Value::Object(mut step) = step else { return Err("a step must be an object".into()) };
    let known = ["id", "tool", "args", "each", "when", "on_error"];
    if let Some(other) = step.keys().find(|k| !known.contains(&k.as_str())) {
        return Err(format!("a step has {}, not {other:?}", known.join(", ")));
    }
    let id = match step.remove("id") {
        Some(Value::String(id)) if is_id(&id) => id,
        _ => return Err("a step's id is a-z, then up to 31 of a-z, 0-9 and _".into()),
    };
    if id == "input" || id == "item" || before.iter().any(|s| s.id == id) {
        return Err(format!("the id {id:?} is taken"));
    }
    let name = step.remove("tool").unwrap_or_default();
    let name = name.as_str().filter(|name| ALLOWED.contains(name));
    let tool = name.and_then(|name| TOOLS.iter().find(|t| t.name == name));
    let tool = tool.ok_or_else(|| format!("tool must be one of {}", ALLOWED.join(", ")))?;
    let args = step.remove("args").unwrap_or_else(|| json!({}));
    let each = step.remove("each").map(each_of).transpose()?;
    let when = step.remove("when").map(when_of).transpose()?;
    let skip_errors = match step.remove("on_error") {
        None => false,
        Some(Value::String(word)) if word == "fail" => false,
        Some(Value::String(word)) if word == "skip" => true,
        Some(_) => return Err("on_error must be fail or skip".into()),
    };
    arguments(tool, &args)?;
    let mut references = 0;
    reference::each(&args, &mut |_| {
        references += 1;
        if references > MAX_REFERENCES {
            Err(format!("at most {MAX_REFERENCES} references in one step"))
        } else {
            Ok(())
        }
    })?;
    let mut check = |r: Reference<'_>| known_place(&r, before, input, each.is_some());
    reference::each(&args, &mut check)?;
    let mut check = |r: Reference<'_>| known_place(&r, before, input, false);
    each.iter().try_for_each(|e| {
        reference::each(&e.over, &mut check)?;
        reference::each(&e.limit, &mut check)
    })?;
    when.iter().try_for_each(|w| reference::each(&w.value, &mut check))?;
    Ok(Step { id, tool, args, each, when, skip_errors })
}

fn is_id(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    id.len() <= 32 && id.bytes().all(plain) && id.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether a reference names something that is there before its step, and can have what it asks for.
fn known_place(r: &Reference<'_>, before: &[Step], input: &Value, in_each: bool) -> Result<(), String> {
    let possible = match r.from {
        "item" if in_each => true,
        "item" => return Err("$from \"item\" is known only in the args of a step with each".into()),
        "input" => reference::at(input, r.path).is_some() || r.default.is_some(),
        id => {
            let step = before.iter().find(|s| s.id == id).ok_or_else(|| {
                let ids = before.iter().map(|s| s.id.as_str()).collect::<Vec<_>>().join(", ");
                format!("$from {id:?} is no earlier step; earlier are: {ids}")
            })?;
            let one = (step.tool.output)();
            let schema = if step.each.is_some() { json!({"type": "array", "items": one}) } else { one };
            reference::is_possible(&schema, r.path)
        }
    };
    if possible { Ok(()) } else { Err(format!("{} has nothing at {:?}", r.from, r.path)) }
}

/// Argument names against the tool's own schema.
fn arguments(tool: &Tool, args: &Value) -> Result<(), String> {
    if tool.name == "smart_memory" && args["action"] == "forget" {
        return Err("smart_memory forget is refused inside a pipeline".into());
    }
    let Some(args) = args.as_object() else { return Err("args must be an object".into()) };
    let schema = (tool.input)();
    if let Some(other) = args.keys().find(|name| schema["properties"].get(name.as_str()).is_none()) {
        return Err(format!("{} has no argument {other:?}", tool.name));
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match required.into_iter().find(|name| !args.contains_key(*name)) {
        Some(name) => Err(format!("{} needs the argument {name:?}", tool.name)),
        None => Ok(()),
    }
}

fn each_of(each: Value) -> Result<Each, String> {
    let Value::Object(mut each) = each else { return Err("each must be an object".into()) };
    let over = each.remove("over").ok_or("each needs over")?;
    let limit = each.remove("limit").unwrap_or(json!(5));
    if limit.as_u64().is_some_and(|n| !(1..=MAX_EACH).contains(&n)) || !(limit.is_u64() || limit.is_object())
    {
        return Err(format!("each.limit must be 1 to {MAX_EACH}"));
    }
    let concurrency = each.remove("concurrency").map_or(Some(3), |n| n.as_u64());
    let concurrency = concurrency.filter(|n| (1..=MAX_CONCURRENCY).contains(n));
    let concurrency = concurrency.ok_or(format!("each.concurrency must be 1 to {MAX_CONCURRENCY}"))?;
    match each.keys().next() {
        Some(other) => Err(format!("each has over, limit and concurrency, not {other:?}")),
        None => Ok(Each { over, limit, concurrency: concurrency as usize }),
    }
}

fn when_of(when: Value) -> Result<When, String> {
    let members = when.as_object().ok_or("when must be an object")?;
    if let Some(other) = members.keys().find(|name| !["value", "is"].contains(&name.as_str())) {
        return Err(format!("when has value and is, not {other:?}"));
    }
    let is = match when["is"].as_str() {
        Some("present") | None => Condition::Present,
        Some("absent") => Condition::Absent,
        Some("empty") => Condition::Empty,
        Some("nonempty") => Condition::Nonempty,
        Some(_) => return Err("when.is must be present, absent, empty or nonempty".into()),
    };
    let value = when.get("value").cloned().ok_or("when needs value")?;
    Ok(When { value, is })
}

impl Condition {
    /// Whether it holds for a value that may not be there.
    pub(super) fn holds(self, value: Option<&Value>) -> bool {
        let empty = value.is_none_or(|v| match v {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        });
        match self {
            Self::Present => value.is_some_and(|v| !v.is_null()),
            Self::Absent => value.is_none_or(Value::is_null),
            Self::Empty => empty,
            Self::Nonempty => !empty,
        }
    }
}
