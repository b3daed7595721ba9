//! Server-sent events, read incrementally and written (WHATWG HTML, section 9.2).
//!
//! Owns the line grammar: CR, LF or CRLF, one space after the colon, a byte-order mark at the start. Looks into
//! no event. Invariant: memory for one event is bounded, and how a stream is cut makes no difference.

mod split;

pub(super) use split::{Piece, Splitter};

/// Capacity that a scanner keeps between events; idle streams are many.
const IDLE_CAPACITY: usize = 1024;

/// Bytes kept of an `id` or `event` line.
const MAX_FIELD: usize = 1024;

/// One event. Comments alone make none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `data` lines joined by newlines; empty if there were none or if they were too long.
    pub data: &'a [u8],
    /// The last `id` line of this event, if it is not longer than 1 KiB.
    pub id: Option<&'a [u8]>,
    /// The last `event` line, if it is not longer than 1 KiB.
    pub event: Option<&'a [u8]>,
    /// Whether the data was longer than the limit, and so was dropped.
    pub oversized: bool,
}

/// Splits a byte stream into events. An event that the stream's end cuts off is none.
#[derive(Debug)]
pub struct Scanner {
    splitter: Splitter,
    limit: usize,
    data: Vec<u8>,
    oversized: bool,
    id: Field,
    event: Field,
    /// Whether a field that this scanner knows has come since the last event.
    any: bool,
}

/// A short line's value.
#[derive(Debug, Default)]
struct Field {
    present: bool,
    value: Vec<u8>,
}

impl Field {
    fn start(&mut self) {
        self.value.clear();
        self.present = true;
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.value.len() + bytes.len() > MAX_FIELD {
            self.present = false;
        }
        if self.present {
            self.value.extend_from_slice(bytes);
        }
    }

    fn get(&self) -> Option<&[u8]> {
        self.present.then_some(&self.value)
    }
}

impl Scanner {
    /// A scanner that keeps at most `limit` bytes of data for one event.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let (id, event) = (Field::default(), Field::default());
        Self {
            splitter: Splitter::default(),
            limit,
            data: Vec::new(),
            oversized: false,
            id,
            event,
            any: false,
        }
    }

    /// Reads on; `on_event` is called for each event that ends in `chunk`.
    pub fn feed(&mut self, chunk: &[u8], mut on_event: impl FnMut(Event<'_>)) {
        let Self { splitter, limit, data, oversized, id, event, any } = self;
        splitter.feed(chunk, |piece| {
            *any |= !matches!(piece, Piece::End);
            match piece {
                Piece::Data(bytes) if *oversized || data.len() + bytes.len() > *limit => {
                    *oversized = true;
                    data.clear();
                }
                Piece::Data(bytes) => data.extend_from_slice(bytes),
                Piece::IdStart => id.start(),
                Piece::Id(bytes) => id.add(bytes),
                Piece::EventStart => event.start(),
                Piece::Event(bytes) => event.add(bytes),
                Piece::End => {
                    if std::mem::take(any) {
                        on_event(Event { data, id: id.get(), event: event.get(), oversized: *oversized });
                    }
                    data.clear();
                    data.shrink_to(IDLE_CAPACITY);
                    (*oversized, id.present, event.present) = (false, false, false);
                }
            }
        });
    }
}

/// One message as one event. A line break inside the message starts a further `data` line, which JSON reads as
/// white space again.
#[must_use]
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 32);
    out.extend_from_slice(b"event: message\ndata: ");
    let mut rest = message;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(b"\ndata: ");
        rest = &rest[at + if rest[at..].starts_with(b"\r\n") { 2 } else { 1 }..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(b"\n\n");
    out
}

#[cfg(test)]
mod tests;
