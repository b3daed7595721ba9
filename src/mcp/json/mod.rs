//! JSON as received: validated once, then read as slices of the original text.
//!
//! Owns the grammar of RFC 8259 (strict: UTF-8, one value, nothing after it), how member names and strings are
//! decoded, and splicing. It builds no tree and re-serialises nothing. Invariant: no call recurses, so nesting
//! costs no stack; a [`Raw`] only ever holds text that [`scan::Scanner`] has accepted.

pub mod edit;
pub mod hash;
pub mod keys;
pub mod number;
pub mod push;
pub mod scan;
pub(super) mod skip;
pub mod text;

use std::{borrow::Cow, ops::Range};

/// Levels of arrays and objects that a document may nest. Real calls stay far below; servers commonly refuse
/// more than about 128.
pub const MAX_DEPTH: usize = 512;

/// Why a text is not acceptable JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// Byte offset of the first byte that does not fit.
    pub offset: usize,
    /// What kind of fault it is.
    pub cause: Cause,
}

/// The kinds of fault that [`Error`] tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Not JSON by RFC 8259, or not UTF-8.
    Syntax,
    /// More than [`MAX_DEPTH`] levels.
    Depth,
}

/// The JSON types, with numbers undivided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// Any number
    Number,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

/// One value of a validated document: the document, and where in it the value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    document: &'a str,
    from: usize,
    to: usize,
}

impl Default for Raw<'_> {
    fn default() -> Self {
        Self::whole("null")
    }
}

/// One member of a validated object.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// The name with its quotes.
    pub name: Raw<'a>,
    /// The value.
    pub value: Raw<'a>,
}

/// Reads a whole document.
///
/// # Errors
/// [`Error`] if `bytes` is not exactly one JSON value, with optional white space around it.
pub fn parse(bytes: &[u8]) -> Result<Raw<'_>, Error> {
    let text = scan::utf8(bytes)?;
    let mut scanner = scan::Scanner::new(text);
    let value = scanner.value(0)?;
    scanner.end()?;
    Ok(value)
}

impl<'a> Raw<'a> {
    /// The bytes `from..to` of `document` must be one validated value.
    pub(super) fn new(document: &'a str, from: usize, to: usize) -> Self {
        Self { document, from, to }
    }

    /// `text` must be one validated value and nothing else.
    pub(super) fn whole(text: &'a str) -> Self {
        Self::new(text, 0, text.len())
    }

    /// The document that the value stands in.
    pub(crate) fn document(&self) -> &'a str {
        self.document
    }

    /// The value's own bytes as text.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.document.get(self.from..self.to).unwrap_or("null")
    }

    /// The value's own bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.document.as_bytes().get(self.from..self.to).unwrap_or(b"null")
    }

    /// Where the value starts in its document.
    #[must_use]
    pub fn start(&self) -> usize {
        self.from
    }

    /// The first byte after the value.
    #[must_use]
    pub fn end(&self) -> usize {
        self.to
    }

    /// The bytes of the document that are this value.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.from..self.to
    }

    /// The value's type, by its first byte.
    #[must_use]
    pub fn kind(&self) -> Type {
        Type::of(self.bytes().first().copied().unwrap_or(b'n'))
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.kind() == Type::Object
    }

    /// Whether this is neither array nor object.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        !matches!(self.kind(), Type::Array | Type::Object)
    }

    /// Whether this is an array or object without content.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let b = self.bytes();
        b.len() >= 2 && matches!(b[0], b'[' | b'{') && b[1..b.len() - 1].iter().all(|c| scan::is_space(*c))
    }

    /// The decoded text of a string; `None` for other types. A lone surrogate becomes U+FFFD.
    #[must_use]
    pub fn as_str(&self) -> Option<Cow<'a, str>> {
        (self.kind() == Type::String).then(|| text::decode_lossy(self.text()))
    }

    /// The decoded text of a string that is valid Unicode; `None` for lone surrogates and other types.
    #[must_use]
    pub fn as_exact_str(&self) -> Option<Cow<'a, str>> {
        if self.kind() == Type::String { text::decode(self.text()) } else { None }
    }

    /// The members of an object, in order; none for other types.
    #[must_use]
    pub fn members(&self) -> Members<'a> {
        Members {
            document: self.document,
            inside: skip::Inside::new(self.document.as_bytes(), self.from, b'{'),
        }
    }

    /// The elements of an array, in order; none for other types.
    #[must_use]
    pub fn elements(&self) -> Elements<'a> {
        Elements {
            document: self.document,
            inside: skip::Inside::new(self.document.as_bytes(), self.from, b'['),
        }
    }

    /// The value of the last member called `name`, which is the one that most readers take.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.members().filter(|m| m.name.is_string(name)).last().map(|m| m.value)
    }

    /// As [`Raw::is_string`], but a lone surrogate equals nothing.
    #[must_use]
    pub fn is_string_exactly(&self, want: &str) -> bool {
        self.as_exact_str().is_some_and(|text| text == want)
    }

    /// Whether this is a string that decodes to `want`.
    #[must_use]
    pub fn is_string(&self, want: &str) -> bool {
        self.kind() == Type::String && text::equals(self.text(), want)
    }
}

impl Type {
    /// The type of a value that starts with `first`.
    #[must_use]
    pub fn of(first: u8) -> Self {
        match first {
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'"' => Self::String,
            b't' | b'f' => Self::Boolean,
            b'n' => Self::Null,
            _ => Self::Number,
        }
    }

    /// The name JSON Schema gives it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// Iterator over the members of a validated object.
#[derive(Debug, Clone)]
pub struct Members<'a> {
    document: &'a str,
    inside: skip::Inside,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let bytes = self.document.as_bytes();
        let name = self.inside.next(bytes)?;
        let value = self.inside.after_colon(bytes)?;
        let raw = |r: Range<usize>| Raw::new(self.document, r.start, r.end);
        Some(Member { name: raw(name), value: raw(value) })
    }
}

/// Iterator over the elements of a validated array.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    document: &'a str,
    inside: skip::Inside,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        let r = self.inside.next(self.document.as_bytes())?;
        Some(Raw::new(self.document, r.start, r.end))
    }
}
