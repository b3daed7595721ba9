//! Looking at an answer while it passes. Owns what the audit learns of a response; changes no byte of it.
//!
//! Invariants: memory is bounded by the keep limit, however long the answer; what is found does not depend on
//! how the answer is cut into chunks.

mod message;
#[cfg(test)]
mod tests;

use http::{HeaderMap, header::CONTENT_TYPE};
use message::{Found, Reader};

use super::sse::{Piece, Splitter};

/// The framing of the answer, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `text/event-stream`
    Sse,
}

impl Format {
    /// As these headers announce it; `None` for any other media type.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let essence = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
        match essence {
            _ if essence.eq_ignore_ascii_case("application/json") => Some(Self::Json),
            _ if essence.eq_ignore_ascii_case("text/event-stream") => Some(Self::Sse),
            _ => None,
        }
    }

    /// Whether these headers announce a stream of events.
    #[must_use]
    pub fn is_sse(headers: &HeaderMap) -> bool {
        Self::of(headers) == Some(Self::Sse)
    }
}

/// What to keep of the `result` member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// Its SHA-256.
    Hash,
    /// Its SHA-256 and up to so many of its first bytes.
    Bytes(usize),
}

/// What has been seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// `notifications/tools/list_changed` has passed.
    pub list_changed: bool,
    /// A request from the server has passed.
    pub server_request: bool,
    /// The response has passed.
    pub answered: bool,
    /// An event with an id has passed, from which a client can resume.
    pub resumable: bool,
}

/// How the call was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// With a result.
    Result {
        /// `result.isError`
        is_error: bool,
    },
    /// With an error.
    Error {
        /// `error.code`; 0 if there is none that can be read.
        code: i64,
        /// `error.message`, at most 512 bytes.
        message: String,
    },
}

/// What is known once the answer has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The answer, if one came.
    pub answer: Option<Answer>,
    /// SHA-256 over the bytes of `result`, if that was wanted.
    pub result_sha256: Option<[u8; 32]>,
    /// The first bytes of `result`, if they were wanted.
    pub result: Option<Vec<u8>>,
    /// Whether `result` is longer than what was kept.
    pub truncated: bool,
    /// Length of `result`, kept or not.
    pub result_bytes: u64,
    /// `result.protocolVersion`
    pub protocol_version: Option<String>,
    /// JSON: the body was one well-formed object with a result or an error. SSE: such an event came.
    pub valid: bool,
}

/// Reads an answer in passing.
#[derive(Debug)]
pub struct ResponseScanner {
    reader: Reader,
    /// For SSE only.
    splitter: Option<Splitter>,
    expect_id: Option<Box<str>>,
    seen: Seen,
    observed: Observed,
    /// Whether the answer taken has the expected id.
    exact: bool,
}

impl ResponseScanner {
    /// A scanner for one answer. `expect_id` is the request's id as raw JSON text: where a stream carries more
    /// than one response, the one with this id is taken.
    #[must_use]
    pub fn new(format: Format, keep: Keep, expect_id: Option<&str>) -> Self {
        Self {
            reader: Reader::new(keep),
            splitter: (format == Format::Sse).then(Splitter::default),
            expect_id: expect_id.map(Box::from),
            seen: Seen::default(),
            observed: Observed::default(),
            exact: false,
        }
    }

    /// Looks at the next bytes; returns what has been seen since the start. JSON is only judged at its end.
    pub fn feed(&mut self, chunk: &[u8]) -> Seen {
        match self.splitter.take() {
            None => self.reader.feed(chunk),
            Some(mut splitter) => {
                splitter.feed(chunk, |piece| self.piece(piece));
                self.splitter = Some(splitter);
            }
        }
        self.seen
    }

    /// Whether JSON read so far is a response; `None` while that cannot be told.
    #[must_use]
    pub fn is_response(&self) -> Option<bool> {
        self.reader.is_response()
    }

    fn piece(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Data(bytes) => self.reader.feed(bytes),
            Piece::End => self.message(),
            Piece::IdStart => self.seen.resumable = true,
            _ => {}
        }
    }

    /// One message is complete.
    fn message(&mut self) {
        let Some(found) = self.reader.finish() else { return };
        if found.has_method {
            self.seen.list_changed |= found.is_list_changed;
            self.seen.server_request |= found.id.is_some();
        } else if found.answer.is_some() {
            self.take(found);
        }
    }

    /// The first response is the answer, unless one with the expected id follows.
    fn take(&mut self, found: Found) {
        let exact = found.id.is_some() && found.id.as_deref() == self.expect_id.as_deref().map(str::as_bytes);
        if self.seen.answered && (self.exact || !exact) {
            return;
        }
        (self.seen.answered, self.exact) = (true, exact);
        self.observed = Observed {
            answer: found.answer,
            result_sha256: found.sha256,
            result: found.kept,
            truncated: found.truncated,
            result_bytes: found.result_bytes,
            protocol_version: found.protocol_version,
            valid: true,
        };
    }

    /// For an answer that broke off: the bytes kept of its result as far as that came, and how many there were.
    #[must_use]
    pub fn broken_off(self) -> (Vec<u8>, u64) {
        if self.seen.answered {
            return (self.observed.result.unwrap_or_default(), self.observed.result_bytes);
        }
        self.reader.unfinished()
    }

    /// What it came to. An event that the stream's end cuts off is no event.
    #[must_use]
    pub fn finish(mut self) -> Observed {
        if self.splitter.is_none() {
            self.message();
        }
        self.observed
    }
}
