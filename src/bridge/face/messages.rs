//! The messages of an inner answer, one after the other, however they are framed.
//!
//! Invariant: never holds more than one message of [`MAX_MESSAGE`] bytes beside the chunk that it is cut from.

use std::collections::VecDeque;

use bytes::Buf;
use http::{HeaderMap, header};
use http_body_util::BodyExt;

use crate::{
    mcp::{response::Format, sse::Scanner},
    upstream::ResponseBody,
};

/// Largest message that is translated, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// How an answer is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Json,
    Events,
}

impl Framing {
    /// By the answer's headers; `None` for other media types and encoded bodies.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        if headers.contains_key(header::CONTENT_ENCODING) {
            return None;
        }
        Format::of(headers).map(|format| match format {
            Format::Json => Self::Json,
            Format::Sse => Self::Events,
        })
    }
}

/// The body of an answer, read message by message.
pub(super) struct Messages {
    body: ResponseBody,
    scanner: Scanner,
    ready: VecDeque<Option<Vec<u8>>>,
    alive: bool,
}

impl Messages {
    /// Of an event stream.
    pub(super) fn new(body: ResponseBody) -> Self {
        Self { body, scanner: Scanner::new(MAX_MESSAGE), ready: VecDeque::new(), alive: false }
    }

    /// The next message; `None` at the end. Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return message.map(Some).ok_or("a message is over 16 MiB");
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|_| "the stream broke off")?;
            let Some(chunk) = frame.data_ref() else { continue };
            self.alive = true;
            let Self { scanner, ready, .. } = self;
            scanner.feed(chunk, |event| {
                if event.oversized {
                    ready.push_back(None);
                } else if !event.data.is_empty() {
                    ready.push_back(Some(event.data.to_vec()));
                }
            });
        }
    }
}

impl Messages {
    /// Whether bytes have come since this was last asked, be they a comment.
    pub(super) fn take_alive(&mut self) -> bool {
        std::mem::take(&mut self.alive)
    }
}

/// A body that is one message.
///
/// # Errors
/// What is wrong, for people.
pub(super) async fn whole(mut body: ResponseBody) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "the answer broke off")?;
        let Some(chunk) = frame.data_ref() else { continue };
        if out.len() + chunk.remaining() > MAX_MESSAGE {
            return Err("the answer is over 16 MiB");
        }
        out.extend_from_slice(chunk);
    }
    Ok(out)
}
