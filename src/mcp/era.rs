//! Which protocol era a message belongs to (mcp-wire: the classifier). Pure.

/// The first modern revision: self-contained requests, no sessions.
pub const MODERN: &str = "2026-07-28";

/// The two eras of MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// `2025-11-25` and earlier: `initialize`, sessions, server-to-client requests.
    Legacy,
    /// `2026-07-28` and later: every request carries its own `_meta`.
    Modern,
}

impl Era {
    /// The name used in audit records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}
