//! Streams to a caller who may not see every tool: each tool list that passes, on whatever stream, is cut to
//! what the caller may call. Every other event passes byte for byte, as soon as it is whole.
//!
//! Invariant: bytes leave only after the event they belong to has been looked at, so no list gets past in
//! pieces; and how the upstream cuts its stream makes no difference.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;

use super::{KnownKey, shape::LIMIT};
use crate::{
    mcp::list_filter::{Filtered, filter_tools},
    policy::access::Access,
    snapshot::Route,
    upstream::{BodyError, ResponseBody},
};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Whose view of the tools it is; lives as long as the stream.
#[derive(Debug, Clone)]
pub(super) struct View {
    /// The key, where keys are asked for.
    pub key: Option<KnownKey>,
    /// The upstream.
    pub route: Arc<Route>,
}

impl View {
    fn allows(&self, tool: &str) -> bool {
        Access::new(self.key.as_ref().map(|k| &k.facts.tools), &self.route.spec.tools, &self.route.names)
            .allows(tool)
    }
}

/// The stream as `view` may see it.
#[must_use]
pub(super) fn cut_lists(stream: ResponseBody, view: View) -> ResponseBody {
    Cut { rest: Some(stream), view, events: Events::default() }.boxed_unsync()
}

struct Cut {
    rest: Option<ResponseBody>,
    view: View,
    events: Events,
}

impl Body for Cut {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        loop {
            let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
            let looked_at = match ready!(Pin::new(rest).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    this.events.add(&data);
                    this.events.take(&this.view)
                }
                Some(Err(e)) => return Poll::Ready(Some(Err(e))),
                None => {
                    this.rest = None;
                    this.events.take_rest(&this.view)
                }
            };
            let seen = match looked_at {
                Ok(seen) => seen,
                Err(Unreadable) => return Poll::Ready(Some(Err("an event cannot be read".into()))),
            };
            if !seen.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(seen))));
            }
            if this.events.held.len() > LIMIT {
                return Poll::Ready(Some(Err(format!("an event is over {LIMIT} bytes").into())));
            }
        }
    }
}

/// An event that may hold a list for somebody else's parser, but not for ours.
#[derive(Debug)]
struct Unreadable;

/// Bytes of a stream that is cut into events as it comes.
#[derive(Debug)]
struct Events {
    held: BytesMut,
    /// How far `held` was looked at for the event's end.
    scanned: usize,
    /// Whether the line that `scanned` is in is empty so far.
    in_empty_line: bool,
    /// A line feed now belongs to the line end before it.
    after_cr: bool,
    at_start: bool,
}

impl Default for Events {
    fn default() -> Self {
        Self { held: BytesMut::new(), scanned: 0, in_empty_line: true, after_cr: false, at_start: true }
    }
}

impl Events {
    fn add(&mut self, data: &[u8]) {
        self.held.extend_from_slice(data);
    }

    /// The events that are whole.
    fn take(&mut self, view: &View) -> Result<Bytes, Unreadable> {
        let mut out = BytesMut::new();
        while let Some(end) = self.end() {
            let event = self.held.split_to(end);
            (self.scanned, self.in_empty_line) = (0, true);
            self.pass(&event, view, &mut out)?;
        }
        Ok(out.freeze())
    }

    /// What the stream's end cut off: no event by the book, but some clients read it as one.
    fn take_rest(&mut self, view: &View) -> Result<Bytes, Unreadable> {
        let (event, mut out) = (self.held.split(), BytesMut::new());
        self.pass(&event, view, &mut out)?;
        Ok(out.freeze())
    }

    fn pass(&mut self, event: &[u8], view: &View, out: &mut BytesMut) -> Result<(), Unreadable> {
        let start = std::mem::take(&mut self.at_start);
        let event = match event.strip_prefix(BOM).filter(|_| start) {
            Some(rest) => {
                out.put_slice(BOM);
                rest
            }
            None => event,
        };
        let data = data(event);
        // What does not begin like a message is none to anybody.
        let is_message = matches!(data.trim_ascii_start().first(), Some(b'{' | b'['));
        match filter_tools(&data, |tool| view.allows(tool), true) {
            Filtered::List(message) => replace_data(event, &message, out),
            Filtered::Unreadable if is_message => return Err(Unreadable),
            Filtered::Other | Filtered::Unreadable => out.put_slice(event),
        }
        Ok(())
    }

    /// Where the first event in `held` ends: behind an empty line.
    fn end(&mut self) -> Option<usize> {
        while let Some(&b) = self.held.get(self.scanned) {
            self.scanned += 1;
            let is_second = std::mem::take(&mut self.after_cr) && b == b'\n';
            if is_second {
                continue;
            }
            self.after_cr = b == b'\r';
            if !matches!(b, b'\n' | b'\r') {
                self.in_empty_line = false;
            } else if std::mem::replace(&mut self.in_empty_line, true) {
                return Some(self.scanned);
            }
        }
        None
    }
}

/// Lines with their ends: LF, CR or CRLF.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = match memchr::memchr2(b'\n', b'\r', text) {
            Some(i) if text[i..].starts_with(b"\r\n") => i + 2,
            Some(i) => i + 1,
            None => text.len(),
        };
        let (line, rest) = text.split_at(end);
        text = rest;
        (!line.is_empty()).then_some(line)
    })
}

fn without_end(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |i| i + 1);
    &line[..end]
}

fn data_line(line: &[u8]) -> Option<&[u8]> {
    let value = without_end(line).strip_prefix(b"data:")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

fn data(event: &[u8]) -> Vec<u8> {
    lines(event).filter_map(data_line).collect::<Vec<_>>().join(&b'\n')
}

/// The event with other data: its first data line carries all of it, the others go.
fn replace_data(event: &[u8], message: &[u8], out: &mut BytesMut) {
    let mut written = false;
    for line in lines(event) {
        if data_line(line).is_none() {
            out.put_slice(line);
        } else if !std::mem::replace(&mut written, true) {
            let ending = &line[without_end(line).len()..];
            for part in lines(message) {
                out.put_slice(b"data: ");
                out.put_slice(without_end(part));
                out.put_slice(ending);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config, snapshot::Snapshot};

    const STREAM: &str = "\u{feff}id: 1\ndata:\n\n: ping\r\n\r\nevent: message\r\nid: 2\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{\"tools\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}\r\n\r\ndata:[{\"result\":{\"tools\":[{\"name\":\"b\"}]}}]\r\rdata: {\"result\":{\"tools\":[{\"name\":\"b\"}]}}\n";
    const CUT: &str = "\u{feff}id: 1\ndata:\n\n: ping\r\n\r\nevent: message\r\nid: 2\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{\"tools\":[{\"name\":\"a\"}],\"cacheScope\":\"private\"}}\r\n\r\ndata: [{\"result\":{\"tools\":[],\"cacheScope\":\"private\"}}]\r\rdata: {\"result\":{\"tools\":[],\"cacheScope\":\"private\"}}\n";

    fn view() -> View {
        let text = "upstreams.files.url = \"http://127.0.0.1:1/mcp\"\nupstreams.files.tools = [\"a\"]\n";
        let loaded = config::from_str(text, std::path::Path::new(""), "test").unwrap();
        let tasks = tokio_util::task::TaskTracker::new();
        let snapshot = Snapshot::build(loaded.config, None, &tasks).unwrap();
        View { key: None, route: Arc::clone(&snapshot.endpoint) }
    }

    #[tokio::test]
    async fn lists_are_cut_however_the_stream_comes() {
        let view = view();
        for size in 1..STREAM.len() {
            let (mut events, mut out) = (Events::default(), Vec::new());
            for piece in STREAM.as_bytes().chunks(size) {
                events.add(piece);
                out.extend_from_slice(&events.take(&view).unwrap());
            }
            out.extend_from_slice(&events.take_rest(&view).unwrap());
            assert_eq!(std::str::from_utf8(&out).unwrap(), CUT, "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn an_event_passes_with_its_last_byte() {
        let (mut events, view) = (Events::default(), view());
        events.add(b"data: {}\n");
        assert!(events.take(&view).unwrap().is_empty());
        events.add(b"\ndata: {");
        assert_eq!(&events.take(&view).unwrap()[..], b"data: {}\n\n");
    }
}
