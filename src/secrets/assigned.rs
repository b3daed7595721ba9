//! Secrets that are known by the name before them: `password = …`, `"api_key": "…"`, `--token …`. Owns what may stand
//! between a name and its value. Invariant: a name looks at a bounded stretch of text before it has found a value.

use std::ops::Range;

use super::forms::{entropy, is_mixed, is_token_char, run};

/// How long the rest of a name may be, and what stands between it and the value.
const NAME_REACH: usize = 48;
const GAP_REACH: usize = 24;
/// How far a value is looked at before it is decided.
const REACH: usize = 256;
/// The shortest value of a name that only secrets have, and of another.
const PLAIN_LEAST: usize = 4;
const NAMED_LEAST: usize = 10;
/// The same behind a scheme such as `Basic`.
const SCHEME_LEAST: usize = 8;
/// Bits for each character of a value that is no word, date or version.
const RANDOM: f64 = 2.9;

/// Where the value is that belongs to the name at `name`. `plain`: whatever it looks like.
pub(super) fn value(text: &[u8], name: Range<usize>, plain: bool) -> Option<Range<usize>> {
    let by_equals = text[name.end - 1] == b'=';
    let rest = if by_equals { name.end } else { end_of_name(text, name.end) };
    let (from, told) = gap(text, rest, by_equals)?;
    let quote = from.checked_sub(1).map(|q| text[q]).filter(|b| matches!(b, b'"' | b'\'' | b'`'));
    let begin = from;
    let from = after_scheme(text, begin);
    let accepted = |b: &u8| match quote {
        Some(quote) => *b != quote && *b != b'\n' && *b != b'\\',
        None => {
            !b.is_ascii_whitespace()
                && !matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>' | b',' | b';' | b'&' | b'|' | b'}' | b'\\')
        }
    };
    let reach = text.len().min(from + REACH);
    let length = text[from..reach].iter().take_while(|b| accepted(b)).count();
    let value = &text[from..from + length];
    // A sentence that goes on is no value: only behind a sign, or in quotes.
    let fits = match plain {
        // `Bearer with a key` is about a scheme.
        true if from > begin => value.len() >= SCHEME_LEAST,
        true => is_plain(value) && (told || quote.is_some() || is_mixed(value)),
        false => looks_random(value) && (told || quote.is_some() || value.len() >= 20),
    };
    fits.then(|| from..from + text[from..].iter().take_while(|b| accepted(b)).count())
}

/// Whether a value is long enough to be a secret that only its name tells.
pub(super) fn is_plain(value: &[u8]) -> bool {
    value.len() >= PLAIN_LEAST
}

/// A name goes on for a little: `password_for_tests`, `tokenValue2`.
fn end_of_name(text: &[u8], from: usize) -> usize {
    let reach = text.len().min(from + NAME_REACH);
    run(&text[..reach], from, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// What stands between: quotes, blanks, brackets, and a sign. Gives where the value begins, and whether there was a
/// sign.
fn gap(text: &[u8], from: usize, mut told: bool) -> Option<(usize, bool)> {
    let mut at = from;
    while at < text.len().min(from + GAP_REACH) {
        match text[at] {
            b'=' | b':' | b'>' => told = true,
            b',' if matches!(text[at - 1], b'"' | b'\'') => told = true,
            b'"' | b'\'' | b'`' | b' ' | b'\t' | b'\\' | b'(' | b'[' | b']' | b'|' | b'!' | b'?' => {}
            b'\n' | b'\r' if told => {}
            // Escaped line feeds and tabs of a text within a text.
            b'n' | b't' | b'r' if text[at - 1] == b'\\' => {}
            // `password is 'x'`, `value="x"`.
            b'i' if text[at..].starts_with(b"is ") => at += 1,
            b'v' if text[at..].starts_with(b"value=") => (at, told) = (at + 5, true),
            b'0'..=b'9' if text[at..].get(1..3) == Some(b": ") => at += 2,
            _ => break,
        }
        at += 1;
    }
    (at > from || told).then_some((at, told)).filter(|(at, _)| *at < text.len())
}

/// Of `Basic dXNlcg==` only the second word is the secret.
fn after_scheme(text: &[u8], from: usize) -> usize {
    let reach = text.len().min(from + 16);
    let word = run(&text[..reach], from, |b| b.is_ascii_alphabetic());
    let known = [&b"bearer"[..], b"basic", b"token", b"digest", b"apikey", b"negotiate"];
    let scheme = known.iter().any(|k| text[from..word].eq_ignore_ascii_case(k));
    if scheme && text.get(word) == Some(&b' ') { word + 1 } else { from }
}

/// Long enough, with digits or both cases, and of many different characters.
pub(super) fn looks_random(value: &[u8]) -> bool {
    let end = value.iter().take_while(|b| is_token_char(**b) || **b == b':').count();
    let value = &value[..end];
    let digits = value.iter().any(u8::is_ascii_digit);
    let long = digits && value.len() >= 32;
    let random = is_mixed(value) && (digits || value.len() >= 20) && entropy(value) > RANDOM;
    value.len() >= NAMED_LEAST && (long || random)
}
