//! Pages as they came, kept in the storage to be asked for again only when they have changed. Owns what may be kept,
//! for whom and for how long: RFC 9111 as far as one reader of pages needs it.
//!
//! Invariant: what a tenant has fetched is nobody else's business: each has kept pages of its own, found by owner and
//! URL in one search, and a tenant's pages make room for its own alone.

use http::{HeaderMap, HeaderValue, header};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use crate::store::{Store, StoreError, now, share};

/// Freshness where the server says nothing, in milliseconds.
const DEFAULT: i64 = 300_000;
/// Longest freshness: a page may be corrected.
const LONGEST: i64 = 86_400_000;
/// How long one that can be asked about is kept after it was fresh.
const STALE: i64 = 86_400_000;

/// A response as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) final_url: String,
    pub(super) status: u16,
    pub(super) content_type: String,
    pub(super) fetched_at: i64,
    etag: Option<String>,
    last_modified: Option<String>,
}

/// A kept page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) head: Head,
    pub(super) body: Vec<u8>,
    pub(super) fresh: bool,
    owner: String,
}

/// What a response allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permission {
    store: bool,
    private: bool,
    /// In milliseconds.
    fresh: i64,
}

impl Head {
    pub(super) fn new(final_url: String, status: u16, content_type: String, headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok()).map(str::to_owned);
        Self {
            final_url,
            status,
            content_type,
            fetched_at: now(),
            etag: text(header::ETAG),
            last_modified: text(header::LAST_MODIFIED),
        }
    }

    /// Headers that ask whether it has changed.
    pub(super) fn conditions(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [(header::IF_NONE_MATCH, &self.etag), (header::IF_MODIFIED_SINCE, &self.last_modified)]
        {
            if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
                headers.insert(name, value);
            }
        }
        headers
    }

    fn can_be_asked_about(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }
}

/// What the headers allow. `cookies`: whether one was set on the way.
pub(super) fn permission(headers: &HeaderMap, cookies: bool) -> Permission {
    let mut permission = Permission { store: true, private: cookies, fresh: DEFAULT };
    let mut shared = None;
    let mut own = None;
    let directives = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    for directive in directives.flat_map(|value| value.split(',')) {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        let seconds = || {
            value.trim().trim_matches('"').parse::<i64>().ok().map(|s| s.clamp(0, LONGEST / 1_000) * 1_000)
        };
        match &*name.trim().to_ascii_lowercase() {
            "no-store" => permission.store = false,
            "private" => permission.private = true,
            "no-cache" => own = Some(0),
            "max-age" => own = own.or_else(seconds),
            "s-maxage" => shared = seconds(),
            _ => {}
        }
    }
    let expires = || {
        let at = time(headers.get(header::EXPIRES)?)?;
        let date = headers.get(header::DATE).and_then(time).unwrap_or_else(now);
        Some((at - date).clamp(0, LONGEST))
    };
    let has_expires = headers.contains_key(header::EXPIRES);
    let shared = shared.filter(|_| !permission.private && own != Some(0));
    permission.fresh =
        shared.or(own).or_else(|| if has_expires { expires().or(Some(0)) } else { None }).unwrap_or(DEFAULT);
    if headers.get(header::VARY).is_some_and(|vary| vary.as_bytes().trim_ascii() == b"*") {
        permission.store = false;
    }
    permission
}

/// An HTTP date, in milliseconds since 1970.
fn time(value: &HeaderValue) -> Option<i64> {
    let text = value.to_str().ok()?;
    jiff::fmt::rfc2822::parse(text).ok().map(|time| time.timestamp().as_millisecond())
}

/// The kept page of a URL.
pub(super) async fn find(store: &Store, owner: &str, url: &str) -> Result<Option<Kept>, StoreError> {
    let (owner, url) = (owner.to_owned(), url.to_owned());
    store.read(move |connection| get(connection, &owner, &url)).await
}

fn get(connection: &Connection, owner: &str, url: &str) -> rusqlite::Result<Option<Kept>> {
    let sql = "SELECT owner, response, body, bytes, fresh_until FROM pages
        WHERE owner = ?2 AND url = ?1 AND expires > ?3";
    let now = now();
    let row = connection.prepare_cached(sql)?.query_row(params![url, owner, now], |row| {
        let packed: Vec<u8> = row.get(2)?;
        let bytes = usize::try_from(row.get::<_, i64>(3)?).unwrap_or_default();
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, packed, bytes, row.get::<_, i64>(4)? > now))
    });
    Ok(row.optional()?.and_then(|(owner, response, packed, bytes, fresh)| {
        let head = serde_json::from_str(&response).ok()?;
        let body = zstd::bulk::decompress(&packed, bytes).ok()?;
        Some(Kept { head, body, fresh, owner })
    }))
}

/// Keeps a page, if that is allowed; else forgets what was kept of it. Does not wait.
pub(super) fn put(store: &Store, owner: &str, url: &str, head: Head, body: &[u8], permission: Permission) {
    let (owner, url) = (owner.to_owned(), url.to_owned());
    if !permission.store || permission.fresh == 0 && !head.can_be_asked_about() {
        store.write_later(move |connection| {
            connection
                .execute("DELETE FROM pages WHERE url = ?1 AND owner = ?2", params![url, owner])
                .map(drop)
        });
        return;
    }
    let Ok(packed) = zstd::bulk::compress(body, 3) else { return };
    let bytes = body.len() as i64;
    store.write_later(move |connection| {
        let fresh_until = now() + permission.fresh;
        let expires = fresh_until + if head.can_be_asked_about() { STALE } else { 0 };
        let response = serde_json::to_string(&head).unwrap_or_default();
        share::open(connection, &owner)?;
        connection.execute(
            "INSERT INTO pages (owner, url, response, body, bytes, fresh_until, expires)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (owner, url) DO UPDATE SET response = excluded.response,
             body = excluded.body, bytes = excluded.bytes, fresh_until = excluded.fresh_until, expires = excluded.expires",
            params![owner, url, response, packed, bytes, fresh_until, expires],
        )?;
        share::fit_page(connection, &owner)
    });
}

/// Takes note that a kept page has not changed.
pub(super) fn renew(store: &Store, url: &str, kept: &Kept, permission: Permission) {
    let (owner, url) = (kept.owner.clone(), url.to_owned());
    store.write_later(move |connection| {
        let fresh_until = now() + permission.fresh;
        let sql = "UPDATE pages SET fresh_until = ?3, expires = ?4 WHERE url = ?1 AND owner = ?2";
        connection.execute(sql, params![url, owner, fresh_until, fresh_until + STALE]).map(drop)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&'static str, &str)]) -> Permission {
        let headers = headers.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        permission(&headers.collect(), false)
    }

    #[test]
    fn headers_say_how_long_and_for_whom() {
        let plain = Permission { store: true, private: false, fresh: DEFAULT };
        assert_eq!(of(&[]), plain);
        assert_eq!(of(&[("cache-control", "public, max-age=60")]), Permission { fresh: 60_000, ..plain });
        assert_eq!(of(&[("cache-control", "max-age=60, s-maxage=\"5\"")]).fresh, 5_000);
        assert_eq!(
            of(&[("cache-control", "private, max-age=60, s-maxage=5")]),
            Permission { private: true, fresh: 60_000, ..plain }
        );
        assert_eq!(of(&[("cache-control", "No-Cache, max-age=60")]).fresh, 0);
        assert!(!of(&[("cache-control", "no-store")]).store);
        assert!(!of(&[("vary", "*")]).store);
        assert_eq!(of(&[("cache-control", "max-age=99999999999999")]).fresh, LONGEST);
        assert_eq!(
            of(&[("expires", "Thu, 01 Jan 2026 00:01:00 GMT"), ("date", "Thu, 01 Jan 2026 00:00:00 GMT")])
                .fresh,
            60_000
        );
        assert_eq!(of(&[("expires", "0")]).fresh, 0);
        assert!(permission(&HeaderMap::new(), true).private);
    }

    #[tokio::test]
    async fn private_pages_are_the_owners_alone() {
        let store = Store::open(None, 64 << 20).unwrap();
        let head = |name: &str| Head::new(name.to_owned(), 200, "text/html".into(), &HeaderMap::new());
        let private = permission(&HeaderMap::new(), true);
        put(&store, "ada", "http://a/", head("ada's"), b"secret", private);
        assert_eq!(find(&store, "bob", "http://a/").await.unwrap(), None);
        put(&store, "bob", "http://a/", head("anyone's"), b"open", permission(&HeaderMap::new(), false));
        assert_eq!(find(&store, "ada", "http://a/").await.unwrap().unwrap().body, b"secret");
        let found = find(&store, "bob", "http://a/").await.unwrap().unwrap();
        assert_eq!((&*found.body, found.fresh, &*found.head.final_url), (&b"open"[..], true, "anyone's"));
    }
}
