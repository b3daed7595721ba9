//! The HTTP status of an answer.

use http::StatusCode;

use super::mapping;

const METHOD_NOT_FOUND: i64 = -32601;
/// Errors that a modern server answers with HTTP 400 (2026-07-28, streamable HTTP).
const BAD_REQUEST: std::ops::RangeInclusive<i64> = -32022..=-32020;

/// The HTTP status of a modern answer.
pub(super) fn status(answer: &[u8]) -> StatusCode {
    let code = mapping::read(answer).and_then(|m| m.envelope.get("error")?.get("code")?.text().parse().ok());
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if BAD_REQUEST.contains(&code) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
