//! The one table: cause -> HTTP status, JSON-RPC code, `error.data.reason`, message. Nothing else in the
//! program picks a status code for an error (contract: "Answers the gateway itself gives").
//!
//! Codes of our own are the HTTP status as a positive number: MCP reserves -32768..-32000. Every message
//! says what to do and never holds a secret.

use std::{borrow::Cow, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use crate::policy::{
    auth::AuthFault,
    budget::{self, rfc3339},
    rate_limit::Refused,
};
use crate::upstream::bounded::too_long;

/// Why the gateway itself answers.
#[derive(Debug)]
pub enum Cause {
    /// The body is not JSON; where and what.
    Parse(String),
    /// The body is JSON but not one valid JSON-RPC message.
    InvalidRequest(Cow<'static, str>),
    /// A mirrored header is missing, different, malformed or there twice.
    HeaderMismatch(String),
    /// A modern request without the `_meta` keys it must have.
    InvalidParams(String),
    /// A modern revision that this gateway does not know.
    UnsupportedVersion(String),
    /// No valid key.
    Unauthenticated(AuthFault),
    /// A foreign `Origin` or `Host`.
    ForbiddenOrigin(&'static str),
    /// The key may not use this tool or upstream.
    Forbidden(String),
    /// No such path.
    NoRoute,
    /// A method other than POST, GET, DELETE, OPTIONS.
    MethodNotAllowed,
    /// The client takes only JSON and the server asked it something on the stream.
    NotAcceptable,
    /// The body came too slowly.
    RequestTimeout(Duration),
    /// The body is over the limit, in bytes.
    BodyTooLarge(usize),
    /// The body is not JSON by its headers, or is encoded.
    UnsupportedMediaType(&'static str),
    /// A rate is used up; which wall.
    RateLimited(&'static str, Refused),
    /// A budget has too little left.
    BudgetExhausted(Box<budget::Refused>),
    /// Too many calls in flight.
    Concurrency(usize),
    /// No connection to the upstream.
    UpstreamConnect(String),
    /// No response head in time.
    UpstreamTimeout(Duration),
    /// The call had not ended when its longest time was over.
    UpstreamTooLong(Duration),
    /// The upstream broke off or answered something that is not MCP.
    UpstreamProtocol(String),
    /// The upstream is left alone for now: it kept failing, or has all its places taken.
    UpstreamUnavailable(String, Duration),
    /// The upstream answered a `server/discover` with no MCP message: said so that clients fall back.
    DiscoverRefused,
    /// The gateway is shutting down.
    Draining,
    /// The journal cannot be written and `on_error = "deny"`.
    AuditUnavailable,
    /// A fault of ours.
    Internal,
}

/// One row of the table.
struct Row(u16, i64, &'static str);

impl Cause {
    fn row(&self) -> Row {
        match self {
            Self::Parse(_) => Row(400, -32700, "parse_error"),
            Self::InvalidRequest(_) | Self::DiscoverRefused => Row(400, -32600, "invalid_request"),
            Self::HeaderMismatch(_) => Row(400, -32020, "header_mismatch"),
            Self::InvalidParams(_) => Row(400, -32602, "invalid_params"),
            Self::UnsupportedVersion(_) => Row(400, -32022, "unsupported_version"),
            Self::Unauthenticated(_) => Row(401, 401, "unauthenticated"),
            Self::ForbiddenOrigin(_) => Row(403, 403, "forbidden_origin"),
            Self::Forbidden(_) => Row(403, 403, "forbidden"),
            Self::NoRoute => Row(404, 404, "no_route"),
            Self::MethodNotAllowed => Row(405, 405, "method_not_allowed"),
            Self::NotAcceptable => Row(406, 406, "not_acceptable"),
            Self::RequestTimeout(_) => Row(408, 408, "request_timeout"),
            Self::BodyTooLarge(_) => Row(413, 413, "body_too_large"),
            Self::UnsupportedMediaType(_) => Row(415, 415, "unsupported_media_type"),
            Self::RateLimited(..) | Self::Concurrency(_) => Row(429, 429, "rate_limited"),
            Self::BudgetExhausted(_) => Row(429, 429, "budget_exhausted"),
            Self::Internal => Row(500, -32603, "internal"),
            Self::UpstreamConnect(_) => Row(502, 502, "upstream_connect"),
            Self::UpstreamProtocol(_) => Row(502, 502, "upstream_protocol"),
            Self::Draining => Row(503, 503, "draining"),
            Self::AuditUnavailable => Row(503, 503, "audit_unavailable"),
            Self::UpstreamUnavailable(..) => Row(503, 503, "upstream_unavailable"),
            Self::UpstreamTimeout(_) | Self::UpstreamTooLong(_) => Row(504, 504, "upstream_timeout"),
        }
    }

    /// HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.row().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// JSON-RPC error code.
    #[must_use]
    pub fn code(&self) -> i64 {
        self.row().1
    }

    /// `error.data.reason`.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        self.row().2
    }

    /// Whether a limit or a budget refused.
    #[must_use]
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::RateLimited(..) | Self::Concurrency(_) | Self::BudgetExhausted(_))
    }

    /// Whether the upstream failed, rather than the request being refused.
    #[must_use]
    pub fn is_upstream_failure(&self) -> bool {
        matches!(
            self,
            Self::UpstreamConnect(_)
                | Self::UpstreamTimeout(_)
                | Self::UpstreamTooLong(_)
                | Self::UpstreamUnavailable(..)
                | Self::UpstreamProtocol(_)
                | Self::DiscoverRefused
                | Self::NotAcceptable
        )
    }

    /// What went wrong and what to do about it.
    #[must_use]
    pub fn message(&self) -> Cow<'static, str> {
        match self {
            Self::Parse(at) => format!("The body is not valid JSON ({at}). Send one JSON-RPC object in UTF-8.").into(),
            Self::InvalidRequest(why) => format!("Not a valid JSON-RPC message: {why}.").into(),
            Self::HeaderMismatch(why) => format!("{why}. Send headers that say what the body says.").into(),
            Self::InvalidParams(why) => format!("{why}.").into(),
            Self::UnsupportedVersion(v) => {
                format!("Protocol version {v} is not supported here. Use one of error.data.supported.").into()
            }
            Self::Unauthenticated(fault) => unauthenticated(*fault).into(),
            Self::ForbiddenOrigin(what) => {
                format!("This {what} may not call. Add it to server.allowed_{what}s to allow it.").into()
            }
            Self::Forbidden(what) => format!("This key may not call {what}. Ask for a key whose tools list has it.").into(),
            Self::NoRoute => "There is nothing at this path. Check the URL against server.path and the upstreams' names.".into(),
            Self::MethodNotAllowed => "Only POST, GET and DELETE are served here.".into(),
            Self::NotAcceptable => {
                "The server asked the client something, which needs text/event-stream in Accept. Accept both types.".into()
            }
            Self::RequestTimeout(t) => {
                format!("The body did not arrive within {}. Send it faster, or raise server.body_timeout.", secs(*t)).into()
            }
            Self::BodyTooLarge(limit) => {
                format!("The body is over {limit} bytes. Send less, or raise server.max_body.").into()
            }
            Self::UnsupportedMediaType(why) => format!("{why}. Send application/json, not encoded.").into(),
            Self::RateLimited(wall, r) => format!(
                "The {wall} limit of {} requests per {} is used up. Try again in {}.",
                r.quota.limit,
                secs(r.quota.window),
                secs(round_up(r.retry_after))
            )
            .into(),
            Self::BudgetExhausted(refused) => exhausted(refused).into(),
            Self::Concurrency(limit) => {
                format!("All {limit} places for calls in flight are taken. Try again shortly, or raise limits.concurrency.").into()
            }
            Self::UpstreamConnect(why) => {
                format!("The upstream cannot be reached ({why}). Nothing was sent to it. Check that it runs and its url.").into()
            }
            Self::UpstreamTimeout(t) => format!(
                "The upstream did not answer within {}; the call may have run. Check the server, or raise the upstream's timeout.",
                secs(*t)
            )
            .into(),
            Self::UpstreamTooLong(t) => too_long(*t).into(),
            Self::UpstreamProtocol(why) => {
                format!("The upstream gave no MCP answer ({why}); the call may have run. Check its url and its log.").into()
            }
            Self::UpstreamUnavailable(why, after) => format!(
                "{why}. Nothing was sent to it. Try again in {}, or check that server.",
                secs(round_up(*after))
            )
            .into(),
            Self::DiscoverRefused => "the server did not answer server/discover; it is probably a legacy server".into(),
            Self::Draining => "The gateway is shutting down. Try again: another instance will answer.".into(),
            Self::AuditUnavailable => "Calls are refused while the audit journal cannot be written. Free its disk (the log and \
                /readyz say why), or set audit.journal.on_error = \"serve\"."
                .into(),
            Self::Internal => "The gateway failed on this call. Its log has the details under this trace id.".into(),
        }
    }

    /// `Retry-After`, where trying again helps.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited(_, r) => Some(round_up(r.retry_after)),
            Self::UpstreamUnavailable(_, after) => Some(round_up(*after)),
            Self::BudgetExhausted(refused) => wait(refused),
            Self::Concurrency(_) | Self::Draining | Self::AuditUnavailable => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// Headers that belong to the answer beside `Content-Type`.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut out = HeaderMap::new();
        if let Some(wait) = self.retry_after() {
            out.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
        }
        match self {
            Self::Unauthenticated(fault) => {
                out.insert(header::WWW_AUTHENTICATE, challenge(*fault));
            }
            Self::MethodNotAllowed => {
                out.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE, OPTIONS"));
            }
            Self::RateLimited(wall, r) => rate_headers(&mut out, wall, r),
            Self::Concurrency(limit) => {
                put(
                    &mut out,
                    "ratelimit-policy",
                    format!("\"concurrency\";q={limit};qu=\"concurrent-requests\""),
                );
                put(&mut out, "ratelimit", "\"concurrency\";r=0".to_owned());
            }
            _ => {}
        }
        out
    }

    /// Members of `error.data` beside `reason` and `trace_id`, as JSON members with a leading comma.
    #[must_use]
    pub fn data(&self) -> String {
        match self {
            Self::UnsupportedVersion(requested) => format!(
                ",\"supported\":[\"{}\"],\"requested\":{}",
                crate::mcp::era::MODERN,
                serde_json::Value::from(requested.as_str())
            ),
            Self::RateLimited(wall, r) => format!(
                ",\"wall\":\"{wall}\",\"limit\":{limit},\"used\":{limit},\"resets_at\":\"{}\"",
                jiff::Timestamp::try_from(std::time::SystemTime::now() + round_up(r.retry_after))
                    .unwrap_or_default(),
                limit = r.quota.limit,
            ),
            Self::BudgetExhausted(refused) => walled(refused),
            Self::Concurrency(limit) => {
                format!(",\"wall\":\"concurrency\",\"limit\":{limit},\"used\":{limit},\"resets_at\":null")
            }
            _ => String::new(),
        }
    }
}

fn exhausted(refused: &budget::Refused) -> String {
    let budget::Refused { wall, requested } = refused;
    let (window, scope, unit) = (wall.window.as_str(), wall.scope.as_str(), wall.unit.as_str());
    let until = match wall.resets_at {
        Some(at) => format!("wait until {}", rfc3339(at)),
        None => "open another run".to_owned(),
    };
    let advice = if soon(refused) { "calls that go on hold the rest: try again shortly" } else { &until };
    format!(
        "The {window} budget of this {scope} has {} of {} {unit} left, and this call needs {requested}. Ask for less (such as \
         a lower max_tokens), or {advice}.",
        wall.remaining, wall.limit,
    )
}

/// Whether only calls that go on are in the way.
fn soon(refused: &budget::Refused) -> bool {
    refused.wall.over_by == 0 && refused.requested <= refused.wall.limit - refused.wall.used
}

fn wait(refused: &budget::Refused) -> Option<Duration> {
    if soon(refused) {
        return Some(Duration::from_secs(1));
    }
    let left = refused.wall.resets_at?.saturating_sub(crate::store::now());
    Some(round_up(Duration::from_millis(u64::try_from(left).unwrap_or(0))))
}

fn walled(refused: &budget::Refused) -> String {
    let wall = &refused.wall;
    let resets_at = wall.resets_at.map_or("null".to_owned(), |at| format!("\"{}\"", rfc3339(at)));
    format!(
        ",\"wall\":\"{}\",\"window\":\"{}\",\"unit\":\"{}\",\"limit\":{},\"used\":{},\"held\":{},\"over_by\":{},\"requested\":{},\"resets_at\":{resets_at}",
        wall.scope.as_str(),
        wall.window.as_str(),
        wall.unit.as_str(),
        wall.limit,
        wall.used,
        wall.held,
        wall.over_by,
        refused.requested,
    )
}

fn unauthenticated(fault: AuthFault) -> &'static str {
    match fault {
        AuthFault::Missing => "Send one header \"Authorization: Bearer KEY\" with a key of this gateway.",
        AuthFault::Unknown => {
            "No such key. Make one with \"smartgate key new\" and add its stanza to the configuration."
        }
        AuthFault::Expired => "This key has expired. Ask for a new one.",
    }
}

/// RFC 6750 section 3: without credentials no error code is given.
fn challenge(fault: AuthFault) -> HeaderValue {
    HeaderValue::from_static(match fault {
        AuthFault::Missing => "Bearer realm=\"smartgate\"",
        AuthFault::Unknown => {
            "Bearer realm=\"smartgate\", error=\"invalid_token\", error_description=\"unknown key\""
        }
        AuthFault::Expired => {
            "Bearer realm=\"smartgate\", error=\"invalid_token\", error_description=\"expired key\""
        }
    })
}

/// `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10): quota, window, remaining, seconds.
fn rate_headers(out: &mut HeaderMap, wall: &str, r: &Refused) {
    let window = r.quota.window.as_secs().max(1);
    put(out, "ratelimit-policy", format!("\"{wall}\";q={};w={window}", r.quota.limit));
    put(out, "ratelimit", format!("\"{wall}\";r=0;t={}", round_up(r.retry_after).as_secs()));
}

fn put(out: &mut HeaderMap, name: &'static str, value: String) {
    if let Ok(value) = HeaderValue::try_from(value) {
        out.insert(name, value);
    }
}

fn round_up(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs() + u64::from(d.subsec_nanos() > 0)).max(Duration::from_secs(1))
}

fn secs(d: Duration) -> String {
    match d.as_millis() {
        ms if ms % 1_000 == 0 => format!("{} s", ms / 1_000),
        ms => format!("{ms} ms"),
    }
}

/// Whether the gateway serves this HTTP method at all.
#[must_use]
pub(super) fn is_served(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::GET | Method::DELETE | Method::OPTIONS)
}

/// The JSON-RPC error object, with the request's own id bytes where one could be read.
#[must_use]
pub(super) fn body(cause: &Cause, id: Option<&str>, trace_id: &str) -> String {
    let id = id.map(|id| format!("\"id\":{id},")).unwrap_or_default();
    format!(
        "{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{},\"message\":{},\"data\":{{\"reason\":\"{}\",\"trace_id\":\"{trace_id}\"{}}}}}}}",
        cause.code(),
        serde_json::Value::from(cause.message().as_ref()),
        cause.reason(),
        cause.data(),
    )
}

/// A refusal by a limit as a tool's result, for hosts that stop using a server after a 429
/// (`limits.refusal = "tool_error"`).
#[must_use]
pub(super) fn tool_error(cause: &Cause, id: &str, trace_id: &str, modern: bool) -> String {
    let retry =
        cause.retry_after().map(|d| format!("\"retry_after_ms\":{},", d.as_millis())).unwrap_or_default();
    // A model that is told to try again next month tries again at once.
    let retryable = !matches!(cause, Cause::BudgetExhausted(refused) if !soon(refused));
    let text = format!(
        "{{\"error\":{{\"code\":\"{}\",\"message\":{},\"retryable\":{retryable},{retry}\"details\":{{\"trace_id\":\"{trace_id}\"{}}}}}}}",
        cause.reason(),
        serde_json::Value::from(cause.message().as_ref()),
        cause.data(),
    );
    let kind = if modern { "\"resultType\":\"complete\"," } else { "" };
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{{kind}\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":true}}}}",
        serde_json::Value::from(text),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::rate_limit::Quota;

    fn limited() -> Cause {
        let quota = Quota::new(120, Duration::from_secs(60));
        Cause::RateLimited("key", Refused { quota, retry_after: Duration::from_millis(400) })
    }

    #[test]
    fn a_limit_says_which_wall_and_when_it_resets() {
        let body: serde_json::Value = serde_json::from_str(&body(&limited(), Some("7"), "ab")).unwrap();
        let data = &body["error"]["data"];
        assert_eq!((&data["wall"], &data["limit"], &data["used"]), (&"key".into(), &120.into(), &120.into()));
        assert!(data["resets_at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(body["id"], 7);
        let headers = limited().headers();
        assert_eq!(headers["retry-after"], "1");
        assert_eq!(headers["ratelimit-policy"], "\"key\";q=120;w=60");
        assert_eq!(headers["ratelimit"], "\"key\";r=0;t=1");
    }

    #[test]
    fn a_tool_error_is_a_result_whose_text_is_json() {
        let text = tool_error(&limited(), "\"x\"", "ab", true);
        let body: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["result"]["isError"], true);
        let inner: serde_json::Value =
            serde_json::from_str(body["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(inner["error"]["code"], "rate_limited");
        assert_eq!(inner["error"]["details"]["wall"], "key");
    }

    #[test]
    fn a_budget_that_only_calls_in_flight_hold_is_worth_another_try() {
        let refused = |used, held| {
            let wall = budget::View {
                scope: budget::Scope::Key,
                window: budget::Window::Day,
                unit: budget::Unit::Tokens,
                limit: 100,
                used,
                held,
                remaining: 100 - used - held,
                over_by: 0,
                warn: true,
                resets_at: Some(crate::store::now() + 3_600_000),
            };
            Cause::BudgetExhausted(Box::new(budget::Refused { wall, requested: 50 }))
        };
        let text = |cause: &Cause| {
            let body: serde_json::Value =
                serde_json::from_str(&tool_error(cause, "1", "ab", false)).expect("JSON");
            let text = body["result"]["content"][0]["text"].as_str().expect("a text block").to_owned();
            serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["error"].clone()
        };
        let (held, used) = (refused(20, 70), refused(60, 0));
        assert_eq!(
            (&held.headers()["retry-after"], &text(&held)["retryable"]),
            (&"1".parse().unwrap(), &true.into())
        );
        let wait: u64 = used.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((3_590..=3_600).contains(&wait), "{wait}");
        assert_eq!(text(&used)["retryable"], false);
        assert_eq!(text(&used)["details"]["requested"], 50);
    }

    #[test]
    fn without_a_readable_id_there_is_no_id_member() {
        let body: serde_json::Value = serde_json::from_str(&body(&Cause::NoRoute, None, "ab")).unwrap();
        assert!(body.get("id").is_none());
        assert_eq!(body["error"]["code"], 404);
    }
}
