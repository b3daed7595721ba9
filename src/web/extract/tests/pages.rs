//! The project's own pages and what becomes of them, in `tests/fixtures/pages`: each `NAME.html` beside `NAME.md`, which
//! says first what was found out about the page and then its text. `UPDATE_PAGES=1` writes the second files anew.

use std::{env, fmt::Write, fs, path::Path};

use super::*;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pages");

fn shown(document: &Document) -> String {
    let mut out = String::new();
    for (name, value) in [
        ("title", &document.title),
        ("byline", &document.byline),
        ("published", &document.published),
        ("lang", &document.lang),
        ("site", &document.site),
        ("excerpt", &document.excerpt),
    ] {
        if let Some(value) = value {
            writeln!(out, "{name}: {value}").unwrap();
        }
    }
    writeln!(out, "extracted: {}\n---\n{}", document.extracted.as_str(), document.text).unwrap();
    out
}

#[tokio::test]
async fn the_pages_are_read_as_written_down() {
    let extractor = Extractor::new();
    let url = Url::parse("https://example.com/dir/page").unwrap();
    let mut names: Vec<_> = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|extension| extension == "html"));
    assert!(names.len() >= 18, "{names:?}");
    for page in names {
        let wanted = Wanted { links: true, ..Wanted::default() };
        let body = fs::read(&page).unwrap();
        let document = extractor.document(body, "text/html", url.clone(), wanted).await.unwrap();
        let found = shown(&document);
        let golden = page.with_extension("md");
        if env::var_os("UPDATE_PAGES").is_some() {
            fs::write(&golden, &found).unwrap();
        }
        let wanted = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, wanted, "{}; UPDATE_PAGES=1 writes it", Path::new(&golden).display());
    }
}
