//! Cuts long texts at the borders of their blocks. Invariant: the parts of a text, put together again, are the text,
//! and each fits the limit it was cut for.

use unicode_segmentation::UnicodeSegmentation;

use crate::text::tokens;

/// Largest part, in bytes, however few tokens it is.
const MAX_BYTES: usize = 384 * 1024;
/// Headings shown of a document.
const OUTLINE: usize = 30;

/// Where the part of `text` ends that begins at `start` and has at most `max_tokens` tokens. The end of a block is
/// preferred, if that does not leave half the room unused; then of a line, a sentence, a word. Always further than
/// `start`, unless that is the end.
#[must_use]
pub fn end_of_part(text: &str, start: usize, max_tokens: usize) -> usize {
    let rest = &text[text.floor_char_boundary(start)..];
    let start = text.len() - rest.len();
    let room = &rest[..rest.floor_char_boundary(MAX_BYTES)];
    if room.len() == rest.len() && tokens::fits(rest, max_tokens) {
        return text.len();
    }
    let mut end = 0;
    for borders in [blocks, lines, sentences, words] {
        let after = &room[end..];
        let more = longest(&room[..end], after, &mut borders(after), max_tokens);
        end += more;
        if end > 0 && !tokens::fits(&room[..end], max_tokens / 2) {
            return start + end;
        }
    }
    // A word without end, such as packed data.
    if end == 0 {
        end = characters(room, max_tokens);
    }
    start + end
}

/// How much of `after` can follow `before`, up to one of the ascending `borders`.
fn longest(before: &str, after: &str, borders: &mut dyn Iterator<Item = usize>, max_tokens: usize) -> usize {
    let mut used = tokens::count(before);
    let mut good = vec![0];
    let mut last = 0;
    for border in borders {
        used += tokens::count(&after[last..border]);
        if used > max_tokens as u64 {
            break;
        }
        last = border;
        good.push(border);
    }
    // Tokens of parts need not add up to those of the whole.
    let whole = |end: usize| tokens::fits(&format!("{before}{}", &after[..end]), max_tokens);
    while let Some(end) = good.pop() {
        if end == 0 || whole(end) {
            return end;
        }
    }
    0
}

/// As many characters as fit, by bisection; at least one.
fn characters(text: &str, max_tokens: usize) -> usize {
    let (mut fits, mut too_many) = (text.ceil_char_boundary(1), text.len() + 1);
    while too_many - fits > 1 {
        let middle = text.floor_char_boundary(fits + (too_many - fits) / 2);
        if middle == fits {
            break;
        }
        if tokens::fits(&text[..middle], max_tokens) { fits = middle } else { too_many = middle }
    }
    fits
}

/// After each empty line that is in no code fence, and before each page of a PDF.
fn blocks(text: &str) -> Box<dyn Iterator<Item = usize> + '_> {
    let mut at = 0;
    let mut fence: Option<&str> = None;
    Box::new(text.split_inclusive('\n').filter_map(move |line| {
        at += line.len();
        let start = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        (fence.is_none() && start.is_empty()).then_some(at)
    }))
}

fn lines(text: &str) -> Box<dyn Iterator<Item = usize> + '_> {
    Box::new(text.split_inclusive('\n').scan(0, |at, line| {
        *at += line.len();
        Some(*at)
    }))
}

fn sentences(text: &str) -> Box<dyn Iterator<Item = usize> + '_> {
    Box::new(text.split_sentence_bound_indices().map(|(at, sentence)| at + sentence.len()))
}

fn words(text: &str) -> Box<dyn Iterator<Item = usize> + '_> {
    Box::new(text.split_word_bound_indices().map(|(at, word)| at + word.len()))
}

/// The first headings of Markdown: level and text.
#[must_use]
pub fn outline(markdown: &str) -> Vec<(u8, String)> {
    let mut fenced = false;
    let headings = markdown.lines().filter_map(|line| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        let heading = !fenced && (1..=6).contains(&level) && text.starts_with(' ');
        heading.then(|| (level as u8, text.trim().chars().take(200).collect()))
    });
    headings.take(OUTLINE).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str, max_tokens: usize) -> Vec<&str> {
        let mut parts = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = end_of_part(text, start, max_tokens);
            assert!(end > start && text.is_char_boundary(end));
            parts.push(&text[start..end]);
            start = end;
        }
        parts
    }

    #[test]
    fn blocks_stay_whole_where_they_can() {
        let block = |n: usize| format!("Paragraph {n} {}\n\n", "word ".repeat(20));
        let text: String = (0..20).map(block).collect();
        for part in parts(&text, 100) {
            assert!(part.starts_with("Paragraph") && part.ends_with("\n\n"), "{part:?}");
        }
        let code = format!(
            "Intro {}\n\n```rust\n{}```\n\nEnd.\n",
            "words here ".repeat(35),
            "let a = 1;\n\n".repeat(12)
        );
        assert!(
            parts(&code, 100).iter().any(|part| part.starts_with("```rust") && part.contains("```\n\n")),
            "{:?}",
            parts(&code, 100)
        );
        let one = "A sentence of some words. ".repeat(60);
        assert!(parts(&one, 64).iter().all(|part| part.ends_with(". ")));
    }

    #[test]
    fn text_without_borders_is_cut_all_the_same() {
        for text in
            ["a".repeat(300_000), "\u{1f600}".repeat(2_000), " ".repeat(1_000_000), "漢字".repeat(3_000)]
        {
            for part in parts(&text, 5_000) {
                assert!(tokens::fits(part, 5_000));
            }
        }
    }

    #[test]
    fn headings_make_the_outline() {
        let text = "# One\n\ntext # no\n\n```\n# code\n```\n\n### Three\n#nospace\n####### seven\n";
        assert_eq!(outline(text), [(1, "One".into()), (3, "Three".into())]);
        assert_eq!(outline(&"# h\n".repeat(100)).len(), 30);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_are_the_whole_and_fit(
            pieces in prop::collection::vec(prop::sample::select(vec!["word ", "\n", "\n\n", "```\n", "# H\n", "é.", "漢字。", "<x>", "  ", "1,234 ", "\u{1f600}", "\u{c}"]), 0..600),
            max_tokens in 64..200usize,
        ) {
            let text = pieces.concat();
            let parts = parts(&text, max_tokens);
            prop_assert_eq!(parts.concat(), text.clone());
            for part in parts {
                prop_assert!(tokens::fits(part, max_tokens));
            }
        }
    }
}
