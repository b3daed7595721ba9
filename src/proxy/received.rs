//! The message as it came in, kept under `audit.capture = "full"` so that `smartgate replay` can run it again: the rest
//! of a record tells of it after repair. Owns which headers that takes; credentials and sessions are not among them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use sha2::{Digest, Sha256};

use super::{mask::Mask, observe::KEPT};
use crate::{
    audit::record::Received,
    config::{self, Capture},
};

/// Decides over a message: which door, who may call from where, of what kind, era and revision.
fn is_needed(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name,
        "host" | "origin" | "content-type" | "content-encoding" | "user-agent" | "mcp-protocol-version"
    ) || (name.starts_with("mcp-") && name != super::headers::SESSION.as_str())
}

/// What is kept; `None` where not all is. Where tools differ in what is kept, [`decide`] follows.
pub(super) fn keep(
    audit: &config::Audit,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
    mask: &Mask,
) -> Option<Received> {
    let full = |capture: &Capture| *capture == Capture::Full;
    let undecided = !audit.capture_tools.is_empty();
    if !full(&audit.capture) && !audit.capture_tools.iter().any(|(_, capture)| full(capture)) {
        return None;
    }
    let mut masked = false;
    let mut shown = |value: &[u8]| {
        let mut kept = value.to_vec();
        mask.apply(&mut kept, false);
        masked |= kept != value;
        String::from_utf8(kept).ok()
    };
    let mut kept = Vec::new();
    if !headers.contains_key(header::HOST)
        && let Some(authority) = uri.authority()
    {
        kept.push((header::HOST.as_str().to_owned(), authority.as_str().to_owned()));
    }
    for (name, value) in headers.iter().filter(|(name, _)| is_needed(name)) {
        kept.push((name.as_str().to_owned(), shown(value.as_bytes())?));
    }
    let path = shown(uri.path().as_bytes())?;
    let body = shown(&body[..body.len().min(KEPT)]).filter(|_| body.len() <= KEPT);
    Some(Received { path, headers: kept, body, masked, forwarded: None, undecided })
}

/// Keeps it or not, now that it is known which tool is called, if any.
pub(super) fn decide(received: &mut Option<Received>, capture: Capture) {
    match received {
        Some(kept) if capture == Capture::Full => kept.undecided = false,
        _ => *received = None,
    }
}

/// Puts one message of a batch in the place of all.
pub(super) fn narrow(received: &mut Received, message: &Bytes, mask: &Mask) {
    let mut kept = message[..message.len().min(KEPT)].to_vec();
    mask.apply(&mut kept, false);
    received.masked |= kept != *message;
    received.body = String::from_utf8(kept).ok().filter(|_| message.len() <= KEPT);
}

/// Notes what goes out for it.
pub(super) fn forwarded(received: &mut Option<Received>, body: &[u8]) {
    if let Some(received) = received {
        received.forwarded = Some(Sha256::digest(body).into());
    }
}

/// The headers as they came, as far as they were kept; `None` if they are no headers.
pub(super) fn headers(received: &[(String, String)]) -> Option<HeaderMap> {
    let one = |(name, value): &(String, String)| {
        Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
    };
    let mut headers = HeaderMap::new();
    for header in received {
        let (name, value) = one(header)?;
        headers.append(name, value);
    }
    Some(headers)
}
