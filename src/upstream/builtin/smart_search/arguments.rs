//! The arguments of a search, read and normalised. Invariant: requests that mean the same have the same
//! [`Request::normalised`] text.

use std::ops::RangeInclusive;

use serde_json::{Value, json};

use crate::{
    search::{Query, Safesearch, TimeRange, engines::Engines, url},
    upstream::builtin::{
        arguments::{Arguments, invalid},
        tool::ToolError,
    },
};

/// In characters.
const MAX_QUERY: usize = 400;
const MAX_RESULTS: usize = 50;
const DEFAULT_RESULTS: usize = 10;
const MAX_ENGINES: usize = 6;
const MAX_DOMAINS: usize = 20;
const MAX_DOMAIN: usize = 253;
const MAX_NAME: usize = 32;
const MAX_LANGUAGE: usize = 16;
const MAX_PAGE: usize = 10;
const MAX_SNIPPET: usize = 200;
const DEFAULT_SNIPPET: usize = 60;
const TIME_RANGES: [&str; 4] = ["day", "week", "month", "year"];

/// JSON Schema of the arguments.
pub(super) fn schema() -> Value {
    let domains = json!({"type": "array", "maxItems": MAX_DOMAINS, "items": {"type": "string", "maxLength": MAX_DOMAIN}});
    json!({"type": "object", "required": ["query"], "additionalProperties": false, "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY},
        "max_results": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS, "default": DEFAULT_RESULTS},
        "engines": {"type": "array", "maxItems": MAX_ENGINES, "uniqueItems": true,
            "items": {"type": "string", "maxLength": MAX_NAME}, "description": "Restrict to these configured engines."},
        "time_range": {"enum": TIME_RANGES},
        "language": {"type": "string", "maxLength": MAX_LANGUAGE},
        "include_domains": domains,
        "exclude_domains": domains,
        "safesearch": {"enum": ["off", "moderate", "strict"], "default": "moderate"},
        "page": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 1},
        "snippet_tokens": {"type": "integer", "minimum": 0, "maximum": MAX_SNIPPET, "default": DEFAULT_SNIPPET},
    }})
}

/// One search.
#[derive(Debug, Clone)]
pub(super) struct Request {
    query: Query,
    /// Sorted; empty means all.
    pub(super) engines: Vec<String>,
}

impl Request {
    /// What the engines are asked.
    pub(super) fn query(&self) -> Query {
        self.query.clone()
    }

    pub(super) fn text(&self) -> &str {
        &self.query.text
    }

    pub(super) fn max_results(&self) -> usize {
        self.query.count
    }

    pub(super) fn snippet_tokens(&self) -> usize {
        self.query.snippet_tokens
    }

    /// The same text for requests that mean the same.
    pub(super) fn normalised(&self) -> String {
        format!("{self:?}")
    }
}

/// Reads the arguments.
pub(super) fn read(mut arguments: Arguments, known: &Engines) -> Result<Request, ToolError> {
    let text = arguments.text("query", 0..=MAX_QUERY)?.unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.is_empty() {
        return Err(invalid("query must say what to search for"));
    }
    let count = whole(&mut arguments, "max_results", 1..=MAX_RESULTS, DEFAULT_RESULTS)?;
    let mut engines = strings(&mut arguments, "engines", MAX_ENGINES, MAX_NAME)?;
    let time_range = match arguments.take("time_range") {
        None => None,
        Some(value) => Some(time_range(&value)?),
    };
    let language = arguments.text("language", 0..=MAX_LANGUAGE)?.map(|l| l.trim().to_owned());
    let query = Query {
        text,
        count,
        time_range,
        language: language.filter(|l| !l.is_empty()),
        include: domains(&mut arguments, "include_domains")?,
        exclude: domains(&mut arguments, "exclude_domains")?,
        safesearch: match arguments.choice("safesearch", &["moderate", "off", "strict"])? {
            "off" => Safesearch::Off,
            "strict" => Safesearch::Strict,
            _ => Safesearch::Moderate,
        },
        page: whole(&mut arguments, "page", 1..=MAX_PAGE, 1)?,
        snippet_tokens: whole(&mut arguments, "snippet_tokens", 0..=MAX_SNIPPET, DEFAULT_SNIPPET)?,
    };
    arguments.finish()?;
    if query
        .language
        .as_ref()
        .is_some_and(|l| !l.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)))
    {
        return Err(invalid("language must be a language tag such as \"de\" or \"pt-BR\""));
    }
    engines.sort_unstable();
    engines.dedup();
    if let Some(unknown) = engines.iter().find(|name| !known.names().any(|known| known == name.as_str())) {
        let names: Vec<&str> = known.names().collect();
        let message = format!("there is no engine {unknown:?}; configured are {}", names.join(", "));
        return Err(ToolError::new("unknown_engine", message).with_details(json!({ "engines": names })));
    }
    Ok(Request { query, engines })
}

fn time_range(value: &Value) -> Result<TimeRange, ToolError> {
    let at = TIME_RANGES.iter().position(|name| value.as_str() == Some(name));
    let ranges = [TimeRange::Day, TimeRange::Week, TimeRange::Month, TimeRange::Year];
    let unknown = || invalid(format!("time_range must be one of {}", TIME_RANGES.join(", ")));
    at.map(|at| ranges[at]).ok_or_else(unknown)
}

fn whole(
    arguments: &mut Arguments,
    name: &'static str,
    range: RangeInclusive<usize>,
    default: usize,
) -> Result<usize, ToolError> {
    let (least, most) = range.into_inner();
    Ok(arguments.whole(name, least as u64..=most as u64)?.map_or(default, |number| number as usize))
}

fn strings(
    arguments: &mut Arguments,
    name: &'static str,
    most: usize,
    longest: usize,
) -> Result<Vec<String>, ToolError> {
    let items = match arguments.take(name) {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        // Hosts send one item without its list.
        Some(one @ Value::String(_)) => vec![one],
        Some(_) => return Err(invalid(format!("{name} must be a list of strings"))),
    };
    if items.len() > most {
        return Err(invalid(format!("{name} must have at most {most} items")));
    }
    let text = |item| match item {
        Value::String(text) if text.chars().nth(longest).is_none() => Ok(text),
        _ => Err(invalid(format!("each of {name} must be a string of at most {longest} characters"))),
    };
    items.into_iter().map(text).collect()
}

fn domains(arguments: &mut Arguments, name: &'static str) -> Result<Vec<String>, ToolError> {
    let given = strings(arguments, name, MAX_DOMAINS, MAX_DOMAIN)?;
    let domain = |text: &String| {
        url::domain(text)
            .ok_or_else(|| invalid(format!("each of {name} must be a domain such as \"example.com\"")))
    };
    let mut domains = given.iter().map(domain).collect::<Result<Vec<_>, _>>()?;
    domains.sort_unstable();
    domains.dedup();
    Ok(domains)
}
