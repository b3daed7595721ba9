//! Asks an upstream for all pages of its lists. Owns the limits on pages, entries and bytes. Invariant: ends
//! whatever the upstream answers; what was read up to a limit counts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json, value::RawValue};

use super::{
    answer::MAX_ANSWER,
    link::{Failure, Link, Peer},
    offers::{Definition, Kind, List},
};
use crate::mcp::{
    json::{self as slices, Raw, Type},
    tools::MAX_TOOLS,
};

/// Most pages asked for.
const MAX_PAGES: usize = 1_000;
/// Most entries of one list.
const MAX_ENTRIES: usize = MAX_TOOLS;
/// From this size on, in bytes, something is read on a thread that may block.
pub(super) const LARGE: usize = 64 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// What one look brought: the lists by number; `None` where the upstream did not answer as a server should.
pub(super) type Lists = [Option<List>; 4];

/// Asks for everything that the upstream says it has. Tools are always asked for.
pub(super) async fn everything(name: &str, link: &Link, peer: &Peer) -> Result<Lists, Failure> {
    let mut lists = [Some(list(name, link, peer, Kind::Tools).await?), None, None, None];
    for kind in [Kind::Prompts, Kind::Resources, Kind::Templates] {
        lists[kind as usize] = if peer.about.has(kind) {
            match list(name, link, peer, kind).await {
                Ok(list) => Some(list),
                Err(Failure::Odd(error)) => {
                    tracing::warn!(
                        upstream = name,
                        error,
                        "a list cannot be read; what was known of it stays"
                    );
                    None
                }
                Err(other) => return Err(other),
            }
        } else {
            Some(List::default())
        };
    }
    Ok(lists)
}

/// A list as it grows.
#[derive(Default)]
struct Growing {
    list: List,
    places: HashMap<Arc<str>, usize>,
    pages: usize,
}

/// The tools of a `tools/list` answer, or of its `result` alone.
pub(super) fn tools(answer: &[u8]) -> Result<List, String> {
    let whole = slices::parse(answer).map_err(|e| format!("not JSON at byte {}", e.offset))?;
    let result = whole.get("result").unwrap_or(whole);
    let mut growing = Growing::default();
    let no_list = |_| "there is no list `tools`, as a tools/list result has".to_owned();
    growing.add(Kind::Tools, result.text()).map_err(no_list)?;
    Ok(growing.list)
}

/// Reads one list to its end or to a limit.
async fn list(name: &str, link: &Link, peer: &Peer, kind: Kind) -> Result<List, Failure> {
    let mut growing = Growing::default();
    let mut seen = HashSet::new();
    let mut bytes = 0_usize;
    let mut cursor: Option<String> = None;
    let cut = loop {
        let params = cursor.as_ref().map_or_else(|| json!({}), |c| json!({"cursor": c}));
        let Some(result) = page(link, peer, kind, params).await? else { break None };
        bytes += result.get().len();
        (growing, cursor) = take(growing, kind, result).await?;
        let Some(next) = &cursor else { break None };
        if bytes > MAX_ANSWER || growing.list.items.len() >= MAX_ENTRIES {
            break Some("more than 16 MiB or 10,000 entries");
        }
        if !seen.insert(next.clone()) {
            break Some("a cursor came twice");
        }
        if growing.pages >= MAX_PAGES {
            break Some("more than 1,000 pages");
        }
    };
    if let Some(limit) = cut {
        tracing::warn!(upstream = name, list = kind.method(), limit, "the list was not read to its end");
    }
    Ok(growing.list)
}

/// One page's result; `None` if the upstream does not know the method, and so has nothing of the kind.
async fn page(link: &Link, peer: &Peer, kind: Kind, params: Value) -> Result<Option<Box<RawValue>>, Failure> {
    let method = kind.method();
    let reply = link.request(peer, method, params).await?;
    match reply.outcome {
        Ok(result) => Ok(Some(result)),
        Err(error) if error.code == METHOD_NOT_FOUND => Ok(None),
        Err(error) => {
            Err(Failure::odd(format!("{method}: HTTP {}, error {}", reply.status.as_u16(), error.code)))
        }
    }
}

/// Adds one page, and returns the cursor of the next.
async fn take(
    mut growing: Growing,
    kind: Kind,
    result: Box<RawValue>,
) -> Result<(Growing, Option<String>), Failure> {
    let large = result.get().len() >= LARGE;
    let read = move || {
        let next = growing.add(kind, result.get())?;
        Ok((growing, next))
    };
    if !large {
        return read();
    }
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(Failure::odd(format!("{}: the result cannot be read", kind.method()))))
}

impl Growing {
    fn add(&mut self, kind: Kind, result: &str) -> Result<Option<String>, Failure> {
        let no_list =
            || Failure::odd(format!("{}: the result has no list of {}", kind.method(), kind.member()));
        let page = slices::parse(result.as_bytes()).map_err(|_| no_list())?;
        let entries = page.get(kind.member()).filter(|l| l.kind() == Type::Array).ok_or_else(no_list)?;
        for entry in entries.elements() {
            self.insert(kind, entry);
        }
        let public = page.get("cacheScope").is_some_and(|s| s.is_string("public"));
        self.list.public = public && (self.pages == 0 || self.list.public);
        let ttl = page.get("ttlMs").and_then(|t| t.text().parse().ok()).map(ttl);
        self.list.ttl = self.list.ttl.into_iter().chain(ttl).min();
        self.pages += 1;
        Ok(page.get("nextCursor").and_then(|c| c.as_exact_str()).map(|c| c.into_owned()))
    }

    /// An entry without a usable key is passed over: nobody could ask for it. The last of a key counts.
    fn insert(&mut self, kind: Kind, entry: Raw<'_>) {
        let key = entry.get(kind.key()).and_then(|k| k.as_exact_str());
        let Some(key) = key.map(|k| Arc::<str>::from(&*k)) else { return };
        let raw = Arc::from(entry.text());
        if let Some(&place) = self.places.get(&key) {
            self.list.items[place].raw = raw;
        } else if self.list.items.len() < MAX_ENTRIES {
            self.places.insert(Arc::clone(&key), self.list.items.len());
            self.list.items.push(Definition { key, raw });
        }
    }
}

/// `ttlMs`; a negative one is 0 (2026-07-28, caching).
fn ttl(ms: f64) -> Duration {
    const WEEK_MS: f64 = 7.0 * 86_400_000.0;
    Duration::from_secs_f64(ms.clamp(0.0, WEEK_MS) / 1_000.0)
}
