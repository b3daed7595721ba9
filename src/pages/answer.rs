//! Answers of the pages. Owns their headers: nothing is cached, framed, sniffed, or loaded from elsewhere, and no script
//! or style runs that is not a file of ours.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use maud::Markup;
use serde::Serialize;

use crate::server::admin::{AdminBody, whole};

pub(super) type Answer = Response<AdminBody>;

/// `form-action` and `connect-src` are what a page may send to; trusted types keep text from becoming markup in scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A page for people.
pub(super) fn page(status: StatusCode, markup: Markup) -> Answer {
    with(status, "text/html; charset=utf-8", markup.into_string().into())
}

/// Data for programs.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(json) => with(status, "application/json", json.into()),
        Err(_) => {
            with(StatusCode::INTERNAL_SERVER_ERROR, "application/json", r#"{"error":"internal"}"#.into())
        }
    }
}

/// A refusal for programs: one word, and what to do.
pub(super) fn refusal(status: StatusCode, reason: &str, message: &str) -> Answer {
    json(status, &serde_json::json!({ "error": reason, "message": message }))
}

/// A file, or anything else that is there whole.
pub(super) fn with(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    stream(status, content_type, whole(body))
}

/// A body that may go on.
pub(super) fn stream(status: StatusCode, content_type: &'static str, body: AdminBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers: [(HeaderName, &'static str); 7] = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, forms would send the origin `null`.
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Another page is the answer, whatever the method was.
pub(super) fn see(place: &str) -> Answer {
    let mut answer = with(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", Bytes::new());
    let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/"));
    answer.headers_mut().insert(header::LOCATION, place);
    answer
}

/// Adds one header.
pub(super) fn and(mut answer: Answer, name: HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::try_from(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}
