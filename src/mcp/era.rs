//! Which protocol era a message belongs to. Owns the inbound classifier; knows no sessions. Pure.
//!
//! A request is judged by itself: the version key in `_meta` decides, the `MCP-Protocol-Version` header is
//! cross-checked against it. Invariant: no modern request goes on whose header and `_meta` tell two stories.

use http::{HeaderMap, HeaderValue};

use super::message::{Kind, Message};
use super::version;

/// `_meta` key by which a request asks for log lines (2026-07-28, logging).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The first modern revision: self-contained requests, no sessions.
pub const MODERN: &str = "2026-07-28";

/// Name of the header that carries the revision.
pub const VERSION_HEADER: &str = "mcp-protocol-version";
/// Names a legacy session.
pub const SESSION_HEADER: &str = "mcp-session-id";

/// Whether a server may call a session so: visible ASCII (2025-03-26, session management).
#[must_use]
pub fn is_session_id(value: &HeaderValue) -> bool {
    !value.is_empty() && value.as_bytes().iter().all(|b| (0x21..=0x7E).contains(b))
}

/// The two eras of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `2025-11-25` and earlier: `initialize`, sessions, server-to-client requests.
    Legacy,
    /// `2026-07-28` and later: every request carries its own `_meta`.
    Modern,
}

impl Era {
    /// The name used in audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// What the classifier found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    /// The era to treat the message in, also when it is refused.
    pub era: Era,
    /// The revision the client speaks, as far as this message tells.
    pub version: Option<String>,
    /// Why it may not go on, if so.
    pub refusal: Option<Refusal>,
}

/// Why the classifier refuses a message. Each carries the text for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Header and body name different revisions, or the header is missing or comes twice (-32020).
    HeaderMismatch(String),
    /// The header is modern but `_meta` or one of its required keys is missing (-32602).
    MissingMeta(String),
    /// A modern request in a revision that is not published here (-32022). Holds the revision asked for.
    UnsupportedVersion(String),
    /// A message that the modern era does not have: a posted response (-32600).
    InvalidRequest(String),
}

impl Classified {
    fn legacy(version: Option<String>) -> Self {
        Self { era: Era::Legacy, version, refusal: None }
    }

    fn modern(version: Option<String>, refusal: Option<Refusal>) -> Self {
        Self { era: Era::Modern, version, refusal }
    }
}

/// What the `MCP-Protocol-Version` header says.
enum Header<'a> {
    Absent,
    One(&'a str),
    /// More than once, or not text.
    Unusable,
}

fn header(headers: &HeaderMap) -> Header<'_> {
    let mut values = headers.get_all(VERSION_HEADER).iter();
    match (values.next(), values.next()) {
        (None, _) => Header::Absent,
        (Some(value), None) => value.to_str().map_or(Header::Unusable, Header::One),
        _ => Header::Unusable,
    }
}

/// The era of a request with these headers and, for a POST with one JSON object, this message.
///
/// Sessions are not looked at: a legacy session's own revision is the caller's knowledge.
#[must_use]
pub fn classify(headers: &HeaderMap, message: Option<&Message<'_>>) -> Classified {
    let header = header(headers);
    let by_header = match header {
        Header::One(v) => Some(v.to_owned()),
        _ => None,
    };
    let Some(message) = message else { return Classified::legacy(by_header) };
    let is_request = message.kind() == Kind::Request;
    if matches!(header, Header::Unusable) && is_request {
        let refusal = Refusal::HeaderMismatch("MCP-Protocol-Version must come once, as plain text".into());
        let era = if message.has_protocol_version { Era::Modern } else { Era::Legacy };
        return Classified { era, version: None, refusal: Some(refusal) };
    }
    let header_is_modern = by_header.as_deref().is_some_and(version::is_modern);
    match (is_request, message.has_protocol_version) {
        (true, true) => with_meta(message, by_header),
        (true, false) if header_is_modern => Classified::modern(by_header, Some(missing(message))),
        (true, false) if message.method.as_deref() == Some("initialize") => {
            Classified::legacy(message.requested_version.as_deref().map(str::to_owned).or(by_header))
        }
        (true, false) => Classified::legacy(by_header),
        (false, _) => without_id(message, by_header, header_is_modern),
    }
}

/// A request whose `_meta` names a revision.
fn with_meta(message: &Message<'_>, by_header: Option<String>) -> Classified {
    let Some(in_meta) = message.protocol_version.as_deref() else {
        return Classified::modern(by_header, Some(missing(message)));
    };
    let version = Some(in_meta.to_owned());
    let is_legacy = version::era(in_meta) == Some(Era::Legacy);
    match by_header {
        Some(h) if h != in_meta => {
            let text = format!("MCP-Protocol-Version is {}, _meta says {}", shown(&h), shown(in_meta));
            let era = if is_legacy && !version::is_modern(&h) { Era::Legacy } else { Era::Modern };
            Classified { era, version, refusal: Some(Refusal::HeaderMismatch(text)) }
        }
        _ if is_legacy => Classified::legacy(version),
        None => {
            let text = format!("the MCP-Protocol-Version header is missing; _meta says {}", shown(in_meta));
            Classified::modern(version, Some(Refusal::HeaderMismatch(text)))
        }
        Some(_) if !version::is_known(in_meta) => {
            let refusal = Refusal::UnsupportedVersion(shown(in_meta));
            Classified::modern(version, Some(refusal))
        }
        Some(_) if message.client_capabilities.is_none() => {
            Classified::modern(version, Some(missing(message)))
        }
        Some(_) => Classified::modern(version, None),
    }
}

/// A notification or a response: header rules for notifications are undefined, so none is enforced.
fn without_id(message: &Message<'_>, by_header: Option<String>, header_is_modern: bool) -> Classified {
    let in_meta = message.protocol_version.as_deref();
    if in_meta.is_some_and(version::is_modern) {
        return Classified::modern(in_meta.map(str::to_owned), None);
    }
    if !header_is_modern {
        return Classified::legacy(by_header);
    }
    let refusal = (message.kind() == Kind::Response)
        .then(|| Refusal::InvalidRequest("this revision has no responses from clients".into()));
    Classified::modern(by_header, refusal)
}

fn missing(message: &Message<'_>) -> Refusal {
    let mut keys = Vec::new();
    if message.protocol_version.is_none() {
        keys.push("io.modelcontextprotocol/protocolVersion");
    }
    if message.client_capabilities.is_none() {
        keys.push("io.modelcontextprotocol/clientCapabilities");
    }
    Refusal::MissingMeta(format!("params._meta lacks {}", keys.join(" and ")))
}

/// A value from outside, short enough for an error message.
fn shown(value: &str) -> String {
    value.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::{Classified, Era, MODERN, Refusal, VERSION_HEADER, classify};
    use crate::mcp::message::{Body, parse};

    fn told(header: &[&'static str], body: &str) -> Classified {
        let mut headers = HeaderMap::new();
        for value in header {
            headers.append(VERSION_HEADER, HeaderValue::from_static(value));
        }
        match parse(body.as_bytes()).unwrap() {
            Body::Object(message) => classify(&headers, Some(&message)),
            _ => classify(&headers, None),
        }
    }

    /// A request with these members of `_meta`: a version, and whether capabilities are there.
    fn with_meta(version: &str, capabilities: bool) -> String {
        let capabilities =
            if capabilities { r#","io.modelcontextprotocol/clientCapabilities":{}"# } else { "" };
        format!(
            r#"{{"id":1,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":{version}{capabilities}}}}}}}"#
        )
    }

    fn era(era: Era, version: Option<&str>) -> Classified {
        Classified { era, version: version.map(str::to_owned), refusal: None }
    }

    const PLAIN: &str = r#"{"id":1,"method":"tools/list"}"#;

    #[test]
    fn a_version_in_meta_that_the_header_repeats_is_modern() {
        assert_eq!(told(&[MODERN], &with_meta("\"2026-07-28\"", true)), era(Era::Modern, Some(MODERN)));
    }

    #[test]
    fn header_and_meta_must_not_differ() {
        for (header, version) in [
            (&[MODERN][..], "\"2025-11-25\""),
            (&["2025-06-18"], "\"2026-07-28\""),
            (&["2025-06-18"], "\"2025-11-25\""),
            (&[], "\"2026-07-28\""),
            (&[], "\"DRAFT\""),
            (&[MODERN, MODERN], "\"2026-07-28\""),
        ] {
            let told = told(header, &with_meta(version, true));
            assert!(
                matches!(told.refusal, Some(Refusal::HeaderMismatch(_))),
                "{header:?} {version} {told:?}"
            );
        }
        assert!(matches!(told(&["a", "a"], PLAIN).refusal, Some(Refusal::HeaderMismatch(_))));
    }

    #[test]
    fn a_modern_header_needs_the_keys_in_meta() {
        let missing = |body: &str| match told(&[MODERN], body) {
            Classified { era: Era::Modern, refusal: Some(Refusal::MissingMeta(text)), .. } => text,
            other => panic!("{other:?}"),
        };
        assert!(missing(PLAIN).contains("protocolVersion and"));
        assert!(
            missing(r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#)
                .contains("clientCapabilities")
        );
        assert!(missing(r#"{"id":1,"method":"x","params":{"_meta":null}}"#).contains("protocolVersion"));
        assert!(!missing(&with_meta("\"2026-07-28\"", false)).contains("protocolVersion"));
        assert!(missing(&with_meta("5", true)).contains("protocolVersion"));
    }

    #[test]
    fn a_modern_version_that_is_not_published_is_refused() {
        let told = told(&["2027-01-01"], &with_meta("\"2027-01-01\"", true));
        assert_eq!(
            (told.era, told.refusal),
            (Era::Modern, Some(Refusal::UnsupportedVersion("2027-01-01".into())))
        );
    }

    #[test]
    fn everything_else_is_legacy_with_the_headers_version() {
        assert_eq!(told(&[], PLAIN), era(Era::Legacy, None));
        assert_eq!(told(&["2025-06-18"], PLAIN), era(Era::Legacy, Some("2025-06-18")));
        assert_eq!(told(&["nonsense"], PLAIN), era(Era::Legacy, Some("nonsense")));
        assert_eq!(
            told(&["2025-11-25"], &with_meta("\"2025-11-25\"", false)),
            era(Era::Legacy, Some("2025-11-25"))
        );
        assert_eq!(told(&[], "[]"), era(Era::Legacy, None));
        let initialize = r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}"#;
        assert_eq!(told(&["2025-11-25"], initialize), era(Era::Legacy, Some("2025-03-26")));
    }

    #[test]
    fn for_notifications_the_header_decides_and_nothing_is_required() {
        let cancelled = r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(told(&[MODERN], cancelled), era(Era::Modern, Some(MODERN)));
        assert_eq!(told(&[], cancelled), era(Era::Legacy, None));
        assert_eq!(told(&[MODERN, MODERN], cancelled).refusal, None);
    }

    #[test]
    fn modern_clients_send_no_responses() {
        let response = r#"{"id":1,"result":{}}"#;
        assert!(matches!(told(&[MODERN], response).refusal, Some(Refusal::InvalidRequest(_))));
        assert_eq!(told(&["2025-11-25"], response).refusal, None);
    }
}
