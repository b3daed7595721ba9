//! The text of HTML without a parser, for documents that no parser should see: one pass, no tree, no recursion.

use super::tags::{Piece, pieces};

/// Title and text.
pub(super) fn text(html: &str) -> (Option<String>, String) {
    let mut out = Text::default();
    let mut title = None;
    let mut pieces = pieces(html);
    while let Some(piece) = pieces.next() {
        match piece {
            Piece::Text(text) => out.push(text),
            Piece::Start(name, _) => {
                let name = name.to_ascii_lowercase();
                match &*name {
                    "script" | "style" | "iframe" | "noembed" | "noframes" | "template" => {
                        pieces.skip_raw(&name);
                    }
                    "title" => {
                        let found = unescape(pieces.skip_raw(&name)).trim().to_owned();
                        title = title.or((!found.is_empty()).then_some(found));
                    }
                    _ => out.at_tag(&name),
                }
            }
            Piece::End(name) => out.at_tag(&name.to_ascii_lowercase()),
            Piece::Other => {}
        }
    }
    (title, out.text.trim_end().to_owned())
}

#[derive(Default)]
struct Text {
    text: String,
    /// White space that the next words need before them.
    gap: Gap,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

impl Text {
    fn push(&mut self, raw: &str) {
        if raw.starts_with(|c: char| c.is_ascii_whitespace()) {
            self.gap = self.gap.max(Gap::Space);
        }
        for word in raw.split_ascii_whitespace() {
            if !self.text.is_empty() {
                self.text.push_str(match self.gap {
                    Gap::None => "",
                    Gap::Space => " ",
                    Gap::Line => "\n",
                    Gap::Paragraph => "\n\n",
                });
            }
            self.text.push_str(&unescape(word));
            self.gap = Gap::Space;
        }
        if !raw.ends_with(|c: char| c.is_ascii_whitespace()) && self.gap == Gap::Space {
            self.gap = Gap::None;
        }
    }

    fn at_tag(&mut self, name: &str) {
        let gap = match name {
            "br" | "li" | "tr" | "dt" | "dd" | "option" | "caption" => Gap::Line,
            "td" | "th" => Gap::Space,
            "p" | "div" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "table"
            | "section" | "article" | "header" | "footer" | "nav" | "aside" | "main" | "blockquote"
            | "pre" | "hr" | "form" | "figure" => Gap::Paragraph,
            _ => Gap::None,
        };
        self.gap = self.gap.max(gap);
    }
}

/// Character references, as far as text has them often.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Without this a page of ampersands takes seconds.
    let last = text.rfind(';').unwrap_or_default();
    while let Some(at) = rest.find('&').filter(|at| text.len() - rest.len() + at < last) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = rest[..rest.floor_char_boundary(12)]
            .find(';')
            .and_then(|end| Some((end, character(&rest[1..end])?)));
        match found {
            Some((end, c)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let hex = number.strip_prefix(['x', 'X']);
        let code = hex.map_or_else(|| number.parse(), |hex| u32::from_str_radix(hex, 16)).ok()?;
        return char::from_u32(code).filter(|c| !c.is_control() || *c == '\n');
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "mdash" => '—',
        "ndash" => '–',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "copy" => '©',
        "reg" => '®',
        "trade" => '™',
        "euro" => '€',
        "middot" => '·',
        "bull" => '•',
        "times" => '×',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_its_words_apart_and_in_order() {
        let html = "<html><head><title>A &amp; B</title><style>p{}</style></head><body><h1>Head</h1><p>One <b>t</b>wo\n three\
            <br>four</p><ul><li>x<li>y</ul><script>var a = '<p>no</p>';</script><table><tr><td>1<td>2</table>&#x4e2d;&nope; &lt;";
        let (title, text) = text(html);
        assert_eq!(title.as_deref(), Some("A & B"));
        assert_eq!(text, "Head\n\nOne two three\nfour\n\nx\ny\n\n1 2\n\n中&nope; <");
    }
}
