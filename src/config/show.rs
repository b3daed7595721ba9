//! How an upstream is shown to clients. Invariant: a resource that the globs hide is hidden however its URI is written.

use std::{collections::BTreeMap, path::PathBuf};

use percent_encoding::percent_decode_str;

use crate::glob::Globs;

/// How an upstream is shown to clients, beside its prefix and which of its tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Show {
    /// By the tool's own name.
    pub rename: BTreeMap<String, Rename>,
    /// Parameters that clients do not see, with their values, by the tool's own name.
    pub fixed: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Names of prompts that are shown, if not all are.
    pub prompts: Option<Globs>,
    /// URIs of resources, and texts of templates, that are shown, if not all are.
    pub resources: Option<Globs>,
    /// The lock file of its tools' definitions; `None` if they are not pinned.
    pub pins: Option<PathBuf>,
    /// Calls that it may have in flight, if that is written.
    pub concurrency: Option<usize>,
}

impl Show {
    /// Whether clients see something other than what the server says.
    #[must_use]
    pub fn changes(&self) -> bool {
        !self.rename.is_empty()
            || !self.fixed.is_empty()
            || self.prompts.is_some()
            || self.resources.is_some()
            || self.pins.is_some()
    }

    /// Whether this prompt is shown.
    #[must_use]
    pub fn has_prompt(&self, name: &str) -> bool {
        self.prompts.as_ref().is_none_or(|globs| globs.matches(name))
    }

    /// Whether the resource of this URI, or the template of this text, is shown. Percent-encoding hides nothing from the
    /// globs, and a path that climbs (`..`) leads to nothing: servers follow both.
    #[must_use]
    pub fn has_resource(&self, uri: &str) -> bool {
        self.resources.as_ref().is_none_or(|globs| {
            let plain = percent_decode_str(uri).decode_utf8_lossy();
            let climbs = plain.split(['/', '\\']).any(|part| part == "..");
            !climbs && globs.matches(uri) && globs.matches(&plain)
        })
    }
}

/// `upstreams.NAME.rename.TOOL`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rename {
    /// What it is called instead, without the prefix.
    pub name: Option<String>,
    /// What is said of it instead.
    pub description: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_a_uri_is_written_it_is_the_same_resource() {
        let shown = |globs: &[&str], uri| {
            Show { resources: Some(Globs::new(globs)), ..Show::default() }.has_resource(uri)
        };
        assert!(shown(&["file:///open/*"], "file:///open/a%20b"));
        for uri in [
            "file:///open/../secret",
            "file:///open/%2e%2E/secret",
            "file:///open/..%2fsecret",
            "file:///open/x\\..\\y",
        ] {
            assert!(!shown(&["file:///open/*"], uri), "{uri}");
        }
        assert!(!shown(&["*", "!*secret*"], "file:///%73ecret"));
        assert!(shown(&["*", "!*secret*"], "file:///a..b"));
        assert!(Show::default().has_resource("x://../y"));
    }
}
