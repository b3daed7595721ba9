//! What the bridge itself answers: one JSON-RPC message, or a stream of events.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    bridge::hops::Recipient,
    mcp::sse,
    upstream::{ResponseBody, written},
};

/// A comment: says to client and gateway that the call goes on.
pub(super) const ALIVE: Bytes = Bytes::from_static(b": \n\n");
/// Events that wait for the client.
const WAITING: usize = 4;

/// An error that the bridge gives.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) code: i64,
    /// `error.data.reason`
    pub(super) reason: &'static str,
    pub(super) message: String,
    /// More members of `error.data`.
    pub(super) data: Option<Box<(&'static str, Value)>>,
}

impl Refusal {
    pub(super) fn new(status: u16, code: i64, reason: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, reason, message: message.into(), data: None }
    }

    /// The server's fault.
    pub(super) fn upstream(message: impl Into<String>) -> Self {
        Self::new(502, 502, "upstream_protocol", message)
    }

    /// The client's fault.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(400, -32602, "invalid_params", message)
    }

    /// The JSON-RPC message.
    pub(super) fn message(&self, id: Option<&str>, to: &Recipient) -> Bytes {
        let mut data = json!({"reason": self.reason});
        if let Some(trace_id) = to.refused(self.reason, self.code) {
            data["trace_id"] = trace_id.into();
        }
        if let Some((name, value)) = self.data.as_deref() {
            data[*name] = value.clone();
        }
        let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
        let error = json!({"code": self.code, "message": self.message, "data": data});
        format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#).into()
    }

    pub(super) fn response(&self, id: Option<&str>, to: &Recipient) -> Response<ResponseBody> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::BAD_GATEWAY);
        of_ours(status, self.message(id, to))
    }
}

/// An answer of the bridge's own. When to try again tells it from the outage of a server, too.
pub(super) fn of_ours(status: StatusCode, body: Bytes) -> Response<ResponseBody> {
    let mut response = json_response(status, body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// A JSON-RPC response with a result.
pub(super) fn result(id: &str, result: &Value) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

pub(super) fn json_response(status: StatusCode, body: Bytes) -> Response<ResponseBody> {
    let mut response = with_body(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(super) fn with_body(status: StatusCode, body: Bytes) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}

/// One message as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    sse::frame(message).into()
}

/// A stream, and the end to write it. The writer learns of a reader that left by [`mpsc::Sender::closed`].
pub(super) fn stream() -> (mpsc::Sender<Bytes>, Response<ResponseBody>) {
    let (events, receiver) = mpsc::channel(WAITING);
    let mut response = Response::new(written::body(receiver));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    (events, response)
}
