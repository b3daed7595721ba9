//! Secrets that are known as they are: found wherever they stand, in one pass over the text however many they are.
//! Invariant: nothing here shows them.

use std::{fmt, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Shorter values would match by chance, and no credential is that short.
pub(crate) const SHORTEST: usize = 8;

/// A set of them, made once and searched for often.
#[derive(Default)]
pub struct Known {
    secrets: Vec<Box<[u8]>>,
    find: Option<AhoCorasick>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Known").field(&self.secrets.len()).finish()
    }
}

impl Known {
    /// The values of headers: each counts whole, and without its scheme.
    #[must_use]
    pub fn of_headers<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let without_scheme =
            |value: &'a [u8]| value.iter().position(|b| *b == b' ').map(|at| value[at..].trim_ascii());
        let secrets: Vec<Box<[u8]>> = values
            .flat_map(|value| [value].into_iter().chain(without_scheme(value)))
            .filter(|value| value.len() >= SHORTEST)
            .map(Into::into)
            .collect();
        // The whole value before the one without its scheme; and small, however many they are.
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).kind(Some(AhoCorasickKind::ContiguousNFA));
        let find = (!secrets.is_empty()).then(|| builder.build(&secrets));
        Self { find: find.map(|built| built.expect("headers are few and short")), secrets }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The secrets.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.secrets.iter().map(AsRef::as_ref)
    }

    /// Where they stand, in order and apart from each other.
    pub fn find<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        self.find.iter().flat_map(move |find| find.find_iter(text)).map(|hit| hit.range())
    }
}
