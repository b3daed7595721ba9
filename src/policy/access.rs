//! Which tools a caller sees and may call: the globs of its key, over public names, and of the upstream, over its own.

use std::{borrow::Cow, collections::BTreeMap};

use crate::glob::Globs;

/// Two allow lists that must both say yes. `None` allows every name.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    key: Option<&'a Globs>,
    upstream: Option<&'a Globs>,
    names: &'a PublicNames,
}

/// What the tools of an endpoint are called where all upstreams are shown as one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PublicNames {
    /// In front, with its separator; "" for nothing.
    pub prefix: String,
    /// Other names than their own, without the prefix.
    pub renamed: BTreeMap<String, String>,
}

impl PublicNames {
    /// The public name of a tool.
    #[must_use]
    pub fn of<'t>(&self, tool: &'t str) -> Cow<'t, str> {
        let renamed = self.renamed.get(tool);
        if self.prefix.is_empty() && renamed.is_none() {
            return tool.into();
        }
        let name = renamed.map_or(tool, String::as_str);
        format!("{}{name}", self.prefix).into()
    }
}

impl<'a> Access<'a> {
    /// Lists that include everything count as none.
    #[must_use]
    pub fn new(key: Option<&'a Globs>, upstream: &'a Globs, names: &'a PublicNames) -> Self {
        let narrow = |g: &&Globs| !g.is_any();
        Self { key: key.filter(narrow), upstream: Some(upstream).filter(narrow), names }
    }

    /// Whether nothing is withheld, so that lists need no filtering.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.key.is_none() && self.upstream.is_none()
    }

    /// Whether a tool of this name may be seen and called.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.key.is_none_or(|g| g.matches(&self.names.of(tool)))
            && self.upstream.is_none_or(|g| g.matches(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_must_agree() {
        let plain = PublicNames::default();
        let (key, upstream) = (Globs::new(["*", "!delete_*"]), Globs::new(["read_*", "delete_*"]));
        let access = Access::new(Some(&key), &upstream, &plain);
        assert!(access.allows("read_file") && !access.is_open());
        assert!(!access.allows("delete_file") && !access.allows("write_file"));
        assert!(Access::new(Some(&Globs::any()), &Globs::any(), &plain).is_open());
        assert!(Access::new(None, &Globs::any(), &plain).allows("anything"));
    }

    #[test]
    fn a_key_names_tools_as_the_public_does() {
        let names = PublicNames {
            prefix: "files__".into(),
            renamed: [("rm".to_owned(), "remove".to_owned())].into(),
        };
        let (key, upstream) = (Globs::new(["files__*", "!files__remove"]), Globs::new(["*", "!chmod"]));
        let access = Access::new(Some(&key), &upstream, &names);
        assert!(access.allows("read") && !access.allows("rm") && !access.allows("chmod"));
        assert_eq!(names.of("rm"), "files__remove");
    }
}
