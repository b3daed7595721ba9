//! What each driver asks, and how it reads the answer.

use serde_json::{Value, json};

use super::*;
use crate::search::{Safesearch, TimeRange};

async fn page(fake: &Fake, kind: EngineKind, query: Query) -> Page {
    let outcome = ask(&Engines::new(&[fake.engine(kind)]), query).await;
    assert_eq!((&*outcome.engine, outcome.weight), ("main", 2.0));
    outcome.result.unwrap()
}

fn query() -> Query {
    Query {
        text: "rust & \"mcp\"".into(),
        count: 5,
        page: 2,
        time_range: Some(TimeRange::Week),
        language: Some("pt-BR".into()),
        include: vec!["example.com".into(), "example.org".into()],
        exclude: vec!["bad.example.com".into()],
        safesearch: Safesearch::Strict,
        snippet_tokens: 60,
    }
}

/// The parameters of a GET.
fn parameters(head: &str, path: &str) -> Vec<(String, String)> {
    let target = head.split(' ').nth(1).unwrap();
    let url = Url::parse(&format!("http://x{target}")).unwrap();
    assert_eq!((&head[..4], url.path()), ("GET ", path));
    url.query_pairs().map(|(name, value)| (name.into(), value.into())).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn hit(title: &str, url: &str, snippet: &str, published: Option<&str>) -> Hit {
    let published = published.map(str::to_owned);
    Hit { title: title.into(), url: url.into(), snippet: snippet.into(), published, document: None }
}

const SITES: &str = "rust & \"mcp\" (site:example.com OR site:example.org) -site:bad.example.com";

#[tokio::test]
async fn searxng() {
    let fake = Fake::json(
        200,
        &json!({
        "query": "rust", "number_of_results": 0,
        "results": [
            {"url": "https://example.com/a", "title": "A &amp; B", "content": "About <b>a</b>\n and b",
             "engine": "duckduckgo", "engines": ["duckduckgo", "brave"], "score": 4.0, "positions": [1, 1],
             "category": "general", "publishedDate": "2024-05-01T10:00:00"},
            {"url": "https://www.example.org/b", "title": "B", "content": null, "publishedDate": null},
            {"url": "https://bad.example.com/", "title": "C"},
            {"url": "https://elsewhere.example/", "title": "D"},
            {"url": "ftp://example.com/e", "title": "E"}, {"url": "javascript:alert(1)", "title": "F"}],
        "answers": ["42", {"answer": "43", "url": "https://example.com"}], "corrections": [], "infoboxes": [],
        "suggestions": ["rust mcp sdk"], "unresponsive_engines": [["qwant", "timeout"]]}),
    )
    .await;
    let found = page(&fake, EngineKind::Searxng, query()).await;
    assert_eq!(
        found.hits,
        [
            hit("A & B", "https://example.com/a", "About a and b", Some("2024-05-01")),
            hit("B", "https://www.example.org/b", "", None)
        ]
    );
    assert_eq!(
        (found.suggestions, found.answers),
        (vec!["rust mcp sdk".into()], vec!["42".into(), "43".into()])
    );
    let (head, _) = &fake.asked()[0];
    assert_eq!(
        parameters(head, "/search"),
        pairs(&[
            ("q", SITES),
            ("format", "json"),
            ("pageno", "2"),
            ("safesearch", "2"),
            ("language", "pt-BR"),
            ("time_range", "week")
        ])
    );
}

#[tokio::test]
async fn brave() {
    let fake = Fake::json(200, &json!({
        "type": "search", "query": {"original": "rust", "more_results_available": true},
        "mixed": {"type": "mixed", "main": [{"type": "web", "index": 0, "all": false}]},
        "web": {"type": "search", "family_friendly": true, "results": [
            {"title": "A", "url": "https://docs.example.com/a", "is_source_local": false, "description": "It&#x27;s <strong>here</strong>",
             "page_age": "2023-11-30T00:00:00", "age": "November 30, 2023", "language": "en", "extra_snippets": ["x"]},
            {"title": "B", "url": "https://example.org/b"}]}}))
    .await;
    let found = page(&fake, EngineKind::Brave, query()).await;
    assert_eq!(
        found.hits,
        [
            hit("A", "https://docs.example.com/a", "It's here", Some("2023-11-30")),
            hit("B", "https://example.org/b", "", None)
        ]
    );
    let (head, _) = &fake.asked()[0];
    assert!(head.contains("x-subscription-token: s3cret"));
    assert_eq!(
        parameters(head, "/res/v1/web/search"),
        pairs(&[
            ("q", SITES),
            ("count", "5"),
            ("offset", "1"),
            ("text_decorations", "false"),
            ("safesearch", "strict"),
            ("search_lang", "pt-br"),
            ("freshness", "pw")
        ])
    );
    let none = Fake::json(200, &json!({"type": "search", "query": {"original": "rust"}})).await;
    assert_eq!(page(&none, EngineKind::Brave, plain_query()).await, Page::default());
}

#[tokio::test]
async fn tavily() {
    let results: Vec<Value> = (0..7)
        .map(|n| json!({"title": format!("T{n}"), "url": format!("https://example.com/{n}"), "content": "text", "score": 0.9, "raw_content": null}))
        .collect();
    let mut body = json!({"query": "rust", "answer": null, "images": [], "results": results, "response_time": "1.2", "request_id": "x"});
    body["results"][6]["published_date"] = "Wed, 01 May 2024 12:00:00 GMT".into();
    let fake = Fake::json(200, &body).await;
    let found = page(&fake, EngineKind::Tavily, query()).await;
    assert_eq!(
        found.hits,
        [
            hit("T5", "https://example.com/5", "text", None),
            hit("T6", "https://example.com/6", "text", Some("2024-05-01"))
        ]
    );
    let (head, sent) = &fake.asked()[0];
    assert!(
        head.starts_with("POST /search HTTP/1.1") && head.contains("authorization: Bearer s3cret"),
        "{head}"
    );
    assert_eq!(
        *sent,
        json!({
            "query": "rust & \"mcp\"", "search_depth": "basic", "max_results": 10, "include_answer": false,
            "include_raw_content": false, "time_range": "week", "include_domains": ["example.com", "example.org"],
            "exclude_domains": ["bad.example.com"]
        })
    );
}

#[tokio::test]
async fn exa() {
    let fake = Fake::json(200, &json!({
        "requestId": "x", "resolvedSearchType": "neural", "costDollars": {"total": 0.005},
        "results": [
            {"id": "https://example.com/a", "title": "A", "url": "https://example.com/a", "publishedDate": "2022-02-03T00:00:00.000Z",
             "author": null, "text": "The page's text", "score": 0.2, "image": "https://example.com/i.png"},
            {"id": "b", "title": null, "url": "https://example.com/b", "author": "Ada"}]}))
    .await;
    let found = page(&fake, EngineKind::Exa, Query { page: 1, ..query() }).await;
    assert_eq!(
        found.hits,
        [
            hit("A", "https://example.com/a", "The page's text", Some("2022-02-03")),
            hit("", "https://example.com/b", "", None)
        ]
    );
    let (head, mut sent) = fake.asked().remove(0);
    assert!(head.starts_with("POST /search HTTP/1.1") && head.contains("x-api-key: s3cret"), "{head}");
    let begin: jiff::Timestamp = sent["startPublishedDate"].take().as_str().unwrap().parse().unwrap();
    let hours = jiff::Timestamp::now().duration_since(begin).as_hours();
    assert!((7 * 24..=7 * 24 + 1).contains(&hours), "{hours}");
    assert_eq!(
        sent,
        json!({
            "query": "rust & \"mcp\"", "type": "auto", "numResults": 5, "moderation": true,
            "contents": {"text": {"maxCharacters": 1_000}}, "startPublishedDate": null,
            "includeDomains": ["example.com", "example.org"], "excludeDomains": ["bad.example.com"]
        })
    );
}
