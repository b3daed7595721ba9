//! What a listener of a session wants to hear, of what the server tells everybody.

use crate::mcp::message::Message;

/// What a listener wants to hear.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wants {
    pub(super) tools: bool,
    pub(super) prompts: bool,
    pub(super) resources: bool,
    pub(super) uris: Vec<String>,
}

/// Whether it is for listeners.
pub(super) fn is_news(method: &str) -> bool {
    matches!(
        method,
        "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
    )
}

impl Wants {
    pub(super) fn include(&self, message: &Message<'_>) -> bool {
        match message.method.as_deref() {
            Some("notifications/tools/list_changed") => self.tools,
            Some("notifications/prompts/list_changed") => self.prompts,
            Some("notifications/resources/list_changed") => self.resources,
            // It may be about a part of what was subscribed to (2025-11-25, resources).
            Some("notifications/resources/updated") => {
                let uri = message.uri.as_deref().unwrap_or_default();
                self.uris.iter().any(|u| {
                    uri.strip_prefix(&**u)
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '#', '?']))
                })
            }
            _ => false,
        }
    }
}
