//! One JSON-RPC message of an answer, read as it passes: what kind it is, and the few members that matter.

use sha2::{Digest, Sha256};

use super::{Answer, Keep};
use crate::mcp::json::{
    Type,
    number::Decimal,
    push::{Push, Sink},
    text,
};

/// Bytes kept of an error's message.
const MAX_MESSAGE: usize = 512;

/// Bytes of a name or value that are looked at: a message of [`MAX_MESSAGE`] bytes, all escaped.
const MAX_TOKEN: usize = 6 * MAX_MESSAGE + 2;

/// Longest name that means something is `protocolVersion`, all escaped.
const MAX_NAME: usize = 6 * 15 + 2;

/// What a complete message was.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) has_method: bool,
    pub(super) is_list_changed: bool,
    /// The id as it stands; not null.
    pub(super) id: Option<Vec<u8>>,
    pub(super) answer: Option<Answer>,
    pub(super) sha256: Option<[u8; 32]>,
    pub(super) kept: Option<Vec<u8>>,
    pub(super) truncated: bool,
    pub(super) result_bytes: u64,
    pub(super) protocol_version: Option<String>,
}

/// Reads messages, one after the other.
#[derive(Debug)]
pub(super) struct Reader {
    push: Push,
    watch: Watch,
    started: bool,
}

impl Reader {
    pub(super) fn new(keep: Keep) -> Self {
        Self { push: Push::default(), watch: Watch::new(keep), started: false }
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) {
        self.started |= !chunk.is_empty();
        if !self.push.is_bad() {
            self.push.feed(chunk, &mut self.watch);
            self.watch.chunk_end(chunk);
        }
    }

    /// Whether the message is a response, as soon as its `result` or `error` has begun.
    pub(super) fn is_response(&self) -> Option<bool> {
        let begun = self.watch.is_object && (self.watch.has_result || self.watch.has_error);
        let ended = self.push.is_bad() || self.push.is_done();
        (begun || ended).then_some(begun && !self.push.is_bad())
    }

    /// The bytes kept of a result that the message has begun, and how many there were.
    pub(super) fn unfinished(self) -> (Vec<u8>, u64) {
        (self.watch.kept, self.watch.result_bytes)
    }

    /// The message has ended: what it was, if it was well-formed. The reader is then ready for the next.
    pub(super) fn finish(&mut self) -> Option<Found> {
        if !std::mem::take(&mut self.started) {
            return None;
        }
        let keep = self.watch.keep;
        let watch = std::mem::replace(&mut self.watch, Watch::new(keep));
        let push = std::mem::take(&mut self.push);
        (push.is_done() && watch.is_object).then(|| watch.found())
    }
}

/// The members that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Member {
    Id,
    Method,
    Result,
    Error,
    IsError,
    ProtocolVersion,
    Code,
    Message,
}

/// Part of the input that is wanted, over as many chunks as it takes.
#[derive(Debug, Default)]
struct Token {
    /// Where it starts in this chunk, while it lasts.
    from: Option<usize>,
    bytes: Vec<u8>,
    limit: usize,
}

impl Token {
    fn start(&mut self, at: usize, limit: usize) {
        self.bytes.clear();
        (self.from, self.limit) = (Some(at), limit);
    }

    /// False if none was wanted.
    fn end(&mut self, chunk: &[u8], at: usize) -> bool {
        self.add(chunk, at);
        self.from.take().is_some()
    }

    /// Takes what belongs to this chunk, up to `to`.
    fn add(&mut self, chunk: &[u8], to: usize) {
        if let Some(from) = &mut self.from {
            let bytes = chunk.get(std::mem::take(from)..to).unwrap_or_default();
            let room = self.limit.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The token as a decoded string; one that was cut is decoded as far as it goes.
    fn decoded(&self) -> Option<String> {
        let mut token = String::from_utf8_lossy(&self.bytes);
        if !token.starts_with('"') {
            return None;
        }
        if self.bytes.len() >= self.limit {
            token.to_mut().push('"');
        }
        Some(text::decode_lossy(&token).into_owned())
    }

    /// Whether the token is the string `want`.
    fn is(&self, want: &str) -> bool {
        match self.bytes.get(1..self.bytes.len().saturating_sub(1)) {
            Some(inner) if memchr::memchr(b'\\', inner).is_none() => inner == want.as_bytes(),
            _ => self.decoded().as_deref() == Some(want),
        }
    }
}

/// The sink: follows names and values of the first two levels, and hashes `result`.
#[derive(Debug)]
struct Watch {
    keep: Keep,
    is_object: bool,
    /// The last name, or the value being read.
    token: Token,
    /// What the last name at the current level means.
    named: Option<Member>,
    /// In which member of the envelope we are.
    inside: Option<Member>,
    /// Where `result` goes on in this chunk, while it lasts.
    result_from: Option<usize>,
    hash: Option<Sha256>,
    kept: Vec<u8>,
    truncated: bool,
    result_bytes: u64,
    is_error: bool,
    code: i64,
    message: String,
    has_result: bool,
    has_error: bool,
    found: Found,
}

impl Watch {
    fn new(keep: Keep) -> Self {
        Self {
            keep,
            is_object: false,
            token: Token::default(),
            named: None,
            inside: None,
            result_from: None,
            hash: None,
            kept: Vec::new(),
            truncated: false,
            result_bytes: 0,
            is_error: false,
            code: 0,
            message: String::new(),
            has_result: false,
            has_error: false,
            found: Found::default(),
        }
    }

    /// Whether names and values at this depth may matter.
    #[inline]
    fn watches(&self, depth: usize) -> bool {
        depth == 1 || (depth == 2 && self.inside.is_some())
    }

    /// Takes what belongs to this chunk.
    fn chunk_end(&mut self, chunk: &[u8]) {
        self.token.add(chunk, chunk.len());
        self.add_result(chunk, chunk.len());
    }

    fn add_result(&mut self, chunk: &[u8], to: usize) {
        let Some(from) = &mut self.result_from else { return };
        let bytes = chunk.get(std::mem::take(from)..to).unwrap_or_default();
        self.result_bytes += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        if let Keep::Bytes(limit) = self.keep {
            let room = limit.saturating_sub(self.kept.len());
            self.truncated |= bytes.len() > room;
            self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// A member of the envelope starts.
    fn outer(&mut self, kind: Type, at: usize) {
        self.inside =
            self.named.filter(|m| kind == Type::Object && matches!(m, Member::Result | Member::Error));
        match self.named {
            Some(Member::Result) => {
                (self.has_result, self.is_error) = (true, false);
                self.result_from = Some(at);
                self.hash = (self.keep != Keep::Nothing).then(Sha256::new);
                self.kept.clear();
                (self.truncated, self.result_bytes) = (false, 0);
            }
            // `"error":null` beside a result is what some libraries send.
            Some(Member::Error) => self.has_error |= kind != Type::Null,
            Some(Member::Id | Member::Method) => self.token.start(at, MAX_TOKEN),
            _ => {}
        }
    }

    /// A value that was wanted has ended and is in the token.
    fn take(&mut self, member: Member) {
        let token = &self.token;
        match member {
            Member::Id => self.found.id = Some(token.bytes.clone()).filter(|id| id != b"null"),
            Member::Method => {
                self.found.has_method = true;
                self.found.is_list_changed = token.is("notifications/tools/list_changed");
            }
            Member::IsError => self.is_error = token.bytes == b"true",
            Member::ProtocolVersion => self.found.protocol_version = token.decoded(),
            Member::Code => self.code = code(&token.bytes),
            Member::Message => self.message = shortened(token.decoded().unwrap_or_default()),
            Member::Result | Member::Error => {}
        }
    }

    fn found(mut self) -> Found {
        self.found.answer = match (self.has_error, self.has_result) {
            (true, _) => Some(Answer::Error { code: self.code, message: self.message }),
            (false, true) => Some(Answer::Result { is_error: self.is_error }),
            (false, false) => None,
        };
        self.found.sha256 = self.hash.map(|h| h.finalize().into());
        self.found.kept = (self.has_result && matches!(self.keep, Keep::Bytes(_))).then_some(self.kept);
        self.found.truncated = self.truncated;
        self.found.result_bytes = self.result_bytes;
        self.found
    }
}

impl Sink for Watch {
    #[inline]
    fn name_start(&mut self, depth: usize, at: usize) {
        if self.watches(depth) {
            self.token.start(at, MAX_NAME);
        }
    }

    #[inline]
    fn name_end(&mut self, depth: usize, chunk: &[u8], at: usize) {
        if !self.watches(depth) || !self.token.end(chunk, at) {
            return;
        }
        let members: &[(&str, Member)] = match (depth, self.inside) {
            (1, _) => &[
                ("id", Member::Id),
                ("method", Member::Method),
                ("result", Member::Result),
                ("error", Member::Error),
            ],
            (2, Some(Member::Result)) => {
                &[("isError", Member::IsError), ("protocolVersion", Member::ProtocolVersion)]
            }
            (2, Some(Member::Error)) => &[("code", Member::Code), ("message", Member::Message)],
            _ => &[],
        };
        self.named = members.iter().find(|(name, _)| self.token.is(name)).map(|(_, member)| *member);
    }

    #[inline]
    fn value_start(&mut self, depth: usize, kind: Type, at: usize) {
        match depth {
            0 => self.is_object = kind == Type::Object,
            1 if self.is_object => self.outer(kind, at),
            2 if self.inside.is_some() => match kind {
                Type::Object | Type::Array => self.named = None,
                _ if self.named.is_some() => self.token.start(at, MAX_TOKEN),
                _ => {}
            },
            _ => {}
        }
    }

    #[inline]
    fn value_end(&mut self, depth: usize, chunk: &[u8], at: usize) {
        if !self.watches(depth) {
            return;
        }
        if depth == 1 && self.result_from.is_some() {
            self.add_result(chunk, at);
            self.result_from = None;
        }
        if self.token.end(chunk, at)
            && let Some(member) = self.named.take()
        {
            self.take(member);
        }
        if depth == 1 {
            (self.inside, self.named) = (None, None);
        }
    }
}

/// An error code; servers have been seen to send it as text.
fn code(token: &[u8]) -> i64 {
    let text = std::str::from_utf8(token).unwrap_or_default().trim_matches('"');
    Decimal::read(text).and_then(|d| d.to_integer()).and_then(|d| d.parse().ok()).unwrap_or(0)
}

/// At most [`MAX_MESSAGE`] bytes, cut between characters.
fn shortened(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_MESSAGE));
    text
}
