//! `smart_dedup`: finds exact and near-duplicate passages in a list. Owns the contract: arguments, limits, the
//! form of the result. What counts as a duplicate is decided in [`group`], what is compared in [`shingles`].

mod group;
mod paragraphs;

#[cfg(test)]
mod quality;
#[cfg(test)]
mod tests;

use std::{panic::resume_unwind, thread};

use serde_json::{Map, Value, json};

use self::group::{Duplicate, Rule, duplicates};
use super::{
    arguments::{Arguments, invalid},
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{
    store::refs,
    text::{shingles, tokens},
    upstream::BoxFuture,
};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_dedup",
    title: "Remove duplicate passages",
    description: "Purpose: Find exact and near-duplicate passages in a list. When to use: Several search hits, pages or \
        memories overlap. When NOT to use: One text, or texts that merely share a topic. Returns: indices kept, indices \
        removed with what each duplicates and how similar, and optionally the kept texts. Order is preserved; the first \
        of each group stays. Composes with: after smart_search or smart_fetch, before smart_context_gate; pass refs.",
    input,
    output,
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    run,
};

const MAX_TEXTS: usize = 500;
/// In characters.
const MAX_TEXT: usize = 100_000;
/// All texts together, in bytes.
const MAX_TOTAL: usize = 2 * 1024 * 1024;
/// All pairs are compared, so their number needs a limit.
const MAX_PARAGRAPHS: usize = 5_000;
/// Largest result, in bytes; above it the texts are left out.
const MAX_RESULT: usize = 512 * 1024;
const MIN_THRESHOLD: f64 = 0.3;
const DEFAULT_THRESHOLD: f64 = 0.7;

fn input() -> Value {
    json!({"type": "object", "required": ["texts"], "additionalProperties": false, "properties": {
        "texts": {"type": "array", "minItems": 1, "maxItems": MAX_TEXTS, "items": {"type": "string", "maxLength": MAX_TEXT},
            "description": "Passages in order of preference; an item that is a cx_ reference is replaced by that document."},
        "threshold": {"type": "number", "minimum": MIN_THRESHOLD, "maximum": 1, "default": DEFAULT_THRESHOLD,
            "description": "Two passages are duplicates when their similarity is at least this. Raise it to remove less; 1 removes only identical ones."},
        "granularity": {"enum": ["passage", "paragraph"], "default": "passage"},
        "contained": {"type": "boolean", "default": true,
            "description": "Also drop a passage that another one almost entirely contains."},
        "keep": {"enum": ["first", "longest"], "default": "first"},
        "method": {"enum": ["lexical", "semantic"], "default": "lexical"},
        "return": {"enum": ["texts", "indices"], "default": "texts"},
    }})
}

fn output() -> Value {
    let index = json!({"type": "integer", "minimum": 0});
    json!({"type": "object", "required": ["kept", "removed", "groups", "method_used", "warnings", "usage"], "properties": {
        "kept": {"type": "array", "items": index},
        "removed": {"type": "array", "items": {"type": "object",
            "required": ["index", "duplicate_of", "similarity", "kind"],
            "properties": {
                "index": index, "duplicate_of": index,
                "paragraph": index, "duplicate_of_paragraph": index,
                "similarity": {"type": "number"},
                "kind": {"enum": ["exact", "near", "contained", "semantic"]}}}},
        "texts": {"type": "array", "items": {"type": "string"}},
        "groups": {"type": "integer", "description": "Kept items that something duplicates."},
        "method_used": {"enum": ["lexical", "semantic"]},
        "warnings": {"type": "array", "items": {"type": "string"}},
        "usage": {"type": "object"},
    }})
}

struct Options {
    texts: Vec<String>,
    rule: Rule,
    by_paragraph: bool,
    longest: bool,
    with_texts: bool,
    warnings: Vec<&'static str>,
}

fn run(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let mut options = read(arguments)?;
        let basis = resolve(&context, &mut options.texts).await?;
        context.compute(move || dedup(options, basis)).await
    })
}

/// Puts the documents in the place of their references.
async fn resolve(context: &Context, texts: &mut [String]) -> Result<Basis, ToolError> {
    let mut basis = Basis::Inline;
    for (at, text) in texts.iter_mut().enumerate() {
        if refs::is_reference(text) {
            let found = context.resolve(text).await;
            *text = found.map_err(|e| e.with_details(json!({"index": at})))?;
            basis = Basis::ByReference;
        } else {
            check(at, text)?;
        }
    }
    let total = texts.iter().map(String::len).sum::<usize>();
    if total > MAX_TOTAL {
        let message = "all texts together must be at most 2 MiB; send them in parts";
        return Err(
            ToolError::new("too_large", message).with_details(json!({"limit": MAX_TOTAL, "given": total}))
        );
    }
    Ok(basis)
}

fn dedup(options: Options, basis: Basis) -> Result<Done, ToolError> {
    // The tokenizer takes as long as all the rest, so the two run side by side.
    let (tokens_in, found) = thread::scope(|scope| {
        let count = scope.spawn(|| options.texts.iter().map(|text| tokens::count(text)).sum());
        let found = find(&options);
        (count.join(), found)
    });
    let tokens_in = tokens_in.unwrap_or_else(|panic| resume_unwind(panic));
    let found = found?;
    Ok(Done { value: report(found, options), tokens_in, basis })
}

fn find(options: &Options) -> Result<Found, ToolError> {
    if options.by_paragraph {
        paragraphs::dedup(&options.texts, options.rule, options.longest, MAX_PARAGRAPHS)
    } else {
        Ok(by_passage(options))
    }
}

/// What was found, in either granularity.
struct Found {
    /// Indices of passages of which something stays.
    kept: Vec<usize>,
    removed: Vec<Value>,
    /// What stays of each kept passage.
    texts: Vec<String>,
    groups: usize,
}

fn by_passage(options: &Options) -> Found {
    let prepared: Vec<_> = options.texts.iter().map(|text| shingles::prepare(text)).collect();
    let order = preference(&options.texts, options.longest);
    let verdicts = duplicates(&prepared, &order, options.rule);
    let kept: Vec<usize> = (0..verdicts.len()).filter(|&at| verdicts[at].is_none()).collect();
    let removed = verdicts.iter().enumerate().filter_map(|(at, verdict)| {
        let duplicate = verdict.as_ref()?;
        Some(json!({"index": at, "duplicate_of": duplicate.of, "similarity": shown(duplicate), "kind": duplicate.kind.as_str()}))
    });
    Found {
        removed: removed.collect(),
        texts: kept.iter().map(|&at| options.texts[at].clone()).collect(),
        groups: groups(&verdicts),
        kept,
    }
}

/// The order in which texts claim to stay: as given, or the longest first.
fn preference<T: AsRef<str>>(texts: &[T], longest: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..texts.len()).collect();
    if longest {
        order.sort_by_key(|&at| std::cmp::Reverse(texts[at].as_ref().len()));
    }
    order
}

/// Similarity to three places, rounded down: what is shown as 1 is 1.
fn shown(duplicate: &Duplicate) -> f64 {
    (duplicate.similarity * 1_000.0).floor() / 1_000.0
}

fn groups(verdicts: &[Option<Duplicate>]) -> usize {
    let mut stay: Vec<usize> = verdicts.iter().flatten().map(|duplicate| duplicate.of).collect();
    stay.sort_unstable();
    stay.dedup();
    stay.len()
}

fn report(found: Found, options: Options) -> Map<String, Value> {
    let mut warnings = options.warnings;
    let mut value = Map::new();
    value.insert("kept".into(), found.kept.into());
    value.insert("removed".into(), found.removed.into());
    if options.with_texts {
        let size: usize = found.texts.iter().map(String::len).sum();
        if size <= MAX_RESULT {
            value.insert("texts".into(), found.texts.into());
        } else {
            warnings.push("texts_omitted: they are over 512 KiB; use the indices");
        }
    }
    value.insert("groups".into(), found.groups.into());
    value.insert("method_used".into(), "lexical".into());
    value.insert("warnings".into(), warnings.into());
    value
}

fn read(mut arguments: Arguments) -> Result<Options, ToolError> {
    let texts = texts(arguments.take("texts"))?;
    let given = arguments.number("threshold")?.unwrap_or(DEFAULT_THRESHOLD);
    if !(0.0..=1.0).contains(&given) {
        return Err(invalid("threshold must be between 0.3 and 1"));
    }
    let mut warnings = Vec::new();
    if given < MIN_THRESHOLD {
        warnings.push("threshold_clamped: 0.3 is the least");
    }
    let by_paragraph = arguments.choice("granularity", &["passage", "paragraph"])? == "paragraph";
    let contained = arguments.boolean("contained", true)?;
    let longest = arguments.choice("keep", &["first", "longest"])? == "longest";
    let method = arguments.choice("method", &["lexical", "semantic"])?;
    let with_texts = arguments.choice("return", &["texts", "indices"])? == "texts";
    arguments.finish()?;
    if method == "semantic" {
        let message = "no embedding model is configured here; use method \"lexical\"";
        return Err(ToolError::new("semantic_unavailable", message));
    }
    let rule = Rule { threshold: given.max(MIN_THRESHOLD), contained };
    Ok(Options { texts, rule, by_paragraph, longest, with_texts, warnings })
}

fn texts(value: Option<Value>) -> Result<Vec<String>, ToolError> {
    let Some(Value::Array(items)) = value else { return Err(invalid("texts must be a list of strings")) };
    if items.is_empty() {
        return Err(invalid("texts must have at least one item"));
    }
    if items.len() > MAX_TEXTS {
        let message = format!("at most {MAX_TEXTS} texts in one call; send them in parts");
        return Err(ToolError::new("too_many_items", message)
            .with_details(json!({"limit": MAX_TEXTS, "given": items.len()})));
    }
    let text = |(at, item)| match item {
        Value::String(text) => Ok(text),
        _ => Err(invalid(format!("texts[{at}] must be a string"))),
    };
    items.into_iter().enumerate().map(text).collect()
}

fn check(at: usize, text: &str) -> Result<(), ToolError> {
    if text.len() > MAX_TEXT && text.chars().count() > MAX_TEXT {
        let message = format!("each text must be at most {MAX_TEXT} characters; split it");
        return Err(
            ToolError::new("too_large", message).with_details(json!({"index": at, "limit": MAX_TEXT}))
        );
    }
    Ok(())
}
