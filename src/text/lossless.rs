//! Makes a text smaller without losing what it says: space, repeated lines and blocks. Encoded binary data goes too,
//! which loses something and is reported as such.

use std::{collections::HashSet, fmt::Write};

use super::units::{Kind, minify};

/// A run of base64 letters is data from this length, in bytes.
const BLOB: usize = 256;
/// Blocks shorter than this, in bytes, may well repeat.
const BLOCK: usize = 48;
/// Stands for a block that came before.
const REPEATED: &str = "[… repeated above]";

/// A text after the pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Squeezed {
    pub(super) text: String,
    /// Whether data was left out.
    pub(super) lossy: bool,
}

/// Makes `text` smaller; `None` if there is nothing to be done.
pub(super) fn squeeze(text: &str, kind: Kind) -> Option<Squeezed> {
    let blobs = without_blobs(text);
    let lossy = blobs.is_some();
    let source = blobs.as_deref().unwrap_or(text);
    let squeezed = match kind {
        Kind::Json => minify(source),
        _ => lines(source, kind),
    };
    let text = squeezed.or(blobs)?;
    Some(Squeezed { text, lossy })
}

/// Puts `[blob N bytes]` in the place of long base64 data, with its `data:` head if it has one.
fn without_blobs(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut copied, mut at) = (String::new(), 0, 0);
    while at < bytes.len() {
        if !is_base64(bytes[at]) {
            at += 1;
            continue;
        }
        let run = bytes[at..].iter().take_while(|b| is_base64(**b)).count();
        if run >= BLOB && is_data(&bytes[at..at + run]) {
            let from = head(text, at).max(copied);
            out.push_str(&text[copied..from]);
            // Writing to a string cannot fail.
            write!(out, "[blob {} bytes]", at + run - from).ok();
            copied = at + run;
        }
        at += run;
    }
    if copied == 0 {
        return None;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

fn is_base64(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=')
}

/// Words and paths of this length have no digits among capitals.
fn is_data(run: &[u8]) -> bool {
    run.iter().any(u8::is_ascii_digit)
        && run.iter().any(u8::is_ascii_uppercase)
        && run.iter().any(u8::is_ascii_lowercase)
}

/// Where the `data:...;base64,` before `at` begins; `at` if there is none.
fn head(text: &str, at: usize) -> usize {
    let before = &text[..at];
    if !before.ends_with(";base64,") {
        return at;
    }
    let near = before.ceil_char_boundary(at.saturating_sub(100));
    before[near..].rfind("data:").map_or(at, |found| near + found)
}

/// Takes away space at line ends, blank lines beyond the first, and what repeats.
fn lines(text: &str, kind: Kind) -> Option<String> {
    let mut pass =
        Pass { out: String::with_capacity(text.len()), last: None, times: 1, blank: false, fenced: false };
    for line in text.split_inclusive('\n') {
        pass.line(line, kind);
    }
    pass.end_run();
    let mut out = pass.out;
    if matches!(kind, Kind::Prose | Kind::Markdown) {
        out = once(&out).unwrap_or(out);
    }
    (out.len() < text.len()).then_some(out)
}

struct Pass {
    out: String,
    /// Where the line that may repeat lies in `out`.
    last: Option<(usize, usize)>,
    times: usize,
    blank: bool,
    fenced: bool,
}

impl Pass {
    fn line(&mut self, line: &str, kind: Kind) {
        let body = line.trim_end();
        if body.is_empty() {
            if !self.blank || self.fenced {
                self.end_run();
                self.out.push_str(if line.ends_with('\n') { "\n" } else { "" });
            }
            self.blank = true;
            return;
        }
        self.blank = false;
        if body.trim_start().starts_with("```") || body.trim_start().starts_with("~~~") {
            self.fenced = !self.fenced;
        }
        if self.last.is_some_and(|(from, to)| &self.out[from..to] == body) {
            self.times += 1;
            return;
        }
        self.end_run();
        let from = self.out.len();
        self.out.push_str(body);
        self.out.push_str(if line.ends_with('\n') { "\n" } else { "" });
        let may_repeat = kind != Kind::Code && !self.fenced && body.len() >= 8;
        self.last = may_repeat.then_some((from, from + body.len()));
    }

    /// Says how often the last line came.
    fn end_run(&mut self) {
        if let Some((_, to)) = self.last.take().filter(|_| self.times > 1) {
            self.out.insert_str(to, &format!(" (×{})", self.times));
        }
        self.times = 1;
    }
}

/// Leaves the first of equal blocks.
fn once(text: &str) -> Option<String> {
    let mut seen = HashSet::new();
    let (mut out, mut fenced, mut repeats) = (String::with_capacity(text.len()), false, false);
    for block in text.split_inclusive("\n\n") {
        let body = block.trim();
        let fences = body.lines().filter(|line| line.starts_with("```") || line.starts_with("~~~")).count();
        if body.len() >= BLOCK && !fenced && fences == 0 && !seen.insert(body) {
            repeats = true;
            out.push_str(REPEATED);
            out.push_str(&block[block.trim_end().len()..]);
        } else {
            out.push_str(block);
        }
        fenced ^= fences % 2 == 1;
    }
    repeats.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squeezed(text: &str, kind: Kind) -> String {
        squeeze(text, kind).map_or_else(|| text.to_owned(), |found| found.text)
    }

    #[test]
    fn space_and_repeated_lines_go() {
        assert_eq!(squeezed("a  \n\n\n\nb\t\r\nc", Kind::Prose), "a\n\nb\nc");
        assert_eq!(
            squeezed("connection lost\nconnection lost\nconnection lost\nup\n", Kind::Log),
            "connection lost (×3)\nup\n"
        );
        assert_eq!(
            squeezed("    }\n    }\n    call();\n    call();\n", Kind::Code),
            "    }\n    }\n    call();\n    call();\n"
        );
        assert_eq!(squeezed("{ \"a\": 1 }", Kind::Json), "{\"a\":1}");
        assert_eq!(squeeze("Nothing to do.\n", Kind::Prose), None);
    }

    #[test]
    fn repeated_blocks_stay_once() {
        let block = "A paragraph that is long enough not to be said twice by chance.";
        assert_eq!(
            squeezed(&format!("{block}\n\nx\n\n{block}\n"), Kind::Prose),
            format!("{block}\n\nx\n\n{REPEATED}\n")
        );
        let fenced = format!("```\n{block}\n\n{block}\n```\n");
        assert_eq!(squeezed(&fenced, Kind::Markdown), fenced);
    }

    #[test]
    fn data_goes_and_is_reported() {
        let data = "iVBORw0KGgo9".repeat(40);
        let found =
            squeeze(&format!("![x](data:image/png;base64,{data}) and {data}"), Kind::Markdown).unwrap();
        assert_eq!(
            found,
            Squeezed { text: "![x]([blob 502 bytes]) and [blob 480 bytes]".into(), lossy: true }
        );
        let path = "/usr/share/".repeat(40);
        assert_eq!(squeeze(&path, Kind::Prose), None);
    }
}
