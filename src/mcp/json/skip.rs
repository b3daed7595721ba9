//! Finding the end of values in text that was validated before: quicker than validating again.
//!
//! Invariant: on text that is not valid JSON the answers are useless but nothing panics or loops.

use std::ops::Range;

use super::{scan::is_space, text};

/// Steps through the members or elements of one container.
#[derive(Debug, Clone)]
pub(super) struct Inside {
    at: usize,
}

impl Inside {
    /// Starts inside the value at `at` if it opens with `bracket`; else there is nothing to step through.
    pub(super) fn new(b: &[u8], at: usize, bracket: u8) -> Self {
        Self { at: if b.get(at) == Some(&bracket) { at + 1 } else { usize::MAX } }
    }

    /// The next element, or the next member's name.
    pub(super) fn next(&mut self, b: &[u8]) -> Option<Range<usize>> {
        let mut i = space(b, self.at);
        if b.get(i) == Some(&b',') {
            i = space(b, i + 1);
        }
        match b.get(i)? {
            b'}' | b']' => None,
            _ => self.take(b, i),
        }
    }

    /// The value after a member's name.
    pub(super) fn after_colon(&mut self, b: &[u8]) -> Option<Range<usize>> {
        let i = space(b, self.at);
        self.take(b, space(b, i.saturating_add(1)))
    }

    fn take(&mut self, b: &[u8], from: usize) -> Option<Range<usize>> {
        self.at = value(b, from);
        (self.at > from).then_some(from..self.at)
    }
}

/// The first index from `i` on that is not white space.
pub(crate) fn space(b: &[u8], mut i: usize) -> usize {
    while b.get(i).is_some_and(|c| is_space(*c)) {
        i += 1;
    }
    i
}

/// Where the value that starts at `at` ends.
pub(crate) fn value(b: &[u8], at: usize) -> usize {
    match b.get(at) {
        Some(b'"') => string(b, at),
        Some(b'{' | b'[') => container(b, at),
        Some(_) => scalar(b, at),
        None => b.len(),
    }
}

/// Where the string whose opening quote is at `at` ends.
#[inline]
pub(crate) fn string(b: &[u8], at: usize) -> usize {
    let end = text::plain_end(b, at + 1);
    if b.get(end) == Some(&b'"') { end + 1 } else { escaped_string(b, end) }
}

/// The rest of a string from its first escape on.
fn escaped_string(b: &[u8], mut i: usize) -> usize {
    loop {
        match text::escapes_end(b, i) {
            Ok(reached) => i = text::plain_end(b, reached),
            Err(_) => return b.len(),
        }
        match b.get(i) {
            Some(b'"') => return i + 1,
            Some(b'\\') => {}
            _ => return b.len(),
        }
    }
}

fn container(b: &[u8], at: usize) -> usize {
    let (mut i, mut depth) = (at, 0usize);
    while let Some(c) = b.get(i) {
        match c {
            b'"' => {
                i = string(b, i);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            _ => {}
        }
        i += 1;
    }
    b.len()
}

fn scalar(b: &[u8], at: usize) -> usize {
    let stops = |c: &u8| matches!(c, b',' | b'}' | b']' | b':') || is_space(*c);
    b[at..].iter().position(stops).map_or(b.len(), |n| at + n)
}
