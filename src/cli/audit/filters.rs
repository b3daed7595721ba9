//! The filters that `tail`, `query`, `stats` and `replay` share.

use std::path::PathBuf;

use crate::{
    audit::{
        query::{Filter, Names, moment, now},
        resend,
    },
    config,
};

// No doc comment: clap would make it the text of the command that these filters are part of.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Name of the key. GLOBS are lists with commas: * and ? match, ! excludes, - means none
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    key: Vec<String>,
    /// Public name of the tool
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    tool: Vec<String>,
    /// Name of the upstream
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    upstream: Vec<String>,
    /// ok, tool_error, rpc_error, rejected, upstream_failed, client_closed, drained, panicked
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    outcome: Vec<String>,
    /// JSON-RPC method after repair
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    method: Vec<String>,
    /// Client, by name or as name/version
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    client: Vec<String>,
    /// A rule that fired
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    rule: Vec<String>,
    /// Reason of a refusal or failure
    #[arg(long, value_name = "GLOBS", value_delimiter = ',', allow_hyphen_values = true)]
    reason: Vec<String>,
    /// Arrived from then on: 2026-11-30T08:00:00Z, 2026-11-30, or how long ago: 90s, 15m, 2h, 7d, 2w
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Arrived before then
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Trace id, 32 hex digits
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Start of the gateway, as records name it
    #[arg(long, value_name = "ULID")]
    boot: Option<String>,
    /// Number within a boot, or FROM-TO
    #[arg(long, value_name = "NUMBER")]
    seq: Option<String>,
}

impl Filters {
    /// # Errors
    /// What is wrong with a value.
    pub(crate) fn compile(&self) -> Result<Filter, String> {
        let now = now();
        let time = |text: &Option<String>| text.as_deref().map(|t| moment(t, now)).transpose();
        Ok(Filter {
            kind: Names::default(),
            key: Names::new(&self.key),
            tool: Names::new(&self.tool),
            upstream: Names::new(&self.upstream),
            outcome: Names::new(&self.outcome),
            method: Names::new(&self.method),
            client: Names::new(&self.client),
            rule: Names::new(&self.rule),
            reason: Names::new(&self.reason),
            since: time(&self.since).map_err(|e| format!("--since: {e}"))?,
            until: time(&self.until).map_err(|e| format!("--until: {e}"))?,
            trace: self.trace.as_deref().map(trace).transpose()?,
            boot: self.boot.as_deref().map(str::to_uppercase),
            seq: self.seq.as_deref().map(seq).transpose()?,
        })
    }
}

fn trace(id: &str) -> Result<String, String> {
    let is_id = id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id {
        Ok(id.to_lowercase())
    } else {
        Err(format!("--trace: {id:?} is no trace id of 32 hex digits"))
    }
}

fn seq(text: &str) -> Result<(u64, u64), String> {
    let number = |t: &str| t.parse::<u64>().ok();
    let range = match text.split_once('-') {
        Some((from, to)) => number(from).zip(number(to)),
        None => number(text).map(|n| (n, n)),
    };
    range.ok_or_else(|| format!("--seq: {text:?} is neither a number nor FROM-TO"))
}

/// The files named, or the journal in the state directory.
///
/// # Errors
/// There is none.
pub(crate) fn journals(files: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
    if !files.is_empty() {
        return Ok(files);
    }
    standard_journal().map(|journal| vec![journal])
}

/// The journal in the state directory, for who names no other.
///
/// # Errors
/// There is none, and what to do then.
pub(super) fn standard_journal() -> Result<PathBuf, String> {
    let hint = "name a FILE: `audit.journal.path` of the configuration says where the gateway writes";
    let journal = config::default_journal().ok_or_else(|| format!("there is no state directory: {hint}"))?;
    // A gateway that ended in the middle of a rotation leaves old segments alone.
    let there = resend::files(&journal).is_ok_and(|files| files.iter().any(|file| file.exists()));
    if there { Ok(journal) } else { Err(format!("there is no journal at {}: {hint}", journal.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_and_ids_are_checked() {
        assert_eq!(seq("7"), Ok((7, 7)));
        assert_eq!(seq("7-9"), Ok((7, 9)));
        assert!(seq("7-").is_err() && seq("-9").is_err() && seq("x").is_err());
        assert_eq!(trace(&"A1".repeat(16)), Ok("a1".repeat(16)));
        assert!(trace("a1").is_err());
    }
}
