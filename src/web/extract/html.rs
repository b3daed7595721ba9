//! A page to its text. Owns the choice between the article and the whole page. Runs on a thread with a large stack,
//! and works only on trees that the guard has made.

use std::time::{Duration, Instant};

use dom_query::Document as Dom;
use dom_smoothie::{Article, Config, Readability, TextMode};
use url::Url;

use super::{Document, Extract, Extracted, Format, Wanted, guard, markdown, plain, posts, tidy};
use crate::text::tokens;

/// An article with less text than this may be a slip, in characters.
const SHORT: usize = 250;
/// Pages with less text than this are short themselves.
const SHORT_PAGE: usize = 2_000;
/// An article that is less of a page than this is a slip, in percent.
const SLIVER: usize = 5;
/// After this a page is given as plain text. Shorter than the deadline of the thread, which can only leave it behind.
const LIMIT: Duration = Duration::from_secs(8);

/// The document that `html` is.
pub(super) fn read(html: &str, url: &Url, wanted: Wanted) -> Document {
    extracted(html, url, wanted, Instant::now() + LIMIT).unwrap_or_else(|| {
        let (title, text) = plain::text(html);
        Document { title, ..Document::plain(text, Extracted::Full) }
    })
}

/// `None` where the guard refuses the page, or it takes too long.
fn extracted(html: &str, url: &Url, wanted: Wanted, until: Instant) -> Option<Document> {
    let in_time = || (Instant::now() < until).then_some(());
    let parse = |html: &str| guard::parse(html, url.as_str().len());
    let dom = parse(html)?;
    let base = base(&dom, url);
    let full_tokens = tokens::count(&markdown::of(&dom, until));
    in_time()?;
    let found = if wanted.extract == Extract::Full { None } else { article(&dom, &base) };
    in_time()?;
    // What the library gives is a page like any other.
    let found = found.and_then(|(article, doubtful)| Some((parse(&article.content)?, article, doubtful)));
    let mut document = about(&dom, found.as_ref().map(|(_, article, _)| article));
    document.full_tokens = full_tokens;
    tidy::strip(&dom);
    let page = length(&dom.text());
    let chosen = found.filter(|(content, article, doubtful)| {
        wanted.extract == Extract::Article || !is_slip(&dom, content, article, *doubtful, page)
    });
    in_time()?;
    document.text = match chosen {
        Some((content, article, _)) => {
            document.extracted = Extracted::Article;
            match wanted.format {
                Format::Text => article.text_content.to_string(),
                format => form(&content, &base, format, wanted.links, until),
            }
        }
        None => form(&dom, &base, wanted.format, wanted.links, until),
    };
    in_time()?;
    document.text = tidy::squeeze(&document.text);
    document.format = wanted.format;
    Some(document)
}

fn form(dom: &Dom, base: &Url, format: Format, links: bool, until: Instant) -> String {
    tidy::clean(dom, base, links);
    match format {
        Format::Text => dom.formatted_text().to_string(),
        Format::Html => dom.body().map(|body| body.inner_html().to_string()).unwrap_or_default(),
        Format::Markdown => markdown::of(dom, until),
    }
}

/// The article, with its doubt: whether the page looks as if it had none.
fn article(dom: &Dom, base: &Url) -> Option<(Article, bool)> {
    let config = Config { text_mode: TextMode::Formatted, keep_classes: true, ..Config::default() };
    let mut reader = Readability::with_document(dom.clone(), Some(base.as_str()), Some(config)).ok()?;
    let doubtful = !reader.is_probably_readable();
    Some((reader.parse().ok()?, doubtful))
}

/// Whether what was found is no article: too little of the page, one of many, or, in doubt, a list of links.
fn is_slip(dom: &Dom, content: &Dom, article: &Article, doubtful: bool, page: usize) -> bool {
    let text = length(&article.text_content);
    let links = || length(&content.select("a").text());
    text < SHORT.min(page / 2)
        || page > SHORT_PAGE && text * 100 < page * SLIVER
        || doubtful && links() * 2 > text
        || text * 3 < page * 2 && posts::are_many(dom, &article.text_content)
}

/// Characters without white space, which pages have in any amount.
fn length(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// What links are relative to.
fn base(dom: &Dom, url: &Url) -> Url {
    let declared = dom.select("base[href]").attr("href").and_then(|href| url.join(&href).ok());
    declared.filter(|base| matches!(base.scheme(), "http" | "https")).unwrap_or_else(|| url.clone())
}

/// What the page says about itself.
fn about(dom: &Dom, article: Option<&Article>) -> Document {
    let mut document = Document::plain(String::new(), Extracted::Full);
    let some = |text: Option<&str>| {
        let words = text?.split_whitespace().collect::<Vec<_>>().join(" ");
        (!words.is_empty()).then_some(words)
    };
    if let Some(article) = article {
        document.title = some(Some(&article.title));
        document.byline = some(article.byline.as_deref());
        document.published = some(article.published_time.as_deref());
        document.lang = some(article.lang.as_deref());
        document.site = some(article.site_name.as_deref());
        document.excerpt = some(article.excerpt.as_deref());
    }
    let title = || some(Some(&dom.select_single("title").text()));
    let meta = |name: &str| some(dom.select_single(name).attr("content").as_deref());
    document.title = document.title.or_else(title);
    document.lang = document.lang.or_else(|| some(dom.select_single("html").attr("lang").as_deref()));
    document.site = document.site.or_else(|| meta(r#"meta[property="og:site_name"]"#));
    document.excerpt = document.excerpt.or_else(|| meta(r#"meta[name="description"]"#));
    document
}
