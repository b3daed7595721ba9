//! The one validating pass over a text. Owns the grammar; keeps no tree.
//!
//! Invariant: a step never looks back, so the cost is linear; nesting lives in a bit stack, not on the stack.

use super::{Cause, Error, MAX_DEPTH, Raw, number, text};

/// Reads JSON from a text, value by value.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// Whether `b` is JSON white space.
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

impl<'a> Scanner<'a> {
    /// A scanner at the start of `text`.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0 }
    }

    /// A scanner that starts at byte `at`, which must be a character boundary.
    #[must_use]
    pub fn starting_at(text: &'a str, at: usize) -> Self {
        Self { text, bytes: text.as_bytes(), at }
    }

    /// Where the scanner stands.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    fn fail<T>(&self, offset: usize) -> Result<T, Error> {
        Err(Error { offset, cause: Cause::Syntax })
    }

    /// The first byte that is not white space; the scanner then stands on it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            let b = *self.bytes.get(self.at)?;
            if b > b' ' || !is_space(b) {
                return Some(b);
            }
            self.at += 1;
        }
    }

    /// Takes `want`, after white space.
    ///
    /// # Errors
    /// If another byte stands there.
    #[inline]
    pub fn expect(&mut self, want: u8) -> Result<(), Error> {
        if self.peek() == Some(want) {
            self.at += 1;
            Ok(())
        } else {
            self.fail(self.at)
        }
    }

    /// Nothing but white space may follow.
    ///
    /// # Errors
    /// If something does.
    pub fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail(self.at),
        }
    }

    fn raw(&self, from: usize) -> Raw<'a> {
        Raw::new(&self.text[from..self.at], from)
    }

    /// Takes a string, after white space.
    ///
    /// # Errors
    /// If there is no well-formed string.
    pub fn string(&mut self) -> Result<Raw<'a>, Error> {
        self.expect(b'"')?;
        let from = self.at - 1;
        self.string_tail()?;
        Ok(self.raw(from))
    }

    /// Takes the rest of a string whose opening quote is behind the scanner.
    fn string_tail(&mut self) -> Result<(), Error> {
        loop {
            self.at = text::plain_end(self.bytes, self.at);
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                _ => return self.fail(self.at),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Error> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|d| d.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fail(self.at);
                }
                self.at += 6;
            }
            _ => return self.fail(self.at),
        }
        Ok(())
    }

    fn literal(&mut self, word: &[u8]) -> Result<(), Error> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            self.fail(self.at)
        }
    }

    /// Takes one value of any type, after white space. `depth` is the number of levels already open.
    ///
    /// # Errors
    /// If there is no well-formed value or it nests too deep.
    pub fn value(&mut self, depth: usize) -> Result<Raw<'a>, Error> {
        self.peek();
        let from = self.at;
        let mut open = Open::at(depth);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    self.string_tail()?;
                }
                Some(b @ (b'{' | b'[')) => {
                    if self.enter(b, &mut open)? {
                        continue;
                    }
                }
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(b'-' | b'0'..=b'9') => match number::end(self.bytes, self.at) {
                    Ok(end) => self.at = end,
                    Err(offset) => return self.fail(offset),
                },
                _ => return self.fail(self.at),
            }
            if self.leave(&mut open)? {
                return Ok(self.raw(from));
            }
        }
    }

    /// Opens a container; true if a value must follow, false if it closed at once.
    #[inline]
    fn enter(&mut self, bracket: u8, open: &mut Open) -> Result<bool, Error> {
        if !open.push(bracket == b'{') {
            return Err(Error { offset: self.at, cause: Cause::Depth });
        }
        self.at += 1;
        if self.peek() == Some(bracket + 2) {
            self.at += 1;
            open.pop();
            return Ok(false);
        }
        if bracket == b'{' {
            self.name()?;
        }
        Ok(true)
    }

    /// After a value: closes what ends here. True when the outermost value is complete, false when a value must follow.
    #[inline]
    fn leave(&mut self, open: &mut Open) -> Result<bool, Error> {
        while !open.is_done() {
            match (self.peek(), open.in_object()) {
                (Some(b','), in_object) => {
                    self.at += 1;
                    if in_object {
                        self.name()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    open.pop();
                }
                _ => return self.fail(self.at),
            }
        }
        Ok(true)
    }

    /// Takes a member's name and its colon.
    #[inline]
    fn name(&mut self) -> Result<(), Error> {
        self.expect(b'"')?;
        self.string_tail()?;
        self.expect(b':')
    }

    /// Takes an object, giving each member's name to `member`, which must take exactly one value from the
    /// scanner. `depth` is the number of levels open around the object.
    ///
    /// # Errors
    /// If the object is not well-formed, nests too deep, or `member` fails.
    pub fn object(
        &mut self,
        depth: usize,
        mut member: impl FnMut(&mut Self, Raw<'a>) -> Result<(), Error>,
    ) -> Result<Raw<'a>, Error> {
        self.expect(b'{')?;
        let from = self.at - 1;
        if depth >= MAX_DEPTH {
            return Err(Error { offset: from, cause: Cause::Depth });
        }
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.raw(from));
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            member(self, name)?;
            if self.peek() == Some(b',') {
                self.at += 1;
            } else {
                self.expect(b'}')?;
                return Ok(self.raw(from));
            }
        }
    }
}

/// Which containers are open: one bit each, set for objects.
struct Open {
    bits: [u64; MAX_DEPTH / 64],
    depth: usize,
    base: usize,
}

impl Open {
    fn at(depth: usize) -> Self {
        Self { bits: [0; MAX_DEPTH / 64], depth, base: depth }
    }

    fn push(&mut self, object: bool) -> bool {
        let Some(word) = self.bits.get_mut(self.depth / 64) else { return false };
        let mask = 1 << (self.depth % 64);
        *word = if object { *word | mask } else { *word & !mask };
        self.depth += 1;
        true
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }

    fn is_done(&self) -> bool {
        self.depth == self.base
    }

    fn in_object(&self) -> bool {
        let top = self.depth - 1;
        self.bits[top / 64] & (1 << (top % 64)) != 0
    }
}
