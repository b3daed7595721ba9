//! What a client has asked its child to remember: a log level, and resources that it wants news of. The next child of
//! the session is asked for the same.
//!
//! Invariant: at most [`SUBSCRIBED`] resources and [`BYTES`] of their names are kept for one session.

use std::collections::BTreeSet;

use serde_json::json;

use super::mapping;
use crate::mcp::message::Message;

const SUBSCRIBED: usize = 1024;
const BYTES: usize = 256 * 1024;
/// Longer than any name of a level.
const LEVEL: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    level: Option<String>,
    subscribed: BTreeSet<String>,
    bytes: usize,
}

impl Wishes {
    /// Takes note of a request, if it is such a wish. Whether there was room for it.
    pub(super) fn note(&mut self, message: &Message<'_>) -> bool {
        match (message.method.as_deref(), message.uri.as_deref()) {
            (Some("logging/setLevel"), _) => {
                let level =
                    mapping::param(message, "level").filter(|l| l.is_scalar() && l.text().len() <= LEVEL);
                self.level = level.map(|l| l.text().to_owned()).or(self.level.take());
                true
            }
            (Some("resources/subscribe"), Some(uri)) if !self.subscribed.contains(uri) => {
                let room = self.subscribed.len() < SUBSCRIBED && self.bytes + uri.len() <= BYTES;
                if room {
                    self.bytes += uri.len();
                    self.subscribed.insert(uri.to_owned());
                }
                room
            }
            (Some("resources/unsubscribe"), Some(uri)) => {
                if self.subscribed.remove(uri) {
                    self.bytes -= uri.len();
                }
                true
            }
            _ => true,
        }
    }

    /// The resources.
    pub(super) fn subscribed(&self) -> &BTreeSet<String> {
        &self.subscribed
    }

    /// Whether news of `uri` are wanted: it may be a part of what was asked for (2025-11-25, resources).
    pub(super) fn wants(&self, uri: &str) -> bool {
        let mut whole =
            self.subscribed.iter().filter_map(|asked| Some((asked, uri.strip_prefix(asked.as_str())?)));
        whole
            .any(|(asked, rest)| rest.is_empty() || asked.ends_with('/') || rest.starts_with(['/', '?', '#']))
    }

    /// The level as a request, if one was asked for.
    pub(super) fn level(&self) -> Option<String> {
        let level = self.level.as_ref()?;
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{{"level":{level}}}}}"#
        ))
    }
}

/// A request for news of a resource.
pub(super) fn subscription(uri: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 0, "method": "resources/subscribe", "params": {"uri": uri}}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(wishes: &mut Wishes, method: &str, params: &str) -> bool {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        wishes.note(&mapping::read(text.as_bytes()).unwrap())
    }

    #[test]
    fn the_last_level_and_what_is_subscribed_to_are_kept() {
        let mut wishes = Wishes::default();
        assert_eq!(wishes.level(), None);
        for level in [r#""info""#, r#""d\u0065bug""#, r#"["x"]"#] {
            assert!(note(&mut wishes, "logging/setLevel", &format!(r#"{{"level":{level}}}"#)));
        }
        assert!(wishes.level().unwrap().ends_with(r#""params":{"level":"d\u0065bug"}}"#));
        for uri in ["file:///a", "file:///b/", "file:///a"] {
            assert!(note(&mut wishes, "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#)));
        }
        for (uri, wanted) in [
            ("file:///a", true),
            ("file:///a/x", true),
            ("file:///a#x", true),
            ("file:///ab", false),
            ("file:///b/x", true),
            ("file:///", false),
        ] {
            assert_eq!(wishes.wants(uri), wanted, "{uri}");
        }
        note(&mut wishes, "resources/unsubscribe", r#"{"uri":"file:///a"}"#);
        assert_eq!(wishes.subscribed().iter().collect::<Vec<_>>(), ["file:///b/"]);
    }

    #[test]
    fn there_is_a_bound() {
        let mut wishes = Wishes::default();
        let mut all = |n: usize, pad: usize| {
            let uri = format!("{n}{}", "x".repeat(pad));
            note(&mut wishes, "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#))
        };
        assert!((0..SUBSCRIBED).all(|n| all(n, 0)));
        assert!(!all(SUBSCRIBED, 0));
        assert!(all(7, 0), "what is there needs no room");
        let mut wishes = Wishes::default();
        assert!(!note(
            &mut wishes,
            "resources/subscribe",
            &format!(r#"{{"uri":"{}"}}"#, "x".repeat(BYTES + 1))
        ));
    }
}
