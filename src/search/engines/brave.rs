//! Brave Search API, web search. Facts: api-dashboard.search.brave.com, "Web Search".

use bytes::Bytes;
use http::Request;
use serde::Deserialize;

use super::{
    Driver,
    request::{Endpoint, finish, get, key_header, read, with_sites},
};
use crate::search::{Failure, Hit, Page, Query, Safesearch, TimeRange};

pub(super) const DRIVER: Driver = Driver {
    address: "https://api.search.brave.com",
    path: "/res/v1/web/search",
    request,
    parse,
    forbidden: None,
};

const MAX_QUERY: usize = 400;
const MAX_COUNT: usize = 20;
/// Pages are counted from 0.
const MAX_OFFSET: usize = 9;
/// `search_lang` takes these, and answers 422 to others.
const LANGUAGES: [&str; 50] = [
    "ar", "bg", "bn", "ca", "cs", "da", "de", "en", "en-gb", "es", "et", "eu", "fi", "fr", "gl", "gu", "he",
    "hi", "hr", "hu", "is", "it", "jp", "kn", "ko", "lt", "lv", "ml", "mr", "ms", "nb", "nl", "pa", "pl",
    "pt-br", "pt-pt", "ro", "ru", "sk", "sl", "sr", "sv", "ta", "te", "th", "tr", "uk", "vi", "zh-hans",
    "zh-hant",
];

fn request(endpoint: &Endpoint<'_>, query: &Query) -> Result<Request<Bytes>, Failure> {
    let text = with_sites(query, MAX_QUERY);
    let count = query.count.clamp(1, MAX_COUNT).to_string();
    let offset = query.page.saturating_sub(1).min(MAX_OFFSET).to_string();
    let mut parameters =
        vec![("q", text.as_str()), ("count", &count), ("offset", &offset), ("text_decorations", "false")];
    parameters.push((
        "safesearch",
        match query.safesearch {
            Safesearch::Off => "off",
            Safesearch::Moderate => "moderate",
            Safesearch::Strict => "strict",
        },
    ));
    if let Some(language) = query.language.as_deref().and_then(language) {
        parameters.push(("search_lang", language));
    }
    if let Some(range) = query.time_range {
        parameters.push((
            "freshness",
            match range {
                TimeRange::Day => "pd",
                TimeRange::Week => "pw",
                TimeRange::Month => "pm",
                TimeRange::Year => "py",
            },
        ));
    }
    let mut builder = get(endpoint, &parameters)?;
    if let Some(key) = key_header(endpoint, "")? {
        builder = builder.header("x-subscription-token", key);
    }
    finish(builder, "")
}

/// Its own name for a language.
fn language(tag: &str) -> Option<&'static str> {
    let tag = tag.to_ascii_lowercase().replace('_', "-");
    let first = tag.split('-').next().unwrap_or_default();
    let name = match (first, tag.as_str()) {
        ("ja", _) => "jp",
        ("no" | "nn", _) => "nb",
        ("zh", "zh-tw" | "zh-hk" | "zh-mo" | "zh-hant") => "zh-hant",
        ("zh", _) => "zh-hans",
        ("pt", "pt-br") => "pt-br",
        ("pt", _) => "pt-pt",
        (_, "en-gb") => "en-gb",
        _ => first,
    };
    LANGUAGES.into_iter().find(|known| *known == name)
}

#[derive(Deserialize)]
struct Answer {
    /// Tells an answer from any other JSON.
    #[serde(rename = "type")]
    _kind: String,
    /// Absent when there are no hits.
    #[serde(default)]
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    page_age: Option<String>,
}

fn parse(body: &[u8], _: &Query) -> Result<Page, Failure> {
    let answer: Answer = read(body)?;
    let hit = |found: Found| Hit {
        title: found.title,
        url: found.url,
        snippet: found.description.unwrap_or_default(),
        published: found.page_age,
        document: None,
    };
    let found = answer.web.map(|web| web.results).unwrap_or_default();
    Ok(Page { hits: found.into_iter().map(hit).collect(), ..Page::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_go_by_its_own_names() {
        let cases =
            [("de-AT", Some("de")), ("ja", Some("jp")), ("zh_TW", Some("zh-hant")), ("zh", Some("zh-hans"))];
        for (tag, name) in
            cases.into_iter().chain([("pt-BR", Some("pt-br")), ("EN", Some("en")), ("tlh", None)])
        {
            assert_eq!(language(tag), name, "{tag}");
        }
    }
}
