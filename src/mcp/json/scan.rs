//! The one validating pass over a text. Owns the grammar; keeps no tree.
//!
//! Invariant: a step never looks back, so the cost is linear; nesting lives in a bit stack, not on the stack.

use super::{Cause, Error, MAX_DEPTH, Raw, number, text};

/// Who wants to know what a pass over a value meets. Positions are offsets in the document; names and texts are
/// given with their quotes.
pub trait Visit {
    /// A member's name. `plain`: it has no escapes.
    fn name(&mut self, _bytes: &[u8], _from: usize, _to: usize, _plain: bool) {}
    /// A value that is a string.
    fn text(&mut self, _bytes: &[u8], _from: usize, _to: usize) {}
    /// An array or object opens.
    fn open(&mut self) {}
    /// The innermost array or object closes.
    fn close(&mut self) {}
}

/// Nobody.
impl Visit for () {}

/// Reads JSON from a text, value by value.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    deepest: usize,
}

/// Whether `b` is JSON white space.
#[inline]
#[must_use]
pub fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// The bytes as text.
///
/// # Errors
/// A syntax error at the first byte that is not UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|e| Error { offset: e.valid_up_to(), cause: Cause::Syntax })
}

fn fail<T>(offset: usize) -> Result<T, Error> {
    Err(Error { offset, cause: Cause::Syntax })
}

/// The first byte from `i` on that is not white space; 0 at the end, which no token starts with.
#[inline(always)]
fn peek(b: &[u8], i: &mut usize) -> u8 {
    loop {
        match b.get(*i) {
            None => return 0,
            Some(c) if *c > b' ' || !is_space(*c) => return *c,
            Some(_) => *i += 1,
        }
    }
}

/// Passes a string whose opening quote is at `from`: where it ends, and whether it has no escapes.
#[inline(always)]
fn string(b: &[u8], from: usize) -> Result<(usize, bool), Error> {
    let end = text::plain_end(b, from + 1);
    if b.get(end) == Some(&b'"') {
        Ok((end + 1, true))
    } else {
        escaped_string(b, end).map(|end| (end, false))
    }
}

/// The rest of a string from its first escape on.
fn escaped_string(b: &[u8], mut i: usize) -> Result<usize, Error> {
    loop {
        i = text::escapes_end(b, i).or_else(fail)?;
        i = text::plain_end(b, i);
        match b.get(i) {
            Some(b'"') => return Ok(i + 1),
            Some(b'\\') => {}
            _ => return fail(i),
        }
    }
}

/// Passes a member's name and its colon.
#[inline(always)]
fn name(b: &[u8], i: &mut usize, visit: &mut impl Visit) -> Result<(), Error> {
    if peek(b, i) != b'"' {
        return fail(*i);
    }
    let from = *i;
    let (end, plain) = string(b, from)?;
    visit.name(b, from, end, plain);
    *i = end;
    if peek(b, i) != b':' {
        return fail(*i);
    }
    *i += 1;
    Ok(())
}

fn word(b: &[u8], i: usize, word: &[u8]) -> Result<usize, Error> {
    if b[i..].starts_with(word) { Ok(i + word.len()) } else { fail(i) }
}

/// Passes the value that starts at `from`, where white space has been passed: where it ends, and how many levels
/// were open at most.
fn value(b: &[u8], from: usize, depth: usize, visit: &mut impl Visit) -> Result<(usize, usize), Error> {
    let (mut i, mut open) = (from, Open::at(depth));
    loop {
        match peek(b, &mut i) {
            b'"' => {
                let start = i;
                (i, _) = string(b, start)?;
                visit.text(b, start, i);
            }
            bracket @ (b'{' | b'[') => {
                if !open.push(bracket == b'{') {
                    return Err(Error { offset: i, cause: Cause::Depth });
                }
                visit.open();
                i += 1;
                if peek(b, &mut i) == bracket + 2 {
                    i += 1;
                    open.pop();
                    visit.close();
                } else {
                    if bracket == b'{' {
                        name(b, &mut i, visit)?;
                    }
                    continue;
                }
            }
            b'-' | b'0'..=b'9' => i = number::end(b, i).or_else(fail)?,
            b't' => i = word(b, i, b"true")?,
            b'f' => i = word(b, i, b"false")?,
            b'n' => i = word(b, i, b"null")?,
            _ => return fail(i),
        }
        loop {
            if open.is_done() {
                return Ok((i, open.deepest));
            }
            match (peek(b, &mut i), open.in_object()) {
                (b',', object) => {
                    i += 1;
                    if object {
                        name(b, &mut i, visit)?;
                    }
                    break;
                }
                (b'}', true) | (b']', false) => {
                    i += 1;
                    open.pop();
                    visit.close();
                }
                _ => return fail(i),
            }
        }
    }
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of `text`.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, deepest: 0 }
    }

    /// Where the scanner stands.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// The most levels that were open in any value taken so far.
    #[must_use]
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// The first byte that is not white space, on which the scanner then stands.
    pub fn peek(&mut self) -> Option<u8> {
        peek(self.text.as_bytes(), &mut self.at);
        self.text.as_bytes().get(self.at).copied()
    }

    fn expect(&mut self, want: u8) -> Result<(), Error> {
        if peek(self.text.as_bytes(), &mut self.at) != want {
            return fail(self.at);
        }
        self.at += 1;
        Ok(())
    }

    /// Nothing but white space may follow.
    ///
    /// # Errors
    /// If something does.
    pub fn end(&mut self) -> Result<(), Error> {
        if self.peek().is_none() { Ok(()) } else { fail(self.at) }
    }

    /// Takes one value of any type, after white space. `depth` is the number of levels already open.
    ///
    /// # Errors
    /// If there is no well-formed value or it nests too deep.
    pub fn value(&mut self, depth: usize) -> Result<Raw<'a>, Error> {
        self.visited(depth, &mut ())
    }

    /// As [`Scanner::value`], telling `visit` what is met.
    ///
    /// # Errors
    /// As [`Scanner::value`].
    pub fn visited(&mut self, depth: usize, visit: &mut impl Visit) -> Result<Raw<'a>, Error> {
        self.peek();
        let from = self.at;
        let (end, deepest) = value(self.text.as_bytes(), from, depth, visit)?;
        (self.at, self.deepest) = (end, self.deepest.max(deepest));
        Ok(Raw::new(self.text, from, self.at))
    }

    /// Takes an object, giving each member's name to `member`, which must take exactly one value from the
    /// scanner; `plain` says that the name has no escapes. `depth` is the number of levels open around the
    /// object.
    ///
    /// # Errors
    /// If the object is not well-formed, nests too deep, or `member` fails.
    pub fn object(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&mut Self, Raw<'a>, bool) -> Result<(), Error>,
    ) -> Result<Raw<'a>, Error> {
        let b = self.text.as_bytes();
        self.expect(b'{')?;
        let from = self.at - 1;
        if depth >= MAX_DEPTH {
            return Err(Error { offset: from, cause: Cause::Depth });
        }
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Raw::new(self.text, from, self.at));
        }
        loop {
            if peek(b, &mut self.at) != b'"' {
                return fail(self.at);
            }
            let (end, plain) = string(b, self.at)?;
            let name = Raw::new(self.text, self.at, end);
            self.at = end;
            self.expect(b':')?;
            member(self, name, plain)?;
            if peek(b, &mut self.at) == b',' {
                self.at += 1;
            } else {
                self.expect(b'}')?;
                return Ok(Raw::new(self.text, from, self.at));
            }
        }
    }
}

/// Which containers are open: one bit each, set for objects, the innermost lowest.
struct Open {
    /// The innermost levels, up to 64 of them.
    bits: u64,
    /// `bits` as they were whenever 64 more levels had been opened.
    saved: [u64; MAX_DEPTH / 64],
    depth: usize,
    base: usize,
    deepest: usize,
}

impl Open {
    fn at(depth: usize) -> Self {
        Self { bits: 0, saved: [0; MAX_DEPTH / 64], depth, base: depth, deepest: depth }
    }

    #[inline(always)]
    fn push(&mut self, object: bool) -> bool {
        if self.depth >= MAX_DEPTH {
            return false;
        }
        if self.depth.is_multiple_of(64) {
            self.saved[self.depth / 64] = self.bits;
        }
        self.bits = (self.bits << 1) | u64::from(object);
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        true
    }

    #[inline(always)]
    fn pop(&mut self) {
        self.depth -= 1;
        self.bits >>= 1;
        if self.depth.is_multiple_of(64) {
            self.bits = self.saved[self.depth / 64];
        }
    }

    /// Whether the innermost one is an object.
    #[inline(always)]
    fn in_object(&self) -> bool {
        self.bits & 1 != 0
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        self.depth == self.base
    }
}
