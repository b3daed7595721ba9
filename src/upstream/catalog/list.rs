//! Asks an upstream for all pages of `tools/list`. Owns the limits on pages, tools and bytes. Invariant: ends
//! whatever the upstream answers; what was read up to a limit counts.

use std::{
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{
    answer::MAX_ANSWER,
    link::{Failure, Link, Peer},
};
use crate::mcp::tools::{MAX_TOOLS, ToolSet};

/// Most pages asked for.
const MAX_PAGES: usize = 1_000;
/// From this size on, in bytes, a page is read on a thread that may block.
const LARGE: usize = 64 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// A whole list.
#[derive(Default)]
pub(super) struct Listed {
    pub(super) tools: ToolSet,
    /// Of the tools' own texts: equal if nothing changed.
    pub(super) digest: u64,
    /// The least `ttlMs` of the pages; `None` where none was given.
    pub(super) ttl: Option<Duration>,
    /// Why the list ends early, if it does.
    pub(super) cut: Option<&'static str>,
}

/// Reads the list to its end or to a limit.
pub(super) async fn list(link: &Link, peer: &Peer) -> Result<Listed, Failure> {
    let mut listed = Listed::default();
    let mut seen = HashSet::new();
    let mut bytes = 0_usize;
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.as_ref().map_or_else(|| json!({}), |c| json!({"cursor": c}));
        let Some(result) = page(link, peer, params).await? else { return Ok(listed) };
        bytes += result.get().len();
        (listed, cursor) = take(listed, result).await?;
        let Some(next) = &cursor else { return Ok(listed) };
        listed.cut = if bytes > MAX_ANSWER || listed.tools.len() >= MAX_TOOLS {
            Some("more than 16 MiB or 10,000 tools")
        } else if !seen.insert(next.clone()) {
            Some("a cursor came twice")
        } else {
            None
        };
        if listed.cut.is_some() {
            return Ok(listed);
        }
    }
    listed.cut = Some("more than 1,000 pages");
    Ok(listed)
}

/// One page's result; `None` if the upstream does not know the method, and so has no tools.
async fn page(link: &Link, peer: &Peer, params: Value) -> Result<Option<Box<RawValue>>, Failure> {
    let reply = link.request(peer, "tools/list", params).await?;
    match reply.outcome {
        Ok(result) => Ok(Some(result)),
        Err(error) if error.code == METHOD_NOT_FOUND => Ok(None),
        Err(error) => {
            Err(Failure::odd(format!("tools/list: HTTP {}, error {}", reply.status.as_u16(), error.code)))
        }
    }
}

/// Adds one page, and returns the cursor of the next.
async fn take(mut listed: Listed, result: Box<RawValue>) -> Result<(Listed, Option<String>), Failure> {
    let large = result.get().len() >= LARGE;
    let read = move || {
        let next = listed.add(&result)?;
        Ok((listed, next))
    };
    if !large {
        return read();
    }
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err(Failure::odd("tools/list: the result cannot be read")))
}

impl Listed {
    fn add(&mut self, result: &RawValue) -> Result<Option<String>, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page<'a> {
            #[serde(borrow)]
            tools: &'a RawValue,
            ttl_ms: Option<f64>,
        }
        let no_list = || Failure::odd("tools/list: the result has no list of tools");
        let page: Page<'_> = serde_json::from_str(result.get()).map_err(|_| no_list())?;
        let next = self.tools.extend(result.get().as_bytes()).map_err(|_| no_list())?;
        let mut digest = DefaultHasher::new();
        (self.digest, page.tools.get()).hash(&mut digest);
        self.digest = digest.finish();
        self.ttl = self.ttl.into_iter().chain(page.ttl_ms.map(ttl)).min();
        Ok(next)
    }
}

/// `ttlMs`; a negative one is 0 (2026-07-28, caching).
fn ttl(ms: f64) -> Duration {
    const WEEK_MS: f64 = 7.0 * 86_400_000.0;
    Duration::from_secs_f64(ms.clamp(0.0, WEEK_MS) / 1_000.0)
}
