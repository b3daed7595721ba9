//! A journal line as replay reads it: what came in, and what became of it then.

use std::{net::IpAddr, time::SystemTime};

use serde::Deserialize;

use super::Seen;
use crate::{audit::query::Entry, proxy::rehearse};

/// Reasons that are decided after everything that replay does, or that have nothing to do with the call.
const LATER: [&str; 5] =
    ["budget_exhausted", "audit_unavailable", "draining", "store_unavailable", "upstream_unavailable"];

#[derive(Debug, Deserialize)]
pub(super) struct Line {
    boot: String,
    seq: u64,
    #[serde(default)]
    principal: Option<String>,
    #[serde(default)]
    client: Client,
    #[serde(default)]
    upstream: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    normalized: Vec<String>,
    #[serde(default)]
    edits: Vec<Edit>,
    #[serde(default)]
    outcome: Option<String>,
    #[serde(default)]
    error: Option<Failure>,
    #[serde(default)]
    received: Option<Received>,
}

#[derive(Debug, Default, Deserialize)]
struct Client {
    #[serde(default)]
    address: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Edit {
    rule: String,
    path: String,
}

#[derive(Debug, Deserialize)]
struct Received {
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    masked: bool,
    forwarded: Option<String>,
}

/// A call that can be run again.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) boot: String,
    pub(super) seq: u64,
    pub(super) time_text: String,
    pub(super) key: Option<String>,
    pub(super) call: Option<String>,
    pub(super) then: Seen,
    /// What was masked is not what was received, so what goes out cannot be compared.
    pub(super) masked: bool,
    time: SystemTime,
    address: Option<IpAddr>,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// Why a call cannot be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is no posted message.
    NoMessage,
    /// What was received was not kept.
    NotCaptured,
    /// It was too long to be kept whole.
    TooLong,
}

impl Recorded {
    pub(super) fn read(line: &[u8]) -> Result<Self, Unfit> {
        let entry = Entry::parse(line).map_err(|_| Unfit::NotCaptured)?;
        let line: Line = serde_json::from_slice(line).map_err(|_| Unfit::NotCaptured)?;
        let is_http = |m: &str| !m.is_empty() && m.bytes().all(|b| b.is_ascii_uppercase());
        let Some(received) = line.received else {
            let stream = line.method.as_deref().is_some_and(is_http);
            return Err(if stream { Unfit::NoMessage } else { Unfit::NotCaptured });
        };
        let body = received.body.ok_or(Unfit::TooLong)?;
        let reason = line.error.and_then(|e| e.reason);
        let refused = received.forwarded.is_none() && !reason.as_deref().is_some_and(|r| LATER.contains(&r));
        let then = Seen {
            refused: refused.then(|| reason.or(line.outcome).unwrap_or_default()),
            upstream: line.upstream,
            tool: line.tool.clone(),
            rules: line.normalized,
            edits: line.edits.into_iter().map(|e| (e.rule, e.path)).collect(),
            forwarded: received.forwarded,
        };
        Ok(Self {
            boot: line.boot,
            seq: line.seq,
            time_text: entry.time.to_string(),
            key: line.principal,
            call: line.tool.or(line.method),
            then,
            masked: received.masked,
            time: rehearse::moment(entry.micros().unwrap_or(0)),
            address: line.client.address,
            path: received.path,
            headers: received.headers,
            body,
        })
    }

    pub(super) fn message(&self) -> rehearse::Message<'_> {
        rehearse::Message {
            time: self.time,
            path: &self.path,
            headers: &self.headers,
            body: &self.body,
            key: self.key.as_deref(),
            address: self.address,
        }
    }
}
