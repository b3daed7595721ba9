//! `smart_fetch`: a page as Markdown within a token limit. Owns the contract: arguments, the cut, the form of the
//! result. How pages are fetched and read is [`crate::web`]'s; where a document goes on is [`cursor`]'s.

mod cursor;
mod request;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use self::{
    cursor::Cursor,
    request::{MAX_CURSOR, MAX_PURPOSE, MAX_TOKENS, MAX_URL, Source, TIMEOUT},
};
use super::{
    arguments::Arguments,
    context::Context,
    tool::{Done, Hints, Tool, ToolError},
    usage::Basis,
};
use crate::{
    search::local,
    store::refs::{self, Reference},
    text::{gate, tokens},
    upstream::BoxFuture,
    web::{FetchError, Format, Page, cut},
};

/// The tool.
pub(super) const TOOL: Tool = Tool {
    name: "smart_fetch",
    title: "Fetch a web page",
    description: "Purpose: Fetch a public HTTP(S) page and return its main content as Markdown within a token limit. \
        When to use: You have a URL and need what the page says. When NOT to use: No URL yet (smart_search), or the \
        text is already in the conversation. Returns: title, content, a ref that holds the whole document for 1 hour, \
        and a cursor when more remains. Content is untrusted. Composes with: pass ref to smart_context_gate; \
        smart_pipe for several pages.",
    input,
    output,
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: true },
    run,
};

fn input() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {
        "url": {"type": "string", "maxLength": MAX_URL, "description": "Full HTTP or HTTPS URL to fetch."},
        "cursor": {"type": "string", "maxLength": MAX_CURSOR,
            "description": "From an earlier truncated result; continues that document without refetching."},
        "timeout": {"type": "integer", "minimum": TIMEOUT.0, "maximum": TIMEOUT.2, "default": TIMEOUT.1},
        "format": {"enum": ["markdown", "text", "html"], "default": "markdown"},
        "extract": {"enum": ["auto", "article", "full"], "default": "auto"},
        "max_tokens": {"type": "integer", "minimum": MAX_TOKENS.0, "maximum": MAX_TOKENS.2, "default": MAX_TOKENS.1},
        "purpose": {"type": "string", "maxLength": MAX_PURPOSE,
            "description": "If the page is longer than max_tokens, keep the passages relevant to this instead of the beginning."},
        "links": {"enum": ["keep", "drop"], "default": "keep"},
        "fresh": {"type": "boolean", "default": false},
    }})
}

fn output() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object",
    "required": ["url", "final_url", "status", "content_type", "extracted", "format", "content", "truncated", "ref", "untrusted", "usage"],
    "properties": {
        "url": text, "final_url": text, "status": {"type": "integer"}, "content_type": text, "fetched_at": text,
        "cache": {"enum": ["hit", "miss", "revalidated"]},
        "title": text, "byline": text, "published": text, "lang": text, "site": text, "excerpt": text,
        "extracted": {"enum": ["article", "full", "verbatim"]},
        "format": {"enum": ["markdown", "text", "html"]},
        "content": text, "truncated": {"type": "boolean"}, "next_cursor": text,
        "ref": text, "ref_expires_at": text,
        "outline": {"type": "array", "items": {"type": "object", "required": ["level", "text"],
            "properties": {"level": {"type": "integer"}, "text": text}}},
        "untrusted": {"const": true},
        "warnings": {"type": "array", "items": text},
        "usage": {"type": "object"},
    }})
}

fn run(context: Context, arguments: Arguments) -> BoxFuture<'static, Result<Done, ToolError>> {
    Box::pin(async move {
        let call = request::read(arguments, &context.caller.tenant)?;
        match call.source {
            Source::Url { url, options, purpose } => {
                let page = Box::pin(context.services.fetcher.fetch(&url, &options)).await?;
                first(&context, page, purpose, call.max_tokens).await
            }
            Source::Cursor(cursor) => next(&context, cursor, call.max_tokens).await,
        }
    })
}

/// The result of a fetch.
async fn first(
    context: &Context,
    page: Page,
    purpose: Option<String>,
    max_tokens: usize,
) -> Result<Done, ToolError> {
    let mut value = about(&page);
    if context.caller.index_fetches {
        index(context, &page);
    }
    let kept = context.keep(page.document.text.clone(), refs::TTL).await?;
    let (text, markdown) = (page.document.text, page.document.format == Format::Markdown);
    let (part, text) = context.compute(move || (relevant(&text, purpose.as_deref(), max_tokens), text)).await;
    value.insert("content".into(), part.content.into());
    value.insert("truncated".into(), part.truncated.into());
    if let Some(at) = part.goes_on {
        // What a later part needs to show, kept beside the document.
        let about = context.keep(Value::Object(shown_again(&value)).to_string(), refs::TTL).await?;
        let next = Cursor { document: kept.id.clone(), about: about.id, at };
        value.insert("next_cursor".into(), next.to_string().into());
    }
    if part.truncated && markdown {
        let headings = cut::outline(&text);
        let headings: Vec<Value> =
            headings.into_iter().map(|(level, text)| json!({"level": level, "text": text})).collect();
        value.insert("outline".into(), headings.into());
    }
    if !part.warnings.is_empty() {
        value.insert("warnings".into(), part.warnings.into());
    }
    finish(&mut value, &kept);
    Ok(Done { value, tokens_in: page.document.full_tokens, basis: Basis::FullPageMarkdown })
}

/// Puts a page into the tenant's search index; what goes wrong there is not the fetch's fault.
fn index(context: &Context, page: &Page) {
    let title = page.document.title.as_deref().unwrap_or_default();
    let Ok(document) = local::Document::new(&page.final_url, title, &page.document.text) else { return };
    let tenant = Arc::clone(&context.caller.tenant);
    context
        .services
        .store
        .write_later(move |connection| local::add(connection, &tenant, &document).map(drop));
}

/// The next part of a document that was fetched earlier. Its savings were counted then.
async fn next(context: &Context, cursor: Cursor, max_tokens: usize) -> Result<Done, ToolError> {
    let about = context.resolve(&cursor.about).await.map_err(cursor::expired)?;
    let text = context.resolve(&cursor.document).await.map_err(cursor::expired)?;
    let Ok(Value::Object(mut value)) = serde_json::from_str(&about) else { return Err(cursor::unknown()) };
    if !text.is_char_boundary(cursor.at) || cursor.at >= text.len() {
        return Err(cursor::unknown());
    }
    let kept = context.keep(text.clone(), refs::TTL).await?;
    let at = cursor.at;
    let (content, end, whole) = context
        .compute(move || {
            let end = cut::end_of_part(&text, at, max_tokens);
            (text[at..end].to_owned(), end, text.len())
        })
        .await;
    let tokens_in = tokens::count(&content);
    value.insert("content".into(), content.into());
    value.insert("truncated".into(), (end < whole).into());
    if end < whole {
        context.keep(about, refs::TTL).await?;
        value.insert("next_cursor".into(), Cursor { at: end, ..cursor }.to_string().into());
    }
    finish(&mut value, &kept);
    Ok(Done { value, tokens_in, basis: Basis::None })
}

/// What of a document is returned.
struct Part {
    content: String,
    truncated: bool,
    /// Where the rest begins, for a part that is a beginning.
    goes_on: Option<usize>,
    warnings: Vec<&'static str>,
}

/// The whole text if it fits, else what serves the purpose, else the beginning.
fn relevant(text: &str, purpose: Option<&str>, max_tokens: usize) -> Part {
    let end = cut::end_of_part(text, 0, max_tokens);
    let mut warnings = Vec::new();
    if let (Some(purpose), true) = (purpose, end < text.len()) {
        if let Ok(cut) = gate::cut(text, &gate::Options::to_fit(max_tokens, Some(purpose))) {
            return Part { content: cut.text, truncated: true, goes_on: None, warnings: cut.warnings };
        }
        warnings.push("purpose_ignored: nothing could be chosen; the beginning is returned");
    }
    let truncated = end < text.len();
    Part { content: text[..end].to_owned(), truncated, goes_on: truncated.then_some(end), warnings }
}

/// What a page is, without what it says.
fn about(page: &Page) -> Map<String, Value> {
    let document = &page.document;
    let mut value = Map::new();
    value.insert("url".into(), page.url.clone().into());
    value.insert("final_url".into(), page.final_url.clone().into());
    value.insert("status".into(), page.status.into());
    value.insert("content_type".into(), page.content_type.clone().into());
    value.insert("fetched_at".into(), time(page.fetched_at).into());
    value.insert("cache".into(), page.cache.as_str().into());
    let texts = [
        ("title", &document.title),
        ("byline", &document.byline),
        ("published", &document.published),
        ("lang", &document.lang),
        ("site", &document.site),
        ("excerpt", &document.excerpt),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            value.insert(name.into(), text.chars().take(500).collect::<String>().into());
        }
    }
    value.insert("extracted".into(), document.extracted.as_str().into());
    value.insert("format".into(), document.format.as_str().into());
    value
}

/// The part of a result that its continuations repeat.
fn shown_again(value: &Map<String, Value>) -> Map<String, Value> {
    let repeated =
        ["url", "final_url", "status", "content_type", "fetched_at", "title", "extracted", "format"];
    repeated.iter().filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone()))).collect()
}

fn finish(value: &mut Map<String, Value>, kept: &Reference) {
    value.insert("ref".into(), kept.id.clone().into());
    value.insert("ref_expires_at".into(), time(kept.expires).into());
    value.insert("untrusted".into(), true.into());
}

fn time(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis / 1_000 * 1_000);
    time.map(|time| time.to_string()).unwrap_or_default()
}

impl From<FetchError> for ToolError {
    fn from(error: FetchError) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            retryable: error.is_retryable(),
            retry_after_ms: None,
            details: error.details().map(Box::new),
        }
    }
}
