//! A legacy server's answer as a sequence of JSON-RPC messages, whether it came as JSON or as SSE, one by one or in
//! batches.
//!
//! Invariant: holds one event (or one JSON body) at a time, and never one over [`LIMIT`].

use std::collections::VecDeque;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;

use super::session::Sent;
use crate::{
    mcp::{json, response::Format, sse::Scanner},
    upstream::{ResponseBody, UpstreamError},
};

/// Largest message, in bytes.
pub(super) const LIMIT: usize = 16 * 1024 * 1024;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A message.
    Message(Bytes),
    /// Bytes that hold no whole message: the server lives.
    Alive,
}

/// Why nothing more comes. A sentence for the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken(pub(super) String);

/// See the module.
pub(super) struct Messages {
    /// A response whose head is waited for.
    head: Option<Sent>,
    body: Option<ResponseBody>,
    framing: Framing,
    ready: VecDeque<Bytes>,
    /// Of the last event that had one: where to go on after a break.
    pub(super) last_id: Option<Vec<u8>>,
}

enum Framing {
    Events(Scanner),
    Whole(Vec<u8>),
}

impl Framing {
    fn of(stream: bool) -> Self {
        if stream { Self::Events(Scanner::new(LIMIT)) } else { Self::Whole(Vec::new()) }
    }
}

/// Whether these headers announce a stream, or JSON; `None` for anything else.
pub(super) fn is_stream(headers: &HeaderMap) -> Option<bool> {
    Format::of(headers).map(|format| format == Format::Sse)
}

impl Messages {
    pub(super) fn new(body: ResponseBody, stream: bool) -> Self {
        Self {
            head: None,
            body: Some(body),
            framing: Framing::of(stream),
            ready: VecDeque::new(),
            last_id: None,
        }
    }

    /// Of a response that is yet to come.
    pub(super) fn later(sent: Sent) -> Self {
        let framing = Framing::of(false);
        Self { head: Some(sent), body: None, framing, ready: VecDeque::new(), last_id: None }
    }

    fn begin(&mut self, response: Result<Response<ResponseBody>, UpstreamError>) -> Result<(), Broken> {
        let response = response.map_err(|_| Broken("the server did not answer".into()))?;
        let Some(stream) = is_stream(response.headers()) else {
            let status = response.status().as_u16();
            return Err(Broken(format!("the server answered HTTP {status} without a JSON-RPC message")));
        };
        self.framing = Framing::of(stream);
        self.body = Some(response.into_body());
        Ok(())
    }

    /// The next message, or a sign of life. `None` at the end. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Item>, Broken> {
        if let Some(sent) = &mut self.head {
            let response = sent.await;
            self.head = None;
            self.begin(response)?;
        }
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Ok(Some(Item::Message(message)));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.feed(&data)?;
                    if self.ready.is_empty() {
                        return Ok(Some(Item::Alive));
                    }
                }
                Some(Err(_)) => {
                    self.body = None;
                    return Err(Broken("the server's answer broke off".into()));
                }
                None => {
                    self.body = None;
                    if let Framing::Whole(whole) = &mut self.framing {
                        let whole = std::mem::take(whole);
                        split(whole.into(), &mut self.ready);
                    }
                }
            }
        }
    }

    fn feed(&mut self, data: &[u8]) -> Result<(), Broken> {
        let mut too_large = false;
        match &mut self.framing {
            Framing::Whole(whole) => {
                too_large = whole.len() + data.len() > LIMIT;
                if !too_large {
                    whole.extend_from_slice(data);
                }
            }
            Framing::Events(scanner) => scanner.feed(data, |event| {
                too_large |= event.oversized;
                if let Some(id) = event.id.filter(|id| !id.is_empty()) {
                    self.last_id = Some(id.to_vec());
                }
                // Events of other kinds are not of MCP; empty ones only carry an id.
                if event.event.is_none_or(|kind| kind == b"message") && !event.data.is_empty() {
                    split(Bytes::copy_from_slice(event.data), &mut self.ready);
                }
            }),
        }
        if too_large {
            self.body = None;
            return Err(Broken(format!("a message of the server is over {} MiB", LIMIT >> 20)));
        }
        Ok(())
    }
}

/// A batch, which servers of 2025-03-26 may send, is its messages one by one.
fn split(data: Bytes, ready: &mut VecDeque<Bytes>) {
    if data.trim_ascii_start().first() != Some(&b'[') {
        ready.push_back(data);
    } else if let Ok(batch) = json::parse(&data) {
        ready.extend(batch.elements().map(|message| data.slice(message.range())));
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    async fn all(text: &'static str, stream: bool) -> Vec<String> {
        let body = Full::new(Bytes::from_static(text.as_bytes())).map_err(|never| match never {});
        let mut messages = Messages::new(body.boxed_unsync(), stream);
        let mut found = Vec::new();
        while let Some(item) = messages.next().await.unwrap() {
            if let Item::Message(message) = item {
                found.push(String::from_utf8(message.to_vec()).unwrap());
            }
        }
        found
    }

    #[tokio::test]
    async fn batches_are_split_in_either_framing() {
        assert_eq!(all("{\"a\":1}", false).await, [r#"{"a":1}"#]);
        assert_eq!(all("[{\"a\":1} , {\"b\":[2]}]", false).await, [r#"{"a":1}"#, r#"{"b":[2]}"#]);
        assert_eq!(
            all("id: 1\ndata:\n\ndata: [{\"a\":1},{\"b\":2}]\n\nevent: ping\ndata: x\n\ndata: {}\n\n", true)
                .await,
            [r#"{"a":1}"#, r#"{"b":2}"#, "{}"]
        );
        assert_eq!(all("", false).await, [""]);
    }
}
