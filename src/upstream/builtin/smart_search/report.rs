//! The result of a search. Owns its form, the cut of snippets, and what counts as the material: every engine's hits
//! as JSON, which is what a caller of the engines would have read.

use serde_json::{Map, Value, json};

use super::{Found, arguments::Request};
use crate::{
    search::{
        Hit,
        engines::Outcome,
        merge::{Item, List, merge},
        snippet,
    },
    text::tokens,
};

/// Suggestions and answers shown.
const MOST_EXTRAS: usize = 5;
/// Longest answer, in tokens.
const ANSWER: usize = 200;

/// A result that still needs its references.
pub(super) struct Draft {
    value: Map<String, Value>,
    /// Place in the results, and document.
    documents: Vec<(usize, i64)>,
    tokens_in: u64,
}

/// Merges what the engines found.
pub(super) fn draft(request: &Request, outcomes: &[Outcome]) -> Draft {
    let pages = || outcomes.iter().filter_map(|outcome| Some((outcome, outcome.result.as_ref().ok()?)));
    let lists: Vec<List> = pages()
        .map(|(outcome, page)| List {
            engine: outcome.engine.clone(),
            weight: outcome.weight,
            hits: page.hits.clone(),
        })
        .collect();
    let material: Vec<Value> = lists.iter().flat_map(|list| &list.hits).map(raw).collect();
    let merged = merge(&lists);
    let shown: Vec<Item> = merged.items.into_iter().take(request.max_results()).collect();
    let documents =
        shown.iter().enumerate().filter_map(|(at, item)| Some((at, item.hit.document?))).collect();
    let mut value = Map::new();
    value.insert("query".into(), request.text().into());
    let results = shown.iter().enumerate().map(|(at, item)| result(at, item, request));
    value.insert("results".into(), results.collect());
    value.insert("engines".into(), outcomes.iter().map(status).collect());
    value.insert("partial".into(), outcomes.iter().any(|outcome| outcome.result.is_err()).into());
    value.insert("total_before_merge".into(), merged.total.into());
    value.insert("duplicates_merged".into(), merged.duplicates.into());
    let suggestions = distinct(pages().flat_map(|(_, page)| page.suggestions.iter().cloned()));
    if !suggestions.is_empty() {
        value.insert("suggestions".into(), suggestions.into());
    }
    let answers = pages().flat_map(|(_, page)| &page.answers).map(|answer| snippet::cut(answer, ANSWER));
    let answers = distinct(answers);
    if !answers.is_empty() {
        value.insert("answers".into(), answers.into());
    }
    value.insert("untrusted".into(), true.into());
    Draft { value, documents, tokens_in: tokens::count(&Value::from(material).to_string()) }
}

impl Draft {
    /// Documents that hits lead to.
    pub(super) fn documents(&self) -> Vec<i64> {
        self.documents.iter().map(|(_, document)| *document).collect()
    }

    /// Adds a reference for each of them, as far as there are any.
    pub(super) fn finish(&mut self, references: &[Option<String>]) -> Found {
        for ((at, _), reference) in self.documents.iter().zip(references) {
            if let Some(reference) = reference {
                self.value["results"][*at]["ref"] = reference.as_str().into();
            }
        }
        Found { value: std::mem::take(&mut self.value), tokens_in: self.tokens_in }
    }
}

/// How it went with one engine.
pub(super) fn status(outcome: &Outcome) -> Value {
    let found = outcome.result.as_ref().map_or(0, |page| page.hits.len());
    let mut status =
        json!({"name": &*outcome.engine, "ok": outcome.result.is_ok(), "results": found, "ms": outcome.ms});
    if let Err(failure) = &outcome.result {
        status["error"] = failure.to_string().into();
    }
    status
}

fn result(at: usize, item: &Item, request: &Request) -> Value {
    let limit = request.snippet_tokens();
    let mut result = json!({
        "rank": at + 1,
        "title": item.hit.title,
        "url": item.hit.url,
        "domain": item.domain,
        "snippet": snippet::best(&item.hit.snippet, request.text(), limit),
        "engines": item.engines.iter().map(|engine| &**engine).collect::<Vec<_>>(),
        "score": (item.score * 1e5).round() / 1e5,
    });
    if let Some(published) = &item.hit.published {
        result["published"] = published.as_str().into();
    }
    result
}

fn raw(hit: &Hit) -> Value {
    json!({"title": hit.title, "url": hit.url, "snippet": hit.snippet})
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if kept.len() < MOST_EXTRAS && !kept.contains(&text) {
            kept.push(text);
        }
    }
    kept
}
