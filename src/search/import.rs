//! Files as documents of the index: text, Markdown and HTML, alone or from folders. Owns which files are taken, how
//! their bytes become text, and what is their title and URL.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
};

use ::url::Url;
use encoding_rs::UTF_8;

use super::{
    local::{Document, MAX_BODY},
    snippet,
};

/// Files with other endings are taken only if they are named themselves.
const TEXT: [&str; 8] = ["adoc", "markdown", "md", "mdx", "org", "rst", "text", "txt"];
const HTML: [&str; 3] = ["htm", "html", "xhtml"];
/// What of a page is not its content.
const FURNITURE: [&str; 9] =
    ["script", "style", "noscript", "template", "nav", "header", "footer", "aside", "form"];
/// Parsers of HTML call themselves for each level of a page.
const STACK: usize = 256 * 1024 * 1024;
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
            } else if kind.is_file() && ends_with(&entry.path(), &[&TEXT[..], &HTML[..]].concat()) {
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
pub fn document(path: &Path) -> Result<Document, String> {
    let size = fs::metadata(path).map_err(|e| e.to_string())?.len();
    if size > MAX_FILE {
        return Err(format!("it is over {} MiB; split it", MAX_FILE >> 20));
    }
    let bytes = fs::read(path).map_err(|e| e.to_string())?;
    let text = decode(&bytes)?;
    let url = file_url(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    if ends_with(path, &HTML) {
        let title = html_title(&text).unwrap_or_else(|| name.into_owned());
        return Document::new(&url, &title, &markdown(text)?);
    }
    let title = text_title(&text).unwrap_or_else(|| name.into_owned());
    Document::new(&url, &title, &text)
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

/// UTF-8 or what a byte order mark says, else a guess.
fn decode(bytes: &[u8]) -> Result<String, String> {
    let marked = encoding_rs::Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    if marked.is_none_or(|encoding| encoding == UTF_8) && bytes.contains(&0) {
        return Err("it is not a text".into());
    }
    let encoding = marked.unwrap_or_else(|| match str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        Err(_) => {
            let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
            detector.feed(bytes, true);
            detector.guess(None, chardetng::Utf8Detection::Allow)
        }
    });
    Ok(encoding.decode(bytes).0.into_owned())
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

fn html_title(html: &str) -> Option<String> {
    let lower = html.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let begin = open + lower[open..].find('>')? + 1;
    let end = begin + lower[begin..].find("</title")?;
    let title = snippet::plain(&html[begin..end]);
    (!title.is_empty()).then_some(title)
}

/// The page as Markdown, on a thread whose stack is large enough for deep pages.
fn markdown(html: String) -> Result<String, String> {
    let convert =
        move || htmd::HtmlToMarkdown::builder().skip_tags(FURNITURE.to_vec()).build().convert(&html);
    let thread = thread::Builder::new().name("html".into()).stack_size(STACK).spawn(convert);
    let done = thread.map_err(|e| e.to_string())?.join();
    match done {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(format!("its HTML cannot be read: {error}")),
        Err(_) => Err("its HTML cannot be read".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_text() {
        assert_eq!(decode("Grüße".as_bytes()).unwrap(), "Grüße");
        assert_eq!(decode(b"\xef\xbb\xbfabc").unwrap(), "abc");
        assert_eq!(decode(b"\xff\xfea\0b\0").unwrap(), "ab");
        assert_eq!(decode(b"Gr\xfc\xdfe aus M\xfcnchen").unwrap(), "Grüße aus München");
        assert!(decode(b"a\0b").is_err());
    }

    #[test]
    fn titles_are_found() {
        assert_eq!(text_title("intro\n\n# Heading\n"), Some("Heading".into()));
        assert_eq!(text_title("\n Plain first line\nmore"), Some("Plain first line".into()));
        assert_eq!(text_title(&"x".repeat(200)), None);
        assert_eq!(html_title("<head><TITLE lang=en> A &amp; B </Title>"), Some("A & B".into()));
        assert_eq!(html_title("<title>"), None);
    }

    #[test]
    fn html_becomes_markdown_without_furniture() {
        let html = "<html><head><style>x{}</style></head><body><nav>Home</nav><h1>Bread</h1><p>Flour &amp; water</p>\
            <script>alert(1)</script></body></html>";
        let text = markdown(html.into()).unwrap();
        assert!(text.contains("# Bread") && text.contains("Flour & water"), "{text}");
        assert!(!text.contains("Home") && !text.contains("alert") && !text.contains("x{}"), "{text}");
    }

    #[test]
    fn a_deep_page_does_not_end_the_process() {
        let depth = 2_000;
        let html = format!("{}deep{}", "<div>".repeat(depth), "</div>".repeat(depth));
        assert!(markdown(html).unwrap().contains("deep"));
    }
}
