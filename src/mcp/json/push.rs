//! The grammar as an automaton: bytes are pushed in as they arrive, cut anywhere, and none is kept.
//!
//! Owns the state between chunks and tells a [`Sink`] where names and values start and end. Does not check that
//! bytes beyond ASCII are UTF-8. Invariant: the outcome does not depend on the cuts; memory is constant. Below
//! [`MAX_DEPTH`] levels brackets are counted, not checked, so that a deep answer is still followed to its end.

use super::{MAX_DEPTH, Type, scan::is_space, text};

/// Who wants to know what passes. `at` is an offset in the current chunk; the depth is the number of containers
/// open around the name or value.
pub trait Sink {
    /// A member's name starts with its quote at `at`.
    fn name_start(&mut self, depth: usize, at: usize);
    /// The name ended before `at`.
    fn name_end(&mut self, depth: usize, chunk: &[u8], at: usize);
    /// A value starts at `at`.
    fn value_start(&mut self, depth: usize, kind: Type, at: usize);
    /// The value ended before `at`.
    fn value_end(&mut self, depth: usize, chunk: &[u8], at: usize);
}

/// What must come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value; after `[` also its end.
    Value {
        or_end: bool,
    },
    /// A member's name; after `{` also its end.
    Name {
        or_end: bool,
    },
    Colon,
    /// A comma or the container's end.
    After,
    Text {
        name: bool,
    },
    Escape {
        name: bool,
    },
    /// Hexadecimal digits to come.
    Hex {
        name: bool,
        left: u8,
    },
    Number(Number),
    /// Bytes of the word to come.
    Word(&'static [u8]),
    /// Deeper than [`MAX_DEPTH`]: so many levels more.
    Deep {
        levels: usize,
        text: bool,
        escaped: bool,
    },
    /// Nothing but white space.
    Done,
    /// The input is no JSON.
    Bad,
}

/// Where in a number we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

/// The automaton.
#[derive(Debug, Clone)]
pub struct Push {
    state: State,
    objects: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Default for Push {
    fn default() -> Self {
        Self { state: State::Value { or_end: false }, objects: [0; MAX_DEPTH / 64], depth: 0 }
    }
}

impl Push {
    /// Whether exactly one value has come, complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the input can no longer become JSON.
    #[must_use]
    pub fn is_bad(&self) -> bool {
        self.state == State::Bad
    }

    /// Reads on.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl Sink) {
        let mut i = 0;
        while let Some(b) = chunk.get(i) {
            i = match self.state {
                State::Text { name } => self.text(name, chunk, i, sink),
                State::Number(at) => self.number(at, *b, chunk, i, sink),
                State::Escape { .. } | State::Hex { .. } => self.escape(*b, i),
                State::Word(rest) => self.word(rest, *b, chunk, i, sink),
                State::Deep { levels, text, escaped } => self.deep(levels, text, escaped, chunk, i),
                State::Bad => return,
                _ if is_space(*b) => i + 1,
                _ => self.structure(*b, chunk, i, sink),
            };
        }
    }

    #[inline]
    fn structure(&mut self, b: u8, chunk: &[u8], i: usize, sink: &mut impl Sink) -> usize {
        match (self.state, b) {
            (State::Name { .. }, b'"') => {
                sink.name_start(self.depth, i);
                self.state = State::Text { name: true };
            }
            (State::Name { or_end: true }, b'}') | (State::Value { or_end: true }, b']') => {
                self.close(chunk, i + 1, sink);
            }
            (State::Value { .. }, _) => self.value(b, i, sink),
            (State::Colon, b':') => self.state = State::Value { or_end: false },
            (State::After, b',') => {
                self.state = if self.in_object() {
                    State::Name { or_end: false }
                } else {
                    State::Value { or_end: false }
                };
            }
            (State::After, b'}') if self.in_object() => self.close(chunk, i + 1, sink),
            (State::After, b']') if !self.in_object() => self.close(chunk, i + 1, sink),
            _ => self.state = State::Bad,
        }
        i + 1
    }

    /// The first byte of a value.
    fn value(&mut self, b: u8, i: usize, sink: &mut impl Sink) {
        let next = match b {
            b'"' => State::Text { name: false },
            b'{' => State::Name { or_end: true },
            b'[' => State::Value { or_end: true },
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Whole),
            _ => State::Bad,
        };
        sink.value_start(self.depth, Type::of(b), i);
        self.state = match b {
            b'{' | b'[' if !self.open(b == b'{') => State::Deep { levels: 1, text: false, escaped: false },
            _ => next,
        };
    }

    fn open(&mut self, object: bool) -> bool {
        let Some(word) = self.objects.get_mut(self.depth / 64) else { return false };
        let mask = 1 << (self.depth % 64);
        *word = if object { *word | mask } else { *word & !mask };
        self.depth += 1;
        true
    }

    fn in_object(&self) -> bool {
        let top = self.depth.wrapping_sub(1);
        self.objects.get(top / 64).is_some_and(|word| word & (1 << (top % 64)) != 0)
    }

    fn close(&mut self, chunk: &[u8], end: usize, sink: &mut impl Sink) {
        self.depth -= 1;
        self.ended(chunk, end, sink);
    }

    /// A value has ended before `end`.
    #[inline]
    fn ended(&mut self, chunk: &[u8], end: usize, sink: &mut impl Sink) {
        sink.value_end(self.depth, chunk, end);
        self.state = if self.depth == 0 { State::Done } else { State::After };
    }

    fn text(&mut self, name: bool, chunk: &[u8], i: usize, sink: &mut impl Sink) -> usize {
        let end = text::plain_end(chunk, i);
        match chunk.get(end) {
            None => return end,
            Some(b'"') if name => {
                sink.name_end(self.depth, chunk, end + 1);
                self.state = State::Colon;
            }
            Some(b'"') => self.ended(chunk, end + 1, sink),
            Some(b'\\') => self.state = State::Escape { name },
            Some(_) => self.state = State::Bad,
        }
        end + 1
    }

    fn escape(&mut self, b: u8, i: usize) -> usize {
        self.state = match (self.state, b) {
            (State::Escape { name }, b'u') => State::Hex { name, left: 4 },
            (State::Escape { name }, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                State::Text { name }
            }
            (State::Hex { name, left: 1 }, _) if b.is_ascii_hexdigit() => State::Text { name },
            (State::Hex { name, left }, _) if b.is_ascii_hexdigit() => State::Hex { name, left: left - 1 },
            _ => State::Bad,
        };
        i + 1
    }

    fn word(&mut self, rest: &'static [u8], b: u8, chunk: &[u8], i: usize, sink: &mut impl Sink) -> usize {
        match rest.split_first() {
            Some((want, [])) if *want == b => self.ended(chunk, i + 1, sink),
            Some((want, tail)) if *want == b => self.state = State::Word(tail),
            _ => self.state = State::Bad,
        }
        i + 1
    }

    fn number(&mut self, at: Number, b: u8, chunk: &[u8], i: usize, sink: &mut impl Sink) -> usize {
        if let Some(next) = at.step(b) {
            self.state = State::Number(next);
            return i + 1;
        }
        if at.is_complete() {
            self.ended(chunk, i, sink);
        } else {
            self.state = State::Bad;
        }
        i
    }

    /// Whether a number at the top is complete although nothing has come after it.
    fn is_open_number(&self) -> bool {
        self.depth == 0 && matches!(self.state, State::Number(at) if at.is_complete())
    }

    /// The input has ended.
    pub fn finish(&mut self) {
        if self.is_open_number() {
            self.state = State::Done;
        }
    }

    /// Counts brackets outside of strings.
    fn deep(
        &mut self,
        mut levels: usize,
        mut text: bool,
        mut escaped: bool,
        chunk: &[u8],
        from: usize,
    ) -> usize {
        for (n, b) in chunk[from..].iter().enumerate() {
            match b {
                _ if escaped => escaped = false,
                b'\\' if text => escaped = true,
                b'"' => text = !text,
                _ if text => {}
                b'{' | b'[' => levels += 1,
                b'}' | b']' if levels == 1 => {
                    self.state = State::After;
                    return from + n + 1;
                }
                b'}' | b']' => levels -= 1,
                _ => {}
            }
        }
        self.state = State::Deep { levels, text, escaped };
        chunk.len()
    }
}

impl Number {
    /// Where `b` leads, if it belongs to the number.
    fn step(self, b: u8) -> Option<Self> {
        match (self, b) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Some(Self::Whole),
            (Self::Zero | Self::Whole, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::Sign),
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Some(Self::Power),
            _ => None,
        }
    }

    fn is_complete(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Power)
    }
}
