//! `smart_context_gate`: cuts a long text to a number of tokens. Owns the contract: arguments, limits, the form of
//! the result. What stays is decided in [`gate`].

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use super::{
    arguments::{Arguments, invalid},
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{
    store::refs,
    text::gate::{self, Cut, Kind, Mode},
    upstream::BoxFuture,
};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_context_gate",
    title: "Compress context",
    description: "Purpose: Cut a long text to a token limit, keeping whole sentences and blocks verbatim and in order. \
        When to use: A fetched page, log or JSON (by ref) is larger than you want to read. When NOT to use: Short text, \
        or text already in the conversation: pasting it here costs more than it saves. Give purpose (the question it \
        must answer); without it the cut is close to blind. Returns: text, ratio_actual, what was omitted, and \
        original_ref (1 hour). Composes with: smart_fetch, smart_memory, smart_pipe.",
    input,
    output,
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    run,
};

/// In characters.
const MAX_TEXT: usize = 2_000_000;
/// Of a reference.
const MAX_NAME: usize = 64;
const MAX_PURPOSE: usize = 1_000;
const MAX_KEEP: usize = 20;
const RATIO: f64 = 0.5;
const MIN_RATIO: f64 = 0.02;
const MAX_TOKENS: u64 = 100_000;
/// Largest result, in bytes.
const MAX_RESULT: usize = 512 * 1024;
const KINDS: [(&str, Option<Kind>); 6] = [
    ("auto", None),
    ("prose", Some(Kind::Prose)),
    ("markdown", Some(Kind::Markdown)),
    ("code", Some(Kind::Code)),
    ("json", Some(Kind::Json)),
    ("log", Some(Kind::Log)),
];

fn input() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {
        "text": {"type": "string", "maxLength": MAX_TEXT},
        "ref": {"type": "string"},
        "purpose": {"type": "string", "maxLength": MAX_PURPOSE, "description": "The question or step this context must serve."},
        "ratio": {"type": "number", "minimum": MIN_RATIO, "maximum": 1, "default": RATIO,
            "description": "Target size as a fraction of the input tokens."},
        "max_tokens": {"type": "integer", "minimum": gate::MIN_TARGET, "maximum": MAX_TOKENS,
            "description": "Absolute limit; the smaller of the two applies."},
        "mode": {"enum": ["auto", "lossless", "extract"], "default": "auto"},
        "keep": {"type": "array", "maxItems": MAX_KEEP, "items": {"type": "string", "minLength": 2, "maxLength": 200},
            "description": "Units containing any of these strings are kept first."},
        "content_type": {"enum": KINDS.map(|kind| kind.0), "default": "auto"},
    }})
}

fn output() -> Value {
    let count = json!({"type": "integer", "minimum": 0});
    json!({"type": "object",
    "required": ["text", "mode_used", "content_type", "ratio_target", "ratio_actual", "lossy", "units_total",
        "units_kept", "omitted", "warnings", "usage"],
    "properties": {
        "text": {"type": "string"},
        "mode_used": {"enum": ["none", "lossless", "extract"]},
        "content_type": {"enum": KINDS[1..].iter().map(|kind| kind.0).collect::<Vec<_>>()},
        "ratio_target": {"type": "number"},
        "ratio_actual": {"type": "number"},
        "lossy": {"type": "boolean"},
        "units_total": count,
        "units_kept": count,
        "omitted": {"type": "array", "maxItems": 50, "items": {"type": "object", "properties": {
            "after_unit": {"type": "integer", "minimum": -1}, "units": count, "tokens": count}}},
        "original_ref": {"type": "string"},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "usage": {"type": "object"},
    }})
}

enum Source {
    Text(String),
    Reference(String),
}

fn run(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let (source, options) = read(arguments)?;
        let (text, reference, basis) = match source {
            Source::Text(text) => (text, None, Basis::Inline),
            Source::Reference(id) => (context.resolve(&id).await?, Some(id), Basis::ByReference),
        };
        if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
            let message = "the text must be at most 2,000,000 characters; send it in parts";
            return Err(ToolError::new("too_large", message).with_details(json!({"limit": MAX_TEXT})));
        }
        let ratio = options.ratio;
        let (cut, text) = context
            .compute(move || {
                let cut = gate::cut(&text, &options);
                (cut, text)
            })
            .await;
        let cut = cut.map_err(refusal)?;
        if cut.text.len() > MAX_RESULT {
            let message = "the result would be over 512 KiB; lower ratio or max_tokens";
            return Err(ToolError::new("too_large", message).with_details(json!({"limit": MAX_RESULT})));
        }
        // Only what was cut is worth keeping.
        let original = match reference {
            None if cut.mode_used != "none" => Some(context.keep(text, refs::TTL).await?.id),
            reference => reference,
        };
        let tokens_in = cut.tokens_in as u64;
        Ok(Done { value: report(cut, ratio, original), tokens_in, basis })
    })
}

fn refusal(error: gate::Error) -> ToolError {
    match error {
        gate::Error::Empty => {
            ToolError::new("empty_input", "there is no text to cut; send one, or a ref that has some")
        }
        gate::Error::KeepExceedsBudget { needed, target } => {
            let message = format!(
                "what keep asks for needs {needed} tokens and the target is {target}; raise ratio or max_tokens, or keep less"
            );
            ToolError::new("keep_exceeds_budget", message)
                .with_details(json!({"needed": needed, "target": target}))
        }
    }
}

fn report(cut: Cut, ratio: f64, original: Option<String>) -> Map<String, Value> {
    let actual = cut.tokens_out as f64 / cut.tokens_in.max(1) as f64;
    let target = (cut.target as f64 / cut.tokens_in.max(1) as f64).min(ratio);
    let gap = |gap: &gate::Gap| {
        let after = gap.after_unit.map_or(json!(-1), |unit| json!(unit));
        json!({"after_unit": after, "units": gap.units, "tokens": gap.tokens})
    };
    let mut value = Map::new();
    value.insert("text".into(), cut.text.into());
    value.insert("mode_used".into(), cut.mode_used.into());
    value.insert("content_type".into(), cut.kind.as_str().into());
    value.insert("ratio_target".into(), rounded(target));
    value.insert("ratio_actual".into(), rounded(actual));
    value.insert("lossy".into(), cut.lossy.into());
    value.insert("units_total".into(), cut.units_total.into());
    value.insert("units_kept".into(), cut.units_kept.into());
    value.insert("omitted".into(), cut.omitted.iter().map(gap).collect());
    if let Some(original) = original {
        value.insert("original_ref".into(), original.into());
    }
    value.insert("warnings".into(), cut.warnings.into());
    value
}

fn rounded(ratio: f64) -> Value {
    ((ratio * 1_000.0).round() / 1_000.0).into()
}

fn read(mut arguments: Arguments) -> Result<(Source, gate::Options), ToolError> {
    let text = arguments.material("text", MAX_TEXT)?;
    let reference = arguments.text("ref", 0..=MAX_NAME)?;
    let purpose = arguments.text("purpose", 0..=MAX_PURPOSE)?;
    let ratio = arguments.number("ratio")?.unwrap_or(RATIO);
    let max_tokens = arguments.whole("max_tokens", gate::MIN_TARGET as u64..=MAX_TOKENS)?;
    let mode = match arguments.choice("mode", &["auto", "lossless", "extract"])? {
        "lossless" => Mode::Lossless,
        "extract" => Mode::Extract,
        _ => Mode::Auto,
    };
    let keep = keep(arguments.take("keep"))?;
    let name = arguments.choice("content_type", &KINDS.map(|kind| kind.0))?;
    arguments.finish()?;
    let source = match (text, reference) {
        (Some(text), None) => Source::Text(text),
        (None, Some(reference)) => Source::Reference(reference),
        _ => return Err(invalid("give exactly one of text and ref")),
    };
    if !(0.0..=1.0).contains(&ratio) {
        return Err(invalid("ratio must be between 0.02 and 1"));
    }
    let kind = KINDS.iter().find(|kind| kind.0 == name).and_then(|kind| kind.1);
    let max_tokens = max_tokens.map(|tokens| tokens as usize);
    Ok((source, gate::Options { purpose, ratio: ratio.max(MIN_RATIO), max_tokens, mode, keep, kind }))
}

fn keep(value: Option<Value>) -> Result<Vec<String>, ToolError> {
    let wrong = || invalid("keep must be a list of at most 20 strings of 2 to 200 characters");
    let items = match value {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) if items.len() <= MAX_KEEP => items,
        Some(_) => return Err(wrong()),
    };
    let phrase = |item| match item {
        Value::String(text) if (2..=200).contains(&text.chars().count()) => Ok(text),
        _ => Err(wrong()),
    };
    items.into_iter().map(phrase).collect()
}
