//! What things of an upstream are called in public. Owns the one rule: prefix, separator, name. Which way back a public
//! name goes is the index's to say; nothing takes a name apart.

use std::collections::BTreeMap;

use crate::config::Rename;

/// How one upstream's names are made public.
#[derive(Debug, Clone, Copy)]
pub(super) struct Naming<'a> {
    pub(super) prefix: &'a str,
    pub(super) separator: &'a str,
    pub(super) rename: &'a BTreeMap<String, Rename>,
}

impl Naming<'_> {
    /// Of a tool.
    pub(super) fn tool(&self, own: &str) -> String {
        let renamed = self.rename.get(own).and_then(|r| r.name.as_deref());
        self.prompt(renamed.unwrap_or(own))
    }

    /// Of a prompt, which has no other name.
    pub(super) fn prompt(&self, own: &str) -> String {
        match self.prefix {
            "" => own.to_owned(),
            prefix => [prefix, self.separator, own].concat(),
        }
    }
}
