//! JSON number lexemes: what they are worth, exactly, without passing through a float.
//!
//! Invariant: every function takes a lexeme that the scanner accepted and never loses a digit of it.

/// A number as sign, significant digits and power of ten: `digits * 10^exponent`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// Without leading or trailing zeros; empty for zero.
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Reads a lexeme. `None` if it is no JSON number or its exponent is beyond any use.
    #[must_use]
    pub fn read(lexeme: &str) -> Option<Self> {
        if !is_number(lexeme) {
            return None;
        }
        let (negative, rest) = lexeme.strip_prefix('-').map_or((false, lexeme), |r| (true, r));
        let (mantissa, power) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let kept = all.trim_end_matches('0');
        let digits = kept.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let dropped = i64::try_from(all.len() - kept.len()).ok()?;
        let power: i64 = power.parse().ok()?;
        let exponent = power.checked_sub(i64::try_from(fraction.len()).ok()?)?.checked_add(dropped)?;
        Some(Self { negative, digits, exponent })
    }

    /// Whether the value has no fraction.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// The value as plain decimal digits, if it is an integer of at most 40 digits.
    #[must_use]
    pub fn to_integer(&self) -> Option<String> {
        if self.digits.is_empty() {
            return Some("0".into());
        }
        let zeros = usize::try_from(self.exponent).ok()?;
        if zeros > 40 || self.digits.len() > 40 - zeros {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        Some(format!("{sign}{}{}", self.digits, "0".repeat(zeros)))
    }
}

/// Whether `text` is exactly one JSON number.
#[must_use]
pub fn is_number(text: &str) -> bool {
    end(text.as_bytes(), 0) == Ok(text.len())
}

/// Whether `text` is `-?(0|[1-9][0-9]*)`.
#[must_use]
pub fn is_plain_integer(text: &str) -> bool {
    is_number(text) && !text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
}

/// Whether a lexeme is an integer by value: `1`, `1.0`, `1e0`, but not `1.5`.
#[must_use]
pub fn is_integer(lexeme: &str) -> bool {
    is_plain_integer(lexeme) || Decimal::read(lexeme).is_some_and(|d| d.is_integer())
}

/// Whether two lexemes are worth the same.
#[must_use]
pub fn equal(a: &str, b: &str) -> bool {
    match (Decimal::read(a), Decimal::read(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Where the number that starts at `at` ends, or the offset of the byte that spoils it.
///
/// # Errors
/// The offset at which the grammar of RFC 8259 section 6 is left.
#[inline]
pub fn end(b: &[u8], at: usize) -> Result<usize, usize> {
    let mut i = at;
    if b.get(i) == Some(&b'-') {
        i += 1;
    }
    i = match b.get(i) {
        Some(b'0') => i + 1,
        Some(b'1'..=b'9') => digits(b, i + 1),
        _ => return Err(i),
    };
    if matches!(b.get(i), Some(b'.' | b'e' | b'E')) { fraction(b, i) } else { Ok(i) }
}

/// The part of a number after its whole digits.
fn fraction(b: &[u8], mut i: usize) -> Result<usize, usize> {
    if b.get(i) == Some(&b'.') {
        i = some_digits(b, i + 1)?;
    }
    if matches!(b.get(i), Some(b'e' | b'E')) {
        i += 1;
        if matches!(b.get(i), Some(b'+' | b'-')) {
            i += 1;
        }
        i = some_digits(b, i)?;
    }
    Ok(i)
}

#[inline]
fn digits(b: &[u8], mut i: usize) -> usize {
    while matches!(b.get(i), Some(b'0'..=b'9')) {
        i += 1;
    }
    i
}

fn some_digits(b: &[u8], i: usize) -> Result<usize, usize> {
    let end = digits(b, i);
    if end == i { Err(i) } else { Ok(end) }
}

#[cfg(test)]
mod tests {
    use super::{Decimal, equal, is_integer, is_number, is_plain_integer};

    #[test]
    fn the_grammar_is_that_of_rfc_8259() {
        for good in ["0", "-0", "10", "1.5", "1e3", "1E+3", "-0.0e-10", "123456789012345678901234567890"] {
            assert!(is_number(good), "{good}");
        }
        for bad in ["", "-", "01", "1.", ".5", "1e", "+1", "0x10", "1,000", " 5", "NaN", "--1"] {
            assert!(!is_number(bad), "{bad}");
        }
    }

    #[test]
    fn integers_are_told_by_value() {
        for good in ["1", "1.0", "1e0", "10e-1", "1.50e1", "0.0", "-0", "9007199254740993", "1e400", "0e-9"] {
            assert!(is_integer(good), "{good}");
        }
        for bad in ["1.5", "1e-1", "0.1", "15e-2"] {
            assert!(!is_integer(bad), "{bad}");
        }
        assert!(!is_plain_integer("1.0"));
    }

    #[test]
    fn equality_is_numeric_and_exact() {
        assert!(equal("2", "2.0") && equal("2", "20e-1") && equal("2", "0.02E2") && equal("-0", "0"));
        assert!(!equal("9007199254740993", "9007199254740992") && !equal("2", "-2"));
    }

    #[test]
    fn integers_print_canonically() {
        let print = |s| Decimal::read(s).unwrap().to_integer();
        assert_eq!(print("-1.20e3").as_deref(), Some("-1200"));
        assert_eq!(print("-0.0").as_deref(), Some("0"));
        assert_eq!(print("1.5"), None);
        assert_eq!(print("1e400"), None);
    }
}
