//! What a modern client does not get from a legacy server: one item for each loss, and all of them in docs.

use std::ops::Range;

use super::question::Verdict;
use crate::mcp::json::{Raw, edit};

/// Loss: a legacy server says nothing of how long a result is good, so none may be kept.
pub(super) const NO_FRESHNESS: &str = r#","ttlMs":0,"cacheScope":"private""#;

/// Loss: a tool cannot be run as a task. The ranges to cut from the tool's definition.
pub(super) fn task_support(tool: Raw<'_>) -> Vec<Range<usize>> {
    let Some(execution) = tool.get("execution").filter(Raw::is_object) else { return Vec::new() };
    let is_it = |name: &Raw<'_>| name.is_string("taskSupport");
    if execution.members().all(|m| is_it(&m.name)) {
        return edit::cuts(tool, |name| name.is_string("execution"));
    }
    edit::cuts(execution, is_it)
}

/// Loss: codes that mean something else since 2026-07-28 (basic, error codes: -32020 to -32099 are the
/// specification's own) would be misread, so they become a general error.
pub(super) fn is_reserved(code: Raw<'_>) -> bool {
    code.text().parse::<i64>().is_ok_and(|code| (-32099..=-32020).contains(&code))
}

/// Loss: a server can ask only in the middle of three methods, and only what the client declared. For the rest, and on
/// the stream that belongs to no request, it gets this answer at once.
pub(super) fn unasked(method: &str) -> Verdict {
    if method == "elicitation/create" { Verdict::Cancel } else { Verdict::Unknown }
}

/// Loss: notifications that mean nothing in the modern era, or belong to what is not bridged.
pub(super) fn is_dropped(notification: &str) -> bool {
    matches!(
        notification,
        "notifications/elicitation/complete" | "notifications/tasks/status" | "notifications/initialized"
    )
}

/// Loss: on the stream that belongs to no request, nothing else than news and these is for anybody; and these only if it
/// can be told for whom.
pub(super) fn is_of_call(notification: &str) -> bool {
    matches!(notification, "notifications/progress" | "notifications/message" | "notifications/cancelled")
}

/// Loss: methods that the modern era does not have. A client may not reach into a session that it shares with
/// others, and tasks of the two eras differ on the wire.
pub(super) fn is_gone(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
    ) || method.starts_with("tasks/")
}
