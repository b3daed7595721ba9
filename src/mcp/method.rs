//! The methods of MCP, in every revision: the one list.

const METHODS: [&str; 36] = [
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// The method as the specification spells it, if it has it.
#[must_use]
pub fn known(method: &str) -> Option<&'static str> {
    METHODS.binary_search(&method).ok().map(|at| METHODS[at])
}

/// Whether `method` belongs to MCP: a known one, or any notification.
#[must_use]
pub fn is_mcp(method: &str) -> bool {
    method.starts_with("notifications/") || known(method).is_some()
}

/// Whether a server may ask in the middle of it (2026-07-28, multi-round-trip requests).
#[must_use]
pub fn is_askable(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// Whether a server is at work in it for a client, rather than saying what it offers or keeping a session.
#[must_use]
pub fn is_work(method: &str) -> bool {
    is_askable(method) || method == "completion/complete"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_for_the_search() {
        assert!(METHODS.is_sorted());
        assert_eq!(known("tools/call"), Some("tools/call"));
        assert_eq!(known("tools/Call"), None);
        assert!(is_mcp("notifications/of/tomorrow"));
    }
}
