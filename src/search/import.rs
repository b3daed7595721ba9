//! Files and pages as documents of the index: text, Markdown, HTML and PDF, alone or from folders. Owns which files are taken, how
//! their bytes become text, and what is their title and URL.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ::url::Url;

use super::local::{Document, MAX_BODY, OPERATOR};
use crate::web::{self, FetchError, Fetcher, Options};

/// Files with other endings are taken only if they are named themselves.
const TEXT: [&str; 8] = ["adoc", "markdown", "md", "mdx", "org", "rst", "text", "txt"];
const HTML: [&str; 3] = ["htm", "html", "xhtml"];
/// Largest file, in bytes: HTML is larger than its text.
const MAX_FILE: u64 = 4 * MAX_BODY as u64;

/// All files that `path` stands for: itself, or those below it that have known endings, by name. Hidden ones and
/// links are left out.
///
/// # Errors
/// What cannot be read.
pub fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && ends_with(&entry.path(), &[&TEXT[..], &HTML[..], &["pdf"]].concat()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads one file.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub async fn document(path: &Path) -> Result<Document, String> {
    let size = fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > MAX_FILE {
        return Err(format!("it is over {} MiB; split it", MAX_FILE >> 20));
    }
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    let kind = if ends_with(path, &HTML) {
        "text/html"
    } else if ends_with(path, &["pdf"]) {
        "application/pdf"
    } else if bytes.contains(&0) && encoding_rs::Encoding::for_bom(&bytes).is_none() {
        return Err("it is not a text".into());
    } else {
        "text/plain"
    };
    let url = file_url(path)?;
    let place = Url::parse(&url).map_err(|e| e.to_string())?;
    let read = web::read(bytes, kind, place).await.map_err(|error| match error {
        FetchError::Empty => "it has no words".to_owned(),
        other => other.to_string(),
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let title = read.title.or_else(|| text_title(&read.text)).unwrap_or_else(|| name.into_owned());
    Document::new(&url, &title, &read.text)
}

/// A page of the web.
///
/// # Errors
/// A sentence that says why it could not be had.
pub async fn page(fetcher: &Fetcher, url: &str) -> Result<Document, String> {
    let page = fetcher.fetch(url, &Options::new(OPERATOR.into())).await.map_err(|e| e.to_string())?;
    Document::new(&page.final_url, page.document.title.as_deref().unwrap_or_default(), &page.document.text)
}

/// The URL under which a file is indexed: that of its real place.
///
/// # Errors
/// A sentence.
pub fn file_url(path: &Path) -> Result<String, String> {
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    let path = path.canonicalize().unwrap_or(path);
    Url::from_file_path(path).map(String::from).map_err(|()| "its path is no file URL".to_owned())
}

fn ends_with(path: &Path, endings: &[&str]) -> bool {
    let ending = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    endings.contains(&ending.as_str())
}

/// The first heading of Markdown, else the first line.
fn text_title(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(50);
    let first = lines.next()?;
    let heading = |line: &str| line.strip_prefix("# ").map(str::to_owned);
    heading(first).or_else(|| lines.find_map(heading)).or_else(|| {
        let short = first.chars().nth(120).is_none();
        short.then(|| first.trim_start_matches('#').trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(name: &str, bytes: &[u8]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        document(&path).await.map(|document| document.text().expect("it was packed here"))
    }

    #[tokio::test]
    async fn bytes_become_text() {
        assert_eq!(read("a.txt", "Grüße an alle".as_bytes()).await.unwrap(), "Grüße an alle");
        assert_eq!(read("a.txt", b"Gr\xfc\xdfe aus M\xfcnchen").await.unwrap(), "Grüße aus München");
        assert!(read("a.txt", b"a\0b").await.is_err());
    }

    #[tokio::test]
    async fn html_becomes_markdown_without_furniture_and_a_deep_page_ends_nothing() {
        let step = "<p>Flour &amp; water are mixed, then salt is added, and the dough is left alone, covered, for a night.</p>";
        let html = format!(
            "<html><head><style>x{{}}</style></head><body><nav><a href=/>Home</a></nav><article><h1>Bread</h1>{}</article>\
             <script>alert(1)</script></body></html>",
            step.repeat(12)
        );
        let text = read("a.html", html.as_bytes()).await.unwrap();
        assert!(text.contains("Flour & water"), "{text}");
        assert!(!text.contains("Home") && !text.contains("alert") && !text.contains("x{}"), "{text}");
        let deep = format!("{}deep{}", "<div>".repeat(20_000), "</div>".repeat(20_000));
        assert!(read("b.html", deep.as_bytes()).await.unwrap().contains("deep"));
    }

    #[test]
    fn titles_are_found() {
        assert_eq!(text_title("intro\n\n# Heading\n"), Some("Heading".into()));
        assert_eq!(text_title("\n Plain first line\nmore"), Some("Plain first line".into()));
        assert_eq!(text_title(&"x".repeat(200)), None);
    }
}
