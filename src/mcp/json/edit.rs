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
    let mut cuts: Vec<Range<usize>> = Vec::new();
    let (mut kept_before, mut previous_end) = (false, object.start() + 1);
    let mut leading: Option<Range<usize>> = None;
    for member in object.members() {
        let (start, end) = (member.name.start(), member.value.end());
        match (drop(&member.name), kept_before) {
            (true, true) => cuts.push(previous_end..end),
            (true, false) => leading = Some(leading.map_or(start, |l| l.start)..end),
            (false, _) => {
                if let Some(first) = leading.take() {
                    cuts.push(first.start..start);
                }
                kept_before = true;
            }
        }
        previous_end = end;
    }
    cuts.extend(leading);
    cuts
}
