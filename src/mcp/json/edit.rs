//! Splices: what a repair does to the original text.
//!
//! Invariant: bytes outside the spliced ranges leave exactly as they came.

use std::ops::Range;

use super::Raw;

/// One replacement in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    range: Range<usize>,
    with: With,
}

/// What a splice puts in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum With {
    /// Text known beforehand.
    Static(&'static [u8]),
    /// Text made for the purpose.
    Owned(Vec<u8>),
    /// Another part of the same document.
    Source(Range<usize>),
}

impl From<&'static [u8]> for With {
    fn from(text: &'static [u8]) -> Self {
        Self::Static(text)
    }
}

impl From<Vec<u8>> for With {
    fn from(text: Vec<u8>) -> Self {
        Self::Owned(text)
    }
}

impl With {
    fn bytes<'a>(&'a self, source: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Static(text) => text,
            Self::Owned(text) => text,
            Self::Source(range) => source.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl Splice {
    /// Replaces `range`.
    pub fn replace(range: Range<usize>, with: impl Into<With>) -> Self {
        Self { range, with: with.into() }
    }

    /// Inserts at `at`.
    pub fn insert(at: usize, with: impl Into<With>) -> Self {
        Self::replace(at..at, with)
    }

    /// Replaces `range` by another part of the document.
    #[must_use]
    pub fn copy(range: Range<usize>, source: Range<usize>) -> Self {
        Self { range, with: With::Source(source) }
    }

    /// Takes `range` out.
    #[must_use]
    pub fn cut(range: Range<usize>) -> Self {
        Self::replace(range, &b""[..])
    }
}

/// Applies splices to `source`. They must not overlap; those at the same place keep their order.
#[must_use]
pub fn apply(source: &[u8], mut splices: Vec<Splice>) -> Vec<u8> {
    if !splices.is_sorted_by_key(|s| s.range.start) {
        splices.sort_by_key(|s| s.range.start);
    }
    let added: usize = splices.iter().map(|s| s.with.bytes(source).len()).sum();
    let mut out = Vec::with_capacity(source.len() + added);
    let mut at = 0;
    for splice in &splices {
        out.extend_from_slice(source.get(at..splice.range.start).unwrap_or_default());
        out.extend_from_slice(splice.with.bytes(source));
        at = at.max(splice.range.end);
    }
    out.extend_from_slice(source.get(at..).unwrap_or_default());
    out
}

/// Where an item of a comma-separated list stands among its neighbours.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// How many items stand before it.
    pub index: usize,
    /// Where the one before it ends.
    pub before: usize,
    /// Where it starts.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Where the next one starts; `end` if there is none.
    pub after: usize,
}

/// The ranges to cut so that a list loses these items, given in their order, with one comma each.
pub fn cuts_of(items: &[Slot]) -> impl Iterator<Item = Range<usize>> {
    // Items before the first that stays take the comma after them along, the others the one before.
    items.iter().enumerate().map(|(n, s)| if s.index == n { s.start..s.after } else { s.before..s.end })
}

/// The ranges to cut so that an object loses the members that `drop` picks, with one comma each.
#[must_use]
pub fn cuts<'a>(object: Raw<'a>, mut drop: impl FnMut(&Raw<'a>) -> bool) -> Vec<Range<usize>> {
    gaps(object.members().map(|m| (m.name.start()..m.value.end(), drop(&m.name))))
}

/// The ranges to cut out of a comma-separated list, given each item's range and whether it goes.
#[must_use]
pub fn gaps(items: impl Iterator<Item = (Range<usize>, bool)>) -> Vec<Range<usize>> {
    let mut going: Vec<Slot> = Vec::new();
    let (mut before, mut last_goes) = (0, false);
    for (index, (item, goes)) in items.enumerate() {
        if let Some(last) = going.last_mut().filter(|_| last_goes) {
            last.after = item.start;
        }
        if goes {
            going.push(Slot { index, before, start: item.start, end: item.end, after: item.end });
        }
        (before, last_goes) = (item.end, goes);
    }
    cuts_of(&going).collect()
}

#[cfg(test)]
mod tests {
    use super::{Splice, apply, cuts};
    use crate::mcp::json::parse;

    fn without(text: &str, names: &[&str]) -> String {
        let cut = cuts(parse(text.as_bytes()).unwrap(), |n| names.iter().any(|d| n.is_string(d)));
        String::from_utf8(apply(text.as_bytes(), cut.into_iter().map(Splice::cut).collect())).unwrap()
    }

    #[test]
    fn members_leave_with_one_comma_each() {
        let text = r#"{ "a":1 , "b":[2] ,"c" : 3 }"#;
        assert_eq!(without(text, &[]), text);
        assert_eq!(without(text, &["a"]), r#"{ "b":[2] ,"c" : 3 }"#);
        assert_eq!(without(text, &["b"]), r#"{ "a":1 ,"c" : 3 }"#);
        assert_eq!(without(text, &["c"]), r#"{ "a":1 , "b":[2] }"#);
        assert_eq!(without(text, &["a", "b"]), r#"{ "c" : 3 }"#);
        assert_eq!(without(text, &["b", "c"]), r#"{ "a":1 }"#);
        assert_eq!(without(text, &["a", "c"]), r#"{ "b":[2] }"#);
        assert_eq!(without(text, &["a", "b", "c"]), "{  }");
    }

    #[test]
    fn splices_apply_in_order_of_place() {
        let splices = vec![
            Splice::insert(3, &b"z"[..]),
            Splice::replace(0..1, &b"xy"[..]),
            Splice::insert(3, b"w".to_vec()),
            Splice::copy(1..2, 2..3),
        ];
        assert_eq!(apply(b"abc", splices), b"xyccz".iter().chain(b"w").copied().collect::<Vec<_>>());
    }
}
