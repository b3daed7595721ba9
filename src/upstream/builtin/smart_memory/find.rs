//! Finding what is kept: by name, by words, by tag, in order. Invariant: what has expired, what is of another
//! tenant and what is in another namespace is not there.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    entry::{COLUMNS, Entry},
    words,
};

/// In which recency halves what it adds to a score, in milliseconds.
const HALF_LIFE: f64 = 30.0 * 86_400_000.0;
/// What recency can add to a score.
const RECENCY: f64 = 0.2;

/// Where to look.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) tenant: String,
    pub(super) namespace: String,
    /// All of them must be there.
    pub(super) tags: Vec<String>,
    /// Milliseconds since 1970.
    pub(super) now: i64,
}

impl Scope {
    fn has(&self, entry: &Entry) -> bool {
        self.tags.iter().all(|tag| entry.tags.contains(tag))
    }
}

/// The entry with this key, or with this id if no key is.
pub(super) fn by_name(c: &Connection, scope: &Scope, name: &str) -> rusqlite::Result<Option<Entry>> {
    let Some(tenant) = words::tenant(c, &scope.tenant)? else { return Ok(None) };
    for column in ["key", "id"] {
        let sql = format!(
            "SELECT {COLUMNS} FROM memory WHERE tenant = ?1 AND namespace = ?2 AND {column} = ?3
             AND (expires IS NULL OR expires > ?4)"
        );
        let mut find = c.prepare_cached(&sql)?;
        let found =
            find.query_row(params![tenant, scope.namespace, name, scope.now], Entry::read).optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The entries that match `terms` best, with their scores, and whether there are more.
pub(super) fn by_words(
    c: &Connection,
    scope: &Scope,
    terms: &[String],
    limit: usize,
) -> rusqlite::Result<(Vec<(f64, Entry)>, bool)> {
    let Some(tenant) = words::tenant(c, &scope.tenant)? else { return Ok((Vec::new(), false)) };
    let sql = format!(
        "SELECT {COLUMNS} FROM memory WHERE entry = ?1 AND namespace = ?2 AND (expires IS NULL OR expires > ?3)"
    );
    let mut read = c.prepare_cached(&sql)?;
    let mut found: Vec<(f64, Entry)> = Vec::new();
    let (mut best, mut more) = (None, false);
    for (entry, match_) in words::matches(c, tenant, terms)? {
        // Recency only lowers a score, so that the rest can be no better than this.
        let full = found.len() >= limit;
        if full && best.is_some_and(|best| match_ / best < found[limit - 1].0) {
            more = true;
            break;
        }
        if found.iter().any(|(_, known)| known.entry == entry) {
            continue;
        }
        let row = read.query_row(params![entry, scope.namespace, scope.now], Entry::read).optional()?;
        let Some(entry) = row.filter(|entry| scope.has(entry)) else { continue };
        let score = match_ / *best.get_or_insert(match_) * recency(scope.now - entry.updated);
        let at = found.partition_point(|(other, known)| (*other, known.entry) > (score, entry.entry));
        found.insert(at, (score, entry));
        if found.len() > limit {
            found.pop();
            more = true;
        }
    }
    Ok((found, more))
}

fn recency(age: i64) -> f64 {
    (1.0 - RECENCY) + RECENCY * (-(age.max(0) as f64) / HALF_LIFE).exp2()
}

/// Where a list goes on: the time of the last entry shown, and how many of that very time were shown. A row's own number
/// would tell how much other tenants store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) updated: i64,
    pub(super) shown: usize,
}

impl Place {
    /// After `entries`, which began at `before`.
    pub(super) fn after(entries: &[Entry], before: Option<Self>) -> Option<Self> {
        let updated = entries.last()?.updated;
        let same = entries.iter().rev().take_while(|entry| entry.updated == updated).count();
        let earlier = before.filter(|before| before.updated == updated).map_or(0, |before| before.shown);
        Some(Self { updated, shown: same + earlier })
    }
}

/// The newest entries from `before` on, and whether there are more.
pub(super) fn newest(
    c: &Connection,
    scope: &Scope,
    before: Option<Place>,
    limit: usize,
) -> rusqlite::Result<(Vec<Entry>, bool)> {
    let Some(tenant) = words::tenant(c, &scope.tenant)? else { return Ok((Vec::new(), false)) };
    let sql = format!(
        "SELECT {COLUMNS} FROM memory WHERE tenant = ?1 AND namespace = ?2 AND updated <= ?3
         AND (expires IS NULL OR expires > ?4) ORDER BY updated DESC, entry DESC"
    );
    let mut read = c.prepare_cached(&sql)?;
    let Place { updated, shown } = before.unwrap_or(Place { updated: i64::MAX, shown: 0 });
    let mut rows = read.query(params![tenant, scope.namespace, updated, scope.now])?;
    let mut found = Vec::new();
    let mut skipped = 0;
    while let Some(row) = rows.next()? {
        let entry = Entry::read(row)?;
        if !scope.has(&entry) {
            continue;
        }
        if skipped < shown && entry.updated == updated {
            skipped += 1;
            continue;
        }
        if found.len() == limit {
            return Ok((found, true));
        }
        found.push(entry);
    }
    Ok((found, false))
}

/// Forgets entries.
pub(super) fn forget(c: &Connection, entries: &[Entry]) -> rusqlite::Result<()> {
    let mut delete = c.prepare_cached("DELETE FROM memory WHERE entry = ?1")?;
    entries.iter().try_for_each(|entry| delete.execute([entry.entry]).map(drop))
}
