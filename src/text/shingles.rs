//! What of a text counts when texts are compared: its words, without case, punctuation and spacing, and the pairs
//! of neighbours among them.

use std::{
    cmp::Ordering,
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use unicode_normalization::{IsNormalized, UnicodeNormalization, char::is_combining_mark, is_nfkc_quick};

/// A text prepared for comparing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Its words with one space between them: texts with equal keys are the same text. A text without words
    /// has itself as key, after a NUL that no words contain.
    pub key: String,
    /// Hashes of each two neighbouring words (of the one word, if there is one), sorted, each once.
    pub shingles: Vec<u64>,
}

/// Prepares `text`: NFKC, case folded, punctuation away, spaces collapsed.
#[must_use]
pub fn prepare(text: &str) -> Prepared {
    let mut key = words(text);
    let shingles = shingles(&key);
    if key.is_empty() {
        key = format!("\0{}", text.trim());
    }
    Prepared { key, shingles }
}

/// The part of two sets of shingles that is common to both: 1 if they are the same, 0 if one is empty.
#[must_use]
pub fn jaccard(a: &[u64], b: &[u64]) -> f64 {
    let (mut i, mut j, mut common) = (0, 0, 0_usize);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
        }
    }
    common as f64 / (a.len() + b.len() - common).max(1) as f64
}

/// The words of `text`, joined by single spaces.
fn words(text: &str) -> String {
    let mut writer = Words { out: String::with_capacity(text.len()), gap: false, line_start: true };
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        writer.write(text.chars());
    } else {
        writer.write(text.nfkc());
    }
    writer.out
}

struct Words {
    out: String,
    /// A separator came since the last word.
    gap: bool,
    /// Nothing but marks since the line began: quoting, underlining and bullets are no content.
    line_start: bool,
}

impl Words {
    fn write(&mut self, chars: impl Iterator<Item = char>) {
        let mut chars = chars.peekable();
        let mut before = ' ';
        while let Some(c) = chars.next() {
            if c.is_alphanumeric() || is_combining_mark(c) {
                let alone = stands_alone(c);
                self.gap |= alone;
                self.letter(c);
                self.gap |= alone;
            } else if c == '\n' {
                self.gap = true;
                self.line_start = true;
            } else if is_sign(c, before, chars.peek().copied()) || carries_meaning(c) && !self.line_start {
                self.gap = true;
                self.letter(c);
                self.gap = c != '-';
            } else if !is_apostrophe(c) {
                self.gap = true;
            }
            before = c;
        }
    }

    fn letter(&mut self, c: char) {
        self.line_start = false;
        if std::mem::take(&mut self.gap) && !self.out.is_empty() {
            self.out.push(' ');
        }
        if c.is_ascii() {
            self.out.push(c.to_ascii_lowercase());
        } else {
            // Lower case of upper case is full case folding for nearly all letters: "ß" meets "ss", "ς" meets "σ".
            self.out.extend(c.to_uppercase().flat_map(char::to_lowercase));
        }
    }
}

/// Apostrophes join what they stand between: "don't" is one word.
fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '\u{02BC}')
}

/// A minus right before a digit: -5 is not 5. Not between two digits, where it is a hyphen ("2024-05").
fn is_sign(c: char, before: char, next: Option<char>) -> bool {
    c == '-' && !before.is_alphanumeric() && next.is_some_and(|n| n.is_ascii_digit())
}

/// Symbols that change what is said: "a < b" is not "a > b", 5 % is not $5.
fn carries_meaning(c: char) -> bool {
    matches!(c, '+' | '<' | '>' | '=' | '%' | '$' | '€' | '£' | '¥')
}

/// Scripts written without spaces: every letter counts as a word, so that shingles are pairs of letters.
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}'      // Thai, Lao
        | '\u{1000}'..='\u{109F}'    // Myanmar
        | '\u{1780}'..='\u{17FF}'    // Khmer
        | '\u{3040}'..='\u{30FF}'    // Hiragana, Katakana
        | '\u{3400}'..='\u{9FFF}'    // CJK
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

fn shingles(key: &str) -> Vec<u64> {
    let mut hashes = Vec::new();
    let mut last: Option<&str> = None;
    for word in key.split(' ').filter(|w| !w.is_empty()) {
        if let Some(last) = last {
            hashes.push(hash(&(last, word)));
        }
        last = Some(word);
    }
    match last {
        Some(only) if hashes.is_empty() => hashes.push(hash(&only)),
        _ => {}
    }
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Fixed keys: equal input gives an equal result on every run.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        prepare(text).key
    }

    #[test]
    fn ignores_case_punctuation_and_spacing() {
        assert_eq!(key("  The “Quick”,\r\n brown-fox!  "), "the quick brown fox");
        assert_eq!(key("Don't stop"), key("DON’T STOP."));
        assert_eq!(key("ﬁne Ｗｉｄｅ"), "fine wide");
        assert_eq!(key("Straße ΟΔΟΣ"), key("STRASSE οδος"));
    }

    #[test]
    fn keeps_what_changes_the_meaning() {
        assert_ne!(key("it was -5 degrees"), key("it was 5 degrees"));
        assert_ne!(key("a < b"), key("a > b"));
        assert_ne!(key("costs $5"), key("costs 5 %"));
        assert_eq!(key("in 2024-05"), key("in 2024 05"));
    }

    #[test]
    fn quoting_and_underlining_are_no_content() {
        assert_eq!(key("> A quoted line\n> goes on"), key("A quoted line goes on"));
        assert_eq!(key("Title\n=====\n- item"), key("Title item"));
    }

    #[test]
    fn texts_without_words_are_told_apart() {
        assert_ne!(key("!!!"), key("???"));
        assert_eq!(key("!!!"), key(" !!! "));
        assert!(prepare("!!!").shingles.is_empty());
    }

    #[test]
    fn scripts_without_spaces_give_pairs_of_letters() {
        assert_eq!(prepare("今天天气").shingles.len(), 3);
        assert_eq!(key("ภาษาไทย").split(' ').count(), "ภาษาไทย".chars().count());
    }

    #[test]
    fn devanagari_words_stay_whole() {
        assert_eq!(key("हिन्दी भाषा").split(' ').count(), 2);
    }

    #[test]
    fn jaccard_counts_what_is_common() {
        assert_eq!(jaccard(&[1, 2, 3], &[2, 3, 4]), 0.5);
        assert_eq!(jaccard(&[], &[]), 0.0);
        assert_eq!(jaccard(&[7], &[7]), 1.0);
    }

    #[test]
    fn one_word_is_its_own_shingle() {
        assert_eq!(prepare("Paris").shingles, prepare("paris!").shingles);
        assert_eq!(prepare("Paris").shingles.len(), 1);
    }
}
