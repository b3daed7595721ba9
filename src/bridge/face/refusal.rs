//! What the face itself refuses, and how it says so.

use std::borrow::Cow;

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{body, live::Full, rewrite::quoted};
use crate::{bridge::hops::Recipient, upstream::ResponseBody};

/// A JSON-RPC error of ours.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    status: StatusCode,
    code: i64,
    reason: &'static str,
    message: Cow<'static, str>,
    /// More members of `error.data`, each with a comma in front.
    more: String,
}

impl Refusal {
    fn new(
        status: StatusCode,
        code: i64,
        reason: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { status, code, reason, message: message.into(), more: String::new() }
    }

    /// The message is no message.
    pub(super) fn invalid_request(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, -32600, "invalid_request", why)
    }

    pub(super) fn not_json() -> Self {
        let why = "The body is not valid JSON. Send one JSON-RPC object in UTF-8.";
        Self::new(StatusCode::BAD_REQUEST, -32700, "parse_error", why)
    }

    /// In band: legacy errors of methods have status 200.
    pub(super) fn invalid_params(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::OK, -32602, "invalid_params", why)
    }

    pub(super) fn no_method(method: &str) -> Self {
        let shown: String = method.chars().take(64).collect();
        Self::new(StatusCode::OK, -32601, "method_not_found", format!("no method {shown:?} here"))
    }

    pub(super) fn unsupported_version(requested: &str) -> Self {
        let requested: String = requested.chars().take(40).collect();
        let supported: Vec<_> = super::Revision::ALL.iter().map(|r| quoted(r.as_str())).collect();
        let why = "This protocol version is not spoken here. Use one of error.data.supported.";
        Self {
            more: format!(",\"supported\":[{}],\"requested\":{}", supported.join(","), quoted(&requested)),
            ..Self::new(StatusCode::BAD_REQUEST, -32022, "unsupported_version", why)
        }
    }

    /// Clients answer it by a new `initialize` (transports page, session management).
    pub(super) fn session_not_found() -> Self {
        let why = "This session has ended or is not from here. Send a new initialize.";
        Self::new(StatusCode::NOT_FOUND, 404, "session_not_found", why)
    }

    pub(super) fn method_not_allowed() -> Self {
        let why = "There is no stream without a session. Send initialize, then its Mcp-Session-Id.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, 405, "method_not_allowed", why)
    }

    /// The server has no change notices to give.
    pub(super) fn no_stream() -> Self {
        let why = "The server has no stream of changes. Calls are answered on their own streams.";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, 405, "method_not_allowed", why)
    }

    /// Too much is remembered already, here or of the session.
    pub(super) fn full(wall: &'static str) -> Self {
        let why = format!("Too many {wall} at once. End some, or try again later.");
        Self {
            more: format!(",\"wall\":\"{wall}\""),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, 429, "rate_limited", why)
        }
    }

    /// The same, where each principal has its own places.
    pub(super) fn no_place(wall: &'static str, full: Full) -> Self {
        let Full::Owner(limit) = full else { return Self::full(wall) };
        let why = format!(
            "The key of this session has {limit} {wall} already, which is all it may have. End some, or try again later."
        );
        Self {
            more: format!(",\"wall\":\"{wall}\",\"limit\":{limit}"),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, 429, "rate_limited", why)
        }
    }

    pub(super) fn parked_elsewhere() -> Self {
        let why = "The call that asked this waits in another gateway process, or that process is gone. \
                   Send the answer to the replica that asked (session affinity), or repeat the call.";
        Self::new(StatusCode::CONFLICT, 409, "parked_elsewhere", why)
    }

    /// The server needs an answer that this client cannot give, or did not give.
    pub(super) fn unanswered(why: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::OK, -32603, "unanswered", why)
    }

    /// The upstream broke its protocol after the answer's head was sent.
    pub(super) fn upstream_protocol(why: &str) -> Self {
        let why = format!("The upstream gave no MCP answer ({why}); the call may have run.");
        Self::new(StatusCode::OK, 502, "upstream_protocol", why)
    }

    /// The JSON-RPC message.
    pub(super) fn message(&self, id: Option<&str>, to: impl Into<Recipient>) -> String {
        let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
        let to = to.into();
        let trace = to.refused(self.reason, self.code);
        let trace = trace.map(|t| format!(",\"trace_id\":\"{t}\"")).unwrap_or_default();
        format!(
            "{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{},\"message\":{},\"data\":{{\"reason\":\"{}\"{}{trace}}}}}}}",
            self.code,
            quoted(&self.message),
            self.reason,
            self.more,
        )
    }

    /// The whole answer.
    pub(super) fn response(&self, id: Option<&str>, to: impl Into<Recipient>) -> Response<ResponseBody> {
        let mut response = body::json(self.status, Bytes::from(self.message(id, to)));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(http::header::ALLOW, http::HeaderValue::from_static("POST"));
        }
        response
    }
}
