//! Divides a text into the units that are kept or left out whole: sentences, blocks, members, records. Owns what a
//! unit is and which splitter serves which kind of text.
//!
//! Invariant: the units of a text follow each other without a gap and together are the text.

mod code;
mod json;
mod large;
mod log;
mod markdown;
mod sentences;

use std::ops::Range;

pub use json::minify;
pub use large::divide;

/// What a text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Paragraphs of sentences.
    Prose,
    /// Headings, lists, tables and code between paragraphs.
    Markdown,
    /// Source code.
    Code,
    /// One JSON value.
    Json,
    /// Records that begin with a time or a level.
    Log,
}

impl Kind {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prose => "prose",
            Self::Markdown => "markdown",
            Self::Code => "code",
            Self::Json => "json",
            Self::Log => "log",
        }
    }

    /// The kind that a text looks like.
    #[must_use]
    pub fn of(text: &str) -> Self {
        if json::is_json(text) {
            Self::Json
        } else if log::is_log(text) {
            Self::Log
        } else if markdown::is_markdown(text) {
            Self::Markdown
        } else if code::is_code(text) {
            Self::Code
        } else {
            Self::Prose
        }
    }
}

/// What a unit is to the units around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Content.
    Body,
    /// Names what follows; of little use alone.
    Heading,
    /// Begins a JSON container, which the unit of this number ends.
    Open(Container, usize),
    /// Ends a JSON container.
    Close,
}

/// What holds JSON units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// `[...]`
    Array,
    /// `{...}`
    Object,
    /// A string too long to be one unit.
    Text,
}

/// A part of a text that is kept or left out whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// Its bytes, with the space after it.
    pub span: Range<usize>,
    /// Units with the same number belong together.
    pub paragraph: usize,
    /// The unit that this one cannot be understood without: its heading, or the opening of its container.
    pub context: Option<usize>,
    /// What it is to others.
    pub role: Role,
    /// How much it matters whatever is asked for: 0 for most.
    pub weight: f64,
}

/// Divides `text`.
#[must_use]
pub fn split(text: &str, kind: Kind) -> Vec<Unit> {
    let mut parts = Parts::default();
    match kind {
        Kind::Prose => markdown::paragraphs(text, &mut parts),
        Kind::Markdown => markdown::split(text, &mut parts),
        Kind::Code => code::split(text, &mut parts),
        Kind::Json => json::split(text, &mut parts),
        Kind::Log => log::split(text, &mut parts),
    }
    parts.units
}

/// The units found so far.
#[derive(Default)]
struct Parts {
    units: Vec<Unit>,
    paragraph: usize,
    context: Option<usize>,
}

impl Parts {
    /// Adds what comes before `end` as one unit of the paragraph; nothing if that is nothing.
    fn until(&mut self, end: usize, role: Role) {
        let start = self.units.last().map_or(0, |unit| unit.span.end);
        if start < end {
            let (paragraph, context) = (self.paragraph, self.context);
            self.units.push(Unit { span: start..end, paragraph, context, role, weight: 0.0 });
        }
    }

    /// What comes next belongs to another paragraph.
    fn next_paragraph(&mut self) {
        self.paragraph += 1;
    }
}

/// The lines of `text` with their line ends, and where each begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop, proptest};

    use super::*;

    /// The units of a text, without the space around them.
    pub(super) fn shown(text: &str, kind: Kind) -> Vec<&str> {
        split(text, kind).iter().map(|unit| text[unit.span.clone()].trim()).collect()
    }

    pub(super) const KINDS: [Kind; 5] = [Kind::Prose, Kind::Markdown, Kind::Code, Kind::Json, Kind::Log];

    #[test]
    fn kinds_are_recognised() {
        for (text, kind) in [
            ("It was late. Nobody came.", Kind::Prose),
            ("# Title\n\nText.", Kind::Markdown),
            ("Text:\n\n```sh\nls\n```\n", Kind::Markdown),
            ("- one\n- two\n", Kind::Markdown),
            (r#" {"a": [1, 2]} "#, Kind::Json),
            ("{not json}", Kind::Prose),
            ("use std::fmt;\n\nfn main() {\n    run();\n}\n", Kind::Code),
            (
                "2024-05-01 10:00:00 INFO a\n2024-05-01 10:00:01 INFO b\n  at x\n2024-05-01 ERROR c\n",
                Kind::Log,
            ),
            ("", Kind::Prose),
        ] {
            assert_eq!(Kind::of(text), kind, "{text}");
        }
    }

    proptest! {
        #[test]
        fn units_are_the_whole_text(parts in prop::collection::vec(prop::sample::select(vec![
            "A sentence. ", "Another one! ", "\n", "\n\n", "# Heading\n", "```\n", "| a | b |\n", "|---|---|\n", "- item\n",
            "  more\n", "漢字。", "2024-01-01 ERROR x\n", "{\"a\":[1,2]}", "    code();\n", "===\n", " ", "\r\n", "fn f() {\n", "}\n"]), 0..40)) {
            let text = parts.concat();
            for kind in KINDS {
                let mut at = 0;
                for unit in split(&text, kind) {
                    assert_eq!(unit.span.start, at, "{kind:?}");
                    at = unit.span.end;
                }
                assert_eq!(at, text.len(), "{kind:?} {text:?}");
            }
        }
    }
}
