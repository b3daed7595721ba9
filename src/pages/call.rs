//! One call as the pages know it: what its journal line says, and nothing else, so that what the recorder masked stays
//! masked. Invariant: a line that is no call, or that cannot be read, is no entry; it never fails a page.

use std::{borrow::Cow, sync::Arc};

use jiff::{Timestamp, tz::Offset};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::Value;

use super::html::tone;

/// Characters of a name that tables show.
const NAME: usize = 64;

/// What a table or a sum needs of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Call {
    pub(super) kind: String,
    pub(super) boot: String,
    pub(super) seq: u64,
    #[serde(deserialize_with = "timestamp")]
    pub(super) time: Timestamp,
    pub(super) duration_ms: f64,
    pub(super) principal: Option<String>,
    #[serde(default)]
    pub(super) client: Client,
    pub(super) method: Option<String>,
    pub(super) upstream: Option<String>,
    pub(super) tool: Option<String>,
    #[serde(default)]
    pub(super) normalized: Vec<String>,
    pub(super) shadow: Option<Vec<String>>,
    pub(super) outcome: String,
    pub(super) status: Option<u16>,
    pub(super) error: Option<Failure>,
    #[serde(skip)]
    pub(super) position: u64,
    #[serde(skip)]
    pub(super) line: Option<Arc<[u8]>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Client {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Failure {
    pub(super) reason: Option<String>,
}

/// A row of the table, ready to be shown, for scripts too.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    boot: &'a str,
    seq: u64,
    time: String,
    pub(super) clock: String,
    pub(super) key: Option<&'a str>,
    client: Option<&'a str>,
    client_version: Option<&'a str>,
    method: Option<&'a str>,
    tool: Option<&'a str>,
    /// The tool, or the method of what is no tool call.
    pub(super) what: Cow<'a, str>,
    pub(super) upstream: Option<&'a str>,
    pub(super) outcome: &'a str,
    /// `good`, `fair` or `bad`.
    tone: &'static str,
    status: Option<u16>,
    pub(super) reason: Option<&'a str>,
    duration_ms: f64,
    pub(super) took: String,
    normalized: &'a [String],
    pub(super) repairs: String,
    pub(super) agent: String,
    pub(super) link: String,
}

impl Call {
    /// Reads a journal line.
    pub(super) fn read(line: &Arc<[u8]>, position: u64) -> Option<Self> {
        let mut call: Self = serde_json::from_slice(line).ok()?;
        (call.position, call.line) = (position, Some(Arc::clone(line)));
        (call.kind == "call").then_some(call)
    }

    /// The whole line, for one call's page.
    pub(super) fn value(&self) -> Value {
        self.line.as_ref().and_then(|line| serde_json::from_slice(line).ok()).unwrap_or_default()
    }

    /// The tool, or the method of what is no tool call.
    pub(super) fn what(&self) -> &str {
        self.tool.as_deref().or(self.method.as_deref()).unwrap_or("(unread)")
    }

    pub(super) fn reason(&self) -> Option<&str> {
        self.error.as_ref().and_then(|e| e.reason.as_deref())
    }

    pub(super) fn failed(&self) -> bool {
        self.outcome != "ok"
    }

    /// Streams that stay open while nothing happens would drown every other duration.
    pub(super) fn is_timed(&self) -> bool {
        !matches!(self.method.as_deref(), Some("GET" | "subscriptions/listen"))
    }

    /// The client's name and version.
    pub(super) fn agent(&self) -> String {
        let words = [self.client.name.as_deref(), self.client.version.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    pub(super) fn link(&self) -> String {
        format!("/activity/{}/{}", self.boot, self.seq)
    }

    pub(super) fn row(&self) -> Row<'_> {
        Row {
            boot: &self.boot,
            seq: self.seq,
            time: self.time.to_string(),
            clock: clock(self.time),
            key: self.principal.as_deref(),
            client: self.client.name.as_deref(),
            client_version: self.client.version.as_deref(),
            method: self.method.as_deref(),
            tool: self.tool.as_deref(),
            what: short(self.what()),
            upstream: self.upstream.as_deref(),
            outcome: &self.outcome,
            tone: tone(&self.outcome),
            status: self.status,
            reason: self.reason(),
            duration_ms: self.duration_ms,
            took: took(self.duration_ms),
            normalized: &self.normalized,
            repairs: self.normalized.join(", "),
            agent: short(&self.agent()).into_owned(),
            link: self.link(),
        }
    }
}

/// A name as tables have room for it: clients may call themselves and their tools anything.
fn short(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

fn timestamp<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    <&str>::deserialize(from)?.parse().map_err(D::Error::custom)
}

/// The time of day in UTC, to the second.
pub(super) fn clock(time: Timestamp) -> String {
    Offset::UTC.to_datetime(time).strftime("%H:%M:%S").to_string()
}

/// The day and the time in UTC, to the minute.
pub(super) fn moment(time: Timestamp) -> String {
    Offset::UTC.to_datetime(time).strftime("%Y-%m-%d %H:%M").to_string()
}

/// A duration with as many digits as anybody reads.
pub(super) fn took(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 10_000.0 => format!("{ms:.0} ms"),
        ms if ms < 120_000.0 => format!("{:.1} s", ms / 1_000.0),
        ms => format!("{:.0} min", ms / 60_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_calls_are_read() {
        let line = |text: &str| Call::read(&Arc::from(text.as_bytes()), 7);
        assert!(line("not json").is_none());
        assert!(line(r#"{"v":1,"kind":"start","boot":"B","seq":0}"#).is_none());
        let call = r#"{"kind":"call","boot":"B","seq":3,"time":"2026-11-30T08:00:00.123456Z","duration_ms":12.4,
            "principal":null,"client":{"name":"c","version":null,"address":null},"method":"tools/list","outcome":"ok"}"#;
        let call = line(call).unwrap();
        assert_eq!((call.position, call.what(), call.agent().as_str()), (7, "tools/list", "c"));
        assert_eq!((call.row().clock.as_str(), call.row().took.as_str()), ("08:00:00", "12 ms"));
        assert_eq!(call.link(), "/activity/B/3");
    }

    #[test]
    fn durations_are_short() {
        for (ms, text) in [
            (0.04, "0.0 ms"),
            (9.94, "9.9 ms"),
            (1234.0, "1234 ms"),
            (15_000.0, "15.0 s"),
            (600_000.0, "10 min"),
        ] {
            assert_eq!(took(ms), text);
        }
    }
}
