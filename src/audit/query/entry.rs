//! One journal line as queries see it. Owns which members they look at; everything else of a line is skipped.
//! Invariant: what is no record of ours is an error, never a panic.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

/// A text that is borrowed from the line where it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What is read of a line. The line itself has more, see `docs/audit.md`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Entry<'a> {
    /// `call`, `start` and so on.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// ULID of the boot.
    #[serde(borrow)]
    pub boot: Text<'a>,
    /// Number within the boot.
    pub seq: u64,
    /// RFC 3339, as written.
    #[serde(borrow)]
    pub time: Text<'a>,
    /// From arrival to the end of the answer.
    #[serde(default)]
    pub duration_ms: Option<f64>,
    /// Hex.
    #[serde(borrow, default)]
    pub trace_id: Option<Text<'a>>,
    /// Name of the key.
    #[serde(borrow, default)]
    pub principal: Option<Text<'a>>,
    /// What the client says of itself.
    #[serde(borrow, default)]
    pub client: Option<Client<'a>>,
    /// Method after repair.
    #[serde(borrow, default)]
    pub method: Option<Text<'a>>,
    /// Name of the upstream.
    #[serde(borrow, default)]
    pub upstream: Option<Text<'a>>,
    /// Public name of the tool.
    #[serde(borrow, default)]
    pub tool: Option<Text<'a>>,
    /// Rules that fired.
    #[serde(borrow, default)]
    pub normalized: Option<Vec<Text<'a>>>,
    /// How it ended.
    #[serde(borrow, default)]
    pub outcome: Option<Text<'a>>,
    /// HTTP status.
    #[serde(default)]
    pub status: Option<u16>,
    /// Why it failed.
    #[serde(borrow, default)]
    pub error: Option<Error<'a>>,
    /// Body bytes received.
    #[serde(default)]
    pub request_bytes: Option<u64>,
    /// Body bytes sent.
    #[serde(default)]
    pub response_bytes: Option<u64>,
    /// Where a budget applies or the tool is built in.
    #[serde(default)]
    pub tokens: Option<Tokens>,
}

/// `client`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Client<'a> {
    /// Unverified.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// Unverified.
    #[serde(borrow, default)]
    pub version: Option<Text<'a>>,
}

/// `error`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Error<'a> {
    /// One of the reasons of the gateway; none for an upstream's error.
    #[serde(borrow, default)]
    pub reason: Option<Text<'a>>,
    /// JSON-RPC code.
    #[serde(default)]
    pub code: Option<i64>,
    /// What the client was told.
    #[serde(borrow, default)]
    pub message: Option<Text<'a>>,
}

/// `tokens`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Tokens {
    /// Worked on.
    #[serde(rename = "in", default)]
    pub input: u64,
    /// Given back.
    #[serde(rename = "out", default)]
    pub output: u64,
    /// Spared the caller.
    #[serde(default)]
    pub saved: u64,
}

impl<'a> Entry<'a> {
    /// Reads a line, with or without its line feed.
    ///
    /// # Errors
    /// It is no record.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        match entry.micros() {
            Some(_) => Ok(entry),
            None => Err("`time` is no time".to_owned()),
        }
    }

    /// `time` in microseconds since 1970.
    #[must_use]
    pub fn micros(&self) -> Option<i64> {
        micros(&self.time)
    }

    /// Microseconds from arrival to the end of the answer; 0 where none are written.
    #[must_use]
    pub fn duration_us(&self) -> u64 {
        // Out of range saturates, and what is no number is 0.
        self.duration_ms.map_or(0, |ms| (ms * 1_000.0).round() as u64)
    }

    /// `name/version` of the client, as far as it is known.
    #[must_use]
    pub fn client_name(&self) -> Option<Cow<'_, str>> {
        let client = self.client.as_ref()?;
        match (&client.name, &client.version) {
            (Some(name), Some(version)) => Some(format!("{}/{}", &**name, &**version).into()),
            (Some(name), None) => Some((&**name).into()),
            (None, _) => None,
        }
    }

    /// The reason of a failure.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.error.as_ref()?.reason.as_deref()
    }

    /// The rules that fired, joined by commas; none is none.
    #[must_use]
    pub fn rules(&self) -> Option<Cow<'_, str>> {
        match self.normalized.as_deref()? {
            [] => None,
            [one] => Some((&**one).into()),
            several => Some(several.iter().map(|r| &**r).collect::<Vec<_>>().join(",").into()),
        }
    }
}

/// Reads an RFC 3339 time. The form that the journal has is read without a calendar's help.
pub(super) fn micros(time: &str) -> Option<i64> {
    ours(time.as_bytes()).or_else(|| time.parse::<Timestamp>().ok().map(|t| t.as_microsecond()))
}

/// `2026-11-30T08:00:00.123456Z`
fn ours(time: &[u8]) -> Option<i64> {
    let time: &[u8; 27] = time.try_into().ok()?;
    for (at, mark) in [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')] {
        if time[at] != mark {
            return None;
        }
    }
    let digits = |from: usize, to: usize| {
        time[from..to].iter().try_fold(0i64, |n, d| d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0')))
    };
    let (year, month, day) = (digits(0, 4)?, digits(5, 7)?, digits(8, 10)?);
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if !(1970..=9998).contains(&year) || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 59
    {
        return None;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let february = if leap { 29 } else { 28 };
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let month = usize::try_from(month - 1).ok()?;
    if day < 1 || day > lengths[month] {
        return None;
    }
    let before = year - 1;
    let leaps = |y: i64| y / 4 - y / 100 + y / 400;
    let days =
        (year - 1970) * 365 + leaps(before) - leaps(1969) + lengths[..month].iter().sum::<i64>() + day - 1;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + digits(20, 26)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_nulls_and_absent_members_are_read() {
        let line = br#"{"v":1,"kind":"call","boot":"B","seq":7,"time":"2026-11-30T08:00:00.000001Z","duration_ms":12.4,"client":{"name":"a\"b","version":null},"tool":null,"normalized":["x","y"],"error":{"reason":"forbidden","code":403,"message":"no"},"tokens":{"in":1,"out":2,"saved":3}}"#;
        let entry = Entry::parse(line).unwrap();
        assert_eq!(entry.client_name().unwrap(), "a\"b");
        assert_eq!((entry.duration_us(), entry.tool.as_deref()), (12_400, None));
        assert_eq!(entry.rules().unwrap(), "x,y");
        assert_eq!(entry.reason(), Some("forbidden"));
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        for line in ["", "{}", "[]", r#"{"kind":"call","boot":"B","seq":-1,"time":"x"}"#, "\u{0}"] {
            assert!(Entry::parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(Entry::parse(br#"{"kind":"call","boot":"B","seq":1,"time":"yesterday"}"#).is_err());
    }

    proptest! {
        #[test]
        fn times_are_read_as_the_calendar_says(micros in 0i64..253_000_000_000_000_000) {
            let time = Timestamp::from_microsecond(micros).unwrap();
            prop_assert_eq!(ours(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().as_bytes()), Some(micros));
        }

        #[test]
        fn no_text_is_read_otherwise_than_the_calendar_reads_it(time in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-5][0-9]:[0-6][0-9]\\.[0-9]{6}Z") {
            if let Some(read) = ours(time.as_bytes()) {
                prop_assert_eq!(Some(read), time.parse::<Timestamp>().ok().map(|t| t.as_microsecond()));
            }
        }
    }
}
