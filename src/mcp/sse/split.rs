//! The line grammar, without keeping a byte: fields come out in pieces as they pass.

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Longest field name that means something (`event`).
const MAX_NAME: usize = 5;

/// What passes. The data of one event is the concatenation of its `Data` pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::mcp) enum Piece<'a> {
    /// Bytes of data, with the newline between two `data` lines. The first may be empty.
    Data(&'a [u8]),
    /// An `id` line begins.
    IdStart,
    /// Bytes of it.
    Id(&'a [u8]),
    /// An `event` line begins.
    EventStart,
    /// Bytes of it.
    Event(&'a [u8]),
    /// An empty line: the event ends.
    End,
}

/// Which line we are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// In the field's name.
    Name,
    /// After the colon, where one space is dropped.
    Space(Kind),
    /// In the value.
    Value(Kind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Data,
    Id,
    Event,
    /// Comments, `retry`, and fields that nobody knows.
    Other,
}

/// The state between two chunks.
#[derive(Debug)]
pub(in crate::mcp) struct Splitter {
    /// Bytes of the byte-order mark seen; 3 once past the start.
    bom: usize,
    /// The last byte was a CR that ended a line: an LF now belongs to it.
    after_cr: bool,
    line: Line,
    name: [u8; MAX_NAME],
    /// Bytes of the name, also those that did not fit.
    name_len: usize,
    /// A data line has come since the last event.
    has_data: bool,
}

impl Default for Splitter {
    fn default() -> Self {
        Self { bom: 0, after_cr: false, line: Line::Name, name: [0; MAX_NAME], name_len: 0, has_data: false }
    }
}

impl Splitter {
    /// Reads on, giving each piece to `sink`.
    pub(in crate::mcp) fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(Piece<'_>)) {
        let mut rest = self.start(chunk);
        if let Some((first, tail)) = rest.split_first()
            && std::mem::take(&mut self.after_cr)
            && *first == b'\n'
        {
            rest = tail;
        }
        while !rest.is_empty() {
            rest = match self.line {
                Line::Name => self.in_name(rest, &mut sink),
                Line::Space(kind) => {
                    self.line = Line::Value(kind);
                    rest.strip_prefix(b" ").unwrap_or(rest)
                }
                Line::Value(kind) => self.in_value(kind, rest, &mut sink),
            };
        }
    }

    /// Passes over a byte-order mark at the start of the stream.
    fn start<'c>(&mut self, chunk: &'c [u8]) -> &'c [u8] {
        let mut rest = chunk;
        while let (true, Some((first, tail))) = (self.bom < BOM.len(), rest.split_first()) {
            if *first != BOM[self.bom] {
                // Bytes of a mark that is none are part of a name that nobody knows.
                self.name_len += self.bom;
                self.bom = BOM.len();
                break;
            }
            self.bom += 1;
            rest = tail;
        }
        rest
    }

    fn in_name<'c>(&mut self, rest: &'c [u8], sink: &mut impl FnMut(Piece<'_>)) -> &'c [u8] {
        let Some(end) = rest.iter().position(|b| matches!(b, b':' | b'\n' | b'\r')) else {
            self.add_name(rest);
            return &[];
        };
        self.add_name(&rest[..end]);
        if rest[end] == b':' {
            let kind = self.kind();
            self.open(kind, sink);
            self.line = Line::Space(kind);
            return &rest[end + 1..];
        }
        if self.name_len == 0 {
            self.has_data = false;
            sink(Piece::End);
        } else {
            self.open(self.kind(), sink);
        }
        self.line_end(&rest[end..])
    }

    fn in_value<'c>(&mut self, kind: Kind, rest: &'c [u8], sink: &mut impl FnMut(Piece<'_>)) -> &'c [u8] {
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let value = &rest[..end];
        if !value.is_empty() {
            match kind {
                Kind::Data => sink(Piece::Data(value)),
                Kind::Id => sink(Piece::Id(value)),
                Kind::Event => sink(Piece::Event(value)),
                Kind::Other => {}
            }
        }
        self.line_end(&rest[end..])
    }

    fn add_name(&mut self, bytes: &[u8]) {
        for b in bytes.iter().take(MAX_NAME + 1) {
            if let Some(slot) = self.name.get_mut(self.name_len) {
                *slot = *b;
            }
            self.name_len = (self.name_len + 1).min(MAX_NAME + 1);
        }
    }

    fn kind(&self) -> Kind {
        match self.name.get(..self.name_len) {
            Some(b"data") => Kind::Data,
            Some(b"id") => Kind::Id,
            Some(b"event") => Kind::Event,
            _ => Kind::Other,
        }
    }

    /// A field's value begins, be it empty.
    fn open(&mut self, kind: Kind, sink: &mut impl FnMut(Piece<'_>)) {
        match kind {
            Kind::Data => {
                sink(Piece::Data(if std::mem::replace(&mut self.has_data, true) { b"\n" } else { b"" }))
            }
            Kind::Id => sink(Piece::IdStart),
            Kind::Event => sink(Piece::EventStart),
            Kind::Other => {}
        }
    }

    /// Passes over the line end that `rest` starts with, if the chunk goes that far.
    fn line_end<'c>(&mut self, rest: &'c [u8]) -> &'c [u8] {
        let Some((first, tail)) = rest.split_first() else { return rest };
        (self.line, self.name_len) = (Line::Name, 0);
        if *first == b'\n' {
            return tail;
        }
        self.after_cr = tail.is_empty();
        tail.strip_prefix(b"\n").unwrap_or(tail)
    }
}
