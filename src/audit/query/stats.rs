//! Figures about many calls, in groups. Owns what is counted and how groups are named.

use serde::Serialize;

use super::{block::Name, latency::Latency};
use crate::audit::record::Outcome;

/// What calls are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Name of the key.
    Key,
    /// Public tool name.
    Tool,
    /// Name of the upstream.
    Upstream,
    /// Outcome.
    Outcome,
    /// Method after repair.
    Method,
    /// `name/version` of the client.
    Client,
    /// Each rule that fired; a call with several counts in each, one with none in none.
    Rule,
    /// Reason of a refusal or failure; calls without one are left out.
    Reason,
}

impl Dimension {
    pub(super) fn column(self) -> Name {
        match self {
            Self::Key => Name::Key,
            Self::Tool => Name::Tool,
            Self::Upstream => Name::Upstream,
            Self::Outcome => Name::Outcome,
            Self::Method => Name::Method,
            Self::Client => Name::Client,
            Self::Rule => Name::Rules,
            Self::Reason => Name::Reason,
        }
    }

    /// The groups that a name belongs to.
    pub(super) fn groups(self, name: Option<&str>) -> Vec<Option<String>> {
        match (self, name) {
            (Self::Rule | Self::Reason, None) => Vec::new(),
            (Self::Rule, Some(list)) => list.split(',').map(|one| Some(one.to_owned())).collect(),
            (_, name) => vec![name.map(str::to_owned)],
        }
    }
}

/// All outcomes, in the order of the record's documentation; anything else is counted as "other".
pub const OUTCOMES: [&str; 9] = [
    Outcome::Ok.as_str(),
    Outcome::ToolError.as_str(),
    Outcome::RpcError.as_str(),
    Outcome::Rejected.as_str(),
    Outcome::UpstreamFailed.as_str(),
    Outcome::ClientClosed.as_str(),
    Outcome::Drained.as_str(),
    Outcome::Panicked.as_str(),
    "other",
];

/// Figures about a group of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many.
    pub calls: u64,
    /// How many of each of [`OUTCOMES`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// Body bytes received.
    pub request_bytes: u64,
    /// Body bytes sent.
    pub response_bytes: u64,
    /// Tokens worked on, given back, saved.
    pub tokens: [u64; 3],
    pub(super) latency: Latency,
}

impl Figures {
    /// Calls that did not end in `ok`.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.calls - self.outcomes[0]
    }

    /// The duration in microseconds that `share` of the calls do not exceed: exact for up to 256 calls, else
    /// up to 1/128 too much. `None` without calls.
    #[must_use]
    pub fn latency_us(&self, share: f64) -> Option<u64> {
        self.latency.quantile(share)
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(a, b)| *a += b);
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(other.response_bytes);
        self.tokens.iter_mut().zip(other.tokens).for_each(|(a, b)| *a = a.saturating_add(b));
        self.latency.merge(other.latency);
    }
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A name for each dimension of the grouping.
    pub names: Vec<Option<String>>,
    /// Its figures.
    pub figures: Figures,
}

/// Answers of [`Journals::stats`](super::Journals::stats).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// All calls that pass the filter.
    pub total: Figures,
    /// For each grouping asked for its groups, the one with most calls first.
    pub groupings: Vec<Vec<Group>>,
    /// Arrival of the first and the last call, in microseconds since 1970.
    pub span: Option<(i64, i64)>,
}

/// A group as JSON shows it.
#[derive(Debug, Serialize)]
pub struct Shown {
    calls: u64,
    failed: u64,
    outcomes: serde_json::Map<String, serde_json::Value>,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    request_bytes: u64,
    response_bytes: u64,
    tokens_in: u64,
    tokens_out: u64,
    tokens_saved: u64,
}

impl From<&Figures> for Shown {
    fn from(f: &Figures) -> Self {
        let ms = |share| f.latency_us(share).map(|us| us as f64 / 1_000.0);
        let some = OUTCOMES.iter().zip(f.outcomes).filter(|(_, n)| *n > 0);
        Self {
            calls: f.calls,
            failed: f.failed(),
            outcomes: some.map(|(name, n)| ((*name).to_owned(), n.into())).collect(),
            p50_ms: ms(0.5),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            request_bytes: f.request_bytes,
            response_bytes: f.response_bytes,
            tokens_in: f.tokens[0],
            tokens_out: f.tokens[1],
            tokens_saved: f.tokens[2],
        }
    }
}
