//! Which upstream a path means: the endpoint, one upstream below it, or a well-known OAuth document.

use std::sync::Arc;

use http::{Method, Uri, request::Parts, uri::PathAndQuery};

use super::error::{Cause, is_served};
use crate::snapshot::{Route, Snapshot};

/// Where HTTP+SSE has its stream and takes messages, beside the endpoint.
const STREAM: &str = "/sse";
const MESSAGES: &str = "/messages";
const WELL_KNOWN: &str = "/.well-known/";
/// RFC 8414, RFC 9728 and OpenID Connect Discovery.
const DOCUMENTS: [&str; 3] =
    ["oauth-authorization-server", "oauth-protected-resource", "openid-configuration"];

/// A path that something may be at.
#[derive(Debug)]
pub(super) enum Place<'a> {
    /// The endpoint, or one upstream of it by name.
    Endpoint(Option<&'a str>, Option<&'a str>),
    /// The stream of HTTP+SSE or the address for its messages, of the endpoint or of one upstream.
    HttpSse(Option<&'a str>),
    /// A document below `/.well-known/`: its path as the upstream of the endpoint would have it.
    Document(&'a Uri),
}

/// Where a call goes.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// The upstream.
    pub route: &'a Arc<Route>,
    /// A path and query other than the upstream's own.
    pub forward: Option<PathAndQuery>,
    /// Over HTTP+SSE: where messages are posted.
    pub messages: Option<String>,
}

/// Reads the path and checks the method.
///
/// # Errors
/// [`Cause::NoRoute`] or [`Cause::MethodNotAllowed`].
pub(super) fn locate<'a>(snapshot: &Snapshot, head: &'a Parts) -> Result<Place<'a>, Cause> {
    let path = head.uri.path();
    if is_document(path) {
        let relayed = snapshot.passthrough() && head.method == Method::GET;
        return if relayed { Ok(Place::Document(&head.uri)) } else { Err(Cause::NoRoute) };
    }
    if let Some((method, name)) = http_sse(snapshot, path) {
        let fits = head.method == method;
        return if fits { Ok(Place::HttpSse(name)) } else { Err(Cause::MethodNotAllowed) };
    }
    let name = endpoint(base(snapshot), path).ok_or(Cause::NoRoute)?;
    if !is_served(&head.method) {
        return Err(Cause::MethodNotAllowed);
    }
    Ok(Place::Endpoint(name, head.uri.query()))
}

/// Whether anything is at this path, for OPTIONS.
#[must_use]
pub(super) fn exists(snapshot: &Snapshot, uri: &Uri) -> bool {
    let path = uri.path();
    is_document(path) || endpoint(base(snapshot), path).is_some() || http_sse(snapshot, path).is_some()
}

impl Place<'_> {
    /// Finds the upstream.
    ///
    /// # Errors
    /// [`Cause::NoRoute`]: no upstream of this name.
    pub(super) fn resolve(self, snapshot: &Snapshot) -> Result<Target<'_>, Cause> {
        match self {
            Self::Endpoint(name, query) => {
                let route = route(snapshot, name)?;
                let forward = query.and_then(|q| with_query(route, q));
                Ok(Target { route, forward, messages: None })
            }
            Self::HttpSse(name) => {
                let route = route(snapshot, name)?;
                let name = name.map(|name| format!("/{name}")).unwrap_or_default();
                let messages = format!("{}{MESSAGES}{name}", beside(snapshot));
                Ok(Target { route, forward: None, messages: Some(messages) })
            }
            Self::Document(uri) => {
                let route = &snapshot.endpoint;
                Ok(Target { route, forward: document_path(snapshot, route, uri), messages: None })
            }
        }
    }
}

fn base(snapshot: &Snapshot) -> &str {
    snapshot.config.server.path.trim_end_matches('/')
}

fn route<'a>(snapshot: &'a Snapshot, name: Option<&str>) -> Result<&'a Arc<Route>, Cause> {
    match name {
        Some(name) => snapshot.doors.get(name).ok_or(Cause::NoRoute),
        None => Ok(&snapshot.endpoint),
    }
}

/// The folder that the endpoint is in, where HTTP+SSE has its paths.
fn beside(snapshot: &Snapshot) -> &str {
    let base = base(snapshot);
    &base[..base.rfind('/').unwrap_or(0)]
}

/// A path of HTTP+SSE, with the method that it is for. What the endpoint or an upstream has as its own is none.
fn http_sse<'a>(snapshot: &Snapshot, path: &'a str) -> Option<(Method, Option<&'a str>)> {
    let rest = path.strip_prefix(beside(snapshot))?;
    let (method, rest) = match rest.strip_prefix(STREAM) {
        Some(rest) => (Method::GET, rest),
        None => (Method::POST, rest.strip_prefix(MESSAGES)?),
    };
    let found = endpoint("", rest)?;
    let other = endpoint(base(snapshot), path);
    let is_taken = other.is_some_and(|name| name.is_none_or(|name| snapshot.doors.contains_key(name)));
    (!is_taken).then_some((method, found))
}

/// `Some(None)` for the endpoint itself, `Some(Some(name))` below it. A trailing slash is the same place.
fn endpoint<'a>(base: &str, path: &'a str) -> Option<Option<&'a str>> {
    let rest = path.strip_prefix(base)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.is_empty() {
        return Some(None);
    }
    let name = rest.strip_prefix('/')?;
    (!name.is_empty() && !name.contains('/')).then_some(Some(name))
}

/// `/.well-known/NAME[/...]`, or the same below an endpoint (OpenID clients append it to the issuer).
pub(super) fn is_document(path: &str) -> bool {
    // Asked of every request, and a dot is seen sooner than the whole name.
    let Some(at) = path.contains('.').then(|| path.find(WELL_KNOWN)).flatten() else { return false };
    let name = path[at + WELL_KNOWN.len()..].split('/').next().unwrap_or_default();
    DOCUMENTS.contains(&name)
}

/// The same document of the upstream: our endpoint's path in it becomes the upstream's.
fn document_path(snapshot: &Snapshot, route: &Route, uri: &Uri) -> Option<PathAndQuery> {
    let base = base(snapshot);
    let theirs = route.path.trim_end_matches('/');
    let at = uri.path().find(WELL_KNOWN)?;
    let (before, rest) = uri.path().split_at(at);
    let named = format!("{base}/{}", route.spec.name);
    let ours = |p: &str| p == base || p == named;
    let document = rest[WELL_KNOWN.len()..].split('/').next().unwrap_or_default();
    let suffix = &rest[WELL_KNOWN.len() + document.len()..];
    let before = if ours(before) { theirs } else { before };
    let suffix = if ours(suffix.trim_end_matches('/')) { theirs } else { suffix };
    let query = uri.query().map(|q| format!("?{q}")).unwrap_or_default();
    format!("{before}{WELL_KNOWN}{document}{suffix}{query}").parse().ok()
}

/// The upstream's own path with the client's query after the configured one.
fn with_query(route: &Route, query: &str) -> Option<PathAndQuery> {
    let own = &route.path_and_query;
    let joint = if own.contains('?') { '&' } else { '?' };
    format!("{own}{joint}{query}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_is_the_same_place() {
        assert_eq!(endpoint("/mcp", "/mcp"), Some(None));
        assert_eq!(endpoint("/mcp", "/mcp/"), Some(None));
        assert_eq!(endpoint("/mcp", "/mcp/files"), Some(Some("files")));
        assert_eq!(endpoint("/mcp", "/mcp/files/"), Some(Some("files")));
        assert_eq!(endpoint("/mcp", "/mcpx"), None);
        assert_eq!(endpoint("/mcp", "/mcp/a/b"), None);
        assert_eq!(endpoint("", "/"), Some(None));
    }

    #[test]
    fn only_oauth_documents_are_documents() {
        assert!(is_document("/.well-known/oauth-protected-resource/mcp"));
        assert!(is_document("/mcp/.well-known/openid-configuration"));
        assert!(!is_document("/.well-known/security.txt"));
        assert!(!is_document("/.well-known/oauth-protected-resourceful"));
    }
}
