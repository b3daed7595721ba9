//! Which session a request means, and what its sender is told if there is none.

use http::{HeaderMap, Response, StatusCode};

use super::answer::refusal;
use crate::{mcp::era::SESSION_HEADER, upstream::ResponseBody};

/// The session id that a request brings.
pub(in crate::upstream) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER).and_then(|v| v.to_str().ok())
}

/// What `get` has under this id, or the refusal of `request`, an id's JSON text.
pub(in crate::upstream) fn find<S>(
    id: Option<&str>,
    request: Option<&str>,
    get: impl FnOnce(&str) -> Option<S>,
) -> Result<S, Box<Response<ResponseBody>>> {
    let Some(id) = id else {
        let why = "the Mcp-Session-Id header is missing: begin with initialize";
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, request, why)));
    };
    get(id).ok_or_else(|| Box::new(gone(request)))
}

pub(in crate::upstream) fn gone(request: Option<&str>) -> Response<ResponseBody> {
    refusal(StatusCode::NOT_FOUND, request, "there is no such session: begin with initialize")
}

/// An id that cannot be guessed: 128 random bits.
pub(in crate::upstream) fn new_id() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(hex::encode(bits))
}
