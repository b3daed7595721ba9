//! Which headers pass: hop-by-hop ones and our own credential never do (RFC 9110 section 7.6.1; decided
//! rules "HTTP side" and "Headers"). Mirrored headers are `mcp::headers`' business.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::mcp::era::{SESSION_HEADER, VERSION_HEADER};

/// Names a legacy session.
pub(super) const SESSION: HeaderName = HeaderName::from_static(SESSION_HEADER);
/// Names a revision.
pub(super) const VERSION: HeaderName = HeaderName::from_static(VERSION_HEADER);
/// Media type of a message.
pub(super) const JSON: &str = "application/json";
/// Media type of a stream of messages.
pub(super) const SSE: &str = "text/event-stream";

/// What a client can take as an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    /// JSON and SSE, or nothing was said.
    Both,
    /// JSON alone.
    Json,
    /// SSE alone.
    Sse,
}

/// Reads `Accept`; absent, `*/*` or neither of our types means both.
#[must_use]
pub(super) fn accepts(headers: &HeaderMap) -> Accepts {
    let (mut json, mut sse, mut any) = (false, false, false);
    for item in
        headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','))
    {
        let mut parts = item.split(';');
        let kind = parts.next().unwrap_or_default().trim();
        if parts.any(|p| matches!(p.trim().trim_end_matches(['0', '.']), "q=" | "Q=")) {
            continue;
        }
        let is = |name: &str| kind.eq_ignore_ascii_case(name);
        json |= is(JSON) || is("application/*");
        sse |= is(SSE) || is("text/*");
        any |= kind == "*/*";
    }
    match (json, sse) {
        _ if any => Accepts::Both,
        (true, false) => Accepts::Json,
        (false, true) => Accepts::Sse,
        _ => Accepts::Both,
    }
}

/// A media type without its parameters, compared without case.
#[must_use]
pub(super) fn media_type_is(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
    value.is_some_and(|v| v.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted))
}

/// Why a POST's body cannot be read as JSON, by its headers.
#[must_use]
pub(super) fn refused_media_type(headers: &HeaderMap) -> Option<&'static str> {
    let encoded = headers
        .get(header::CONTENT_ENCODING)
        .is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"));
    if encoded {
        return Some("The body is encoded");
    }
    if headers.get_all(header::CONTENT_TYPE).iter().count() > 1 {
        return Some("There is more than one Content-Type");
    }
    let Some(value) = headers.get(header::CONTENT_TYPE) else {
        let from_browser = headers.contains_key(header::ORIGIN);
        return from_browser.then_some("A request with an Origin needs a Content-Type");
    };
    let other_charset = || {
        let (_, parameters) = value.to_str().unwrap_or_default().split_once(';')?;
        let text = parameters.to_ascii_lowercase();
        let charset = text.split(';').find_map(|p| p.trim().strip_prefix("charset="))?;
        Some(!matches!(charset.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"))
    };
    if !media_type_is(headers, JSON) {
        return Some("The Content-Type is not application/json");
    }
    (other_charset() == Some(true)).then_some("The charset is not UTF-8")
}

/// Removes what ends at this hop, in either direction.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|v| v.to_str().ok())
            .flat_map(|v| v.split(','))
            .filter_map(|n| n.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    remove_all(headers, is_hop_by_hop);
}

/// Looking through what is there costs less than asking for each name that seldom is.
fn remove_all(headers: &mut HeaderMap, goes: impl Fn(&HeaderName) -> bool) {
    while let Some(name) = headers.keys().find(|name| goes(name)).cloned() {
        headers.remove(name);
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Headers of a request that end here although they are not hop-by-hop. The answer is scanned in passing, so
/// it must come as it is: hence `accept-encoding`.
fn ends_here(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "host" | "origin" | "content-length" | "expect" | "accept-encoding" | "proxy-connection"
    )
}

/// What a request upstream carries, made from what the client sent.
///
/// `keep_authorization` only in pass-through mode; otherwise the credential is ours and ends here.
pub(super) fn prepare_request(headers: &mut HeaderMap, keep_authorization: bool) {
    strip_hop_by_hop(headers);
    remove_all(headers, |name| ends_here(name) || (!keep_authorization && *name == header::AUTHORIZATION));
}

/// Sets the two headers that every POST upstream has.
pub(super) fn set_json_post(headers: &mut HeaderMap) {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
}

/// A GET that does not say what it takes, or takes anything, asks for the stream.
pub(super) fn set_stream_accept(headers: &mut HeaderMap) {
    if headers.get(header::ACCEPT).is_none_or(|v| v.as_bytes().trim_ascii() == b"*/*") {
        headers.insert(header::ACCEPT, HeaderValue::from_static(SSE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn accept_is_read_as_a_list_of_ranges() {
        let read = |v: &'static str| accepts(&map(&[("accept", v)]));
        assert_eq!(accepts(&HeaderMap::new()), Accepts::Both);
        assert_eq!(read("*/*"), Accepts::Both);
        assert_eq!(read("application/json"), Accepts::Json);
        assert_eq!(read("Application/JSON;q=0.9"), Accepts::Json);
        assert_eq!(read("text/event-stream"), Accepts::Sse);
        assert_eq!(read("application/json, text/event-stream"), Accepts::Both);
        assert_eq!(read("application/json, text/event-stream;q=0"), Accepts::Json);
        assert_eq!(read("text/html"), Accepts::Both);
    }

    #[test]
    fn media_types_are_compared_without_case_or_parameters() {
        assert_eq!(
            refused_media_type(&map(&[("content-type", "Application/JSON; charset=\"UTF-8\"")])),
            None
        );
        assert_eq!(refused_media_type(&map(&[])), None);
        assert!(refused_media_type(&map(&[("origin", "http://localhost")])).is_some());
        assert!(refused_media_type(&map(&[("content-type", "text/plain")])).is_some());
        assert!(refused_media_type(&map(&[("content-type", "application/json; charset=utf-16")])).is_some());
        assert!(
            refused_media_type(&map(&[("content-type", "application/json"), ("content-encoding", "gzip")]))
                .is_some()
        );
    }

    #[test]
    fn what_connection_names_goes_too() {
        let mut headers = map(&[
            ("connection", "keep-alive, x-drop"),
            ("x-drop", "1"),
            ("x-keep", "1"),
            ("authorization", "Bearer s"),
            ("host", "a"),
            ("expect", "100-continue"),
        ]);
        prepare_request(&mut headers, false);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-keep"]);
    }
}
