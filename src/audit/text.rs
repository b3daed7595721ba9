//! Small pieces of text, appended to a buffer without allocating: JSON strings, hex, times. Knows nothing of
//! records. Invariant: what is appended holds no line feed and is valid UTF-8.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Bytes of a string that comes from outside; a longer one is cut and ends in `…`.
const LONGEST: usize = 1_024;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// `value` as far as records and spans show it, and whether it was cut.
pub(super) fn bounded(value: &str) -> (&str, bool) {
    if value.len() <= LONGEST { (value, false) } else { (&value[..value.floor_char_boundary(LONGEST)], true) }
}

/// A time as records have it, or in any other form of RFC 3339.
#[must_use]
pub fn time(text: &str) -> Option<SystemTime> {
    let nanos = text.parse::<Timestamp>().ok()?.as_nanosecond();
    UNIX_EPOCH.checked_add(Duration::from_nanos(u64::try_from(nanos).ok()?))
}

/// A JSON string, cut to a bearable length.
pub(super) fn string(out: &mut Vec<u8>, value: &str) {
    let (kept, cut) = bounded(value);
    out.push(b'"');
    escape(out, kept);
    if cut {
        out.extend_from_slice("…".as_bytes());
    }
    out.push(b'"');
}

/// A JSON string of any length.
pub(super) fn whole_string(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    escape(out, value);
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, value: &str) {
    let mut rest = value.as_bytes();
    while let Some(at) = rest.iter().position(|b| *b < 0x20 || *b == b'"' || *b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            c @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', c]),
            c => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(c >> 4)],
                HEX[usize::from(c & 15)],
            ]),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// A whole number.
pub(super) fn number(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Milliseconds with up to three decimals, from microseconds.
pub(super) fn millis(out: &mut Vec<u8>, micros: u128) {
    number(out, micros / 1_000);
    let rest = u16::try_from(micros % 1_000).unwrap_or(0);
    if rest > 0 {
        let digits = [rest / 100, rest / 10 % 10, rest % 10].map(|d| HEX[usize::from(d)]);
        let used = 3 - digits.iter().rev().take_while(|d| **d == b'0').count();
        out.push(b'.');
        out.extend_from_slice(&digits[..used]);
    }
}

/// Bytes as lower-case hex.
pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    hex::encode_to_slice(bytes, &mut out[start..]).expect("two digits for each byte");
}

/// A SHA-256 as lower-case hex.
pub(super) fn hex_of(hash: &[u8; 32]) -> [u8; 64] {
    let mut text = [0; 64];
    hex::encode_to_slice(hash, &mut text).expect("two digits for each byte");
    text
}

/// Writes times as RFC 3339 in UTC with microseconds. The text of the last second is kept, because most
/// records share it with the one before.
#[derive(Debug, Default)]
pub(super) struct Clock {
    second: u64,
    text: String,
}

impl Clock {
    /// Appends `time`, without quotes. Times before 1970 are shown as its first moment.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        if self.text.is_empty() || self.second != since.as_secs() {
            self.second = since.as_secs();
            let seconds = i64::try_from(self.second).unwrap_or(i64::MAX);
            let stamp = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
            self.text = stamp.strftime("%Y-%m-%dT%H:%M:%S").to_string();
        }
        out.extend_from_slice(self.text.as_bytes());
        let micros = since.subsec_micros();
        let digit = |unit: u32| b'0' + u8::try_from(micros / unit % 10).unwrap_or(0);
        let [a, b, c, d, e, f] = [100_000, 10_000, 1_000, 100, 10, 1].map(digit);
        out.extend_from_slice(&[b'.', a, b, c, d, e, f, b'Z']);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn milliseconds_keep_no_idle_zeros() {
        let cases =
            [(0, "0"), (12_400, "12.4"), (1_001, "1.001"), (999, "0.999"), (50, "0.05"), (7_000, "7")];
        for (micros, text) in cases {
            assert_eq!(written(|out| millis(out, micros)), text);
        }
    }

    #[test]
    fn times_are_utc_with_microseconds() {
        let mut clock = Clock::default();
        let time = UNIX_EPOCH + Duration::new(1_796_025_600, 123_456_789);
        assert_eq!(written(|out| clock.write(out, time)), "2026-11-30T08:00:00.123456Z");
        let later = time + Duration::from_millis(900);
        assert_eq!(written(|out| clock.write(out, later)), "2026-11-30T08:00:01.023456Z");
        let before = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(written(|out| clock.write(out, before)), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn long_strings_are_cut_between_characters() {
        let text = written(|out| string(out, &"é".repeat(2_000)));
        let back: String = serde_json::from_str(&text).unwrap();
        assert_eq!(back, format!("{}…", "é".repeat(512)));
    }

    proptest! {
        #[test]
        fn strings_come_back_from_one_line(value in ".{0,64}|[\\x00-\\x7f]{0,64}") {
            let text = written(|out| whole_string(out, &value));
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
        }
    }
}
