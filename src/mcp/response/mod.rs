//! Looking at an answer while it passes. Owns what the audit learns of a response; changes no byte of it.
//! Invariant: memory is bounded by the keep limit, however long the answer.

/// The framing of the answer, by its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `application/json`
    Json,
    /// `text/event-stream`
    Sse,
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
        /// `error.code`
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
    /// SHA-256 over the bytes of `result`.
    pub result_sha256: Option<[u8; 32]>,
    /// The first bytes of `result`.
    pub result: Option<Vec<u8>>,
    /// Whether `result` is longer than what was kept.
    pub truncated: bool,
    /// `result.protocolVersion`
    pub protocol_version: Option<String>,
    /// Whether a well-formed JSON-RPC response came; for JSON, and nothing else.
    pub valid: bool,
}

/// Reads an answer in passing.
#[derive(Debug)]
pub struct ResponseScanner {
    seen: Seen,
}

impl ResponseScanner {
    /// A scanner for one answer. `expect_id` is the request's id as raw JSON text.
    #[must_use]
    pub fn new(format: Format, keep: Keep, expect_id: Option<&str>) -> Self {
        let _ = (format, keep, expect_id);
        Self { seen: Seen::default() }
    }

    /// Looks at the next bytes; returns what has been seen since the start.
    pub fn feed(&mut self, chunk: &[u8]) -> Seen {
        let _ = chunk;
        self.seen
    }

    /// What it came to.
    #[must_use]
    pub fn finish(self) -> Observed {
        Observed::default()
    }
}
