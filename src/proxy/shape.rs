//! Answers that do not pass as they came: folded into JSON or framed as SSE for a client that takes only
//! one type, and tool lists in JSON cut to what a key may call (those in streams: `cut_lists`). Everything here
//! reads the answer whole, under a limit of size and of silence.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::error::Cause;
use crate::{
    mcp::{
        list_filter::{Filtered, filter_tools},
        message, sse,
    },
    policy::access::Access,
    upstream::ResponseBody,
};

/// Most that is read of an answer that has to be reshaped, in bytes.
pub(super) const LIMIT: usize = 16 * 1024 * 1024;

/// The next bytes of an answer of which the client has seen nothing; `None` at its end. `idle` is the longest
/// silence, where one applies.
///
/// # Errors
/// The upstream broke off or fell silent.
pub(super) async fn next(body: &mut ResponseBody, idle: Option<Duration>) -> Result<Option<Bytes>, Cause> {
    loop {
        let frame = match idle {
            None => body.frame().await,
            Some(idle) => {
                let silent = |_| Cause::UpstreamTimeout(idle);
                tokio::time::timeout(idle, body.frame()).await.map_err(silent)?
            }
        };
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|e| Cause::UpstreamProtocol(e.to_string()))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Reads a body whole.
///
/// # Errors
/// As [`next`], or the answer is over the limit.
pub(super) async fn collect(
    first: Option<Bytes>,
    rest: Option<ResponseBody>,
    idle: Option<Duration>,
) -> Result<Bytes, Cause> {
    let Some(mut rest) = rest else { return Ok(first.unwrap_or_default()) };
    let mut all = BytesMut::from(first.unwrap_or_default());
    while let Some(data) = next(&mut rest, idle).await? {
        if all.len() + data.len() > LIMIT {
            return Err(Cause::UpstreamProtocol(format!("the answer is over {LIMIT} bytes")));
        }
        all.extend_from_slice(&data);
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
/// The server asks the client something ([`Cause::NotAcceptable`]), breaks off, falls silent, or never answers.
pub(super) async fn fold(mut stream: ResponseBody, idle: Option<Duration>) -> Result<Folded, Cause> {
    let mut scanner = sse::Scanner::new(LIMIT);
    let mut lossy = false;
    while let Some(data) = next(&mut stream, idle).await? {
        let mut events = Vec::new();
        scanner.feed(&data, |event| events.push(event.data.to_vec()));
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
///
/// # Errors
/// It cannot be read, so what is in it cannot be told.
pub(super) fn filtered_json(json: Bytes, access: Access<'_>) -> Result<Bytes, Cause> {
    match filter_tools(&json, |tool| access.allows(tool), true) {
        Filtered::Other => Ok(json),
        Filtered::List(cut) => Ok(cut.into()),
        Filtered::Unreadable => Err(Cause::UpstreamProtocol("its list of tools cannot be read".into())),
    }
}
