//! Runs recorded calls through the pipeline of another configuration and says what would be different. Nothing is sent.
//! Owns the comparison; the pipeline is the gateway's own, see [`crate::proxy::rehearse`].
//!
//! Invariant: a call is either compared or counted as one that could not be.

mod recorded;

use std::ops::ControlFlow;

use serde::Serialize;
use sha2::{Digest, Sha256};

use self::recorded::{Recorded, Unfit};
use crate::{
    audit::query::{Broken, Filter, Journals},
    proxy::rehearse::{Rehearsal, Verdict},
};

/// What becomes of a call before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// The reason, if it is refused.
    refused: Option<String>,
    upstream: Option<String>,
    tool: Option<String>,
    rules: Vec<String>,
    /// Rule and path of each repair inside the arguments.
    edits: Vec<(String, String)>,
    /// SHA-256 of what goes out, in hex.
    forwarded: Option<String>,
}

/// One thing that would be different.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `outcome`, `upstream`, `tool`, `repairs`, `edits` or `forwarded`.
    pub what: &'static str,
    /// As recorded; none is none.
    pub before: Option<String>,
    /// As it would be.
    pub after: Option<String>,
}

/// A call with which something else would happen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The record.
    pub boot: String,
    /// Its number.
    pub seq: u64,
    /// When it arrived.
    pub time: String,
    /// Who called.
    pub key: Option<String>,
    /// The tool, or else the method, as recorded.
    pub call: Option<String>,
    /// What would be different.
    pub changes: Vec<Change>,
}

/// How many calls were and were not compared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Calls that were run.
    pub replayed: u64,
    /// Of these, those with which something else would happen.
    pub changed: u64,
    /// Records that do not hold the message as it was received: made under another `capture` than `full`, refused before
    /// the body was read, or calls that a built-in tool made.
    pub not_captured: u64,
    /// Messages that were too long to be kept whole.
    pub too_long: u64,
    /// GET and DELETE, which carry no message.
    pub no_message: u64,
    /// Of those that were run, those in which a credential was masked: what would go out was not compared.
    pub masked: u64,
}

/// Runs the calls that pass, in the order of their arrival, and tells of each with which something else would happen.
///
/// # Errors
/// A file cannot be read.
pub fn run(
    journals: &Journals,
    filter: Filter,
    rehearsal: &mut Rehearsal,
    mut each: impl FnMut(Changed) -> ControlFlow<()>,
) -> std::io::Result<(Counts, Broken)> {
    let mut counts = Counts::default();
    let broken = journals.find_by_arrival(&filter.calls(), |row| {
        let recorded = match Recorded::read(&row.line) {
            Ok(recorded) => recorded,
            Err(unfit) => {
                *match unfit {
                    Unfit::NoMessage => &mut counts.no_message,
                    Unfit::NotCaptured => &mut counts.not_captured,
                    Unfit::TooLong => &mut counts.too_long,
                } += 1;
                return ControlFlow::Continue(());
            }
        };
        let Some(verdict) = rehearsal.run(&recorded.message()) else {
            counts.not_captured += 1;
            return ControlFlow::Continue(());
        };
        counts.replayed += 1;
        counts.masked += u64::from(recorded.masked);
        let changes = differences(&recorded.then, &seen(&verdict), recorded.masked);
        if changes.is_empty() {
            return ControlFlow::Continue(());
        }
        counts.changed += 1;
        let Recorded { boot, seq, time_text: time, key, call, .. } = recorded;
        each(Changed { boot, seq, time, key, call, changes })
    })?;
    Ok((counts, broken))
}

fn seen(verdict: &Verdict) -> Seen {
    let record = &verdict.record;
    let refused = verdict
        .forwarded
        .is_none()
        .then(|| record.error.as_ref().and_then(|e| e.reason).unwrap_or(record.outcome.as_str()).to_owned());
    Seen {
        refused,
        upstream: record.upstream.as_deref().map(str::to_owned),
        tool: record.tool.clone(),
        rules: record.normalized.iter().map(|r| (*r).to_owned()).collect(),
        edits: record.edits.iter().map(|e| (e.rule.to_owned(), e.path.to_string())).collect(),
        forwarded: verdict.forwarded.as_ref().map(|body| hex::encode(Sha256::digest(body))),
    }
}

fn differences(then: &Seen, now: &Seen, masked: bool) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut compare = |what, before: Option<String>, after: Option<String>| {
        if before != after {
            changes.push(Change { what, before, after });
        }
    };
    let outcome = |seen: &Seen| {
        Some(seen.refused.as_ref().map_or_else(|| "forwarded".to_owned(), |why| format!("refused: {why}")))
    };
    compare("outcome", outcome(then), outcome(now));
    if then.refused.is_some() || now.refused.is_some() {
        // What else is known of a refused call depends on how far it came.
        return changes;
    }
    // Which of several upstreams answered a list or a notification is not said.
    if then.upstream.is_some() && now.upstream.is_some() {
        compare("upstream", then.upstream.clone(), now.upstream.clone());
    }
    compare("tool", then.tool.clone(), now.tool.clone());
    let list = |all: &[String]| (!all.is_empty()).then(|| all.join(","));
    compare("repairs", list(&then.rules), list(&now.rules));
    let edits = |seen: &Seen| list(&seen.edits.iter().map(|(r, p)| format!("{r} {p}")).collect::<Vec<_>>());
    compare("edits", edits(then), edits(now));
    // Nothing is known of what went out for calls that were refused later.
    if !masked && then.forwarded.is_some() {
        compare("forwarded", then.forwarded.clone(), now.forwarded.clone());
    }
    changes
}
