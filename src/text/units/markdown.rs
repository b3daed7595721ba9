//! Markdown by block: code, tables and list items whole, paragraphs by sentence, each under its heading. Without
//! the marks, the same for prose.

use super::{Parts, Role, lines, sentences};

/// Lines that are looked at to tell Markdown from prose.
const SAMPLE: usize = 400;

/// What a line belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Blank,
    Heading,
    Fence,
    Table,
    Item,
    Indented,
    Text,
}

/// Whether any line has a mark of Markdown.
pub(super) fn is_markdown(text: &str) -> bool {
    text.lines()
        .take(SAMPLE)
        .any(|line| matches!(block(line), Block::Heading | Block::Fence | Block::Table | Block::Item))
}

fn block(line: &str) -> Block {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    let hashes = trimmed.bytes().take_while(|b| *b == b'#').count();
    if trimmed.is_empty() {
        Block::Blank
    } else if is_item(trimmed) {
        Block::Item
    } else if indent >= 4 || line.starts_with('\t') {
        Block::Indented
    } else if (1..=6).contains(&hashes) && trimmed[hashes..].starts_with([' ', '\t']) {
        Block::Heading
    } else if fence(trimmed).is_some() {
        Block::Fence
    } else if trimmed.starts_with('|') {
        Block::Table
    } else {
        Block::Text
    }
}

fn is_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+']),
        1..=9 => line[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    rest.is_some_and(|rest| rest.starts_with([' ', '\t']))
}

/// The mark that opens a fence: its character and length.
fn fence(line: &str) -> Option<(u8, usize)> {
    let mark = *line.as_bytes().first().filter(|b| matches!(b, b'`' | b'~'))?;
    let length = line.bytes().take_while(|b| *b == mark).count();
    (length >= 3).then_some((mark, length))
}

/// Adds the paragraphs of plain text.
pub(super) fn paragraphs(text: &str, parts: &mut Parts) {
    let (mut from, mut blank) = (0, false);
    for (at, line) in lines(text) {
        let now = line.trim().is_empty();
        if blank && !now && at > 0 {
            paragraph(&text[from..at], from, parts);
            from = at;
        }
        blank = now;
    }
    paragraph(&text[from..], from, parts);
}

fn paragraph(text: &str, at: usize, parts: &mut Parts) {
    for end in sentences::ends(text) {
        parts.until(at + end, Role::Body);
    }
    parts.next_paragraph();
}

/// Adds the blocks of Markdown.
pub(super) fn split(text: &str, parts: &mut Parts) {
    let mut splitter = Splitter { text, parts, open: None, from: 0, fence: None };
    let mut previous = Block::Blank;
    for (at, line) in lines(text) {
        let now = splitter.line(at, line, previous);
        previous = now;
    }
    splitter.close(text.len());
}

struct Splitter<'a> {
    text: &'a str,
    parts: &'a mut Parts,
    /// The block that lines are added to, and where it begins.
    open: Option<Block>,
    from: usize,
    /// The mark of the code that has been opened.
    fence: Option<(u8, usize)>,
}

impl Splitter<'_> {
    /// Says what the line was taken for.
    fn line(&mut self, at: usize, line: &str, previous: Block) -> Block {
        let trimmed = line.trim();
        if let Some((mark, length)) = self.fence {
            let ends = fence(trimmed).is_some_and(|(m, l)| m == mark && l >= length)
                && trimmed.bytes().all(|b| b == mark);
            if ends {
                self.fence = None;
            }
            return Block::Fence;
        }
        let found = block(line);
        let after_blank = previous == Block::Blank;
        let continues = match (self.open, found) {
            (_, Block::Blank) => true,
            (None, _) => false,
            (Some(Block::Text), Block::Text | Block::Indented) => {
                if !after_blank && is_underline(trimmed) {
                    self.open = Some(Block::Heading);
                    return Block::Heading;
                }
                !after_blank
            }
            (Some(Block::Item), Block::Indented) => true,
            (Some(Block::Item), Block::Text) => !after_blank || line.starts_with([' ', '\t']),
            (Some(Block::Indented), Block::Indented) => true,
            (Some(Block::Table), Block::Table) => !after_blank,
            _ => false,
        };
        if !continues {
            self.close(at);
            self.open = Some(found);
            if found == Block::Fence {
                self.fence = fence(trimmed);
            }
        }
        found
    }

    /// Ends the open block before `at`.
    fn close(&mut self, at: usize) {
        let from = std::mem::replace(&mut self.from, at);
        let body = &self.text[from..at];
        match self.open.take() {
            Some(Block::Text) => paragraph(body, from, self.parts),
            Some(Block::Heading) => {
                self.parts.context = None;
                self.parts.until(at, Role::Heading);
                self.parts.context = self.parts.units.len().checked_sub(1);
                self.parts.next_paragraph();
            }
            // The items of a list belong together.
            Some(Block::Item) => {
                self.parts.until(at, Role::Body);
                if self.text[at..].lines().next().is_none_or(|line| block(line) != Block::Item) {
                    self.parts.next_paragraph();
                }
            }
            Some(_) => {
                self.parts.until(at, Role::Body);
                self.parts.next_paragraph();
            }
            None => self.parts.until(at, Role::Body),
        }
    }
}

/// The line under a heading.
fn is_underline(line: &str) -> bool {
    line.len() >= 2 && (line.bytes().all(|b| b == b'=') || line.bytes().all(|b| b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Role, split, tests::shown};

    const TEXT: &str = "Intro one. Intro two.\n\n# First\n\nText one. Text two.\n- a\n  more of a\n- b\n\n  still b\n\n```rust\n# no heading\n\nfn x() {}\n```\n\
        Second\n------\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.\n\n    indented\n\n    code\n";

    #[test]
    fn blocks_are_whole_and_paragraphs_are_sentences() {
        assert_eq!(
            shown(TEXT, Kind::Markdown),
            [
                "Intro one.",
                "Intro two.",
                "# First",
                "Text one.",
                "Text two.",
                "- a\n  more of a",
                "- b\n\n  still b",
                "```rust\n# no heading\n\nfn x() {}\n```",
                "Second\n------",
                "| a | b |\n|---|---|\n| 1 | 2 |",
                "End.",
                "indented\n\n    code"
            ]
        );
    }

    #[test]
    fn blocks_know_their_heading_and_their_paragraph() {
        let units = split(TEXT, Kind::Markdown);
        let headings: Vec<_> = units.iter().map(|unit| unit.context).collect();
        assert_eq!(headings[..9], [None, None, None, Some(2), Some(2), Some(2), Some(2), Some(2), None]);
        assert_eq!((headings[9], units[8].role), (Some(8), Role::Heading));
        assert_eq!(units[5].paragraph, units[6].paragraph);
        assert_ne!(units[4].paragraph, units[5].paragraph);
    }

    #[test]
    fn a_fence_that_is_never_closed_reaches_to_the_end() {
        assert_eq!(shown("a\n\n~~~\nb\n\n# c\n", Kind::Markdown), ["a", "~~~\nb\n\n# c"]);
    }
}
