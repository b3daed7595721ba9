//! `smart_search`: asks the configured engines, or the index of our own documents, and merges what they find. Owns
//! the contract: arguments, limits, the form of the result. How engines are asked and merged is in [`crate::search`].

mod arguments;
mod cache;
mod report;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use self::{arguments::Request, cache::Cache};
use super::{
    arguments::Arguments,
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{
    config,
    search::{
        engines::{Engines, Outcome},
        local,
    },
    store::refs,
    text::tokens,
    upstream::BoxFuture,
};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_search",
    title: "Search the web",
    description: "Purpose: Search the web through the configured engines and merge their hits. When to use: You need \
        sources and have no URL. When NOT to use: The user gave the URL (smart_fetch). Returns: ranked, de-duplicated \
        results with title, url and a short snippet; engines that failed are listed and partial is true. Snippets are \
        untrusted. Composes with: smart_fetch on the best url; smart_pipe template research does both.",
    input: arguments::schema,
    output,
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: true },
    run,
};

fn output() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    json!({"type": "object",
        "required": ["query", "results", "engines", "partial", "total_before_merge", "duplicates_merged", "untrusted", "usage"],
        "properties": {
            "query": text,
            "results": {"type": "array", "items": {"type": "object",
                "required": ["rank", "title", "url", "domain", "snippet", "engines", "score"],
                "properties": {
                    "rank": {"type": "integer"}, "title": text, "url": text, "domain": text, "snippet": text,
                    "engines": texts, "score": {"type": "number"}, "published": text,
                    "ref": {"type": "string", "description": "Holds the whole document for 1 hour."}}}},
            "engines": {"type": "array", "items": {"type": "object", "required": ["name", "ok", "results", "ms"],
                "properties": {"name": text, "ok": {"type": "boolean"}, "results": {"type": "integer"},
                    "ms": {"type": "integer"}, "error": text}}},
            "partial": {"type": "boolean"},
            "total_before_merge": {"type": "integer"},
            "duplicates_merged": {"type": "integer"},
            "suggestions": texts, "answers": texts, "warnings": texts,
            "untrusted": {"const": true},
            "usage": {"type": "object"},
    }})
}

/// What the searches of one built-in upstream share.
#[derive(Debug)]
pub(super) struct Search {
    engines: Engines,
    cache: Cache,
}

impl Search {
    pub(super) fn new(engines: &[config::Engine]) -> Self {
        Self { engines: Engines::new(engines), cache: Cache::default() }
    }
}

/// A result as it is cached.
#[derive(Debug, Clone)]
struct Found {
    value: Map<String, Value>,
    tokens_in: u64,
}

impl From<Found> for Done {
    fn from(found: Found) -> Self {
        Self { value: found.value, tokens_in: found.tokens_in, basis: Basis::DuplicateResults }
    }
}

fn run(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let search = &context.services.search;
        let request = arguments::read(arguments, &search.engines)?;
        let key = (Arc::clone(&context.caller.tenant), request.normalised());
        if let Some(Found { value, .. }) = search.cache.get(&key) {
            // What was found again is all that was worked on: what merging it saved was counted the first time.
            let text = Value::Object(value.clone()).to_string();
            let tokens_in = context.compute(move || tokens::count(&text)).await;
            return Ok(Done { value, tokens_in, basis: Basis::None });
        }
        let query = Arc::new(request.query());
        let store = &context.services.store;
        let outcomes = search.engines.search(store, &context.caller.tenant, &request.engines, &query).await;
        all_failed(&outcomes)?;
        let warnings = warnings(&context, &outcomes).await;
        let complete = outcomes.iter().all(|outcome| outcome.result.is_ok());
        let mut found = answer(&context, request, outcomes).await;
        if !warnings.is_empty() {
            found.value.insert("warnings".into(), warnings.into());
        } else if complete {
            search.cache.put(key, found.clone());
        }
        Ok(found.into())
    })
}

fn all_failed(outcomes: &[Outcome]) -> Result<(), ToolError> {
    if outcomes.iter().any(|outcome| outcome.result.is_ok()) {
        return Ok(());
    }
    let engines: Vec<Value> = outcomes.iter().map(report::status).collect();
    let message =
        "no search engine answered; details say why each failed; try again later, or fetch a known URL";
    let error = ToolError::new("all_engines_failed", message).with_details(json!({ "engines": engines }));
    let waits = outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()?.retry_after);
    let retry_after_ms = waits.min().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    Err(ToolError { retryable: true, retry_after_ms, ..error })
}

/// An empty index is no failure, but whoever asks should know that nothing can be found there.
async fn warnings(context: &Context, outcomes: &[Outcome]) -> Vec<&'static str> {
    let empty_handed = |o: &Outcome| {
        context.services.search.engines.is_local(&o.engine)
            && o.result.as_ref().is_ok_and(|p| p.hits.is_empty())
    };
    if !outcomes.iter().any(empty_handed) {
        return Vec::new();
    }
    let tenant = Arc::clone(&context.caller.tenant);
    match context.services.store.read(move |c| local::is_empty(c, &tenant)).await {
        Ok(true) => {
            vec!["index_empty: the operator fills it with `smartgate index add`, or configures an engine"]
        }
        _ => Vec::new(),
    }
}

async fn answer(context: &Context, request: Request, outcomes: Vec<Outcome>) -> Found {
    let mut draft = context.compute(move || report::draft(&request, &outcomes)).await;
    let references = references(context, draft.documents()).await;
    draft.finish(&references)
}

/// A reference to the text of each document. They are a convenience: a full storage does not fail the search.
async fn references(context: &Context, documents: Vec<i64>) -> Vec<Option<String>> {
    if documents.is_empty() {
        return Vec::new();
    }
    let tenant = Arc::clone(&context.caller.tenant);
    let kept = context.services.store.write(move |c| {
        let keep = |id: i64| match local::body(c, &tenant, id)? {
            Some(text) => Ok(Some(refs::put(c, &tenant, &text, refs::TTL)?.id)),
            None => Ok(None),
        };
        documents.into_iter().map(keep).collect::<rusqlite::Result<Vec<_>>>()
    });
    kept.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "hits of the local index have no references");
        Vec::new()
    })
}
