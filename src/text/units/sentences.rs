//! The sentences of prose, by Unicode's rules (UAX #29), but across the line breaks of wrapped text.

use unicode_segmentation::UnicodeSegmentation;

/// A line at least this long, in bytes, that ends within a sentence was wrapped.
const WRAPPED: usize = 50;

/// Where each sentence of `text` ends, with the space after it.
pub(super) fn ends(text: &str) -> Vec<usize> {
    let mut ends: Vec<usize> = Vec::new();
    let mut line_start = 0;
    // Whether the last sentence goes on: its line was wrapped, or only space has come since.
    let mut goes_on = false;
    for (at, piece) in text.split_sentence_bound_indices() {
        let end = at + piece.len();
        if goes_on || piece.trim().is_empty() {
            ends.pop();
        }
        ends.push(end);
        goes_on = false;
        if piece.ends_with(['\n', '\r']) {
            let line = text[line_start..end].trim_end();
            goes_on = line.len() >= WRAPPED && !is_finished(line);
            line_start = end;
        }
    }
    ends
}

fn is_finished(line: &str) -> bool {
    line.ends_with(['.', '!', '?', ':', ';', '。', '！', '？', '：', '…', '"', '”', ')', '।', '؟'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<&str> {
        let ends = ends(text);
        let starts = [0].into_iter().chain(ends.clone());
        starts.zip(&ends).map(|(from, to)| &text[from..*to]).collect()
    }

    #[test]
    fn sentences_end_by_the_rules_of_unicode() {
        assert_eq!(split("One. Two, yes, three?  Four 3.5 x"), ["One. ", "Two, yes, three?  ", "Four 3.5 x"]);
        assert_eq!(split("他来了。她走了！"), ["他来了。", "她走了！"]);
        assert!(ends("").is_empty());
    }

    #[test]
    fn wrapped_lines_do_not_end_a_sentence_and_short_lines_do() {
        let wrapped = "This line is long enough to have been wrapped by an\neditor. Next.";
        assert_eq!(split(wrapped).len(), 2, "{:?}", split(wrapped));
        assert_eq!(split("Name: x\nAge: 5\n"), ["Name: x\n", "Age: 5\n"]);
    }
}
