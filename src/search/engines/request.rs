//! What drivers make requests of and read answers with. Invariant: a key goes into a header that is never logged.

use ::url::{Url, form_urlencoded};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use serde::de::DeserializeOwned;

use crate::{
    config::Secret,
    search::{Failure, FailureKind, Hit, Query},
};

/// Where one request goes.
pub(super) struct Endpoint<'a> {
    pub(super) url: Url,
    pub(super) key: Option<&'a Secret>,
}

pub(super) fn get(
    endpoint: &Endpoint<'_>,
    parameters: &[(&str, &str)],
) -> Result<http::request::Builder, Failure> {
    let mut url = endpoint.url.clone();
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    url.set_query(Some(&query));
    Ok(Request::builder().method(Method::GET).uri(url.as_str()).header(header::ACCEPT, "application/json"))
}

pub(super) fn post(endpoint: &Endpoint<'_>) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(endpoint.url.as_str())
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
}

pub(super) fn finish(
    builder: http::request::Builder,
    body: impl Into<Bytes>,
) -> Result<Request<Bytes>, Failure> {
    let made = builder.body(body.into());
    made.map_err(|_| Failure::new(FailureKind::Refused, "its url makes no request"))
}

/// The key as a header value that is not logged.
pub(super) fn key_header(endpoint: &Endpoint<'_>, before: &str) -> Result<Option<HeaderValue>, Failure> {
    let Some(key) = endpoint.key else { return Ok(None) };
    let value = HeaderValue::from_str(&format!("{before}{}", key.expose()));
    let mut value = value
        .map_err(|_| Failure::new(FailureKind::Unauthorized, "its key has characters no header can carry"))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// The query with its domain filters as the operators that web engines know, as long as it stays within `most`
/// characters; what an engine makes of them is checked afterwards.
pub(super) fn with_sites(query: &Query, most: usize) -> String {
    let mut text = query.text.clone();
    let wanted: Vec<String> = query.include.iter().map(|domain| format!("site:{domain}")).collect();
    let more = match wanted.as_slice() {
        [] => String::new(),
        [one] => format!(" {one}"),
        several => format!(" ({})", several.join(" OR ")),
    };
    let unwanted = query.exclude.iter().map(|domain| format!(" -site:{domain}"));
    for part in std::iter::once(more).chain(unwanted) {
        if text.chars().count() + part.chars().count() <= most {
            text.push_str(&part);
        }
    }
    text
}

/// For APIs without pages: of all hits from the first on, those of this page.
pub(super) fn only_this_page(hits: Vec<Hit>, query: &Query) -> Vec<Hit> {
    hits.into_iter().skip(query.skipped()).take(query.count).collect()
}

pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|_| {
        let html = body.trim_ascii_start().starts_with(b"<");
        let what = if html { "it answered with a page" } else { "it answered with something else" };
        Failure::new(FailureKind::BadAnswer, format!("{what} instead of its JSON; check its url"))
    })
}
