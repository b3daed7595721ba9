//! W3C trace context of one call: the caller's from `_meta` or header, or a new one (mcp-wire 5.4).
//!
//! A malformed `traceparent` is ignored with its `tracestate`; it is never a reason to fail a call.

use http::{HeaderMap, HeaderValue};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// A caller's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parent {
    /// Trace id.
    pub trace_id: [u8; 16],
    /// Span id.
    pub span_id: [u8; 8],
}

/// Reads a `traceparent` value (W3C Trace Context section 3.2).
#[must_use]
pub(super) fn parse(value: &str) -> Option<Parent> {
    let b = value.as_bytes();
    let shape = b.len() >= 55 && b[2] == b'-' && b[35] == b'-' && b[52] == b'-';
    if !shape || (b.len() > 55 && (&b[..2] == b"00" || b[55] != b'-')) {
        return None;
    }
    let [version] = lower_hex::<1>(&b[..2])?;
    let (trace_id, span_id) = (lower_hex::<16>(&b[3..35])?, lower_hex::<8>(&b[36..52])?);
    lower_hex::<1>(&b[53..55])?;
    let valid = version != 0xff && trace_id != [0; 16] && span_id != [0; 8];
    valid.then_some(Parent { trace_id, span_id })
}

/// Lower-case hex only, as the recommendation demands.
fn lower_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let nibble = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (o, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *o = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(out)
}

/// The caller's context in the HTTP headers.
#[must_use]
pub(super) fn from_headers(headers: &HeaderMap) -> Option<(Parent, Option<String>)> {
    let parent = parse(headers.get(TRACEPARENT)?.to_str().ok()?)?;
    // It may come in several fields, whose order counts (W3C Trace Context section 3.3.1.1).
    let states = headers.get_all(TRACESTATE).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>();
    Some((parent, Some(states.join(",")).filter(|s| !s.is_empty())))
}

/// Replaces the context sent upstream by one of our span.
pub(super) fn inject(headers: &mut HeaderMap, trace_id: [u8; 16], span_id: [u8; 8], state: Option<&str>) {
    let text = format!("00-{}-{}-01", hex::encode(trace_id), hex::encode(span_id));
    if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
        headers.insert(TRACEPARENT, value);
    }
    match state.and_then(|s| HeaderValue::from_str(s).ok()) {
        Some(value) => headers.insert(TRACESTATE, value),
        None => headers.remove(TRACESTATE),
    };
}

/// A new id; never all zeros. Unique, not secret.
#[must_use]
pub(super) fn new_id<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    fastrand::fill(&mut id);
    id[N - 1] |= 1;
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same_context() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = parse(text).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("tracestate", HeaderValue::from_static("old=1"));
        inject(&mut headers, parent.trace_id, parent.span_id, None);
        assert_eq!(headers[TRACEPARENT], text);
        assert!(!headers.contains_key(TRACESTATE));
        assert_eq!(from_headers(&headers), Some((parent, None)));
    }

    #[test]
    fn malformed_contexts_are_ignored() {
        for text in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
    }
}
