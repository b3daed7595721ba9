//! The server's one stream, event by event.
//!
//! Invariant: holds what came in one chunk and one event that is not whole yet, which never grows over [`LIMIT`].

use std::collections::VecDeque;

use bytes::Bytes;
use http_body_util::BodyExt;

use crate::{
    mcp::{json, sse::Scanner},
    upstream::ResponseBody,
};

/// Largest message, in bytes.
pub(super) const LIMIT: usize = 16 * 1024 * 1024;

/// What the server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Where messages go.
    Endpoint(Bytes),
    Message(Bytes),
    /// A message was over [`LIMIT`].
    TooLong,
}

/// See the module.
pub(super) struct Stream {
    body: ResponseBody,
    scanner: Scanner,
    ready: VecDeque<Told>,
}

impl Stream {
    pub(super) fn new(body: ResponseBody) -> Self {
        Self { body, scanner: Scanner::new(LIMIT), ready: VecDeque::new() }
    }

    /// The next event; `None` when the stream has ended or broken. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            let frame = self.body.frame().await?.ok()?;
            let Some(data) = frame.data_ref() else { continue };
            let Self { scanner, ready, .. } = self;
            scanner.feed(data, |event| match event.event {
                _ if event.oversized => ready.push_back(Told::TooLong),
                Some(b"endpoint") => ready.push_back(Told::Endpoint(Bytes::copy_from_slice(event.data))),
                None | Some(b"message") if !event.data.is_empty() => split(event.data, ready),
                _ => {}
            });
        }
    }

    /// The text of the first `endpoint` event.
    pub(super) async fn endpoint(&mut self) -> Option<String> {
        loop {
            if let Told::Endpoint(text) = self.next().await? {
                return String::from_utf8(text.trim_ascii().to_vec()).ok();
            }
        }
    }
}

/// A batch, which servers of 2025-03-26 may send, is its messages one by one.
fn split(data: &[u8], ready: &mut VecDeque<Told>) {
    let whole = Bytes::copy_from_slice(data);
    if whole.trim_ascii_start().first() != Some(&b'[') {
        ready.push_back(Told::Message(whole));
    } else if let Ok(batch) = json::parse(&whole) {
        ready.extend(batch.elements().map(|message| Told::Message(whole.slice(message.range()))));
    }
}
