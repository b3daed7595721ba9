//! The result of a pipeline. Owns its form and how it fits `max_tokens`: the lines of the steps first, then the pages
//! that were read, and what is left is the outputs'. What does not fit stays behind a reference.

use serde_json::{Map, Value, json};

use super::{
    super::{
        context::Context,
        tool::{Done, ToolError},
        usage::Basis,
    },
    plan::Plan,
    run::{Ended, Progress},
};
use crate::{store::refs, text::tokens};

/// Of the tokens, one in so many may go to the list of pages.
const SOURCES: u64 = 4;
/// What an output that is cut takes at least: its name and its reference.
const CUT: u64 = 48;
/// Parts counted one by one may be one token less than together.
const SEAM: u64 = 2;

pub(super) async fn report(
    context: &Context,
    plan: &Plan,
    mut progress: Progress,
    max_tokens: u64,
) -> Result<Done, ToolError> {
    let tokens_in = progress.steps.iter().map(|s| s.tokens_out).sum();
    let mut sources = sources(&progress);
    let mut lines = lines(&progress.steps);
    let mut named: Vec<(&String, Value, u64)> = Vec::new();
    for id in &plan.output {
        let Some(mut result) = progress.results.remove(id) else { continue };
        drop_usage(&mut result);
        let size = size(&json!({ id: result }));
        named.push((id, result, size));
    }
    for (id, result) in &progress.results {
        let kept = context.keep(result.to_string(), refs::TTL).await?;
        if let Some(line) = lines.iter_mut().find(|line| line["id"] == id.as_str()) {
            line["ref"] = kept.id.into();
        }
    }
    let mut truncated = false;
    while size(&sources) > max_tokens / SOURCES {
        truncated |= sources.pop().is_some();
    }
    let mut value = Map::from_iter([
        ("outputs".to_owned(), json!({})),
        ("steps".to_owned(), lines.into()),
        ("sources".to_owned(), sources.into()),
        ("truncated".to_owned(), truncated.into()),
    ]);
    let mut left = max_tokens.saturating_sub(size(&value) + SEAM);
    // What those after it need at least is not an output's to take.
    let mut later: u64 = named.iter().map(|(.., size)| (*size).min(CUT) + SEAM).sum();
    for (id, result, whole) in named {
        later -= whole.min(CUT) + SEAM;
        let room = left.saturating_sub(later + SEAM);
        let shown = if whole <= room {
            result
        } else {
            value["truncated"] = true.into();
            let kept = context.keep(result.to_string(), refs::TTL).await?;
            shortened(id, &result, &kept.id, room)
        };
        left = left.saturating_sub(size(&json!({ id: shown })) + SEAM);
        value["outputs"][id] = shown;
    }
    Ok(Done { value, tokens_in, basis: Basis::Pipe })
}

fn size(value: &impl serde::Serialize) -> u64 {
    tokens::count(&serde_json::to_string(value).expect("values have string keys"))
}

/// A line for each step that has ended.
pub(super) fn lines(steps: &[Ended]) -> Vec<Value> {
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

/// One usage block, that of the pipeline, is enough.
fn drop_usage(result: &mut Value) {
    match result {
        Value::Array(items) => items.iter_mut().for_each(drop_usage),
        Value::Object(members) => drop(members.remove("usage")),
        _ => {}
    }
}

/// A reference to a result, with the beginning of what it is about, in at most `room` tokens if that is possible.
fn shortened(id: &str, result: &Value, reference: &str, room: u64) -> Value {
    let about = ["text", "content"].iter().find_map(|name| result.get(*name)?.as_str().map(str::to_owned));
    let text = about.unwrap_or_else(|| result.to_string());
    let mut shown = json!({"truncated": true, "ref": reference, "part": ""});
    let mut limit = room.saturating_sub(size(&json!({ id: shown })));
    while limit > 0 {
        shown["part"] = tokens::head(&text, usize::try_from(limit).unwrap_or(usize::MAX)).into();
        // Quoted, a text may take more.
        match size(&json!({ id: shown })).saturating_sub(room) {
            0 => return shown,
            over => limit = limit.saturating_sub(over),
        }
    }
    shown["part"] = "".into();
    shown
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
