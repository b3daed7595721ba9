//! Secrets that are known by their own form: tokens by their beginning, keys in PEM, users in URLs, mail addresses,
//! card numbers, and long runs that are too random to be words. Invariant: each looks at a bounded stretch of text
//! before it has found something.

use std::ops::Range;

/// How far is looked before it is decided.
const REACH: usize = 256;
/// Bits for each character from which a run of letters of both cases and digits is no name.
const RANDOM: f64 = 4.2;
/// A run that contains slashes may be a path.
const RANDOM_PATH: f64 = 4.6;
/// Lengths of runs that may be keys; longer ones are data.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 32..=512;

/// Characters that tokens consist of.
pub(super) fn is_token_char(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'_' | b'-'
                | b'.'
                | b'/'
                | b'+'
                | b'='
                | b'~'
                | b'!'
                | b'%'
                | b'^'
                | b'#'
                | b'$'
                | b'*'
                | b'('
                | b')'
        )
}

fn is_word_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b'+' | b'=' | b'~' | b':' | b'!')
}

/// The end of the run of `accepted` characters that starts at `from`.
pub(super) fn run(text: &[u8], from: usize, accepted: fn(u8) -> bool) -> usize {
    from + text[from..].iter().take_while(|b| accepted(**b)).count()
}

fn bounded_run(text: &[u8], from: usize, accepted: fn(u8) -> bool) -> usize {
    let reach = text.len().min(from + REACH);
    from + text[from..reach].iter().take_while(|b| accepted(**b)).count()
}

/// Whether no word looks like it: digits, or letters of both cases.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    let (mut digits, mut upper, mut lower) = (false, false, false);
    for b in value {
        digits |= b.is_ascii_digit();
        upper |= b.is_ascii_uppercase();
        lower |= b.is_ascii_lowercase();
    }
    digits || upper && lower
}

/// Whether a word may begin here: what comes before is no letter, or the end of an escape such as `\n` or `%20`.
fn begins(text: &[u8], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|b| text[b]) else { return true };
    let earlier = |n: usize| at.checked_sub(n).map(|b| text[b]);
    !before.is_ascii_alphanumeric()
        || earlier(2) == Some(b'\\')
        || earlier(3) == Some(b'%')
        || earlier(6) == Some(b'\\')
}

/// A token of a known kind.
pub(super) fn token(text: &[u8], begin: Range<usize>, exact: &str, least: usize) -> Option<Range<usize>> {
    if &text[begin.clone()] != exact.as_bytes() {
        return None;
    }
    let last = exact.as_bytes()[exact.len() - 1];
    let telling = exact.len() > 3 && !last.is_ascii_alphanumeric();
    if !telling && !begins(text, begin.start) {
        return None;
    }
    let end = bounded_run(text, begin.end, is_word_char);
    let rest = &text[begin.end..end];
    if rest.len() < least || !is_mixed(rest) {
        return None;
    }
    let plain = rest.iter().filter(|b| b.is_ascii_alphanumeric()).count();
    // What is not told by its beginning alone must be as random as a token is.
    let random = telling || entropy(rest) > 3.0;
    (2 * plain >= rest.len() && random).then(|| begin.start..run(text, begin.end, is_word_char))
}

/// `Bearer …`
pub(super) fn scheme(text: &[u8], scheme: Range<usize>) -> Option<Range<usize>> {
    if !begins(text, scheme.start) {
        return None;
    }
    let from = scheme.end + text[scheme.end..].iter().take(8).take_while(|b| **b == b' ').count();
    let end = bounded_run(text, from, is_token_char);
    let value = &text[from..end];
    (value.len() >= 8 && (is_mixed(value) || value.len() >= 24)).then(|| from..run(text, from, is_token_char))
}

/// A private key; one without an end goes on to the end of the text.
pub(super) fn pem(text: &[u8], begin: Range<usize>) -> Option<Range<usize>> {
    let label = &text[begin.end..text.len().min(begin.end + 64)];
    memchr::memmem::find(&label.to_ascii_uppercase(), b"PRIVATE KEY")?;
    let after = memchr::memmem::find(&text[begin.end..], b"-----END");
    let end = after.map_or(text.len(), |at| {
        let from = begin.end + at + 8;
        from + text[from..].iter().take(64).position(|b| *b == b'\n').unwrap_or_else(|| {
            memchr::memmem::find(&text[from..text.len().min(from + 64)], b"-----")
                .map_or(0, |dashes| dashes + 5)
        })
    });
    Some(begin.start..end)
}

/// User and password in front of a host.
pub(super) fn user_of_url(text: &[u8], from: usize) -> Option<Range<usize>> {
    let ends = |b: &u8| {
        matches!(b, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'@' | b'`')
            || b.is_ascii_whitespace()
    };
    let reach = text.len().min(from + REACH);
    let length = text[from..reach].iter().position(ends)?;
    (text[from + length] == b'@' && length > 0).then(|| from..from + length)
}

/// A mail address.
pub(super) fn mail(text: &[u8], at: Range<usize>) -> Option<Range<usize>> {
    let local = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-');
    let before = text[..at.start].iter().rev().take(64).take_while(|b| local(b)).count();
    let host = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    let mut after = text[at.end..].iter().take(REACH).take_while(|b| host(b)).count();
    while after > 0 && matches!(text[at.end + after - 1], b'.' | b'-') {
        after -= 1;
    }
    let domain = &text[at.end..at.end + after];
    let dot = domain.iter().rposition(|b| *b == b'.')?;
    let top = &domain[dot + 1..];
    let named = before > 0 && dot > 0 && top.len() >= 2 && top.iter().all(u8::is_ascii_alphabetic);
    named.then(|| at.start - before..at.end + after)
}

/// Card numbers, and runs of characters that are no words.
pub(super) fn runs(text: &[u8], found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < text.len() {
        let b = text[at];
        if !(b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'_' | b'-')) {
            at += 1;
            continue;
        }
        if b.is_ascii_digit()
            && let Some(end) = card(text, at)
        {
            found.push(at..end);
            at = end;
            continue;
        }
        let end =
            run(text, at, |b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'_' | b'-' | b'='));
        if b.is_ascii_digit() && end - at < 13 {
            // A card number may begin in a group of few digits, but only at the group's beginning.
            at += text[at..end].iter().take_while(|b| b.is_ascii_digit()).count();
            continue;
        }
        if KEY_LENGTHS.contains(&(end - at)) && is_random(&text[at..end]) {
            found.push(at..end);
        }
        at = end;
    }
}

fn is_random(run: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| run.iter().filter(|b| is(b)).count();
    let digits = count(u8::is_ascii_digit);
    let mixed = digits > 0 && count(u8::is_ascii_uppercase) > 1 && count(u8::is_ascii_lowercase) > 1;
    let path = run.contains(&b'/');
    mixed && (!path || digits > 2) && entropy(run) >= if path { RANDOM_PATH } else { RANDOM }
}

/// Shannon entropy in bits for each character.
pub(super) fn entropy(value: &[u8]) -> f64 {
    let mut seen = [0u32; 256];
    value.iter().for_each(|b| seen[usize::from(*b)] += 1);
    let all = u32::try_from(value.len()).map_or(f64::MAX, f64::from);
    let bits = |n: &u32| {
        let share = f64::from(*n) / all;
        -share * share.log2()
    };
    seen.iter().filter(|n| **n > 0).map(bits).sum()
}

/// The end of the card number (ISO/IEC 7812) that starts at `from`: 13 to 19 digits in groups, of a network that
/// exists, whose last digit fits the others.
fn card(text: &[u8], from: usize) -> Option<usize> {
    let before = from.checked_sub(1).map(|b| text[b]);
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_')) && !begins(text, from) {
        return None;
    }
    if before == Some(b'.') || !matches!(text[from], b'2'..=b'6') {
        return None;
    }
    let (mut digits, mut end) = ([0u8; 19], from);
    let mut n = 0;
    while let Some(&b) = text.get(end) {
        match b {
            b'0'..=b'9' if n == digits.len() => return None,
            b'0'..=b'9' => {
                digits[n] = b - b'0';
                n += 1;
            }
            b' ' | b'-' if text.get(end + 1).is_some_and(u8::is_ascii_digit) => {}
            _ => break,
        }
        end += 1;
    }
    let fraction = text.get(end) == Some(&b'.') && text.get(end + 1).is_some_and(u8::is_ascii_digit);
    let whole = !fraction && text.get(end).is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_');
    let digits = digits.get(..n)?;
    (whole && is_network(digits) && luhn(digits)).then_some(end)
}

/// Networks' ranges and lengths (ISO/IEC 7812 issuer numbers as the networks publish them).
fn is_network(digits: &[u8]) -> bool {
    let Some(first) = digits.get(..4) else { return false };
    let first = first.iter().fold(0u16, |all, d| all * 10 + u16::from(*d));
    match first {
        4000..=4999 => matches!(digits.len(), 13 | 16 | 19),
        5100..=5599 | 2221..=2720 => digits.len() == 16,
        3400..=3499 | 3700..=3799 => digits.len() == 15,
        3000..=3059 | 3600..=3699 | 3800..=3999 => (14..=19).contains(&digits.len()),
        3528..=3589 | 6011 | 6200..=6299 | 6440..=6599 => (16..=19).contains(&digits.len()),
        5018 | 5020 | 5038 | 5893 | 6304 | 6759 | 6761..=6763 => (13..=19).contains(&digits.len()),
        _ => false,
    }
}

fn luhn(digits: &[u8]) -> bool {
    let doubled = |(place, digit): (usize, &u8)| match (place % 2, digit * 2) {
        (0, _) => *digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    };
    digits.iter().rev().enumerate().map(doubled).map(u32::from).sum::<u32>() % 10 == 0
}
