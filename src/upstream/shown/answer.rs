//! HTTP responses of an upstream that is none of HTTP: refusals, whole answers and streams.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};

use super::outbox::Events;
use crate::{bridge::hops::Recipient, upstream::ResponseBody};

const INVALID_REQUEST: i64 = -32600;

pub(in crate::upstream) fn refusal(
    status: StatusCode,
    id: Option<&str>,
    why: &str,
) -> Response<ResponseBody> {
    let error = json!({"code": INVALID_REQUEST, "message": why});
    failed(status, id, &error)
}

/// What a client is told that is to initialize again.
pub(in crate::upstream) fn not_found(id: Option<&str>, to: &Recipient, why: &str) -> Response<ResponseBody> {
    let (reason, code) = ("session_not_found", 404);
    let mut data = json!({"reason": reason});
    if let Some(trace_id) = to.refused(reason, code) {
        data["trace_id"] = trace_id.into();
    }
    let error = json!({"code": code, "message": why, "data": data});
    failed(StatusCode::NOT_FOUND, id, &error)
}

fn failed(status: StatusCode, id: Option<&str>, error: &Value) -> Response<ResponseBody> {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    answered(status, format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#).into())
}

pub(in crate::upstream) fn answered(status: StatusCode, body: Bytes) -> Response<ResponseBody> {
    let mut response = with_body(Full::new(body).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

pub(in crate::upstream) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = with_body(Full::default().map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response
}

pub(in crate::upstream) fn stream(events: Events) -> Response<ResponseBody> {
    let mut response = with_body(events.boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn with_body(body: ResponseBody) -> Response<ResponseBody> {
    Response::new(body)
}
