//! The protocol revisions that are known. Pure data and comparisons.

use super::era::{Era, MODERN};

/// Every published revision, newest first.
pub const KNOWN: [&str; 5] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The newest legacy revision.
pub const LATEST_LEGACY: &str = "2025-11-25";

/// What a legacy request without `MCP-Protocol-Version` is read as (transports page, since 2025-06-18).
pub const ASSUMED: &str = "2025-03-26";

/// The only revision whose POST bodies may be batches.
pub const BATCHES: &str = "2025-03-26";

/// Whether `version` is a published revision.
#[must_use]
pub fn is_known(version: &str) -> bool {
    KNOWN.contains(&version)
}

/// Whether `version` is a date on or after the first modern revision, published or not.
#[must_use]
pub fn is_modern(version: &str) -> bool {
    is_date(version) && version >= MODERN
}

/// The era that `version` names, if it is a published revision or a later date.
#[must_use]
pub fn era(version: &str) -> Option<Era> {
    match (is_modern(version), is_known(version)) {
        (true, _) => Some(Era::Modern),
        (false, true) => Some(Era::Legacy),
        (false, false) => None,
    }
}

/// `YYYY-MM-DD`, by shape.
fn is_date(text: &str) -> bool {
    let b = text.as_bytes();
    b.len() == 10
        && b.iter().enumerate().all(|(i, c)| if i == 4 || i == 7 { *c == b'-' } else { c.is_ascii_digit() })
}

#[cfg(test)]
mod tests {
    use super::{Era, era, is_known, is_modern};

    #[test]
    fn eras_follow_dates_and_unknown_words_have_none() {
        assert_eq!(era("2026-07-28"), Some(Era::Modern));
        assert_eq!(era("2027-01-01"), Some(Era::Modern));
        assert_eq!(era("2025-11-25"), Some(Era::Legacy));
        assert_eq!(era("2025-11-26"), None);
        assert_eq!(era("DRAFT-2026-v1"), None);
        assert!(!is_modern("2026-07-28 ") && !is_known("2027-01-01"));
    }
}
