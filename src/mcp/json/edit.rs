//! Splices: what a repair does to the original text.
//!
//! Invariant: bytes outside the spliced ranges leave exactly as they came.

use std::{borrow::Cow, ops::Range};

use super::Raw;

/// One replacement in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// The bytes to replace; empty to insert.
    pub range: Range<usize>,
    /// What stands there afterwards.
    pub with: Cow<'static, [u8]>,
}

impl Splice {
    /// Replaces `range`.
    pub fn replace(range: Range<usize>, with: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { range, with: with.into() }
    }

    /// Inserts at `at`.
    pub fn insert(at: usize, with: impl Into<Cow<'static, [u8]>>) -> Self {
        Self::replace(at..at, with)
    }
}

/// Applies splices to `source`. They must not overlap; insertions at the same place keep their order.
#[must_use]
pub fn apply(source: &[u8], mut splices: Vec<Splice>) -> Vec<u8> {
    splices.sort_by_key(|s| s.range.start);
    let added: usize = splices.iter().map(|s| s.with.len()).sum();
    let mut out = Vec::with_capacity(source.len() + added);
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(source.get(at..splice.range.start).unwrap_or_default());
        out.extend_from_slice(&splice.with);
        at = at.max(splice.range.end);
    }
    out.extend_from_slice(source.get(at..).unwrap_or_default());
    out
}

/// The ranges to cut so that an object loses the members that `drop` picks, with one comma each.
#[must_use]
pub fn cuts<'a>(object: Raw<'a>, mut drop: impl FnMut(&Raw<'a>) -> bool) -> Vec<Range<usize>> {
    gaps(object.members().map(|m| (m.name.start()..m.value.end(), drop(&m.name))))
}

/// The ranges to cut out of a comma-separated list, given each item's range and whether it goes.
#[must_use]
pub fn gaps(items: impl Iterator<Item = (Range<usize>, bool)>) -> Vec<Range<usize>> {
    let mut cuts: Vec<Range<usize>> = Vec::new();
    // Up to where the last item that stays reaches; items that go before any stays are cut up to the next one.
    let (mut kept, mut leading) = (None, None);
    for (item, goes) in items {
        match (goes, kept) {
            (true, Some(end)) => {
                cuts.push(end..item.end);
                kept = Some(item.end);
            }
            (true, None) => leading = Some(leading.map_or(item.start, |l: Range<usize>| l.start)..item.end),
            (false, _) => {
                cuts.extend(leading.take().map(|l| l.start..item.start));
                kept = Some(item.end);
            }
        }
    }
    cuts.extend(leading);
    cuts
}

#[cfg(test)]
mod tests {
    use super::{Splice, apply, cuts};
    use crate::mcp::json::parse;

    fn without(text: &str, names: &[&str]) -> String {
        let cut = cuts(parse(text.as_bytes()).unwrap(), |n| names.iter().any(|d| n.is_string(d)));
        let splices = cut.into_iter().map(|r| Splice::replace(r, &b""[..])).collect();
        String::from_utf8(apply(text.as_bytes(), splices)).unwrap()
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
            Splice::insert(3, &b"w"[..]),
        ];
        assert_eq!(apply(b"abc", splices), b"xybczw");
    }
}
