//! Answers that do not pass as they came: folded into JSON or framed as SSE for a client that takes only
//! one type, and tool lists cut to what a key may call. Everything here reads the answer whole, under a limit.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::error::Cause;
use crate::{
    mcp::{list_filter::filter_tools, message, sse},
    policy::access::Access,
    upstream::ResponseBody,
};

/// Most that is read of an answer that has to be reshaped, in bytes.
const LIMIT: usize = 16 * 1024 * 1024;

/// Reads a body whole.
///
/// # Errors
/// The upstream broke off, or the answer is over the limit.
pub(super) async fn collect(first: Option<Bytes>, rest: Option<ResponseBody>) -> Result<Bytes, Cause> {
    let Some(mut rest) = rest else { return Ok(first.unwrap_or_default()) };
    let mut all = BytesMut::from(first.as_deref().unwrap_or_default());
    while let Some(frame) = rest.frame().await {
        let frame = frame.map_err(|e| Cause::UpstreamProtocol(e.to_string()))?;
        let Some(data) = frame.data_ref() else { continue };
        if all.len() + data.len() > LIMIT {
            return Err(Cause::UpstreamProtocol(format!("the answer is over {LIMIT} bytes")));
        }
        all.extend_from_slice(data);
    }
    Ok(all.freeze())
}

/// What folding a stream gave.
#[derive(Debug)]
pub(super) struct Folded {
    /// The response to the request, as JSON.
    pub response: Bytes,
    /// Whether notifications were dropped.
    pub lossy: bool,
}

/// Reads a stream up to the response and gives that alone.
///
/// # Errors
/// The server asks the client something ([`Cause::NotAcceptable`]), breaks off, or never answers.
pub(super) async fn fold(mut stream: ResponseBody) -> Result<Folded, Cause> {
    let mut scanner = sse::Scanner::new(LIMIT);
    let mut lossy = false;
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|e| Cause::UpstreamProtocol(e.to_string()))?;
        let Some(data) = frame.data_ref() else { continue };
        let mut events = Vec::new();
        scanner.feed(data, |event| events.push(event.data.to_vec()));
        for event in events.into_iter().filter(|e| !e.is_empty()) {
            match message::parse(&event) {
                Ok(message::Body::Object(m)) if m.kind() == message::Kind::Response => {
                    return Ok(Folded { response: event.into(), lossy });
                }
                Ok(message::Body::Object(m)) if m.kind() == message::Kind::Request => {
                    return Err(Cause::NotAcceptable);
                }
                _ => lossy = true,
            }
        }
    }
    Err(Cause::UpstreamProtocol("the stream ended without a response".into()))
}

/// One JSON message as a stream of one event.
#[must_use]
pub(super) fn framed(json: &[u8]) -> Bytes {
    sse::frame(json).into()
}

/// Takes out of a `tools/list` result what the caller may not call, and marks it private.
#[must_use]
pub(super) fn filtered_json(json: Bytes, access: Access<'_>) -> Bytes {
    filter_tools(&json, |tool| access.allows(tool), true).map_or(json, Bytes::from)
}

/// The same for a result inside a stream; every other event stays byte for byte.
#[must_use]
pub(super) fn filtered_sse(stream: &Bytes, access: Access<'_>) -> Bytes {
    let mut out = BytesMut::with_capacity(stream.len());
    for event in events(stream) {
        match filter_tools(&data(event), |t| access.allows(t), true) {
            Some(message) => replace_data(event, &message, &mut out),
            None => out.extend_from_slice(event),
        }
    }
    out.freeze()
}

/// The events of a whole stream, each with its blank line.
fn events(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut lines = lines(stream).peekable();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        for line in lines.by_ref() {
            at += line.len();
            if without_end(line).is_empty() {
                break;
            }
        }
        (at > start).then(|| &stream[start..at])
    })
}

/// Lines with their ends: LF, CR or CRLF.
fn lines(mut text: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let end = match text.iter().position(|b| matches!(b, b'\n' | b'\r')) {
            Some(i) if text[i] == b'\r' && text.get(i + 1) == Some(&b'\n') => i + 2,
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
            out.extend_from_slice(line);
        } else if !std::mem::replace(&mut written, true) {
            let ending = &line[without_end(line).len()..];
            for part in lines(message) {
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(without_end(part));
                out.extend_from_slice(ending);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glob::Globs;

    #[test]
    fn only_the_list_in_a_stream_is_cut() {
        let stream = Bytes::from_static(
            b"id: 1\ndata:\n\n: ping\r\n\r\nevent: message\r\nid: 2\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{\"tools\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}\r\n\r\n",
        );
        let globs = Globs::new(["a"]);
        let cut = filtered_sse(&stream, Access::new(Some(&globs), &Globs::any()));
        let text = std::str::from_utf8(&cut).unwrap();
        assert!(
            text.starts_with("id: 1\ndata:\n\n: ping\r\n\r\nevent: message\r\nid: 2\r\ndata: {"),
            "{text}"
        );
        assert!(text.ends_with("}\r\n\r\n") && text.contains("\"a\"") && !text.contains("\"b\""), "{text}");
        assert!(text.contains("\"cacheScope\":\"private\""), "{text}");
    }
}
