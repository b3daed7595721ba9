//! Which tools a caller sees and may call: the globs of its key and of the upstream, both over public names.

use crate::glob::Globs;

/// Two allow lists that must both say yes. `None` allows every name.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    key: Option<&'a Globs>,
    upstream: Option<&'a Globs>,
}

impl<'a> Access<'a> {
    /// Lists that include everything count as none.
    #[must_use]
    pub fn new(key: Option<&'a Globs>, upstream: &'a Globs) -> Self {
        let narrow = |g: &&Globs| !g.is_any();
        Self { key: key.filter(narrow), upstream: Some(upstream).filter(narrow) }
    }

    /// Whether nothing is withheld, so that lists need no filtering.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.key.is_none() && self.upstream.is_none()
    }

    /// Whether a tool of this name may be seen and called.
    #[must_use]
    pub fn allows(&self, tool: &str) -> bool {
        self.key.is_none_or(|g| g.matches(tool)) && self.upstream.is_none_or(|g| g.matches(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lists_must_agree() {
        let (key, upstream) = (Globs::new(["*", "!delete_*"]), Globs::new(["read_*", "delete_*"]));
        let access = Access::new(Some(&key), &upstream);
        assert!(access.allows("read_file") && !access.is_open());
        assert!(!access.allows("delete_file") && !access.allows("write_file"));
        assert!(Access::new(Some(&Globs::any()), &Globs::any()).is_open());
        assert!(Access::new(None, &Globs::any()).allows("anything"));
    }
}
