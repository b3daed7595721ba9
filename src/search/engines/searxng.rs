//! SearXNG's JSON API. Facts: docs.searxng.org, "Search API".

use bytes::Bytes;
use http::{Request, header};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Driver,
    request::{Endpoint, finish, get, key_header, read, with_sites},
};
use crate::search::{Failure, Hit, Page, Query, Safesearch, TimeRange};

pub(super) const DRIVER: Driver = Driver {
    address: "",
    path: "/search",
    request,
    parse,
    forbidden: Some("the instance gives no JSON; its operator can add json to search.formats"),
};

/// Its own limit is that of a URL.
const MAX_QUERY: usize = 1_000;

fn request(endpoint: &Endpoint<'_>, query: &Query) -> Result<Request<Bytes>, Failure> {
    let text = with_sites(query, MAX_QUERY);
    let page = query.page.to_string();
    let mut parameters = vec![("q", text.as_str()), ("format", "json"), ("pageno", &page)];
    parameters.push((
        "safesearch",
        match query.safesearch {
            Safesearch::Off => "0",
            Safesearch::Moderate => "1",
            Safesearch::Strict => "2",
        },
    ));
    if let Some(language) = &query.language {
        parameters.push(("language", language));
    }
    if let Some(range) = query.time_range {
        parameters.push((
            "time_range",
            match range {
                TimeRange::Day => "day",
                TimeRange::Week => "week",
                TimeRange::Month => "month",
                TimeRange::Year => "year",
            },
        ));
    }
    let mut builder = get(endpoint, &parameters)?;
    // Some instances stand behind a proxy that wants a token.
    if let Some(key) = key_header(endpoint, "Bearer ")? {
        builder = builder.header(header::AUTHORIZATION, key);
    }
    finish(builder, "")
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Found>,
    #[serde(default)]
    suggestions: Vec<String>,
    /// Texts, or in later versions objects with an `answer`.
    #[serde(default)]
    answers: Vec<Value>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default, rename = "publishedDate")]
    published: Option<String>,
}

fn parse(body: &[u8], _: &Query) -> Result<Page, Failure> {
    let answer: Answer = read(body)?;
    let hit = |found: Found| Hit::of_web(found.url, found.title, found.content, found.published);
    let text = |value: &Value| value.as_str().or_else(|| value.get("answer")?.as_str()).map(str::to_owned);
    Ok(Page {
        hits: answer.results.into_iter().map(hit).collect(),
        suggestions: answer.suggestions,
        answers: answer.answers.iter().filter_map(text).collect(),
    })
}
