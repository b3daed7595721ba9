//! How far the gateway's knowledge of an upstream has come, for `/readyz` and the log. Owns the one log line of
//! each change. Holds no secret: errors are the gateway's own words.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use tokio::time::Instant;

use super::link::Failure;
use crate::mcp::era::Era;

/// The state as shown to operators; ages in whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// Nothing is known yet.
    Learning,
    /// What was known before the restart counts, and is not confirmed yet.
    Stale {
        /// How many tools.
        tools: usize,
    },
    /// The tools are known.
    Ready {
        /// How many.
        tools: usize,
        /// `legacy` or `modern`.
        era: &'static str,
        /// Since they were last confirmed.
        age_s: u64,
        /// Tools that are withheld because their definition is not the pinned one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        withheld: Vec<String>,
    },
    /// No usable answer. Tools that were known before still count.
    Unreachable {
        /// What went wrong at the last try.
        error: String,
        /// Since the first failure in a row.
        since_s: u64,
    },
    /// The upstream refuses the gateway's own requests; tools come from lists that pass by.
    Unauthorized {
        /// How many are known.
        tools: usize,
    },
}

/// The state as it is kept.
#[derive(Debug, Clone)]
pub(super) enum Status {
    Learning,
    Stale,
    Ready { era: Era, confirmed: Instant, withheld: Arc<[String]> },
    Unreachable { error: Arc<str>, since: Instant },
    Unauthorized,
}

impl Status {
    pub(super) fn show(&self, tools: usize) -> State {
        match self {
            Self::Learning => State::Learning,
            Self::Stale => State::Stale { tools },
            Self::Ready { era, confirmed, withheld } => State::Ready {
                tools,
                era: era.as_str(),
                age_s: whole_seconds(confirmed.elapsed()),
                withheld: withheld.to_vec(),
            },
            Self::Unreachable { error, since } => {
                State::Unreachable { error: error.to_string(), since_s: whole_seconds(since.elapsed()) }
            }
            Self::Unauthorized => State::Unauthorized { tools },
        }
    }

    /// The state after `failure`; logs if that is another one.
    pub(super) fn after_failure(&self, upstream: &str, failure: &Failure) -> Self {
        match failure {
            Failure::Lost | Failure::Old => self.clone(),
            Failure::Unauthorized(status) => {
                if !matches!(self, Self::Unauthorized) {
                    tracing::warn!(
                        upstream,
                        status,
                        "upstream refuses the gateway's own requests; set its `headers`, or its tools are known only from lists that clients ask for"
                    );
                }
                Self::Unauthorized
            }
            Failure::Unreachable(error) | Failure::Odd(error) => {
                let since = match self {
                    Self::Unreachable { since, .. } => *since,
                    _ => {
                        tracing::warn!(
                            upstream,
                            error,
                            "cannot learn the upstream's tools; trying again in the background, check that it runs and that its `url` is right"
                        );
                        Instant::now()
                    }
                };
                Self::Unreachable { error: error.as_str().into(), since }
            }
        }
    }
}

fn whole_seconds(age: Duration) -> u64 {
    age.as_secs()
}
