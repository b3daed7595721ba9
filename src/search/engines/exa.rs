//! Exa's search API. Facts: docs.exa.ai, "Search". It has no pages and no languages.

use bytes::Bytes;
use http::Request;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::json;

use super::{
    Driver,
    request::{Endpoint, finish, key_header, only_this_page, post, read},
};
use crate::search::{Failure, Hit, Page, Query, Safesearch, TimeRange};

pub(super) const DRIVER: Driver =
    Driver { address: "https://api.exa.ai", path: "/search", request, parse, forbidden: None };

const MAX_RESULTS: usize = 100;
/// Characters of text asked for each hit, from which the snippet is taken.
const TEXT: usize = 1_000;

fn request(endpoint: &Endpoint<'_>, query: &Query) -> Result<Request<Bytes>, Failure> {
    let mut body = json!({
        "query": query.text,
        "type": "auto",
        "numResults": (query.skipped() + query.count).min(MAX_RESULTS),
        "moderation": query.safesearch != Safesearch::Off,
        "contents": {"text": {"maxCharacters": TEXT}},
    });
    if let Some(range) = query.time_range {
        let days = match range {
            TimeRange::Day => 1,
            TimeRange::Week => 7,
            TimeRange::Month => 31,
            TimeRange::Year => 366,
        };
        let begin = Timestamp::now().saturating_sub(SignedDuration::from_hours(24 * days));
        body["startPublishedDate"] = begin.map(|begin| begin.to_string()).unwrap_or_default().into();
    }
    if !query.include.is_empty() {
        body["includeDomains"] = query.include.clone().into();
    }
    if !query.exclude.is_empty() {
        body["excludeDomains"] = query.exclude.clone().into();
    }
    let mut builder = post(endpoint);
    if let Some(key) = key_header(endpoint, "")? {
        builder = builder.header("x-api-key", key);
    }
    finish(builder, body.to_string())
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    published_date: Option<String>,
}

fn parse(body: &[u8], query: &Query) -> Result<Page, Failure> {
    let answer: Answer = read(body)?;
    let hit = |found: Found| Hit::of_web(found.url, found.title, found.text, found.published_date);
    let hits = only_this_page(answer.results.into_iter().map(hit).collect(), query);
    Ok(Page { hits, ..Page::default() })
}
