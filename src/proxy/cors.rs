//! CORS for browsers: answers preflights and marks answers to allowed origins (decided rules, "Headers").

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

const ALLOWED: &str = "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name";
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, www-authenticate, retry-after, mcp-protocol-version");
const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, DELETE, OPTIONS");
const PARAM: &str = "mcp-param-";

/// Lets the page of an allowed origin read an answer; replaces what the upstream said of CORS.
pub(super) fn allow(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

/// The answer to OPTIONS: a status and its headers. `origin` has been found to be allowed.
#[must_use]
pub(super) fn preflight(asked: &HeaderMap, origin: Option<&HeaderValue>) -> (StatusCode, HeaderMap) {
    let mut out = HeaderMap::new();
    out.insert(header::ALLOW, METHODS);
    if let Some(origin) = origin {
        allow(&mut out, origin);
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(asked));
        out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    }
    (StatusCode::NO_CONTENT, out)
}

/// The fixed list, and every `mcp-param-*` that is asked for.
fn allowed_headers(asked: &HeaderMap) -> HeaderValue {
    let mut list = ALLOWED.to_owned();
    let names = asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter().filter_map(|v| v.to_str().ok());
    for name in names.flat_map(|v| v.split(',')).map(|n| n.trim().to_ascii_lowercase()) {
        if name.starts_with(PARAM) && name.parse::<HeaderName>().is_ok() {
            list.push_str(", ");
            list.push_str(&name);
        }
    }
    HeaderValue::try_from(list).unwrap_or(HeaderValue::from_static(ALLOWED))
}

/// Whether this is a request that CORS answers.
#[must_use]
pub(super) fn is_preflight(method: &Method) -> bool {
    method == Method::OPTIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn param_headers_are_allowed_when_asked_for_and_others_are_not() {
        let mut asked = HeaderMap::new();
        asked.insert(
            header::ACCESS_CONTROL_REQUEST_HEADERS,
            HeaderValue::from_static("X-Other, Mcp-Param-Region, content-type"),
        );
        let (status, headers) = preflight(&asked, Some(&HeaderValue::from_static("https://app.example")));
        assert_eq!(status, 204);
        let list = headers[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
        assert!(list.ends_with(", mcp-param-region") && !list.contains("x-other"));
    }
}
