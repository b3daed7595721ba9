//! Which documents answer a query, and in which order.

use std::{collections::HashSet, sync::Arc};

use rusqlite::{Connection, params};
use unicode_segmentation::UnicodeSegmentation;

use super::{OPERATOR, body, table};
use crate::{
    search::{Failure, FailureKind, Hit, Page, Query, snippet, url},
    store::{Store, StoreError},
    text::words::{self, Language},
};

/// Terms of a query that are looked up.
const MAX_TERMS: usize = 128;

/// How much a word of the title counts beside one of the text.
const TITLE_WEIGHT: &str = "4.0";

/// English words that say nothing of what is sought, in questions more than elsewhere; sorted. Those of other
/// languages are left to their rank, in which common words weigh little.
pub(super) const EMPTY: [&str; 62] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "being", "between", "by", "can",
    "could", "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "must", "of", "on", "or", "should", "so", "some", "such", "than", "that", "the", "their",
    "there", "these", "they", "this", "those", "through", "to", "was", "were", "what", "when", "where",
    "which", "while", "who", "why", "will", "with", "would",
];

/// [`search`] on a reader of the store.
pub(in crate::search) async fn find(
    store: &Store,
    tenant: Arc<str>,
    query: Arc<Query>,
) -> Result<Page, Failure> {
    let found = store.read(move |connection| search(connection, &tenant, &query)).await;
    let hits = found.map_err(|error: StoreError| {
        tracing::error!(%error, "the local index could not be searched");
        Failure::new(FailureKind::ServerError, "the storage cannot be used now")
    })?;
    Ok(Page { hits, ..Page::default() })
}

/// The tenant's and the operator's documents for a query. Documents have no dates, so its time range means nothing.
///
/// # Errors
/// The storage's.
pub fn search(connection: &Connection, tenant: &str, query: &Query) -> rusqlite::Result<Vec<Hit>> {
    let wanted = query.skipped() + query.count;
    let mut own = Vec::new();
    if tenant != OPERATOR {
        own = ranked(connection, tenant, query, wanted)?;
    }
    let shared = ranked(connection, OPERATOR, query, wanted)?;
    interleaved(shared, own)
        .skip(query.skipped())
        .take(query.count)
        .map(|found| {
            let text = body(connection, tenant, found.document)?.unwrap_or_default();
            let snippet = snippet::best(&text, &query.text, query.snippet_tokens);
            let (title, url) = (found.title, found.url);
            Ok(Hit { title, url, snippet, published: None, document: Some(found.document) })
        })
        .collect()
}

struct Found {
    document: i64,
    key: String,
    url: String,
    title: String,
}

/// One after the other from each list: scores of different tables cannot be compared. Each URL once.
fn interleaved(shared: Vec<Found>, own: Vec<Found>) -> impl Iterator<Item = Found> {
    let (mut shared, mut own) = (shared.into_iter(), own.into_iter());
    let mut seen = HashSet::new();
    let both = std::iter::from_fn(move || {
        let pair = [shared.next(), own.next()];
        pair.iter().any(Option::is_some).then_some(pair)
    });
    both.flatten().flatten().filter(move |found| seen.insert(found.key.clone()))
}

/// The best documents of one table.
fn ranked(
    connection: &Connection,
    tenant: &str,
    query: &Query,
    wanted: usize,
) -> rusqlite::Result<Vec<Found>> {
    let expression = expression(connection, tenant, &query.text)?;
    if expression.is_empty() {
        return Ok(Vec::new());
    }
    let terms = table(tenant);
    let sql = format!(
        "SELECT d.document, d.key, d.url, d.title FROM {terms} JOIN documents d ON d.document = {terms}.rowid
         WHERE {terms} MATCH ?1 AND {terms}.rank MATCH 'bm25({TITLE_WEIGHT}, 1.0)' AND d.tenant = ?2
         ORDER BY {terms}.rank"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Found { document: row.get(0)?, key: row.get(1)?, url: row.get(2)?, title: row.get(3)? })
    };
    let admitted = |found: &rusqlite::Result<Found>| match found {
        Ok(found) => query.admits(&url::canonical(&found.url).unwrap_or_default().host),
        Err(_) => true,
    };
    statement.query_map(params![expression, tenant], row)?.filter(admitted).take(wanted).collect()
}

/// The query for FTS5: any of its words, stemmed in every language that the tenant's documents have; "" if it has
/// none, or there are no documents.
fn expression(connection: &Connection, tenant: &str, text: &str) -> rusqlite::Result<String> {
    let mut statement = connection.prepare_cached("SELECT language FROM languages WHERE tenant = ?1")?;
    let languages: Vec<String> =
        statement.query_map([tenant], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let full: Vec<&str> = text.unicode_words().filter(|word| !is_empty_word(word)).collect();
    let text = if full.is_empty() { text.to_owned() } else { full.join(" ") };
    let mut seen = HashSet::new();
    let terms: Vec<String> = languages
        .iter()
        .flat_map(|code| words::terms(&text, Language::from_code(code)))
        .filter(|term| seen.insert(term.clone()))
        .take(MAX_TERMS)
        .map(|term| format!("\"{}\"", term.replace('"', "\"\"")))
        .collect();
    Ok(terms.join(" OR "))
}

fn is_empty_word(word: &str) -> bool {
    EMPTY.binary_search(&word.to_lowercase().as_str()).is_ok()
}
