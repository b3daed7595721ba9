//! Pages as they come: the hostile ones end, the ordinary ones keep what they say, and the public benchmark is met.

mod pages;

use std::time::Instant;

use proptest::prelude::*;

use super::*;

fn read(html: &str, wanted: Wanted) -> Document {
    html::read(html, &Url::parse("https://example.com/dir/page").unwrap(), wanted)
}

const MARKDOWN: Wanted = Wanted { format: Format::Markdown, extract: Extract::Full, links: true };

const AUTO: Wanted = Wanted { format: Format::Markdown, extract: Extract::Auto, links: true };
const ARTICLE: Wanted = Wanted { format: Format::Html, extract: Extract::Article, links: true };

/// Each page ends before the deadline, and what it says is found.
async fn end(pages: Vec<(&'static str, String)>, wanted: &[Wanted]) {
    let extractor = Extractor::new();
    let url = Url::parse("https://example.com/").unwrap();
    for (name, page) in pages {
        for &wanted in wanted {
            let body = format!("<html><title>t</title><body><p>first words</p>{page}").into_bytes();
            let begin = Instant::now();
            let done = extractor.document(body, "text/html", url.clone(), wanted).await;
            let document = done.unwrap_or_else(|error| panic!("{name}: {error}"));
            println!("{:.2?} {name}, {:?} as {:?}", begin.elapsed(), wanted.extract, document.format);
            let all = wanted.extract != Extract::Article;
            assert!(!all || document.text.contains("first words"), "{name}");
        }
    }
}

#[tokio::test]
async fn pages_that_grow_in_the_parser_end() {
    end(hostile::trees(), &[AUTO]).await;
}

#[tokio::test]
async fn pages_that_are_long_to_read_end() {
    end(hostile::tokens(), &[AUTO]).await;
}

#[tokio::test]
async fn pages_that_extractors_multiply_end() {
    end(hostile::costs(), &[AUTO, ARTICLE]).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_page_overflows_the_stack(tags in prop::collection::vec(guard::tests::tag(), 1..9), times in 1..1_000_usize) {
        let html = tags.concat().repeat(times);
        let work = async || Extractor::new().document(html.into_bytes(), "text/html", Url::parse("https://example.com/").unwrap(), AUTO).await;
        let done = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work());
        prop_assert!(matches!(done, Ok(_) | Err(FetchError::Empty)), "{done:?}");
    }
}

#[test]
fn tables_code_lists_and_headings_survive() {
    let page = "<html><head><title>T</title></head><body><nav><a href=/home>Home</a></nav><h1>Head</h1><p>Some <em>words</em> \
        and <a href='../x?utm_source=a&id=1&fbclid=z'>a link</a> and <a href='#frag'>here</a>.</p><h2><a href='#s'>#</a>Sub</h2><h3> </h3>\
        <ul><li>one<ul><li>inner</li></ul></li><li>two</li></ul><ol><li>first</li><li>second</li></ol>\
        <pre><code class=\"language-rust\">fn main() {\n    let a = 1;\n\n\n    let b = 2;\n}</code></pre>\
        <table><thead><tr><th>A</th><th>B</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>\
        <table><tr><td>C</td><td>D</td></tr><tr><td>3</td><td>4</td></tr></table>\
        <img src='data:image/png;base64,AAAA' alt=blob><img src='/a.png' alt=pic><script>evil()</script><footer>foot</footer></body></html>";
    let document = read(page, MARKDOWN);
    let text = &document.text;
    for part in [
        "# Head",
        "## Sub\n",
        "*words*",
        "[a link](https://example.com/x?id=1)",
        "and here.",
        "- one\n",
        "- inner",
        "1. first",
        "2. second",
        "```rust\nfn main() {\n    let a = 1;\n\n\n    let b = 2;\n}\n```",
        "![pic](https://example.com/a.png)",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let rows: Vec<String> =
        text.lines().filter(|line| line.starts_with('|')).map(|line| line.replace(' ', "")).collect();
    assert_eq!(rows.len(), 6, "{text}");
    assert_eq!((&*rows[0], &*rows[2], &*rows[3], &*rows[5]), ("|A|B|", "|1|2|", "|C|D|", "|3|4|"));
    for part in ["Home", "foot", "evil", "data:", "utm_", "#frag", "###", "\n\n\n\n"] {
        assert!(!text.contains(part), "{part:?} is in\n{text}");
    }
    assert_eq!((document.title.as_deref(), document.extracted), (Some("T"), Extracted::Full));

    let bare = read(page, Wanted { links: false, ..MARKDOWN }).text;
    assert!(bare.contains("a link") && !bare.contains("](") && !bare.contains("!["), "{bare}");
    let plain = read(page, Wanted { format: Format::Text, ..MARKDOWN }).text;
    assert!(
        plain.contains("Some words and a link") && !plain.contains('*') && !plain.contains("]("),
        "{plain}"
    );
    let html = read(page, Wanted { format: Format::Html, ..MARKDOWN }).text;
    assert!(html.contains("<h1>Head</h1>") && !html.contains("<script") && !html.contains("<nav"), "{html}");
}

#[test]
fn the_article_is_chosen_where_there_is_one() {
    let sentence = "This paragraph has enough words, and commas, to look like an article to any reader. ";
    let article = format!(
        "<h1>News</h1><p>{0}</p><pre><code class=language-py>print(1)</code></pre><p>{0}</p><table><tr><th>K</th><th>V</th></tr>\
        <tr><td>a</td><td>b</td></tr></table><p>{0}</p>",
        sentence.repeat(6)
    );
    let page = format!(
        "<html lang=en><head><title>News - Site</title><meta name=author content='A. Writer'><meta property=og:site_name content=Site></head>\
        <body><div class=sidebar><a href=/1>one</a><a href=/2>two</a></div><div class=content>{article}</div><div class=comments>spam</div></body></html>"
    );
    let document = read(&page, Wanted { links: true, ..Wanted::default() });
    assert_eq!(document.extracted, Extracted::Article);
    assert!(
        document.text.contains("```py\nprint(1)\n```") && document.text.contains("| a"),
        "{}",
        document.text
    );
    assert!(!document.text.contains("two"), "{}", document.text);
    assert_eq!(
        (document.lang.as_deref(), document.site.as_deref(), document.byline.as_deref()),
        (Some("en"), Some("Site"), Some("A. Writer"))
    );
    assert!(document.full_tokens > 0);
    let links = (0..60).map(|n| format!("<li><a href=/{n}>Item number {n}</a></li>")).collect::<String>();
    let index = format!("<html><body><h1>Index</h1><ul>{links}</ul></body></html>");
    let document = read(&index, Wanted { links: true, ..Wanted::default() });
    assert_eq!(document.extracted, Extracted::Full);
    assert!(document.text.contains("[Item number 59](https://example.com/59)"));
}

#[tokio::test]
async fn other_kinds_are_verbatim_or_refused() {
    let extractor = Extractor::new();
    let url = Url::parse("https://example.com/").unwrap();
    let read = async |content_type: &str, body: &[u8]| {
        extractor.document(body.to_vec(), content_type, url.clone(), Wanted::default()).await
    };
    for (content_type, body) in [
        ("application/json", "{ \"a\":  1 }"),
        ("text/plain; charset=utf-8", "<b>é</b>"),
        ("text/csv", "a,b\n1,2"),
        ("application/atom+xml", "<feed/>"),
        ("application/vnd.api+json", "[]"),
        ("", "plain words"),
    ] {
        let document = read(content_type, body.as_bytes()).await.unwrap();
        assert_eq!((&*document.text, document.extracted), (body, Extracted::Verbatim), "{content_type}");
    }
    assert_eq!(read("", b"<!DOCTYPE html><p>page").await.unwrap().text, "page");
    for content_type in ["image/png", "application/zip", "application/octet-stream", "video/mp4"] {
        assert!(matches!(read(content_type, b"\x89PNG\0").await, Err(FetchError::UnsupportedContentType(_))));
    }
    assert!(matches!(read("", b"\0\x01").await, Err(FetchError::UnsupportedContentType(_))));
    assert_eq!(read("text/html", b"<html><body> </body>").await, Err(FetchError::Empty));
    assert_eq!(excerpt(b"<p>Not  <b>found</b></p>", "text/html", 7), "Not fou");
}

/// 4-word shingles and their counts: the measure of the benchmark's own evaluation.
fn shingles(text: &str) -> std::collections::HashMap<Vec<String>, u64> {
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect();
    let mut counts = std::collections::HashMap::new();
    let size = words.len().min(4);
    if size > 0 {
        words.windows(size).for_each(|window| *counts.entry(window.to_vec()).or_default() += 1);
    }
    counts
}

#[test]
fn the_article_benchmark_is_met() {
    let Some(folder) = crate::testdata::folder("article-extraction") else { return };
    let truth = std::fs::read(folder.join("ground-truth.json")).unwrap();
    let truth: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&truth).unwrap();
    let mut scores = Vec::new();
    let mut times = Vec::new();
    let (mut guarded, mut unguarded) = (Vec::new(), Vec::new());
    let mut whole = 0;
    for (id, expected) in &truth {
        let packed = std::fs::read(folder.join(format!("html/{id}.html.gz"))).unwrap();
        let mut html = String::new();
        std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed[..]), &mut html).unwrap();
        let begin = Instant::now();
        assert!(guard::parse(&html, 100).is_some(), "{id} is refused");
        guarded.push(begin.elapsed());
        let begin = Instant::now();
        let free = dom_query::Document::from(&*html);
        unguarded.push(begin.elapsed());
        drop(free);
        let begin = Instant::now();
        let document = read(&html, Wanted { format: Format::Text, ..Wanted::default() });
        times.push(begin.elapsed());
        whole += usize::from(document.extracted != Extracted::Article);
        let (found, wanted) = (shingles(&document.text), shingles(expected["articleBody"].as_str().unwrap()));
        let right: u64 =
            found.iter().map(|(shingle, count)| *count.min(wanted.get(shingle).unwrap_or(&0))).sum();
        let (found, wanted) = (found.values().sum::<u64>(), wanted.values().sum::<u64>());
        // As the benchmark does: shares of the page, so that long pages do not count more.
        let total = (found + wanted - right) as f64;
        if total > 0.0 {
            scores.push((
                right as f64 / total,
                (found - right) as f64 / total,
                (wanted - right) as f64 / total,
            ));
        }
    }
    let sum = scores.iter().fold((0.0, 0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2));
    let (precision, recall) = (sum.0 / (sum.0 + sum.1), sum.0 / (sum.0 + sum.2));
    let f1 = 2.0 * precision * recall / (precision + recall);
    times.sort();
    guarded.sort();
    unguarded.sort();
    println!(
        "median parse {:.2?}, without the guard {:.2?}",
        guarded[guarded.len() / 2],
        unguarded[unguarded.len() / 2]
    );
    println!(
        "article extraction: F1 {f1:.3}, precision {precision:.3}, recall {recall:.3}, {} pages, {whole} as whole pages, median {:.1} ms, p95 {:.1} ms",
        truth.len(),
        times[times.len() / 2].as_secs_f64() * 1e3,
        times[times.len() * 95 / 100].as_secs_f64() * 1e3,
    );
    assert!(f1 >= 0.950, "F1 {f1:.4}");
}
