//! The part of a text that shows why it was found. Owns the choice of the window and the cut to a number of tokens.
//!
//! Invariant: a snippet never has more tokens than allowed.

use std::collections::{HashMap, HashSet};

use unicode_segmentation::UnicodeSegmentation;

use crate::text::{
    tokens,
    words::{self, Language},
};

/// Bytes looked through for the best window.
const SCAN: usize = 256 * 1024;
/// Roughly the bytes of one token; a window is cut exactly afterwards.
const BYTES_PER_TOKEN: usize = 4;
/// No text has this many bytes in each token, so more than that need not be tokenised for a cut.
const MOST_BYTES_PER_TOKEN: usize = 24;
const ELLIPSIS: &str = "…";

/// The window of `text` that has most of the query's words, the rare ones counting more, in at most `limit` tokens.
#[must_use]
pub fn best(text: &str, query: &str, limit: usize) -> String {
    if limit == 0 {
        return String::new();
    }
    let text = text.trim();
    if text.len() <= limit * MOST_BYTES_PER_TOKEN && tokens::fits(text, limit) {
        return cut(&squeeze(text), limit);
    }
    let text = &text[..text.floor_char_boundary(SCAN)];
    let language = Language::of(text);
    let wanted: HashSet<String> = words::terms(query, language).into_iter().collect();
    let units = units(text, limit * BYTES_PER_TOKEN / 2);
    let start = window(&units, &wanted, language, limit * BYTES_PER_TOKEN);
    let from = units.get(start).map_or(0, |unit| unit.0);
    let shown = squeeze(&text[from..text.ceil_char_boundary(from + limit * MOST_BYTES_PER_TOKEN)]);
    if start == 0 { cut(&shown, limit) } else { cut(&format!("{ELLIPSIS} {shown}"), limit) }
}

/// The beginning of `text` in at most `limit` tokens, whole words where there are any, with an ellipsis if something
/// is missing.
#[must_use]
pub fn cut(text: &str, limit: usize) -> String {
    if limit == 0 {
        return String::new();
    }
    let near = &text[..text.floor_char_boundary(limit * MOST_BYTES_PER_TOKEN)];
    if near.len() == text.len() && tokens::fits(text, limit) {
        return text.to_owned();
    }
    let with_end = |end: usize| format!("{}{ELLIPSIS}", near[..end].trim_end());
    let fits = |end: &usize| tokens::fits(&with_end(*end), limit);
    let words: Vec<usize> =
        near.char_indices().filter(|(_, c)| c.is_whitespace()).map(|(at, _)| at).collect();
    let by_words = words.partition_point(fits).checked_sub(1).map(|at| words[at]);
    let end = match by_words {
        Some(end) if end * 2 >= limit => Some(end),
        // One long word, or a script without spaces.
        _ => {
            let chars: Vec<usize> = near.char_indices().map(|(at, _)| at).collect();
            chars.partition_point(fits).checked_sub(1).map(|at| chars[at])
        }
    };
    // Tokens of a prefix are nearly but not always fewer, so what was found is checked once more.
    match end.filter(fits) {
        Some(end) if end > 0 => with_end(end),
        _ => String::new(),
    }
}

/// Text of an engine without markup: tags away, the common entities read, spaces collapsed.
#[must_use]
pub fn plain(text: &str) -> String {
    if !text.contains(['<', '&']) {
        return squeeze(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (shown, length) = if rest.starts_with('<') { tag(rest) } else { entity(rest) };
        match shown {
            Some(c) => out.push(c),
            None if length == 1 => out.push_str(&rest[..1]),
            None => {}
        }
        rest = &rest[length..];
    }
    out.push_str(rest);
    squeeze(&out)
}

/// The length of a tag at the start of `text`; 1 for a `<` that begins none. A break is a space.
fn tag(text: &str) -> (Option<char>, usize) {
    let named = text[1..].trim_start_matches('/').starts_with(|c: char| c.is_ascii_alphabetic());
    match text.find('>') {
        Some(end) if named && end < 200 => (text[1..].starts_with("br").then_some(' '), end + 1),
        _ => (None, 1),
    }
}

/// The character of an entity at the start of `text`, and its length; 1 for an `&` that begins none.
fn entity(text: &str) -> (Option<char>, usize) {
    let Some(end) = text.bytes().take(12).position(|b| b == b';') else { return (None, 1) };
    let name = &text[1..end];
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let found = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        "hellip" => Some('…'),
        "ndash" => Some('–'),
        "mdash" => Some('—'),
        _ => match name.strip_prefix('#') {
            Some(digits) => match digits.strip_prefix(['x', 'X']) {
                Some(hex) => number(hex, 16),
                None => number(digits, 10),
            },
            None => None,
        },
    };
    found.map_or((None, 1), |c| (Some(c), end + 1))
}

/// One space in the place of each run of white space and control characters.
fn squeeze(text: &str) -> String {
    let mut words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty());
    let mut out = String::with_capacity(text.len());
    if let Some(first) = words.next() {
        out.push_str(first);
    }
    for word in words {
        out.push(' ');
        out.push_str(word);
    }
    out
}

/// Sentences as offset and text; those longer than `most` bytes in parts.
fn units(text: &str, most: usize) -> Vec<(usize, &str)> {
    let mut units = Vec::new();
    for (at, sentence) in text.split_sentence_bound_indices() {
        let (mut at, mut rest) = (at, sentence);
        while rest.len() > most.max(32) {
            let near = rest.floor_char_boundary(most.max(32));
            let end = rest[..near].rfind(char::is_whitespace).filter(|end| *end > 0).unwrap_or(near);
            units.push((at, &rest[..end]));
            at += end;
            rest = &rest[end..];
        }
        units.push((at, rest));
    }
    units
}

/// The first unit of the best window of about `bytes`.
fn window(units: &[(usize, &str)], wanted: &HashSet<String>, language: Language, bytes: usize) -> usize {
    let found: Vec<HashSet<String>> = units
        .iter()
        .map(|(_, unit)| words::terms(unit, language).into_iter().filter(|t| wanted.contains(t)).collect())
        .collect();
    let mut frequency: HashMap<&str, usize> = HashMap::new();
    for term in found.iter().flatten() {
        *frequency.entry(term).or_default() += 1;
    }
    let weight = |term: &str| (1.0 + units.len() as f64 / frequency[term] as f64).ln();
    let (mut best, mut best_value) = (0, 0.0);
    for start in 0..units.len() {
        if found[start].is_empty() {
            continue;
        }
        let mut seen: HashSet<&str> = HashSet::new();
        let (mut length, mut value) = (0, 0.0);
        for (unit, terms) in units[start..].iter().zip(&found[start..]) {
            length += unit.1.len();
            if length > bytes && length > unit.1.len() {
                break;
            }
            let mut terms: Vec<&str> = terms.iter().map(String::as_str).collect();
            // Sums of floats depend on their order, and sets have none.
            terms.sort_unstable();
            value += terms.into_iter().filter(|t| seen.insert(t)).map(weight).sum::<f64>();
        }
        if value > best_value {
            (best, best_value) = (start, value);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_window_is_where_the_words_are() {
        let filler = "Nothing of interest is said in this sentence about weather. ".repeat(40);
        let text = format!("{filler}The treaty of Westphalia ended the war in 1648. {filler}");
        let found = best(&text, "when was the Westphalia treaty", 30);
        assert!(found.contains("Westphalia ended the war in 1648"), "{found}");
        assert!(found.starts_with("… ") && tokens::count(&found) <= 30);
    }

    #[test]
    fn a_short_text_stays_whole() {
        assert_eq!(best("  A short\n\ntext. ", "anything", 60), "A short text.");
        assert_eq!(best("Some text", "text", 0), "");
    }

    #[test]
    fn a_long_line_is_searched_too() {
        let text = format!("{} needle {}", "hay ".repeat(3_000), "hay ".repeat(3_000));
        assert!(best(&text, "needle", 20).contains("needle"));
        let chinese = format!("{}威斯特伐利亚条约{}", "天气很好".repeat(500), "天气很好".repeat(500));
        let found = best(&chinese, "威斯特伐利亚", 40);
        assert!(found.contains("威斯特伐利亚"), "{found}");
    }

    #[test]
    fn markup_goes_and_signs_stay() {
        assert_eq!(
            plain("a <strong>b</strong> &amp; c<br>d &#39;e&#x27; 1 < 2 &x"),
            "a b & c d 'e' 1 < 2 &x"
        );
        assert_eq!(plain("&lt;b&gt; &é; x&"), "<b> &é; x&");
    }

    proptest! {
        #[test]
        fn no_snippet_is_too_long_and_none_panics(text in "(\\PC{0,40}[ .\n]){0,20}", query in "\\PC{0,20}", limit in 0_usize..40) {
            prop_assert!(tokens::count(&best(&text, &query, limit)) <= limit as u64);
            prop_assert!(tokens::count(&cut(&text, limit)) <= limit as u64);
            drop(plain(&text));
        }
    }
}
