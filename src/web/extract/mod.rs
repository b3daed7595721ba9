//! A body to a document: what kind it is, and its text. Owns the kinds, the choice between the article and the whole
//! page, and the bounds within which parsers of strangers' files run.

mod guard;
mod html;
mod markdown;
mod pdf;
mod plain;
mod posts;
mod tags;
mod threads;
mod tidy;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;

use std::time::Duration;

use url::Url;

use self::threads::{Failed, Threads};
use super::{FetchError, charset};
use crate::text::tokens;

/// Pages parsed at the same time.
const PAGES: usize = 4;
/// PDFs read at the same time; one that hangs for good keeps its place.
const PDFS: usize = 4;
/// No page that passes the guard needs a tenth of it.
const LIMIT: Duration = Duration::from_secs(15);
/// Of a body whose kind nobody declares, this much tells it.
const SNIFF: usize = 1_024;

/// The form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Markdown.
    #[default]
    Markdown,
    /// Without any marks.
    Text,
    /// Simplified HTML.
    Html,
}

impl Format {
    /// Its name in arguments and results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Markdown => "markdown",
            Self::Text => "text",
            Self::Html => "html",
        }
    }
}

/// Which part of a page is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extract {
    /// The article if there is one, else all.
    #[default]
    Auto,
    /// The article, however little looks like one.
    Article,
    /// All but scripts, navigation and the like.
    Full,
}

/// Which part of a document its text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extracted {
    /// The main content.
    Article,
    /// The whole page.
    Full,
    /// The document as it came.
    Verbatim,
}

impl Extracted {
    /// Its name in results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Article => "article",
            Self::Full => "full",
            Self::Verbatim => "verbatim",
        }
    }
}

/// What is wanted of a document.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) format: Format,
    pub(super) extract: Extract,
    pub(super) links: bool,
}

/// What a document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// Title.
    pub title: Option<String>,
    /// Who wrote it.
    pub byline: Option<String>,
    /// When it was published, as the page says it.
    pub published: Option<String>,
    /// Its language, as the page says it.
    pub lang: Option<String>,
    /// The name of the site.
    pub site: Option<String>,
    /// What the page says it is about.
    pub excerpt: Option<String>,
    /// Which part the text is.
    pub extracted: Extracted,
    /// The form that the text has.
    pub format: Format,
    /// The text.
    pub text: String,
    /// Size of the whole page as Markdown with all its links, in o200k tokens: what would have been read otherwise.
    pub full_tokens: u64,
}

impl Document {
    fn plain(text: String, extracted: Extracted) -> Self {
        Self {
            title: None,
            byline: None,
            published: None,
            lang: None,
            site: None,
            excerpt: None,
            extracted,
            format: Format::Text,
            full_tokens: tokens::count(&text),
            text,
        }
    }
}

/// What kind of document a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Pdf,
    /// Text of any other kind; `bool`: whether it may declare its encoding inside, as XML does.
    Text(bool),
}

/// Turns bodies into documents.
#[derive(Debug)]
pub(super) struct Extractor {
    pages: Threads,
    pdfs: Threads,
    /// What needs no parser must not wait for those who hold up one.
    texts: Threads,
}

impl Extractor {
    pub(super) fn new() -> Self {
        Self {
            pages: Threads::new(PAGES, LIMIT),
            pdfs: Threads::new(PDFS, LIMIT),
            texts: Threads::new(PAGES, LIMIT),
        }
    }

    /// `content_type`: the header. `url`: where the body came from.
    pub(super) async fn document(
        &self,
        body: Vec<u8>,
        content_type: &str,
        url: Url,
        wanted: Wanted,
    ) -> Result<Document, FetchError> {
        let kind = kind(content_type, &body)?;
        let label = charset_of(content_type);
        let done = match kind {
            Kind::Pdf => self.pdfs.run(move || pdf::read(&body)).await.and_then(|text| {
                text.map(|text| Document::plain(text, Extracted::Full)).ok_or(Failed::Panicked)
            }),
            Kind::Html => {
                let work = move || html::read(&charset::decode(&body, label.as_deref(), true), &url, wanted);
                self.pages.run(work).await
            }
            Kind::Text(markup) => {
                let text = move || charset::decode(&body, label.as_deref(), markup);
                self.texts.run(move || Document::plain(text(), Extracted::Verbatim)).await
            }
        };
        let document = done.map_err(|failed| match (failed, kind) {
            (Failed::TooLong, _) => FetchError::Timeout,
            (Failed::Busy, _) => FetchError::Unavailable(
                "as many documents are being read as may be at once; try again in some seconds".into(),
            ),
            (Failed::NoThread, _) => FetchError::Unavailable("no thread can be started".into()),
            (Failed::Panicked, Kind::Pdf) => FetchError::UnsupportedContentType("this PDF".into()),
            (Failed::Panicked, _) => FetchError::UnsupportedContentType("this page".into()),
        })?;
        if document.text.trim().is_empty() { Err(FetchError::Empty) } else { Ok(document) }
    }
}

/// The beginning of a body that may be of any kind, as text on one line.
pub(super) fn excerpt(body: &[u8], content_type: &str, characters: usize) -> String {
    let text = match kind(content_type, body) {
        Ok(Kind::Html) => plain::text(&charset::decode(body, charset_of(content_type).as_deref(), true)).1,
        Ok(Kind::Text(_)) => charset::decode(body, charset_of(content_type).as_deref(), false),
        _ => String::new(),
    };
    let words: Vec<&str> = text.split_whitespace().take(characters).collect();
    words.join(" ").chars().take(characters).collect()
}

fn kind(content_type: &str, body: &[u8]) -> Result<Kind, FetchError> {
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let pdf = body[..body.len().min(SNIFF)].windows(5).any(|w| w == b"%PDF-");
    Ok(match &*essence {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "application/pdf" | "application/x-pdf" => Kind::Pdf,
        "application/json" | "application/ld+json" => Kind::Text(false),
        "application/xml" | "text/xml" => Kind::Text(true),
        "application/javascript"
        | "application/x-javascript"
        | "application/ecmascript"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/x-ndjson"
        | "application/jsonl"
        | "application/sql"
        | "application/x-sh"
        | "application/graphql"
        | "application/rtf"
        | "message/rfc822" => Kind::Text(false),
        other if other.ends_with("+json") || other.ends_with("+yaml") => Kind::Text(false),
        other if other.ends_with("+xml") => Kind::Text(true),
        other if other.starts_with("text/") => Kind::Text(false),
        "application/octet-stream" | "binary/octet-stream" if pdf => Kind::Pdf,
        "" => sniff(body)
            .ok_or_else(|| FetchError::UnsupportedContentType("a document of unknown kind".into()))?,
        other => return Err(FetchError::UnsupportedContentType(other.chars().take(100).collect())),
    })
}

fn sniff(body: &[u8]) -> Option<Kind> {
    let head = &body[..body.len().min(SNIFF)];
    if head.starts_with(b"%PDF-") {
        return Some(Kind::Pdf);
    }
    let lower = head.to_ascii_lowercase();
    if [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
        .iter()
        .any(|mark| memchr::memmem::find(&lower, mark).is_some())
    {
        return Some(Kind::Html);
    }
    let utf16 = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    (utf16 || !head.contains(&0)).then_some(Kind::Text(false))
}

fn charset_of(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    })
}
