//! JSON strings: finding their end, decoding and comparing them.
//!
//! Invariant: the functions that take a token expect it with its quotes and already validated.

use std::borrow::Cow;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks (by the high bit of a byte) bytes of `word` that are zero; exact up to the first marked byte.
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Index of the first byte from `from` on that ends a run of plain string content: a quote, a backslash or a
/// control character. `bytes.len()` if there is none.
#[must_use]
pub fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut i = from;
    while let Some(chunk) = bytes.get(i..i + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("the slice has eight bytes"));
        let quote = zero_bytes(word ^ (ONES * b'"' as u64));
        let escape = zero_bytes(word ^ (ONES * b'\\' as u64));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let hit = quote | escape | control;
        if hit != 0 {
            return i + (hit.trailing_zeros() / 8) as usize;
        }
        i += 8;
    }
    while bytes.get(i).is_some_and(|b| *b != b'"' && *b != b'\\' && *b >= 0x20) {
        i += 1;
    }
    i
}

/// What is between the quotes of a token.
fn inner(token: &str) -> &str {
    token.get(1..token.len().saturating_sub(1)).unwrap_or("")
}

/// Decodes a token; a lone surrogate becomes U+FFFD. Borrows when there is nothing to decode.
#[must_use]
pub fn decode_lossy(token: &str) -> Cow<'_, str> {
    unescape(inner(token)).0
}

/// Decodes a token, or `None` if it holds a lone surrogate.
#[must_use]
pub fn decode(token: &str) -> Option<Cow<'_, str>> {
    let (text, exact) = unescape(inner(token));
    exact.then_some(text)
}

/// Whether a token decodes to `want`.
#[must_use]
pub fn equals(token: &str, want: &str) -> bool {
    let raw = inner(token);
    raw == want
        || (raw.len() > want.len()
            && memchr::memchr(b'\\', raw.as_bytes()).is_some()
            && decode_lossy(token) == want)
}

/// Decoded text, and whether it is exact (no lone surrogate was replaced).
fn unescape(raw: &str) -> (Cow<'_, str>, bool) {
    let Some(first) = memchr::memchr(b'\\', raw.as_bytes()) else {
        return (Cow::Borrowed(raw), true);
    };
    let mut out = String::with_capacity(raw.len());
    let (mut exact, mut plain, mut next) = (true, 0, Some(first));
    while let Some(at) = next {
        out.push_str(&raw[plain..at]);
        let (c, used) = escape(&raw.as_bytes()[at + 1..]);
        exact &= c.is_some();
        out.push(c.unwrap_or(char::REPLACEMENT_CHARACTER));
        plain = (at + 1 + used).min(raw.len());
        next = memchr::memchr(b'\\', &raw.as_bytes()[plain..]).map(|n| plain + n);
    }
    out.push_str(&raw[plain..]);
    (Cow::Owned(out), exact)
}

/// The character that an escape stands for, and its length after the backslash. `None` for a lone surrogate.
fn escape(after: &[u8]) -> (Option<char>, usize) {
    let c = match after.first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unicode(after),
        Some(other) => char::from(*other),
        None => return (None, 0),
    };
    (Some(c), 1)
}

fn unicode(after: &[u8]) -> (Option<char>, usize) {
    let high = hex4(after.get(1..5));
    if !(0xD800..0xDC00).contains(&high) {
        return (char::from_u32(high), 5);
    }
    let low = if after.get(5..7) == Some(b"\\u") { hex4(after.get(7..11)) } else { 0 };
    if !(0xDC00..0xE000).contains(&low) {
        return (None, 5);
    }
    (char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)), 11)
}

/// Four hexadecimal digits as a number; 0xD800 (no character) if they are not four digits.
fn hex4(digits: Option<&[u8]>) -> u32 {
    let value = digits.and_then(|d| d.iter().try_fold(0, |n, b| Some(n * 16 + char::from(*b).to_digit(16)?)));
    value.unwrap_or(0xD800)
}

/// Writes `text` as a JSON string with its quotes.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let stop = plain_end(bytes, from);
        out.extend_from_slice(&bytes[from..stop]);
        match bytes.get(stop) {
            None => break,
            Some(c @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', *c]),
            Some(c) => out.extend_from_slice(format!("\\u{c:04x}").as_bytes()),
        }
        from = stop + 1;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::{decode, decode_lossy, equals, plain_end, quote};

    #[test]
    fn plain_runs_end_at_quote_backslash_and_control() {
        for (text, end) in
            [("abc\"", 3), ("0123456789\\", 10), ("abcdefgh\u{1f}", 8), ("é世界\u{7f}\"", 9), ("", 0)]
        {
            assert_eq!(plain_end(text.as_bytes(), 0), end, "{text:?}");
        }
        let wide = "\u{80}\u{a0}\u{ff}".repeat(9);
        assert_eq!(plain_end(wide.as_bytes(), 0), wide.len());
    }

    #[test]
    fn escapes_decode_and_lone_surrogates_are_told_apart() {
        assert_eq!(decode(r#""a\n\/\u00e9\ud83d\ude00\\""#).unwrap(), "a\n/é😀\\");
        assert_eq!(decode(r#""x\ud83d""#), None);
        assert_eq!(decode(r#""\udc00\ud83d\u0041""#), None);
        assert_eq!(decode_lossy(r#""\ud83dA""#), "\u{fffd}A");
        assert_eq!(decode_lossy(r#""\ud83d\ud83d\ude00""#), "\u{fffd}😀");
    }

    #[test]
    fn comparison_is_by_decoded_text() {
        assert!(equals(r#""par\u0061ms""#, "params"));
        assert!(equals(r#""tools\/call""#, "tools/call"));
        assert!(!equals(r#""params""#, "param"));
        assert!(!equals(r#""par\\ms""#, "params"));
    }

    #[test]
    fn quoted_text_decodes_to_itself() {
        let text = "a\"b\\c\u{1}\n\té";
        let mut out = Vec::new();
        quote(text, &mut out);
        assert_eq!(decode(std::str::from_utf8(&out).unwrap()).unwrap(), text);
    }
}
