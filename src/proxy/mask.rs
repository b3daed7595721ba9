//! Credentials of the gateway wherever a client or a server repeats them as they are: the caller's key and the
//! upstream's configured headers, in payloads that are kept (whatever `audit.capture` says) and in every text of a
//! record.
//!
//! Invariant: they are masked before they become part of a record.

use std::{fmt, sync::Arc};

use crate::{secrets::escaped, snapshot::Route};

/// Stands for a credential.
const MASK: &[u8] = b"***";
/// Shorter values would match by chance, and no credential is that short.
const SHORTEST: usize = 8;

/// What must not be kept. Cheap to clone.
#[derive(Clone, Default)]
pub struct Mask(Option<Arc<[Vec<u8>]>>);

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mask").field(&self.secrets().len()).finish()
    }
}

impl Mask {
    /// The credentials of one call.
    #[must_use]
    pub fn of(key: Option<&[u8]>, route: &Route) -> Self {
        let of_route = route.secrets().map(|value| value.expose().as_bytes());
        Self::from(key.into_iter().chain(of_route))
    }

    /// A header's value counts whole, and without its scheme.
    fn from<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let without_scheme =
            |value: &'a [u8]| value.iter().position(|b| *b == b' ').map(|at| value[at..].trim_ascii());
        let secrets: Vec<_> = values
            .flat_map(|value| [value].into_iter().chain(without_scheme(value)))
            .filter(|value| value.len() >= SHORTEST)
            .map(<[u8]>::to_vec)
            .collect();
        Self((!secrets.is_empty()).then(|| secrets.into()))
    }

    fn secrets(&self) -> &[Vec<u8>] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The text without them; `None` if none is in it. One that is written with escapes hides the whole text.
    #[must_use]
    pub fn text(&self, text: &str) -> Option<String> {
        let mut masked = None;
        for secret in self.secrets() {
            let bytes = masked.as_deref().unwrap_or(text.as_bytes());
            masked = replaced(bytes, secret).or(masked);
        }
        if self.is_escaped_in(masked.as_deref().unwrap_or(text.as_bytes())) {
            masked = Some(MASK.to_vec());
        }
        masked.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Masks what is to be kept; `cut` if it is the beginning of something longer.
    pub fn apply(&self, payload: &mut Vec<u8>, cut: bool) {
        for secret in self.secrets() {
            if let Some(masked) = replaced(payload, secret) {
                *payload = masked;
            }
            let begun = (1..secret.len()).rev().find(|n| payload.ends_with(&secret[..*n]));
            if let Some(begun) = begun.filter(|_| cut) {
                payload.truncate(payload.len() - begun);
            }
        }
        if self.is_escaped_in(payload) {
            *payload = br#""***""#.to_vec();
        }
    }

    /// Whether one is there once escapes of JSON are resolved, those of texts within texts too.
    fn is_escaped_in(&self, text: &[u8]) -> bool {
        let within = |text: &[u8]| self.secrets().iter().any(|s| memchr::memmem::find(text, s).is_some());
        !self.is_empty() && escaped::levels(text).any(|level| within(&level.text))
    }
}

/// `None` if it is not in there.
fn replaced(payload: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut found = memchr::memmem::find_iter(payload, secret).peekable();
    found.peek()?;
    let (mut out, mut from) = (Vec::with_capacity(payload.len()), 0);
    for at in found {
        out.extend_from_slice(&payload[from..at]);
        out.extend_from_slice(MASK);
        from = at + secret.len();
    }
    out.extend_from_slice(&payload[from..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_hide_nothing() {
        let secret = "abc+def/ghijkl";
        for written in [
            r#"{"k":"\u0061bc+def/ghijkl"}"#,
            r#"{"k":"abc\u002Bdef\/ghijkl"}"#,
            r#"{"k":"{\"n\":\"abc+def\\/ghijkl\"}"}"#,
            r#"{"k":"{\"n\":\"\\u0061bc+def/ghijkl\"}"}"#,
        ] {
            assert_eq!(masked(&[secret], written, false), r#""***""#, "{written}");
        }
        let mask = Mask::from([secret.as_bytes()].into_iter());
        assert_eq!(mask.text(r#"bad request: {"k":"\u0061bc+def\/ghijkl"}"#).as_deref(), Some("***"));
        for harmless in [r#"{"k":"a\nb\u00e4 \\ \q \u12"}"#, "\\", r"\u", r"\\u0061bc"] {
            assert_eq!(masked(&[secret], harmless, false), harmless);
        }
    }

    fn masked(secrets: &[&str], payload: &str, cut: bool) -> String {
        let mask = Mask::from(secrets.iter().map(|s| s.as_bytes()));
        let mut bytes = payload.as_bytes().to_vec();
        mask.apply(&mut bytes, cut);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn credentials_are_masked_wherever_they_stand() {
        let secrets = ["sg-0123456789", "Bearer abcdefgh"];
        assert_eq!(
            masked(
                &secrets,
                r#"{"a":"sg-0123456789sg-0123456789","b":"x abcdefgh","c":"Bearer abcdefgh"}"#,
                false
            ),
            r#"{"a":"******","b":"x ***","c":"***"}"#
        );
        assert_eq!(masked(&["short"], "short", false), "short");
    }

    #[test]
    fn one_that_was_cut_off_is_dropped() {
        assert_eq!(masked(&["sg-0123456789"], "{\"a\":\"sg-01234", true), "{\"a\":\"");
        assert_eq!(masked(&["sg-0123456789"], "{\"a\":\"sg-01234", false), "{\"a\":\"sg-01234");
    }
}
