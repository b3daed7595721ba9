//! Sums over calls: how many, how fast, in which tools and for which keys, and who sends what wrong.
//!
//! Invariant: every list is bounded, whatever names clients send; what is left out is counted.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde::Serialize;

use super::call::{Call, moment};

/// Columns of a plot.
const COLUMNS: usize = 60;
/// Columns of a small plot in a row.
const SMALL: usize = 24;
/// Rows of a table by tool or key.
const GROUPS: usize = 12;
/// Rows of the table of what is sent wrong.
const WRONGS: usize = 50;
/// Widths of a column in seconds.
const WIDTHS: [i64; 15] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400];
/// Refusals that are about a message's form, so that its client can be mended.
const FORM: [&str; 7] = [
    "parse_error",
    "invalid_request",
    "header_mismatch",
    "invalid_params",
    "unsupported_version",
    "unsupported_media_type",
    "body_too_large",
];

/// Counts and times of some calls.
#[derive(Debug, Default, Serialize)]
pub(super) struct Sum {
    pub(super) calls: usize,
    pub(super) failed: usize,
    pub(super) repaired: usize,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
}

/// A plot's column.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Column {
    pub(super) ok: usize,
    pub(super) failed: usize,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
}

/// Calls over time.
#[derive(Debug, Default, Serialize)]
pub(super) struct Series {
    /// Beginning of the first column, in seconds since 1970.
    pub(super) from: i64,
    /// Width of a column in seconds.
    pub(super) step: i64,
    pub(super) columns: Vec<Column>,
}

/// The calls of one tool or key.
#[derive(Debug, Serialize)]
pub(super) struct Group {
    pub(super) name: Option<String>,
    #[serde(flatten)]
    pub(super) sum: Sum,
    pub(super) series: Series,
}

/// Groups, the largest first.
#[derive(Debug, Default, Serialize)]
pub(super) struct Groups {
    pub(super) groups: Vec<Group>,
    /// Groups that are not in the list.
    pub(super) more: usize,
}

/// One way in which one version of a client errs.
#[derive(Debug, Serialize)]
pub(super) struct Wrong {
    /// What happened to it: `repaired`, `seen` (in shadow mode) or `refused`.
    pub(super) done: &'static str,
    /// Rule of the repair, or reason of the refusal.
    pub(super) rule: String,
    pub(super) client: Option<String>,
    pub(super) version: Option<String>,
    pub(super) calls: usize,
    pub(super) last: String,
    /// The newest such call.
    pub(super) example: String,
    pub(super) what: String,
}

/// Everything about some calls, the oldest first.
#[derive(Debug, Default, Serialize)]
pub(super) struct Stats {
    /// When the oldest of them came, in seconds since 1970.
    pub(super) oldest: i64,
    pub(super) all: Sum,
    pub(super) series: Series,
    pub(super) by_tool: Groups,
    pub(super) by_key: Groups,
    pub(super) wrong: Vec<Wrong>,
}

impl Stats {
    pub(super) fn of(calls: &[Arc<Call>], now: Timestamp) -> Self {
        let all: Vec<&Call> = calls.iter().map(Arc::as_ref).collect();
        let oldest = all.first().map_or(now, |call| call.time);
        let groups = |name: fn(&Call) -> Option<&str>| groups(&all, oldest, now, name);
        Self {
            oldest: oldest.as_second(),
            all: sum(&all),
            series: series(&all, oldest, now, COLUMNS),
            by_tool: groups(|call| Some(call.what())),
            by_key: groups(|call| call.principal.as_deref()),
            wrong: wrong(&all),
        }
    }
}

fn sum(calls: &[&Call]) -> Sum {
    let (p50_ms, p95_ms) = percentiles(calls);
    let count = |what: fn(&Call) -> bool| calls.iter().filter(|call| what(call)).count();
    Sum {
        calls: calls.len(),
        failed: count(Call::failed),
        repaired: count(|call| !call.normalized.is_empty()),
        p50_ms,
        p95_ms,
    }
}

/// The nearest ranks (ISO 2602 and others differ between ranks only).
fn percentiles(calls: &[&Call]) -> (Option<f64>, Option<f64>) {
    let mut times: Vec<f64> =
        calls.iter().filter(|call| call.is_timed()).map(|call| call.duration_ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    let rank = |percent: usize| times.get((times.len() * percent).div_ceil(100).saturating_sub(1)).copied();
    (rank(50), rank(95))
}

fn series(calls: &[&Call], oldest: Timestamp, now: Timestamp, columns: usize) -> Series {
    let most = i64::try_from(columns).unwrap_or(i64::MAX);
    let span = (now.as_second() - oldest.as_second()).max(0) + 1;
    let fits = |step: &i64| span.div_euclid(*step) + 1 < most;
    let days = || span.div_euclid(most * 86_400).saturating_add(1) * 86_400;
    let step = WIDTHS.into_iter().find(fits).unwrap_or_else(days);
    let last = now.as_second().div_euclid(step);
    let from = last - most + 1;
    let mut sorted: Vec<Vec<&Call>> = vec![Vec::new(); columns];
    for call in calls {
        let column = usize::try_from(call.time.as_second().div_euclid(step) - from).ok();
        if let Some(column) = column.and_then(|at| sorted.get_mut(at)) {
            column.push(call);
        }
    }
    let column = |calls: Vec<&Call>| {
        let (p50_ms, p95_ms) = percentiles(&calls);
        let failed = calls.iter().filter(|call| call.failed()).count();
        Column { ok: calls.len() - failed, failed, p50_ms, p95_ms }
    };
    Series { from: from * step, step, columns: sorted.into_iter().map(column).collect() }
}

fn groups(calls: &[&Call], oldest: Timestamp, now: Timestamp, name: fn(&Call) -> Option<&str>) -> Groups {
    let mut by_name: HashMap<Option<&str>, Vec<&Call>> = HashMap::new();
    calls.iter().for_each(|call| by_name.entry(name(call)).or_default().push(call));
    let mut sorted: Vec<_> = by_name.into_iter().collect();
    sorted.sort_unstable_by_key(|(name, calls)| (std::cmp::Reverse(calls.len()), *name));
    let more = sorted.len().saturating_sub(GROUPS);
    let group = |(name, calls): (Option<&str>, Vec<&Call>)| Group {
        name: name.map(str::to_owned),
        sum: sum(&calls),
        series: series(&calls, oldest, now, SMALL),
    };
    Groups { groups: sorted.into_iter().take(GROUPS).map(group).collect(), more }
}

/// What happened, by which rule, to which client and version.
type Error<'a> = (&'static str, &'a str, Option<&'a str>, Option<&'a str>);

fn wrong(calls: &[&Call]) -> Vec<Wrong> {
    let mut found: HashMap<Error<'_>, (usize, &Call)> = HashMap::new();
    for call in calls {
        let (client, version) = (call.client.name.as_deref(), call.client.version.as_deref());
        let repaired = call.normalized.iter().map(|rule| ("repaired", rule.as_str()));
        let shadow = call.shadow.iter().flatten().map(|rule| ("seen", rule.as_str()));
        let refused = call.reason().filter(|reason| FORM.contains(reason)).map(|reason| ("refused", reason));
        for (done, rule) in repaired.chain(shadow).chain(refused) {
            let (count, newest) = found.entry((done, rule, client, version)).or_insert((0, call));
            *count += 1;
            *newest = call;
        }
    }
    let mut sorted: Vec<(Error<'_>, (usize, &Call))> = found.into_iter().collect();
    sorted.sort_unstable_by_key(|(key, (count, _))| (std::cmp::Reverse(*count), *key));
    let row = |((done, rule, client, version), (calls, newest)): (Error<'_>, (usize, &Call))| Wrong {
        done,
        rule: rule.to_owned(),
        client: client.map(str::to_owned),
        version: version.map(str::to_owned),
        calls,
        last: moment(newest.time),
        example: newest.link(),
        what: newest.what().to_owned(),
    };
    sorted.into_iter().take(WRONGS).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::window::tests::line;

    fn calls(lines: impl IntoIterator<Item = String>) -> Vec<Arc<Call>> {
        let read = |line: String| Call::read(&Arc::from(line.trim_end().as_bytes()), 0).unwrap();
        lines.into_iter().map(read).map(Arc::new).collect()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn percentiles_are_ranks_and_leave_streams_out() {
        let mut all = calls((1..=20).map(|n| line(n, "")));
        all.extend(calls([line(49, r#","method":"GET""#)]));
        let sum = Stats::of(&all, at("2026-11-30T08:01:00Z")).all;
        assert_eq!((sum.calls, sum.p50_ms, sum.p95_ms), (21, Some(10.5), Some(19.5)));
        let none = Stats::of(&[], at("2026-11-30T08:01:00Z"));
        assert_eq!((none.all.calls, none.all.p50_ms, none.series.columns.len()), (0, None, COLUMNS));
    }

    #[test]
    fn every_call_of_the_window_is_in_a_column() {
        for now in
            ["2026-11-30T08:00:31Z", "2026-11-30T09:14:00Z", "2027-11-30T08:00:00Z", "2026-11-30T08:00:30.5Z"]
        {
            let all = calls((0..30).map(|n| line(n, "")));
            let series = Stats::of(&all, at(now)).series;
            let counted: usize = series.columns.iter().map(|c| c.ok + c.failed).sum();
            assert_eq!((counted, series.columns.len()), (30, COLUMNS), "{now}");
        }
    }

    #[test]
    fn groups_are_bounded_and_sorted() {
        let all = calls((0..60).map(|n| line(n, &format!(r#","tool":"t{}""#, n % 20 * (n % 3)))));
        let stats = Stats::of(&all, at("2026-11-30T08:01:00Z"));
        assert_eq!(stats.by_tool.groups.len(), GROUPS);
        assert!(stats.by_tool.more > 0);
        assert_eq!(stats.by_tool.groups[0].name.as_deref(), Some("t0"));
        assert_eq!(stats.by_key.groups[0].name, None);
    }

    #[test]
    fn who_sends_what_wrong_is_by_rule_client_and_version() {
        let client = |version: &str| format!(r#","client":{{"name":"c","version":"{version}"}}"#);
        let fixed = r#","normalized":["params_array","schema_coercion"],"tool":"t""#;
        let refused = r#","error":{"reason":"parse_error","code":-32700,"message":"m"}"#;
        let limited = r#","error":{"reason":"rate_limited","code":429,"message":"m"}"#;
        let all = calls([
            line(1, &format!("{}{fixed}", client("1"))),
            line(2, &format!("{}{fixed}", client("1"))),
            line(3, &format!("{}{fixed}", client("2"))),
            line(4, refused),
            line(5, limited),
            line(6, &format!(r#"{},"shadow":["params_array"]"#, client("1"))),
        ]);
        let wrong = Stats::of(&all, at("2026-11-30T08:01:00Z")).wrong;
        let short: Vec<_> =
            wrong.iter().map(|w| (w.done, w.rule.as_str(), w.version.as_deref(), w.calls)).collect();
        assert_eq!(short[0], ("repaired", "params_array", Some("1"), 2));
        assert_eq!(wrong[0].example, "/activity/B/2");
        assert_eq!(short.len(), 6);
        assert!(short.contains(&("refused", "parse_error", None, 1)));
        assert!(short.contains(&("seen", "params_array", Some("1"), 1)));
    }
}
