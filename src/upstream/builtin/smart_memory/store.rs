//! Storing: an entry is found by its key, by its content, or by being nearly the same, and is then changed only if
//! something is different. Owns versions and quotas. Everything here runs on the one writer, so that what was read
//! is still so when it is written.

use rusqlite::{Connection, OptionalExtension, ToSql, params};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    entry::{COLUMNS, Entry, column},
    words,
};
use crate::{store::share, text::shingles, upstream::builtin::tool::ToolError};

/// Entries without a key that are at least this similar are one.
const SAME: f64 = 0.9;
/// Entries that are compared for it.
const COMPARED: usize = 64;
/// Entries of one tenant.
const MAX_ENTRIES: i64 = 200_000;
/// Content of one tenant, in bytes.
const MAX_BYTES: i64 = 256 << 20;

/// What is to be stored.
pub(super) struct New {
    pub(super) tenant: String,
    pub(super) namespace: String,
    pub(super) key: Option<String>,
    pub(super) content: String,
    pub(super) tags: Option<Vec<String>>,
    pub(super) source: Option<String>,
    /// In milliseconds since 1970.
    pub(super) expires: Option<i64>,
    pub(super) if_version: Option<i64>,
}

/// What was found out about it before the writer is bothered.
pub(super) struct Prepared {
    new: New,
    words: String,
    sha256: [u8; 32],
    /// Of content without a key.
    shingles: Vec<u64>,
    pairs: Vec<i64>,
}

/// Why nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The entry has this version.
    Conflict(i64),
    Quota,
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict(current) => {
                let message =
                    "the entry has another version; get it, and store again with the version it has";
                Self::new("version_conflict", message).with_details(json!({"current": current}))
            }
            Refusal::Quota => {
                Self::new("quota_exceeded", "the memory is full; forget what is no longer needed")
            }
        }
    }
}

impl Prepared {
    pub(super) fn new(new: New) -> Self {
        let words =
            words::of_entry(&new.content, new.key.as_deref(), new.tags.as_deref().unwrap_or_default());
        let shingles = if new.key.is_none() { shingles::prepare(&new.content).shingles } else { Vec::new() };
        // Sets that are similar enough share one of the first of their sorted members.
        let first = shingles.len() + 1 - (shingles.len() as f64 * SAME).ceil() as usize;
        let pairs = shingles.iter().take(first).map(|shingle| pair(&new, *shingle)).collect();
        Self { words, sha256: Sha256::digest(&new.content).into(), shingles, pairs, new }
    }
}

/// A pair of words within the tenant's namespace.
fn pair(new: &New, shingle: u64) -> i64 {
    let mut digest = Sha256::new();
    for part in [new.tenant.as_bytes(), b"\0", new.namespace.as_bytes(), b"\0", &shingle.to_le_bytes()] {
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    i64::from_le_bytes([
        digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
    ])
}

/// Stores; the answer is the `stored` member of the result.
pub(super) fn store(
    c: &Connection,
    prepared: &Prepared,
    now: i64,
) -> rusqlite::Result<Result<Value, Refusal>> {
    let Prepared { new, words, .. } = prepared;
    share::open(c, &new.tenant)?;
    let tenant = words::tenant_or_new(c, &new.tenant)?;
    let found = find(c, tenant, prepared, now)?;
    let current = found.as_ref().map_or(0, |entry| entry.version);
    if new.if_version.is_some_and(|version| version != current) {
        return Ok(Err(Refusal::Conflict(current)));
    }
    let Some(old) = found else {
        if is_full(c, tenant, new.content.len(), now)? {
            return Ok(Err(Refusal::Quota));
        }
        let id = insert(c, tenant, prepared, now)?;
        let entry = c.last_insert_rowid();
        words::index(c, tenant, entry, words)?;
        pairs(c, entry, prepared)?;
        fit(c, tenant, &new.tenant, now)?;
        return Ok(Ok(stored(&id, new, 1, true, false)));
    };
    let unchanged = old.content == new.content
        && new.tags.as_ref().is_none_or(|tags| *tags == old.tags)
        && new.source.as_ref().is_none_or(|source| Some(source) == old.source.as_ref());
    if unchanged {
        if new.expires.is_some() {
            c.execute("UPDATE memory SET expires = ?2 WHERE entry = ?1", params![old.entry, new.expires])?;
        }
        return Ok(Ok(stored(&old.id, new, old.version, false, true)));
    }
    if is_full(c, tenant, new.content.len().saturating_sub(old.content.len()), now)? {
        return Ok(Err(Refusal::Quota));
    }
    // The same content under other tags keeps what was not said anew.
    let same = old.content == new.content;
    let kept = |tags: &[String]| column(tags);
    let tags = new.tags.as_deref().map(kept);
    let tags = tags.unwrap_or_else(|| if same { kept(&old.tags) } else { kept(&[]) });
    c.execute(
        "UPDATE memory SET content = ?2, sha256 = ?3, tags = ?4, source = coalesce(?5, iif(?8, source, NULL)),
         version = version + 1, updated = ?6, expires = coalesce(?7, iif(?8, expires, NULL)) WHERE entry = ?1",
        params![old.entry, new.content, prepared.sha256, tags, new.source, now, new.expires, same],
    )?;
    words::index(c, tenant, old.entry, words)?;
    pairs(c, old.entry, prepared)?;
    fit(c, tenant, &new.tenant, now)?;
    let mut stored = stored(&old.id, new, old.version + 1, false, false);
    if new.key.is_none() && old.content != new.content {
        stored["merged_into"] = old.id.into();
    }
    Ok(Ok(stored))
}

fn stored(id: &str, new: &New, version: i64, created: bool, unchanged: bool) -> Value {
    let mut stored = json!({"id": id, "version": version, "created": created, "unchanged": unchanged});
    if let Some(key) = &new.key {
        stored["key"] = key.as_str().into();
    }
    stored
}

/// The entry that the new one would be; one that has expired makes room.
fn find(c: &Connection, tenant: i64, prepared: &Prepared, now: i64) -> rusqlite::Result<Option<Entry>> {
    let new = &prepared.new;
    let (column, value): (&str, &dyn ToSql) = match &new.key {
        Some(key) => ("key = ?3", key),
        None => ("key IS NULL AND sha256 = ?3", &prepared.sha256),
    };
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE tenant = ?1 AND namespace = ?2 AND {column}");
    let mut find = c.prepare_cached(&sql)?;
    let found = find.query_row(params![tenant, new.namespace, value], Entry::read).optional()?;
    match found {
        Some(old) if old.expires.is_some_and(|expires| expires <= now) => {
            c.execute("DELETE FROM memory WHERE entry = ?1", [old.entry])?;
            Ok(None)
        }
        None if new.key.is_none() => nearly_same(c, tenant, prepared, now),
        found => Ok(found),
    }
}

/// The most similar entry without a key, if it is similar enough.
fn nearly_same(
    c: &Connection,
    tenant: i64,
    prepared: &Prepared,
    now: i64,
) -> rusqlite::Result<Option<Entry>> {
    let mut holders =
        c.prepare_cached("SELECT entry FROM memory_pairs WHERE pair = ?1 ORDER BY entry DESC LIMIT 1000")?;
    let mut shared: Vec<i64> = Vec::new();
    for pair in &prepared.pairs {
        for entry in holders.query_map([pair], |row| row.get(0))? {
            shared.push(entry?);
        }
    }
    shared.sort_unstable();
    let mut candidates: Vec<(usize, i64)> =
        shared.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0])).collect();
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    let sql = format!(
        "SELECT {COLUMNS} FROM memory WHERE entry = ?1 AND tenant = ?2 AND namespace = ?3 AND key IS NULL
         AND (expires IS NULL OR expires > ?4)"
    );
    let mut read = c.prepare_cached(&sql)?;
    let mut best: Option<(f64, Entry)> = None;
    for (_, entry) in candidates.into_iter().take(COMPARED) {
        let row = params![entry, tenant, prepared.new.namespace, now];
        let Some(entry) = read.query_row(row, Entry::read).optional()? else { continue };
        let similarity = shingles::jaccard(&shingles::prepare(&entry.content).shingles, &prepared.shingles);
        if similarity >= SAME && best.as_ref().is_none_or(|(most, _)| similarity > *most) {
            best = Some((similarity, entry));
        }
    }
    Ok(best.map(|(_, entry)| entry))
}

fn insert(c: &Connection, tenant: i64, prepared: &Prepared, now: i64) -> rusqlite::Result<String> {
    let new = &prepared.new;
    let mut insert = c.prepare_cached(
        "INSERT INTO memory (tenant, namespace, id, key, content, sha256, tags, source, version, created, updated, expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?9, ?9, ?10) ON CONFLICT (tenant, namespace, id) DO NOTHING",
    )?;
    let tags = column(new.tags.as_deref().unwrap_or_default());
    let mut attempt = 0;
    loop {
        // An entry that has been merged into keeps the name that its first content gave it.
        let id = id(new, attempt);
        let row = params![
            tenant,
            new.namespace,
            id,
            new.key,
            new.content,
            prepared.sha256,
            tags,
            new.source,
            now,
            new.expires
        ];
        if insert.execute(row)? == 1 {
            return Ok(id);
        }
        attempt += 1;
    }
}

fn id(new: &New, attempt: u32) -> String {
    let named = match &new.key {
        Some(key) => format!("key\0{attempt}\0{key}"),
        None => format!("content\0{attempt}\0{}", new.content),
    };
    let digest: [u8; 32] = Sha256::digest(named).into();
    format!("me_{}", hex::encode(&digest[..12]))
}

fn pairs(c: &Connection, entry: i64, prepared: &Prepared) -> rusqlite::Result<()> {
    c.prepare_cached("DELETE FROM memory_pairs WHERE entry = ?1")?.execute([entry])?;
    let mut insert = c.prepare_cached("INSERT OR IGNORE INTO memory_pairs (pair, entry) VALUES (?1, ?2)")?;
    for pair in &prepared.pairs {
        insert.execute(params![pair, entry])?;
    }
    Ok(())
}

/// Whether `bytes` more are too many, even after what has expired is gone.
fn is_full(c: &Connection, tenant: i64, bytes: usize, now: i64) -> rusqlite::Result<bool> {
    let mut totals = c.prepare_cached("SELECT entries, bytes FROM memory_tenants WHERE number = ?1")?;
    let mut is_full = || {
        let (entries, used): (i64, i64) = totals.query_row([tenant], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rusqlite::Result::Ok(entries >= MAX_ENTRIES || used + bytes as i64 > MAX_BYTES)
    };
    if !is_full()? {
        return Ok(false);
    }
    forget_expired(c, tenant, now)?;
    is_full()
}

/// Keeps what is written within the tenant's share of the storage. An error undoes the write.
fn fit(c: &Connection, tenant: i64, name: &str, now: i64) -> rusqlite::Result<()> {
    if !share::lasting_fits(c, name)? {
        forget_expired(c, tenant, now)?;
    }
    share::fit_lasting(c, name)
}

fn forget_expired(c: &Connection, tenant: i64, now: i64) -> rusqlite::Result<()> {
    c.execute("DELETE FROM memory WHERE tenant = ?1 AND expires <= ?2", params![tenant, now]).map(drop)
}
