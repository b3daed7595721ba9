//! Answers that the aggregate makes itself. The bytes of the request's id are the client's own.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use crate::upstream::ResponseBody;

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const INVALID_PARAMS: i64 = -32602;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Our name in results (2026-07-28, basic: `_meta`).
pub(super) const SERVER_INFO: &str = concat!(
    r#"{"io.modelcontextprotocol/serverInfo":{"name":"smartgate","title":"SmartGate","version":""#,
    env!("CARGO_PKG_VERSION"),
    r#""}}"#
);

/// A successful response; `result` is a JSON object.
pub(super) fn result(id: &str, result: &[u8]) -> Response<ResponseBody> {
    let parts: [&[u8]; 5] = [br#"{"jsonrpc":"2.0","id":"#, id.as_bytes(), br#","result":"#, result, b"}"];
    json_body(StatusCode::OK, parts.concat())
}

/// A JSON-RPC error. `id`: without one that could be read there is none.
pub(super) fn error(
    status: StatusCode,
    id: Option<&str>,
    code: i64,
    message: &str,
) -> Response<ResponseBody> {
    let error = json!({"code": code, "message": message});
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    json_body(status, format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#))
}

/// A JSON-RPC error with `data`.
pub(super) fn error_with(
    status: StatusCode,
    id: &str,
    code: i64,
    message: &str,
    data: &Value,
) -> Response<ResponseBody> {
    let error = json!({"code": code, "message": message, "data": data});
    json_body(status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
}

/// Parameters that cannot be used: in-band, as the SDKs of servers do.
pub(super) fn invalid(id: &str, message: &str) -> Response<ResponseBody> {
    error(StatusCode::OK, Some(id), INVALID_PARAMS, message)
}

/// A status without a body.
pub(super) fn bare(status: StatusCode) -> Response<ResponseBody> {
    let mut response = body(Bytes::new());
    *response.status_mut() = status;
    response
}

/// An event stream.
pub(super) fn events(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, EVENTS);
    response.headers_mut().insert("cache-control", HeaderValue::from_static("no-cache, no-transform"));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn json_body(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = body(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn body(bytes: Bytes) -> Response<ResponseBody> {
    Response::new(Full::new(bytes).map_err(|never| match never {}).boxed_unsync())
}

/// `_meta` of a result of ours.
pub(super) fn meta() -> Value {
    serde_json::from_str(SERVER_INFO).unwrap_or_default()
}
