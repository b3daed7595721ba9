//! The index of our own documents, in SQLite's FTS5: what the operator imported, for everyone, and what a tenant
//! fetched, for that tenant. Ranks are BM25 (k1 = 1.2, b = 0.75, fixed in FTS5) over the terms of [`words`].
//!
//! Invariant: neither hits nor their ranks depend on another tenant's documents.

mod rank;
#[cfg(test)]
mod tests;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::{snippet, url};
use crate::{
    store::{now, refs, share},
    text::words::{self, Language},
};

pub(super) use rank::find;
pub use rank::search;

/// The tenant of what the operator imported.
pub const OPERATOR: &str = "";
/// Largest document, in bytes.
pub const MAX_BODY: usize = 4 * 1024 * 1024;
/// Longest title kept, in characters.
const MAX_TITLE: usize = 300;
/// Documents that a tenant may have of its own; the oldest make room, here and when its share of the storage is full.
const MOST_OWN: usize = 5_000;

/// A document ready to be added: all that takes time is done, so that the writer is not kept.
#[derive(Debug)]
pub struct Document {
    key: String,
    url: String,
    title: String,
    body: Vec<u8>,
    bytes: usize,
    sha256: [u8; 32],
    language: Language,
    title_terms: String,
    body_terms: String,
}

/// What adding came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It was not there.
    New,
    /// It was there with another text.
    Changed,
    /// It was there as it is.
    Unchanged,
}

/// A document as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its URL.
    pub url: String,
    /// Its title.
    pub title: String,
    /// Size of its text.
    pub bytes: u64,
}

impl Document {
    /// Prepares a text, best as Markdown. Takes about as long as reading the text twice.
    ///
    /// # Errors
    /// A sentence: no URL, no words, or too large.
    pub fn new(url: &str, title: &str, body: &str) -> Result<Self, String> {
        let key = url::canonical(url).ok_or("its URL cannot be read")?.key;
        if body.len() > MAX_BODY {
            return Err(format!("its text is over {} MiB; split it", MAX_BODY >> 20));
        }
        let title: String = snippet::plain(title).chars().take(MAX_TITLE).collect();
        let language = Language::of(body);
        let body_terms = words::terms(body, language);
        if body_terms.is_empty() {
            return Err("it has no words".into());
        }
        let mut sha256 = Sha256::new();
        sha256.update(&title);
        sha256.update([0]);
        sha256.update(body);
        Ok(Self {
            key,
            url: url.split('#').next().unwrap_or(url).to_owned(),
            title_terms: words::terms(&title, language).join(" "),
            body_terms: body_terms.join(" "),
            title,
            body: refs::compress(body),
            bytes: body.len(),
            sha256: sha256.finalize().into(),
            language,
        })
    }
}

#[cfg(test)]
impl Document {
    /// Its text, unpacked.
    pub(crate) fn text(&self) -> Option<String> {
        refs::decompress(&self.body, self.bytes)
    }
}

/// Adds a document for a tenant, in the place of what its URL had. Of a tenant's own, the latest 5,000 stay, or as many as
/// its share of the storage holds.
///
/// # Errors
/// The storage's.
pub fn add(connection: &Connection, tenant: &str, document: &Document) -> rusqlite::Result<Added> {
    if tenant == OPERATOR {
        return put(connection, tenant, document);
    }
    share::open(connection, tenant)?;
    let added = put(connection, tenant, document)?;
    make_room(connection, tenant, MOST_OWN)?;
    // The newest is the last to go.
    while !share::lasting_fits(connection, tenant)? && forget_oldest(connection, tenant, 1)? > 0 {}
    share::fit_lasting(connection, tenant)?;
    Ok(added)
}

fn make_room(connection: &Connection, tenant: &str, most: usize) -> rusqlite::Result<()> {
    let sql = "SELECT count(*) FROM documents WHERE tenant = ?1";
    let count: i64 = connection.prepare_cached(sql)?.query_row([tenant], |row| row.get(0))?;
    forget_oldest(connection, tenant, (count - most as i64).max(0)).map(drop)
}

fn forget_oldest(connection: &Connection, tenant: &str, count: i64) -> rusqlite::Result<usize> {
    let sql = "SELECT document FROM documents WHERE tenant = ?1 ORDER BY added, document LIMIT ?2";
    let oldest: Vec<i64> = connection
        .prepare_cached(sql)?
        .query_map(params![tenant, count], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    oldest.iter().try_for_each(|id| delete(connection, &table(tenant), *id))?;
    Ok(oldest.len())
}

fn put(connection: &Connection, tenant: &str, document: &Document) -> rusqlite::Result<Added> {
    let terms = table(tenant);
    if tenant != OPERATOR {
        connection.execute_batch(&format!(
            "CREATE VIRTUAL TABLE IF NOT EXISTS {terms} USING fts5 (title, body, content = '', \
             contentless_delete = 1, tokenize = \"ascii tokenchars '''.,:;_'\")"
        ))?;
    }
    let sql = "SELECT document, sha256 FROM documents WHERE tenant = ?1 AND key = ?2";
    let known = connection
        .prepare_cached(sql)?
        .query_row(params![tenant, document.key], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?))
        })
        .optional()?;
    match known {
        Some((_, sha256)) if sha256 == document.sha256 => return Ok(Added::Unchanged),
        Some((id, _)) => delete(connection, &terms, id)?,
        None => {}
    }
    let sql = "INSERT INTO documents (tenant, key, url, title, body, bytes, sha256, added)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        tenant,
        document.key,
        document.url,
        document.title,
        document.body,
        document.bytes as i64,
        document.sha256,
        now()
    ])?;
    let id = connection.last_insert_rowid();
    let sql = format!("INSERT INTO {terms} (rowid, title, body) VALUES (?1, ?2, ?3)");
    connection.prepare_cached(&sql)?.execute(params![id, document.title_terms, document.body_terms])?;
    let sql = "INSERT OR IGNORE INTO languages (tenant, language) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![tenant, document.language.code()])?;
    Ok(if known.is_some() { Added::Changed } else { Added::New })
}

/// Removes the document of a URL, in any spelling of it; whether there was one.
///
/// # Errors
/// The storage's.
pub fn remove(connection: &Connection, tenant: &str, url: &str) -> rusqlite::Result<bool> {
    let Some(name) = url::canonical(url) else { return Ok(false) };
    let sql = "SELECT document FROM documents WHERE tenant = ?1 AND key = ?2";
    let known: Option<i64> =
        connection.query_row(sql, params![tenant, name.key], |row| row.get(0)).optional()?;
    let Some(id) = known else { return Ok(false) };
    delete(connection, &table(tenant), id)?;
    Ok(true)
}

fn delete(connection: &Connection, terms: &str, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached(&format!("DELETE FROM {terms} WHERE rowid = ?1"))?.execute([id])?;
    connection.prepare_cached("DELETE FROM documents WHERE document = ?1")?.execute([id])?;
    Ok(())
}

/// All documents of a tenant, by URL.
///
/// # Errors
/// The storage's.
pub fn list(connection: &Connection, tenant: &str) -> rusqlite::Result<Vec<Listed>> {
    let sql = "SELECT url, title, bytes FROM documents WHERE tenant = ?1 ORDER BY url";
    let mut statement = connection.prepare(sql)?;
    let row = |row: &rusqlite::Row<'_>| {
        Ok(Listed { url: row.get(0)?, title: row.get(1)?, bytes: row.get::<_, i64>(2)?.unsigned_abs() })
    };
    statement.query_map([tenant], row)?.collect()
}

/// The text of a document that the tenant may read.
///
/// # Errors
/// The storage's.
pub fn body(connection: &Connection, tenant: &str, document: i64) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT body, bytes FROM documents WHERE document = ?1 AND tenant IN (?2, ?3)";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, i64>(1)?));
    let found =
        connection.prepare_cached(sql)?.query_row(params![document, tenant, OPERATOR], row).optional()?;
    Ok(found.and_then(|(body, bytes)| refs::decompress(&body, usize::try_from(bytes).unwrap_or(0))))
}

/// Whether a tenant would find nothing whatever it asks.
///
/// # Errors
/// The storage's.
pub fn is_empty(connection: &Connection, tenant: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM documents WHERE tenant IN (?1, ?2))";
    connection.prepare_cached(sql)?.query_row(params![tenant, OPERATOR], |row| row.get(0))
}

/// The table of a tenant's words. Names of tenants are free text; a hash of one is an identifier.
fn table(tenant: &str) -> String {
    match tenant {
        OPERATOR => "terms".to_owned(),
        _ => format!("terms_{}", hex::encode(&Sha256::digest(tenant)[..16])),
    }
}
