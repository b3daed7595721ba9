//! Tavily's search API. Facts: docs.tavily.com, "Tavily Search". It has no pages, languages or content filter for
//! all plans.

use bytes::Bytes;
use http::{Request, header};
use serde::Deserialize;
use serde_json::json;

use super::{
    Driver,
    request::{Endpoint, finish, key_header, only_this_page, post, read},
};
use crate::search::{Failure, Hit, Page, Query, TimeRange};

pub(super) const DRIVER: Driver =
    Driver { address: "https://api.tavily.com", path: "/search", request, parse, forbidden: None };

const MAX_RESULTS: usize = 20;

fn request(endpoint: &Endpoint<'_>, query: &Query) -> Result<Request<Bytes>, Failure> {
    let mut body = json!({
        "query": query.text,
        "search_depth": "basic",
        "max_results": (query.skipped() + query.count).min(MAX_RESULTS),
        "include_answer": false,
        "include_raw_content": false,
    });
    if let Some(range) = query.time_range {
        body["time_range"] = match range {
            TimeRange::Day => "day",
            TimeRange::Week => "week",
            TimeRange::Month => "month",
            TimeRange::Year => "year",
        }
        .into();
    }
    if !query.include.is_empty() {
        body["include_domains"] = query.include.clone().into();
    }
    if !query.exclude.is_empty() {
        body["exclude_domains"] = query.exclude.clone().into();
    }
    let mut builder = post(endpoint);
    if let Some(key) = key_header(endpoint, "Bearer ")? {
        builder = builder.header(header::AUTHORIZATION, key);
    }
    finish(builder, body.to_string())
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
    #[serde(default)]
    answer: Option<String>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    published_date: Option<String>,
}

fn parse(body: &[u8], query: &Query) -> Result<Page, Failure> {
    let answer: Answer = read(body)?;
    let hit = |found: Found| Hit::of_web(found.url, found.title, found.content, found.published_date);
    let hits = only_this_page(answer.results.into_iter().map(hit).collect(), query);
    Ok(Page { hits, suggestions: Vec::new(), answers: answer.answer.into_iter().collect() })
}
