//! Text in which characters are written as escapes of JSON: the same with the escapes resolved, and the way back. Texts
//! within texts have escapes of escapes, a level for each. Invariants: linear for each level, and the levels are few; what
//! is no escape stays; an escape is never cut.

use std::ops::Range;

/// Texts within texts that are looked into.
const LEVELS: usize = 4;

/// A text with its escapes resolved.
pub(crate) struct Resolved {
    pub(crate) text: Vec<u8>,
    /// Where each byte comes from, and where the end does.
    from: Vec<usize>,
}

impl Resolved {
    /// The bytes that a range of the resolved text was written with.
    pub(super) fn written(&self, range: Range<usize>) -> Range<usize> {
        self.from[range.start]..self.from[range.end]
    }

    /// The next level; `None` if it has no escapes.
    fn again(&self) -> Option<Self> {
        let mut next = resolved(&self.text)?;
        next.from.iter_mut().for_each(|at| *at = self.from[*at]);
        Some(next)
    }
}

/// The levels of a text; none without a backslash.
pub(crate) fn levels(text: &[u8]) -> impl Iterator<Item = Resolved> {
    let mut next = resolved(text);
    std::iter::from_fn(move || {
        let level = next.take()?;
        next = level.again();
        Some(level)
    })
    .take(LEVELS)
}

/// `None` if there is nothing to resolve.
fn resolved(text: &[u8]) -> Option<Resolved> {
    memchr::memchr(b'\\', text)?;
    let mut out = Resolved { text: Vec::with_capacity(text.len()), from: Vec::with_capacity(text.len() + 1) };
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let (length, character) = if *byte == b'\\' { escape(&text[at..]) } else { (1, None) };
        match character {
            Some(character) => {
                out.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                out.from.resize(out.text.len(), at);
            }
            None => {
                out.text.push(*byte);
                out.from.push(at);
            }
        }
        at += length;
    }
    out.from.push(at);
    (out.text.len() < text.len()).then_some(out)
}

/// How long the escape at the beginning of a text is, and what it means. No secret has characters of two surrogates.
fn escape(text: &[u8]) -> (usize, Option<char>) {
    let code = || {
        let digits = text.get(2..6).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        char::from_u32(u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?)
    };
    match text.get(1) {
        Some(b'u') => code().map_or((1, None), |character| (6, Some(character))),
        Some(b'n') => (2, Some('\n')),
        Some(b't') => (2, Some('\t')),
        Some(b'r') => (2, Some('\r')),
        Some(c @ (b'"' | b'\\' | b'/')) => (2, Some(char::from(*c))),
        _ => (1, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_level_knows_where_it_was_written() {
        let text = r"a\u0062c\\u0064\/\q";
        let levels: Vec<Resolved> = levels(text.as_bytes()).collect();
        let shown: Vec<_> = levels.iter().map(|l| String::from_utf8_lossy(&l.text).into_owned()).collect();
        assert_eq!(shown, [r"abc\u0064/\q", r"abcd/\q"]);
        assert_eq!(&text[levels[0].written(1..3)], r"\u0062c");
        assert_eq!(&text[levels[1].written(3..5)], r"\\u0064\/");
        assert_eq!(super::levels(br"plain \q").count(), 0);
    }

    proptest! {
        #[test]
        fn what_is_written_is_found_again(plain in "[ -~é\n]{0,60}", times in 1usize..4) {
            let written = (0..times).fold(plain.clone(), |text, _| {
                serde_json::Value::from(text).to_string().trim_matches('"').to_owned()
            });
            prop_assume!(written.contains('\\') && !plain.starts_with('"') && !plain.ends_with('"'));
            let found = levels(written.as_bytes()).any(|level| level.text == plain.as_bytes());
            prop_assert!(found, "{written}");
        }

        #[test]
        fn any_text_is_taken(text in "[\\\\u0-9a\"/n]{0,40}") {
            for level in levels(text.as_bytes()) {
                prop_assert!(level.text.len() <= text.len());
                prop_assert_eq!(level.written(0..level.text.len()), 0..text.len());
            }
        }
    }
}
