//! Pinned tools: a lock file with a hash of each tool's definition. A definition that is not the pinned one is
//! withheld until somebody accepts it. Owns the file's form.
//!
//! Invariant: a file that cannot be read lets nothing through; only a missing one is made from what is there.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::offers::Definition;
use crate::mcp::json::{self as slices, Raw, Type};

/// The file as written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Accepted tools, each with the hash of its definition.
    pub tools: BTreeMap<String, String>,
    /// Tools that are withheld, each with the hash of the definition that waits to be accepted.
    #[serde(default)]
    pub withheld: BTreeMap<String, String>,
}

impl Lock {
    /// Reads a lock file; `None` if there is none.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn read(path: &Path) -> Result<Option<Self>, String> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|_| {
                format!("{} is no lock file; restore it, or remove it to pin anew", path.display())
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("cannot read {}: {e}", path.display())),
        }
    }

    /// Writes it whole or not at all.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let why = |e: io::Error| format!("cannot write {}: {e}", path.display());
        let mut text = serde_json::to_string_pretty(self).map_err(|e| why(e.into()))?;
        text.push('\n');
        if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(why)?;
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).map_err(why)
    }

    /// Accepts what waits: one tool, or all. Returns the names.
    ///
    /// # Errors
    /// Nothing of that name waits.
    pub fn accept(&mut self, tool: Option<&str>) -> Result<Vec<String>, String> {
        let names: Vec<String> = match tool {
            Some(tool) if self.withheld.contains_key(tool) => vec![tool.to_owned()],
            Some(tool) => return Err(format!("no changed definition of `{tool}` waits")),
            None => self.withheld.keys().cloned().collect(),
        };
        for name in &names {
            if let Some((name, hash)) = self.withheld.remove_entry(name) {
                self.tools.insert(name, hash);
            }
        }
        Ok(names)
    }
}

/// The pins of one upstream.
#[derive(Debug)]
pub(super) struct Pins {
    path: PathBuf,
    /// As last read or written: counts if the file goes missing, and tells whether it was changed since.
    last: Mutex<Option<Lock>>,
}

impl Pins {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::default() }
    }

    /// Splits off the tools that must not be shown; their names. Blocks.
    pub(super) fn judge(&self, upstream: &str, tools: &mut Vec<Definition>) -> Vec<String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let read = match Lock::read(&self.path) {
            Ok(read) => read,
            Err(error) => {
                tracing::error!(upstream, error, "all tools are withheld: their pins cannot be read");
                return std::mem::take(tools).into_iter().map(|t| t.key.to_string()).collect();
            }
        };
        let hashes: BTreeMap<String, String> =
            tools.iter().map(|t| (t.key.to_string(), fingerprint(&t.raw))).collect();
        let known = read.clone().or_else(|| last.clone());
        let before = known.as_ref().map(|k| k.withheld.clone()).unwrap_or_default();
        let mut lock = known.unwrap_or_else(|| Lock { tools: hashes.clone(), ..Lock::default() });
        lock.withheld =
            hashes.into_iter().filter(|(name, hash)| lock.tools.get(name) != Some(hash)).collect();
        for (tool, hash) in &lock.withheld {
            if before.get(tool) != Some(hash) {
                let what = if lock.tools.contains_key(tool) { "changed" } else { "new" };
                tracing::warn!(
                    upstream,
                    tool,
                    what,
                    "a tool's definition is not the pinned one and is withheld; look at it, then run `smartgate pin accept {upstream} {tool}`"
                );
            }
        }
        if read.as_ref() != Some(&lock)
            && let Err(error) = lock.write(&self.path)
        {
            tracing::error!(upstream, error, "the pins are kept in memory only");
        }
        tools.retain(|t| !lock.withheld.contains_key(&*t.key));
        let withheld = lock.withheld.keys().cloned().collect();
        *last = Some(lock);
        withheld
    }

    /// Takes out what the lock file does not know, of what was known before a restart. Says and writes nothing. Blocks.
    pub(super) fn sift(&self, tools: &mut Vec<Definition>) {
        match Lock::read(&self.path) {
            Ok(Some(lock)) => tools.retain(|t| lock.tools.get(&*t.key) == Some(&fingerprint(&t.raw))),
            // The first look is to come.
            Ok(None) => {}
            Err(_) => tools.clear(),
        }
    }

    /// Whether somebody changed the file since it was last looked at. Blocks.
    pub(super) fn changed(&self) -> bool {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        Lock::read(&self.path).is_ok_and(|now| now.is_some() && now != *last)
    }
}

/// SHA-256 of a definition with its members in order of name and without white space, so that a server which writes
/// the same in another order is not reported. Members that come twice all count.
fn fingerprint(definition: &str) -> String {
    let mut canonical = String::with_capacity(definition.len());
    match slices::parse(definition.as_bytes()) {
        Ok(value) => write_canonical(value, &mut canonical),
        Err(_) => canonical.push_str(definition),
    }
    hex::encode(Sha256::digest(canonical))
}

/// Recursion is bounded by [`slices::MAX_DEPTH`].
fn write_canonical(value: Raw<'_>, out: &mut String) {
    match value.kind() {
        Type::Object => {
            let mut members: Vec<_> = value.members().collect();
            members.sort_by_cached_key(|m| m.name.as_str().unwrap_or_default().into_owned());
            for member in members {
                out.push('{');
                out.push_str(member.name.text());
                out.push(':');
                write_canonical(member.value, out);
            }
            out.push('}');
        }
        Type::Array => {
            for element in value.elements() {
                out.push('[');
                write_canonical(element, out);
            }
            out.push(']');
            out.push(']');
        }
        _ => out.push_str(value.text()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(of: &[(&str, &str)]) -> Vec<Definition> {
        of.iter().map(|(key, raw)| Definition { key: (*key).into(), raw: (*raw).into() }).collect()
    }

    #[test]
    fn a_changed_or_new_definition_is_withheld_until_it_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pins/files.json");
        let pins = Pins::new(path.clone());
        let mut first = tools(&[("read", r#"{"name":"read","description":"a"}"#)]);
        assert!(pins.judge("files", &mut first).is_empty() && first.len() == 1);
        // Another process, the same server: order and white space do not matter.
        let pins = Pins::new(path.clone());
        let mut same = tools(&[("read", r#"{ "description":"a", "name":"read" }"#)]);
        assert!(pins.judge("files", &mut same).is_empty());
        let changed = [("read", r#"{"name":"read","description":"b"}"#), ("new", r#"{"name":"new"}"#)];
        let mut now = tools(&changed);
        assert_eq!(pins.judge("files", &mut now), ["new", "read"]);
        assert!(now.is_empty() && !pins.changed());
        let mut lock = Lock::read(&path).unwrap().unwrap();
        assert!(lock.accept(Some("write")).is_err());
        assert_eq!(lock.accept(Some("read")).unwrap(), ["read"]);
        lock.write(&path).unwrap();
        assert!(pins.changed());
        let mut now = tools(&changed);
        assert_eq!(pins.judge("files", &mut now), ["new"]);
        assert_eq!(now.len(), 1);
        // Gone while running: what was accepted still counts.
        fs::remove_file(&path).unwrap();
        let mut now = tools(&changed);
        assert_eq!(pins.judge("files", &mut now), ["new"]);
        assert!(path.exists());
        // Damaged: nothing passes.
        fs::write(&path, "x").unwrap();
        let mut now = tools(&changed);
        assert_eq!(pins.judge("files", &mut now).len(), 2);
        assert!(now.is_empty());
    }

    #[test]
    fn a_member_that_hides_behind_another_of_its_name_changes_the_hash() {
        assert_ne!(fingerprint(r#"{"a":1}"#), fingerprint(r#"{"a":2,"a":1}"#));
        assert_ne!(fingerprint(r#"{"a":[[1],2]}"#), fingerprint(r#"{"a":[[1,2]]}"#));
        assert_eq!(fingerprint(r#"{"b":[1, 2],"a":{}}"#), fingerprint(r#"{"a":{},"b":[1,2]}"#));
    }
}
