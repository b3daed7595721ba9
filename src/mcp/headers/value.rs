//! Header values: plain text, or the Base64 sentinel where plain text will not do.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// What stands between the markers of a sentinel.
fn sentinel(text: &str) -> Option<&str> {
    text.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)
}

fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|b| (0x20..=0x7E).contains(b))
}

/// The text that a value stands for; `None` for characters that may not stand there and for Base64 that is not
/// canonical or holds no UTF-8.
pub(super) fn decode(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok().filter(|t| is_printable(t.as_bytes()))?;
    let Some(encoded) = sentinel(text) else { return Some(Cow::Borrowed(text)) };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// The value for a text; `None` only for a text longer than a header may be.
pub(super) fn encode(text: &str) -> Option<HeaderValue> {
    let trimmed = text.trim_matches([' ', '\t']).len() == text.len();
    if trimmed && is_printable(text.as_bytes()) && sentinel(text).is_none() {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text))).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use http::HeaderValue;

    fn read(value: &str) -> Option<String> {
        decode(&HeaderValue::from_bytes(value.as_bytes()).unwrap()).map(|t| t.into_owned())
    }

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        for text in [
            "plain",
            "",
            " lead",
            "tail\t",
            "a\tb",
            "øl",
            "=?base64?eA==?=",
            "=?base64?x",
            "😀",
            "line\nbreak",
        ] {
            let value = encode(text).unwrap();
            assert_eq!(decode(&value).as_deref(), Some(text), "{value:?}");
        }
        assert_eq!(encode("øl").unwrap(), "=?base64?w7hs?=");
        assert_eq!(encode("us-west1").unwrap(), "us-west1");
    }

    #[test]
    fn half_a_sentinel_is_literal_and_bad_base64_is_refused() {
        assert_eq!(read("=?base64?eA=="), Some("=?base64?eA==".into()));
        assert_eq!(read("=?BASE64?eA==?="), Some("=?BASE64?eA==?=".into()));
        assert_eq!(read("=?base64?eA==?="), Some("x".into()));
        for bad in [
            "=?base64?eA?=",
            "=?base64?e?=",
            "=?base64?e A=?=",
            "=?base64?eB==?=",
            "=?base64?/w==?=",
            "øl",
            "a\tb",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
