//! Credentials of the gateway inside payloads that are kept (`audit.capture = "redacted"` and `"full"`): the
//! caller's key and the upstream's configured headers, wherever a client or a server repeats them as they are.
//!
//! Invariant: payloads are masked before they become part of a record.

use std::fmt;

use crate::{config::Capture, snapshot::Route};

/// Stands for a credential.
const MASK: &[u8] = b"***";
/// Shorter values would match by chance, and no credential is that short.
const SHORTEST: usize = 8;

/// What must not be kept.
#[derive(Clone, Default)]
pub struct Mask(Vec<Vec<u8>>);

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mask").field(&self.0.len()).finish()
    }
}

impl Mask {
    /// The credentials of one call. Empty where no payload is kept.
    #[must_use]
    pub fn of(capture: Capture, key: Option<&[u8]>, route: &Route) -> Self {
        let mut mask = Self::default();
        if matches!(capture, Capture::Redacted | Capture::Full) {
            key.into_iter().for_each(|k| mask.add(k));
            route.secrets().for_each(|value| mask.add(value.expose().as_bytes()));
        }
        mask
    }

    /// A header's value counts whole, and without its scheme.
    fn add(&mut self, value: &[u8]) {
        let token = value.iter().position(|b| *b == b' ').map_or(value, |at| value[at..].trim_ascii());
        self.0.extend([value, token].into_iter().filter(|v| v.len() >= SHORTEST).map(<[u8]>::to_vec));
    }

    /// Masks what is to be kept; `cut` if it is the beginning of something longer.
    pub fn apply(&self, payload: &mut Vec<u8>, cut: bool) {
        for secret in &self.0 {
            if let Some(masked) = replaced(payload, secret) {
                *payload = masked;
            }
            let begun = (1..secret.len()).rev().find(|n| payload.ends_with(&secret[..*n]));
            if let Some(begun) = begun.filter(|_| cut) {
                payload.truncate(payload.len() - begun);
            }
        }
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

    fn masked(secrets: &[&str], payload: &str, cut: bool) -> String {
        let mut mask = Mask::default();
        secrets.iter().for_each(|s| mask.add(s.as_bytes()));
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
