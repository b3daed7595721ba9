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
#[inline]
#[must_use]
pub fn plain_end(bytes: &[u8], from: usize) -> usize {
    let mut i = from;
    while let Some(chunk) = bytes.get(i..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
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

/// Bytes without an escape after which a run of escapes counts as over.
const QUIET: usize = 16;

/// Passes a backslash at `from` and what follows, byte by byte, until no escape has come for a while or the string
/// ends: the offset reached, which is no middle of an escape.
///
/// # Errors
/// The offset of a bad escape or of a control character.
pub fn escapes_end(bytes: &[u8], from: usize) -> Result<usize, usize> {
    let (mut i, mut quiet) = (from, 0);
    while quiet < QUIET {
        match bytes.get(i) {
            Some(b'\\') => {
                i = escape_end(bytes, i)?;
                quiet = 0;
            }
            Some(b'"') | None => return Ok(i),
            Some(0..0x20) => return Err(i),
            Some(_) => {
                i += 1;
                quiet += 1;
            }
        }
    }
    Ok(i)
}

#[inline(always)]
fn escape_end(bytes: &[u8], at: usize) -> Result<usize, usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => {
            let digits = bytes.get(at + 2..at + 6).ok_or(at)?;
            if digits.iter().all(u8::is_ascii_hexdigit) { Ok(at + 6) } else { Err(at) }
        }
        _ => Err(at),
    }
}

/// Whether the string `bytes[from..to]` (with its quotes) may be the text of a number, boolean, array or object:
/// false only if it certainly is not.
#[inline]
#[must_use]
pub fn may_read(bytes: &[u8], from: usize, to: usize) -> bool {
    match bytes.get(from + 1) {
        Some(b'{' | b'[' | b' ' | b'\\') => true,
        Some(b'0'..=b'9' | b'-') => bytes.get(to.wrapping_sub(2)).is_some_and(u8::is_ascii_digit),
        Some(b't') => to - from == 6,
        Some(b'f') => to - from == 7,
        _ => false,
    }
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
    let bytes = raw.as_bytes();
    let Some(first) = memchr::memchr(b'\\', bytes) else {
        return (Cow::Borrowed(raw), true);
    };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&bytes[..first]);
    let (mut exact, mut i) = (true, first);
    while i < bytes.len() {
        i += 1;
        match bytes.get(i).and_then(|b| simple(*b)) {
            Some(b) => {
                out.push(b);
                i += 1;
            }
            None => {
                let (c, used) = unicode(bytes.get(i..).unwrap_or_default());
                exact &= c.is_some();
                out.extend_from_slice(
                    c.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]).as_bytes(),
                );
                i = (i + used).min(bytes.len());
            }
        }
        i = copy_plain(bytes, i, &mut out);
    }
    (Cow::Owned(String::from_utf8(out).expect("whole characters were copied from a text")), exact)
}

/// Copies up to the next backslash or the end; returns where that is. Eight bytes at a time: escapes come in
/// clusters, and a copy of exact length costs more than the bytes.
#[inline]
fn copy_plain(bytes: &[u8], from: usize, out: &mut Vec<u8>) -> usize {
    let mut i = from;
    while let Some(chunk) = bytes.get(i..).and_then(<[u8]>::first_chunk::<8>) {
        let hit = zero_bytes(u64::from_le_bytes(*chunk) ^ (ONES * b'\\' as u64));
        out.extend_from_slice(chunk);
        if hit != 0 {
            let plain = (hit.trailing_zeros() / 8) as usize;
            out.truncate(out.len() - 8 + plain);
            return i + plain;
        }
        i += 8;
    }
    let rest = bytes.get(i..).unwrap_or_default();
    let plain = rest.iter().position(|b| *b == b'\\').unwrap_or(rest.len());
    out.extend_from_slice(&rest[..plain]);
    i + plain
}

/// What a one-letter escape stands for; `None` for `u`.
#[inline]
fn simple(letter: u8) -> Option<u8> {
    match letter {
        b'u' => None,
        b'b' => Some(8),
        b'f' => Some(12),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        other => Some(other),
    }
}

/// The character that `uXXXX`, or two of them with a backslash between, stands for, and its length. `None` for a
/// lone surrogate.
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
