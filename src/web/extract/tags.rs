//! Splits HTML into tags and text, in one pass and without a tree. Close to the standard's tokenizer where it matters:
//! what a parser would take as a tag is one here.

use memchr::{memchr, memchr_iter, memmem};

/// A piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// A start tag: name and what follows it.
    Start(&'a str, &'a str),
    End(&'a str),
    /// Comments, declarations, and what stands for one.
    Other,
}

/// The pieces of a document.
pub(super) struct Pieces<'a> {
    rest: &'a str,
}

pub(super) fn pieces(html: &str) -> Pieces<'_> {
    Pieces { rest: html }
}

impl<'a> Pieces<'a> {
    /// Skips to the end tag of a raw text element, which stays. Without one everything is the element's.
    pub(super) fn skip_raw(&mut self, name: &str) -> &'a str {
        let mut from = 0;
        while let Some(at) = memmem::find(&self.rest.as_bytes()[from..], b"</") {
            let at = from + at;
            let after = &self.rest.as_bytes()[at + 2..];
            let matches =
                after.len() >= name.len() && after[..name.len()].eq_ignore_ascii_case(name.as_bytes());
            if matches
                && after.get(name.len()).is_none_or(|b| matches!(b, b'>' | b'/') || b.is_ascii_whitespace())
            {
                return self.take(at);
            }
            from = at + 2;
        }
        self.take(self.rest.len())
    }

    fn take(&mut self, end: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Takes the rest of a comment, which `-->` ends, and by a slip `--!>` (HTML, section 13.2.5.53).
    fn comment(&mut self) {
        let bytes = self.rest.as_bytes();
        let ends = |at: &usize| bytes[..*at].ends_with(b"--") || bytes[..*at].ends_with(b"--!");
        let end = memchr_iter(b'>', bytes).find(ends).map_or(bytes.len(), |at| at + 1);
        self.take(end);
    }

    /// Takes up to and with `end`, or everything.
    fn through(&mut self, end: &[u8]) {
        let at = memmem::find(self.rest.as_bytes(), end).map_or(self.rest.len(), |at| at + end.len());
        self.take(at);
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let bytes = self.rest.as_bytes();
        let &first = bytes.first()?;
        if first != b'<' {
            let end = memchr(b'<', bytes).unwrap_or(bytes.len());
            return Some(Piece::Text(self.take(end)));
        }
        match bytes.get(1) {
            Some(b) if b.is_ascii_alphabetic() => {
                let tag = self.tag(1);
                let end = name_end(tag);
                Some(Piece::Start(&tag[..end], &tag[end..]))
            }
            Some(b'/') if bytes.get(2).is_some_and(u8::is_ascii_alphabetic) => {
                let tag = self.tag(2);
                Some(Piece::End(&tag[..name_end(tag)]))
            }
            Some(b'!') if bytes.starts_with(b"<!--") => {
                self.take(4);
                if self.rest.starts_with('>') {
                    self.take(1);
                } else if self.rest.starts_with("->") {
                    self.take(2);
                } else {
                    self.comment();
                }
                Some(Piece::Other)
            }
            Some(b'!' | b'?' | b'/') => {
                self.through(b">");
                Some(Piece::Other)
            }
            _ => {
                // Up to what may be a tag: a page of brackets is one text.
                let tag = |at: &usize| {
                    bytes.get(at + 1).is_some_and(|b| b.is_ascii_alphabetic() || b"!?/".contains(b))
                };
                let end = memchr_iter(b'<', bytes).skip(1).find(tag);
                Some(Piece::Text(self.take(end.unwrap_or(bytes.len()))))
            }
        }
    }
}

impl<'a> Pieces<'a> {
    /// Takes a tag whose name begins `at`; gives what lies between its brackets.
    fn tag(&mut self, at: usize) -> &'a str {
        let mut place = Place::TagName;
        let ends = |b| match place.after(b) {
            Some(next) => {
                place = next;
                false
            }
            None => true,
        };
        let end = self.rest.bytes().skip(at).position(ends).map(|end| end + at);
        let tag = self.take(end.map_or(self.rest.len(), |end| end + 1));
        &tag[at..end.unwrap_or(tag.len())]
    }
}

/// Where in a tag one is (HTML, sections 13.2.5.8 and 13.2.5.32 to .39).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    TagName,
    Between,
    Name,
    AfterName,
    BeforeValue,
    Unquoted,
    Quoted(u8),
}

impl Place {
    /// After one more byte; `None` where it ends the tag.
    fn after(self, b: u8) -> Option<Self> {
        let space = b.is_ascii_whitespace();
        Some(match (self, b) {
            (Self::Quoted(quote), b) => {
                if b == quote {
                    Self::Between
                } else {
                    self
                }
            }
            (_, b'>') => return None,
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(b),
            (Self::BeforeValue, _) => {
                if space {
                    self
                } else {
                    Self::Unquoted
                }
            }
            (Self::Unquoted, _) => {
                if space {
                    Self::Between
                } else {
                    self
                }
            }
            (_, b'/') => Self::Between,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::Name, _) => {
                if space {
                    Self::AfterName
                } else {
                    self
                }
            }
            (Self::TagName, _) => {
                if space {
                    Self::Between
                } else {
                    self
                }
            }
            (Self::Between | Self::AfterName, _) => {
                if space {
                    self
                } else {
                    Self::Name
                }
            }
        })
    }
}

fn name_end(tag: &str) -> usize {
    tag.bytes().position(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>')).unwrap_or(tag.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_text_are_told_apart() {
        let html = "a<b c='>' d>x</B ><!-- <i> -->y<!doctype z><1</>&lt;<br/>";
        let found: Vec<_> = pieces(html).collect();
        assert_eq!(
            found,
            [
                Piece::Text("a"),
                Piece::Start("b", " c='>' d"),
                Piece::Text("x"),
                Piece::End("B"),
                Piece::Other,
                Piece::Text("y"),
                Piece::Other,
                Piece::Text("<1"),
                Piece::Other,
                Piece::Text("&lt;"),
                Piece::Start("br", "/"),
            ]
        );
        assert_eq!(pieces("<a href=x'>y").nth(1), Some(Piece::Text("y")));
        assert_eq!(pieces("<a href=x='>y'>").nth(1), Some(Piece::Text("y'>")));
        assert_eq!(pieces("<a='>y'>").nth(1), Some(Piece::Text("y'>")));
        assert_eq!(pieces("<!-->x").nth(1), Some(Piece::Text("x")));
        for cut in ["<", "<a", "<a b='", "<!--", "</", "</a", "<?"] {
            assert!(pieces(cut).count() == 1, "{cut}");
        }
    }
}
