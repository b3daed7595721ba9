//! The words by which entries are found again: one full-text table for each tenant, so that not even the ranking of
//! one tells anything about another. It holds our own terms and not the text.

use rusqlite::{Connection, OptionalExtension, params};

use crate::text::words::{Language, terms};

/// Entries that one query ranks. Terms that more have than are left of it are so common that they tell little.
const RANKED: i64 = 4_000;
/// Terms of a query beyond these do not count.
const MAX_TERMS: usize = 64;

/// The number of a tenant; `None` before its first entry.
pub(super) fn tenant(c: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    let mut find = c.prepare_cached("SELECT number FROM memory_tenants WHERE tenant = ?1")?;
    find.query_row([name], |row| row.get(0)).optional()
}

/// The number of a tenant, with its tables.
pub(super) fn tenant_or_new(c: &Connection, name: &str) -> rusqlite::Result<i64> {
    if let Some(number) = tenant(c, name)? {
        return Ok(number);
    }
    c.execute("INSERT INTO memory_tenants (tenant) VALUES (?1)", [name])?;
    let n = c.last_insert_rowid();
    // Terms are divided by spaces alone: whatever we took for a word stays one.
    c.execute_batch(&format!(
        r#"CREATE VIRTUAL TABLE memory_words_{n} USING fts5(words, content = '', contentless_delete = 1,
               tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* P* S* Co'");
           CREATE VIRTUAL TABLE memory_terms_{n} USING fts5vocab(memory_words_{n}, row);
           CREATE TRIGGER memory_forget_{n} AFTER DELETE ON memory WHEN old.tenant = {n} BEGIN
               DELETE FROM memory_words_{n} WHERE rowid = old.entry;
           END;"#
    ))?;
    Ok(n)
}

/// The words of an entry, as the table takes them.
pub(super) fn of_entry(content: &str, key: Option<&str>, tags: &[String]) -> String {
    let mut words = terms(content, Language::of(content));
    for text in key.into_iter().chain(tags.iter().map(String::as_str)) {
        words.extend(terms(text, Language::ENGLISH));
    }
    words.join(" ")
}

/// Gives an entry its words.
pub(super) fn index(c: &Connection, tenant: i64, entry: i64, words: &str) -> rusqlite::Result<()> {
    c.prepare_cached(&format!("DELETE FROM memory_words_{tenant} WHERE rowid = ?1"))?.execute([entry])?;
    let insert = format!("INSERT INTO memory_words_{tenant} (rowid, words) VALUES (?1, ?2)");
    c.prepare_cached(&insert)?.execute(params![entry, words])?;
    Ok(())
}

/// The terms of a query. Which language a few words are of is a guess, so each form counts that they might have.
pub(super) fn of_query(query: &str) -> Vec<String> {
    let mut found = Vec::new();
    for language in [Language::of(query), Language::ENGLISH, Language::UNKNOWN] {
        for term in terms(query, language) {
            if found.len() < MAX_TERMS && !found.contains(&term) {
                found.push(term);
            }
        }
    }
    found
}

/// Entries of the tenant with any of the terms, and their BM25, the best first. If all terms are common, the
/// newest with all of them and then with the rarest, unranked.
pub(super) fn matches(c: &Connection, tenant: i64, terms: &[String]) -> rusqlite::Result<Vec<(i64, f64)>> {
    let mut rarity = c.prepare_cached(&format!("SELECT doc FROM memory_terms_{tenant} WHERE term = ?1"))?;
    let mut known = Vec::new();
    for term in terms {
        if let Some(entries) = rarity.query_row([term], |row| row.get::<_, i64>(0)).optional()? {
            known.push((entries, format!("\"{}\"", term.replace('"', "\"\""))));
        }
    }
    known.sort();
    let Some((fewest, rarest)) = known.first() else { return Ok(Vec::new()) };
    if *fewest > RANKED {
        let all = known.iter().map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" AND ");
        let mut found = newest(c, tenant, &all)?;
        found.extend(newest(c, tenant, rarest)?.into_iter().map(|(entry, score)| (entry, score / 2.0)));
        return Ok(found);
    }
    let mut left = RANKED;
    let rare = known.iter().take_while(|(entries, _)| {
        left -= entries;
        left >= 0
    });
    let any = rare.map(|(_, term)| term.as_str()).collect::<Vec<_>>().join(" OR ");
    let sql =
        format!("SELECT rowid, -bm25(memory_words_{tenant}) FROM memory_words_{tenant} WHERE words MATCH ?1");
    let mut find = c.prepare_cached(&sql)?;
    let mut found: Vec<(i64, f64)> =
        find.query_map([any], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(&a.0)));
    Ok(found)
}

fn newest(c: &Connection, tenant: i64, expression: &str) -> rusqlite::Result<Vec<(i64, f64)>> {
    let sql =
        format!("SELECT rowid FROM memory_words_{tenant} WHERE words MATCH ?1 ORDER BY rowid DESC LIMIT ?2");
    let mut find = c.prepare_cached(&sql)?;
    find.query_map(params![expression, RANKED], |row| Ok((row.get(0)?, 1.0)))?.collect()
}
