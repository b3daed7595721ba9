//! Credentials of the gateway wherever a client or a server repeats them as they are: the caller's key and the
//! upstream's configured headers, in payloads that are kept (whatever `audit.capture` says) and in every text of a
//! record.
//!
//! Invariant: they are masked before they become part of a record.

use std::{fmt, ops::Range, sync::Arc};

use memchr::memmem::Finder;

use crate::{
    secrets::{
        escaped,
        known::{Known, SHORTEST},
    },
    snapshot::Route,
};

/// Stands for a credential.
const MASK: &[u8] = b"***";

/// What must not be kept. Cheap to clone.
#[derive(Clone, Default)]
pub struct Mask {
    /// The caller's. A call has many texts, and the needle is prepared once.
    key: Option<Arc<Finder<'static>>>,
    /// The upstream's, or those of all.
    of_route: Arc<Known>,
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mask").field(&self.secrets().count()).finish()
    }
}

impl Mask {
    /// The credentials of one call.
    #[must_use]
    pub fn of(key: Option<&[u8]>, route: &Route) -> Self {
        let key = key.filter(|key| key.len() >= SHORTEST).map(finder);
        Self { key, of_route: Arc::clone(&route.secrets) }
    }

    fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.key.iter().map(|key| key.needle()).chain(self.of_route.iter())
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.key.is_none() && self.of_route.is_empty()
    }

    /// The text without them; `None` if none is in it. One that is written with escapes hides the whole text.
    #[must_use]
    pub fn text(&self, text: &str) -> Option<String> {
        if text.len() < SHORTEST {
            return None;
        }
        let mut masked = self.masked(text.as_bytes());
        if self.is_escaped_in(masked.as_deref().unwrap_or(text.as_bytes())) {
            masked = Some(MASK.to_vec());
        }
        masked.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Masks what is to be kept; `cut` if it is the beginning of something longer.
    pub fn apply(&self, payload: &mut Vec<u8>, cut: bool) {
        if let Some(masked) = self.masked(payload) {
            *payload = masked;
        }
        let begun = |secret: &[u8]| (1..secret.len()).rev().find(|n| payload.ends_with(&secret[..*n]));
        if let Some(begun) = self.secrets().filter(|_| cut).filter_map(begun).max() {
            payload.truncate(payload.len() - begun);
        }
        if self.is_escaped_in(payload) {
            *payload = br#""***""#.to_vec();
        }
    }

    /// `None` if none is in there as it is.
    fn masked(&self, text: &[u8]) -> Option<Vec<u8>> {
        let masked = self
            .key
            .as_ref()
            .and_then(|key| replaced(text, key.find_iter(text).map(|at| at..at + key.needle().len())));
        let rest = masked.as_deref().unwrap_or(text);
        replaced(rest, self.of_route.find(rest)).or(masked)
    }

    /// Whether one is there once escapes of JSON are resolved, those of texts within texts too.
    fn is_escaped_in(&self, text: &[u8]) -> bool {
        !self.is_empty() && escaped::levels(text).any(|level| self.is_in(&level.text))
    }

    fn is_in(&self, text: &[u8]) -> bool {
        self.key.as_ref().is_some_and(|key| key.find(text).is_some())
            || self.of_route.find(text).next().is_some()
    }
}

fn finder(key: &[u8]) -> Arc<Finder<'static>> {
    Arc::new(Finder::new(key).into_owned())
}

/// `None` if nothing was found.
fn replaced(text: &[u8], found: impl Iterator<Item = Range<usize>>) -> Option<Vec<u8>> {
    let mut found = found.peekable();
    found.peek()?;
    let (mut out, mut from) = (Vec::with_capacity(text.len()), 0);
    for range in found {
        out.extend_from_slice(&text[from..range.start]);
        out.extend_from_slice(MASK);
        from = range.end;
    }
    out.extend_from_slice(&text[from..]);
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
        let mask = mask(&[secret]);
        assert_eq!(mask.text(r#"bad request: {"k":"\u0061bc+def\/ghijkl"}"#).as_deref(), Some("***"));
        for harmless in [r#"{"k":"a\nb\u00e4 \\ \q \u12"}"#, "\\", r"\u", r"\\u0061bc"] {
            assert_eq!(masked(&[secret], harmless, false), harmless);
        }
    }

    fn mask(secrets: &[&str]) -> Mask {
        let of_route = Known::of_headers(secrets.iter().map(|s| s.as_bytes()));
        Mask { key: None, of_route: Arc::new(of_route) }
    }

    /// By the route's secrets, and by the caller's if there is one alone: it makes no difference whose it is.
    fn masked(secrets: &[&str], payload: &str, cut: bool) -> String {
        let apply = |mask: Mask| {
            let mut bytes = payload.as_bytes().to_vec();
            mask.apply(&mut bytes, cut);
            String::from_utf8(bytes).unwrap()
        };
        let masked = apply(mask(secrets));
        if let [only] = secrets
            && only.len() >= SHORTEST
        {
            let own = Mask { key: Some(finder(only.as_bytes())), of_route: Arc::default() };
            assert_eq!(apply(own), masked);
        }
        masked
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

    proptest::proptest! {
        /// However many there are, and however they overlap: none is left whole.
        #[test]
        fn none_is_left(
            secrets in proptest::collection::vec("[ab]{8,10}", 1..30),
            key in "[ab]{8}",
            text in "[ab ]{0,200}",
        ) {
            let of_route = Known::of_headers(secrets.iter().map(String::as_bytes));
            let mask = Mask { key: Some(finder(key.as_bytes())), of_route: Arc::new(of_route) };
            let left = mask.text(&text).unwrap_or(text);
            for secret in secrets.iter().chain([&key]) {
                proptest::prop_assert!(!left.contains(secret.as_str()), "{secret} in {left}");
            }
        }
    }
}
