//! The legacy revisions, in order, and what tells them apart here.

use serde::{Deserialize, Serialize};

/// A revision that clients of this face speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Revision {
    #[serde(rename = "2024-11-05")]
    V2024_11_05,
    #[serde(rename = "2025-03-26")]
    V2025_03_26,
    #[serde(rename = "2025-06-18")]
    V2025_06_18,
    #[serde(rename = "2025-11-25")]
    V2025_11_25,
}

impl Revision {
    /// What a request without `MCP-Protocol-Version` is read as (transports page, since 2025-06-18).
    pub(super) const ASSUMED: Self = Self::V2025_03_26;
    pub(super) const NEWEST: Self = Self::V2025_11_25;
    pub(super) const ALL: [Self; 4] =
        [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    pub(super) fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// Whether a POST may hold an array.
    pub(super) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }

    pub(super) fn has_elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    pub(super) fn has_url_elicitation(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Structured results, `resource_link`, and `title` and `_meta` on what lists hold.
    pub(super) fn has_structure(self) -> bool {
        self >= Self::V2025_06_18
    }

    pub(super) fn has_audio(self) -> bool {
        self >= Self::V2025_03_26
    }
}
