//! The written form of values: durations, sizes and rates with their units, secrets and addresses as text.
//! Owns their grammar and what editors are told about it. A value knows where in the file it stands ([`At`]);
//! parsing one never shows the text of a secret.

use std::{borrow::Cow, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::{Budget, Rate, Window};

/// A value and the byte at which it starts in the file; `None` for one from the command line.
#[derive(Clone)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) at: Option<usize>,
}

impl<T> At<T> {
    /// A value that does not come from a file.
    pub(super) fn outside(value: T) -> Self {
        Self { value, at: None }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        let at = Some(spanned.span().start);
        Ok(Self { value: spanned.into_inner(), at })
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// Declares a kind of text with its JSON Schema: its name in the documentation, and a pattern.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $pattern:expr) => {
        $(#[$doc])*
        #[derive(Clone, Deserialize)]
        #[serde(transparent)]
        pub(super) struct $name(pub(super) String);

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                $kind.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let pattern: Option<&str> = $pattern;
                match pattern {
                    Some(pattern) => {
                        json_schema!({ "type": "string", "title": $kind, "pattern": pattern })
                    }
                    None => json_schema!({ "type": "string", "title": $kind }),
                }
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

text!(/** `20s` */ DurationText, "duration", Some("^[0-9]+(ms|s|m|h)$"));
text!(/** `90d` */ AgeText, "age", Some("^[0-9]+(h|d)$"));
text!(/** `10m`, or `never` */ IdleText, "duration or never", Some("^([0-9]+(ms|s|m|h)|never)$"));
text!(/** `4MiB` */ SizeText, "size", Some("^[0-9]+(B|kB|KB|MB|GB|KiB|MiB|GiB)$"));
text!(/** `120/min` */ RateText, "rate", Some("^[1-9][0-9]*/(s|min|h)$"));
text!(/** `120/min`, or `none` */ LimitText, "rate or none", Some("^([1-9][0-9]*/(s|min|h)|none)$"));
text!(/** `127.0.0.1:8787` */ AddressText, "address", None);
text!(/** Relative ones start at the folder of the file. */ PathText, "path", None);
text!(/** An `http` or `https` URL. */ UrlText, "URL", Some("^https?://"));
text!(/** The value itself, `env:NAME` or `file:PATH`. */ SecretText, "secret", None);
text!(/** A name with `*` and `?`; `!` in front excludes. */ GlobText, "glob", None);
text!(/** `2M tokens/month` */ BudgetText, "budget", Some("^[1-9][0-9]*[kM]? tokens/(day|month)$"));
text!(/** 64 hexadecimal digits. */ Sha256Text, "SHA-256", Some("^[0-9a-fA-F]{64}$"));

/// One URL, or those of several replicas.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum UrlsText {
    One(String),
    Several(Vec<String>),
}

impl JsonSchema for UrlsText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "URLs".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = UrlText::json_schema(generator);
        json_schema!({ "type": ["string", "array"], "title": "URL or list of them", "pattern": "^https?://", "items": one })
    }
}

/// Any value but a date, as JSON has it.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct AnyValue(pub(super) serde_json::Value);

impl JsonSchema for AnyValue {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "value".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "title": "value" })
    }
}

/// A point in time, with its offset from UTC.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct DateTime(pub(super) toml::value::Datetime);

impl JsonSchema for DateTime {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "date and time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date-time", "title": "date and time" })
    }
}

/// Splits `20s` into 20 and `s`; the number has digits only.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// Longest age: more than anybody has to keep anything.
const MAX_AGE_HOURS: u64 = 100 * 366 * 24;
/// Longest duration: beyond it every timer of the system is as good as never, and sums cannot overflow.
const MAX_DURATION: Duration = Duration::from_hours(24 * 365);

/// `500ms`, `20s`, `5m`, `2h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let millis = number_and_unit(text).and_then(|(count, unit)| {
        let each: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        count.checked_mul(each)
    });
    let duration = millis.map(Duration::from_millis);
    let duration = duration.ok_or_else(|| format!("`{text}` is no duration such as 500ms, 20s, 5m or 2h"))?;
    if duration > MAX_DURATION { Err(format!("`{text}` is longer than a year")) } else { Ok(duration) }
}

/// A duration above zero.
pub(super) fn timeout(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than zero".into()),
        some => Ok(some),
    }
}

/// `72h`, `90d`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let hours = number_and_unit(text).and_then(|(count, unit)| match unit {
        "h" => Some(count),
        "d" => count.checked_mul(24),
        _ => None,
    });
    match hours.ok_or_else(|| format!("`{text}` is no age such as 72h or 90d"))? {
        0 => Err("must be at least an hour".into()),
        hours if hours > MAX_AGE_HOURS => Err(format!("`{text}` is longer than a hundred years")),
        hours => Ok(Duration::from_secs(hours * 3_600)),
    }
}

/// `10m`, or `never`.
pub(super) fn idle(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" { Ok(None) } else { timeout(text).map(Some) }
}

/// `512B`, `4MiB`, `1GB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let bytes = number_and_unit(text).and_then(|(count, unit)| {
        let each: u64 = match unit {
            "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            _ => return None,
        };
        count.checked_mul(each)
    });
    bytes.ok_or_else(|| format!("`{text}` is no size such as 512B, 64KiB, 4MiB or 1GB"))
}

/// `10/s`, `120/min`, `1000/h`.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let parsed = number_and_unit(text).and_then(|(count, unit)| {
        let per = match unit {
            "/s" => Duration::from_secs(1),
            "/min" => Duration::from_mins(1),
            "/h" => Duration::from_hours(1),
            _ => return None,
        };
        Some(Rate { count: u32::try_from(count).ok()?, per })
    });
    match parsed {
        None => Err(format!("`{text}` is no rate such as 10/s, 120/min or 1000/h")),
        Some(Rate { count: 0, .. }) => Err("must allow at least one request".into()),
        Some(rate) => Ok(rate),
    }
}

/// A rate, or `none` for no limit.
pub(super) fn limit(text: &str) -> Result<Option<Rate>, String> {
    if text == "none" { Ok(None) } else { rate(text).map(Some) }
}

/// `2M tokens/month`, `500k tokens/day`.
pub(super) fn budget(text: &str) -> Result<Budget, String> {
    let parsed = number_and_unit(text).and_then(|(count, rest)| {
        let (each, rest) = match rest.as_bytes().first()? {
            b'k' => (1_000, &rest[1..]),
            b'M' => (1_000_000, &rest[1..]),
            _ => (1, rest),
        };
        let window = match rest {
            " tokens/day" => Window::Day,
            " tokens/month" => Window::Month,
            _ => return None,
        };
        Some(Budget { tokens: count.checked_mul(each)?, window })
    });
    match parsed {
        Some(budget) if budget.tokens > 0 && i64::try_from(budget.tokens).is_ok() => Ok(budget),
        Some(_) => Err("must allow at least one token, and fit 63 bits".into()),
        None => Err(format!("`{text}` is no budget such as 500k tokens/day or 2M tokens/month")),
    }
}

/// 64 hexadecimal digits. The text is never shown: it may be the secret itself, pasted by mistake.
pub(super) fn sha256(text: &str) -> Result<[u8; 32], String> {
    let wrong = || "must be the 64 hexadecimal digits of the secret's SHA-256, not the secret".to_owned();
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("20s").unwrap(), Duration::from_secs(20));
        assert_eq!(duration("5m").unwrap(), Duration::from_secs(300));
        assert_eq!(duration("2h").unwrap(), Duration::from_secs(7200));
        assert_eq!(duration("0s").unwrap(), Duration::ZERO);
        for bad in ["", "20", "s", "-1s", "1.5s", "20 s", "1d", "+5s", "99999999999999999999s", "9000h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(timeout("0s").is_err());
    }

    #[test]
    fn sizes_tell_decimal_from_binary() {
        assert_eq!(size("4MiB").unwrap(), 4 << 20);
        assert_eq!(size("1KiB").unwrap(), 1024);
        assert_eq!(size("1GB").unwrap(), 1_000_000_000);
        assert_eq!(size("7B").unwrap(), 7);
        for bad in ["", "4", "4mib", "4M", "-4MiB", "99999999999999GiB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_have_a_window() {
        assert_eq!(rate("120/min").unwrap(), Rate { count: 120, per: Duration::from_secs(60) });
        assert_eq!(rate("10/s").unwrap(), Rate { count: 10, per: Duration::from_secs(1) });
        assert_eq!(rate("1/h").unwrap(), Rate { count: 1, per: Duration::from_secs(3600) });
        for bad in ["", "10", "0/s", "/s", "10/d", "10 / s", "4294967296/s", "none"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!(limit("none").unwrap(), None);
    }

    #[test]
    fn hashes_are_hex_and_mistakes_stay_secret() {
        assert_eq!(sha256(&"0aF1".repeat(16)).unwrap()[..2], [0x0a, 0xf1]);
        for bad in ["", "zz", &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32), "sg_secret"] {
            let why = sha256(bad).unwrap_err();
            assert!(bad.is_empty() || !why.contains(bad), "{bad}");
        }
    }
}
