//! Which records a query asks for. Owns the meaning of every filter; a line that is read and an index that is
//! looked through are judged by the same functions.

use jiff::Timestamp;

use super::entry::{self, Entry};
use crate::glob::Globs;

/// Stands for "none" in filters and tables.
pub const NONE: &str = "-";

/// Conditions that must all hold. Empty lets everything through.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Kind of record.
    pub kind: Names,
    /// Name of the key.
    pub key: Names,
    /// Public tool name.
    pub tool: Names,
    /// Name of the upstream.
    pub upstream: Names,
    /// Outcome.
    pub outcome: Names,
    /// Method after repair.
    pub method: Names,
    /// `name` or `name/version` of the client.
    pub client: Names,
    /// One of the rules that fired.
    pub rule: Names,
    /// Reason of a refusal or failure.
    pub reason: Names,
    /// From this arrival on, in microseconds since 1970.
    pub since: Option<i64>,
    /// Before this arrival.
    pub until: Option<i64>,
    /// Trace id in hex.
    pub trace: Option<String>,
    /// Boot.
    pub boot: Option<String>,
    /// Numbers within a boot, both ends included.
    pub seq: Option<(u64, u64)>,
}

/// A condition on a name.
#[derive(Debug, Clone, Default)]
pub struct Names(Option<(Globs, bool)>);

impl Names {
    /// Globs as the configuration has them: `!` excludes, the last match wins; a list that begins with an
    /// exclusion begins with everything. [`NONE`] asks for records without a name.
    #[must_use]
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Self {
        let all = patterns.iter().map(AsRef::as_ref);
        let Some(first) = all.clone().next() else { return Self(None) };
        let everything = first.starts_with('!').then_some("*");
        Self(Some((Globs::new(everything.into_iter().chain(all.clone())), all.clone().any(|p| p == NONE))))
    }

    /// Whether every name passes, even none.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.is_none()
    }

    /// Whether this name passes.
    #[must_use]
    pub fn allows(&self, name: Option<&str>) -> bool {
        match (&self.0, name) {
            (None, _) => true,
            (Some((globs, _)), Some(name)) => globs.matches(name),
            (Some((_, none)), None) => *none,
        }
    }

    /// Whether a client passes, of which `name/version` or the name alone is known.
    #[must_use]
    pub fn allows_client(&self, client: Option<&str>) -> bool {
        let alone = client.and_then(|c| c.rsplit_once('/')).map(|(name, _)| name);
        self.allows(client) || alone.is_some_and(|name| self.allows(Some(name)))
    }

    /// Whether one of a list joined by commas passes.
    #[must_use]
    pub fn allows_one_of(&self, list: Option<&str>) -> bool {
        match list {
            Some(list) => self.is_any() || list.split(',').any(|one| self.allows(Some(one))),
            None => self.allows(None),
        }
    }
}

impl Filter {
    /// Only calls: what statistics are about.
    #[must_use]
    pub fn calls(mut self) -> Self {
        self.kind = Names::new(&["call"]);
        self
    }

    /// Whether a record passes.
    #[must_use]
    pub fn matches(&self, entry: &Entry<'_>) -> bool {
        let time = entry.micros().unwrap_or(i64::MIN);
        self.kind.allows(Some(&entry.kind))
            && self.key.allows(entry.principal.as_deref())
            && self.tool.allows(entry.tool.as_deref())
            && self.upstream.allows(entry.upstream.as_deref())
            && self.outcome.allows(entry.outcome.as_deref())
            && self.method.allows(entry.method.as_deref())
            && self.client.allows_client(entry.client_name().as_deref())
            && self.rule.allows_one_of(entry.rules().as_deref())
            && self.reason.allows(entry.reason())
            && self.in_time(time)
            && self.trace.as_deref().is_none_or(|t| entry.trace_id.as_deref() == Some(t))
            && self.boot.as_deref().is_none_or(|b| &*entry.boot == b)
            && self.in_seq(entry.seq)
    }

    /// Whether a time passes.
    #[must_use]
    pub(super) fn in_time(&self, time: i64) -> bool {
        self.since.is_none_or(|since| time >= since) && self.until.is_none_or(|until| time < until)
    }

    pub(super) fn in_seq(&self, seq: u64) -> bool {
        self.seq.is_none_or(|(from, to)| (from..=to).contains(&seq))
    }
}

/// A moment: RFC 3339, a date (its first moment in UTC), or how long before `now`: `90s`, `15m`, `2h`, `7d`, `2w`.
///
/// # Errors
/// It is none of these; the text says what would be.
pub fn moment(text: &str, now: i64) -> Result<i64, String> {
    let date = || entry::micros(&format!("{text}T00:00:00Z"));
    ago(text).map(|ago| now.saturating_sub(ago)).or_else(|| entry::micros(text)).or_else(date).ok_or_else(|| {
        format!("{text:?} is no time: write 2026-11-30T08:00:00Z, 2026-11-30, or how long ago: 90s, 15m, 2h, 7d, 2w")
    })
}

/// This moment, in microseconds since 1970.
#[must_use]
pub fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

fn ago(text: &str) -> Option<i64> {
    let unit = text.chars().next_back()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let count = &text[..text.len() - 1];
    let digits = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    count.parse::<i64>().ok().filter(|_| digits)?.checked_mul(seconds * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_globs_and_none_can_be_asked_for() {
        let not_ok = Names::new(&["!ok"]);
        assert!(not_ok.allows(Some("rejected")) && !not_ok.allows(Some("ok")) && !not_ok.allows(None));
        let none = Names::new(&["-"]);
        assert!(none.allows(None) && !none.allows(Some("x")));
        let client = Names::new(&["cursor"]);
        assert!(client.allows_client(Some("cursor/2.1")) && client.allows_client(Some("cursor")));
        assert!(!client.allows_client(Some("cursor2/2.1")));
        assert!(Names::new(&["cursor/2.*"]).allows_client(Some("cursor/2.1")));
        assert!(Names::new(&["b*"]).allows_one_of(Some("a,bc")));
        assert!(Names::default().allows_one_of(None));
    }

    #[test]
    fn moments_are_times_dates_or_ages() {
        let now = 1_796_025_600_000_000; // 2026-11-30T08:00:00Z
        assert_eq!(moment("2026-11-30T08:00:00Z", 0), Ok(now));
        assert_eq!(moment("2026-11-30T09:00:00+01:00", 0), Ok(now));
        assert_eq!(moment("2026-11-30", 0), Ok(now - 8 * 3_600_000_000));
        assert_eq!(moment("15m", now), Ok(now - 900_000_000));
        assert_eq!(moment("2h", now), Ok(now - 7_200_000_000));
        for wrong in ["", "m", "-5m", "+5m", "5", "5 m", "1.5h", "99999999999999999999d", "soon", "é"] {
            assert!(moment(wrong, now).is_err(), "{wrong}");
        }
    }
}
