//! Reads the answers to the gateway's own requests: one JSON body, or one event of an SSE stream. Owns the
//! limits on both. Invariant: never holds more than [`MAX_ANSWER`] bytes of one answer.

use bytes::Buf;
use http_body_util::BodyExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::link::Failure;
use crate::{mcp::sse::Scanner, upstream::ResponseBody};

/// Largest answer, in bytes; also the limit on all pages of a list together.
pub(super) const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// A JSON-RPC message, as far as the gateway's own traffic needs it.
#[derive(Deserialize)]
pub(super) struct Message {
    /// Absent on notifications.
    pub(super) id: Option<Box<RawValue>>,
    /// Absent on responses.
    pub(super) method: Option<String>,
    /// Of a successful response.
    pub(super) result: Option<Box<RawValue>>,
    /// Of a failed response.
    pub(super) error: Option<RpcError>,
}

/// A JSON-RPC error. Its message is not kept: it is the upstream's text and could repeat a secret.
#[derive(Debug, Deserialize)]
pub(super) struct RpcError {
    /// `error.code`
    pub(super) code: i64,
    /// `error.data.supported` of an unsupported-version error (2026-07-28, versioning).
    #[serde(default, deserialize_with = "supported", rename = "data")]
    pub(super) supported: Vec<String>,
}

fn supported<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    let data = serde_json::Value::deserialize(d)?;
    let listed = data.get("supported").and_then(|v| v.as_array());
    Ok(listed.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect())
}

/// Reads the response to request `id` from `body`, which is JSON or, if `events`, an event stream.
/// `Ok(None)` means that the body held no such response.
pub(super) async fn read(mut body: ResponseBody, events: bool, id: &str) -> Result<Option<Message>, Failure> {
    let mut stream = Scanner::new(MAX_ANSWER);
    let mut whole = Vec::new();
    let mut found = None;
    let mut taken = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::unreachable("the answer broke off"))?;
        let Some(data) = frame.data_ref() else { continue };
        taken += data.remaining();
        if taken > MAX_ANSWER {
            return Err(Failure::odd("the answer is larger than 16 MiB"));
        }
        if events {
            stream.feed(data, |event| found = found.take().or_else(|| response(event.data, id)));
            if found.is_some() {
                return Ok(found);
            }
        } else {
            whole.extend_from_slice(data);
        }
    }
    Ok(if events { None } else { serde_json::from_slice(&whole).ok().filter(is_response) })
}

fn response(event: &[u8], id: &str) -> Option<Message> {
    let message: Message = serde_json::from_slice(event).ok()?;
    let ours = message.id.as_ref().is_none_or(|got| got.get() == id);
    (ours && is_response(&message)).then_some(message)
}

fn is_response(message: &Message) -> bool {
    message.method.is_none() && (message.result.is_some() || message.error.is_some())
}
