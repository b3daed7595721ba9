//! Where indexes lie: in a folder beside the journal, or in the user's cache where that cannot be written.
//! Owns these names, and clearing away what no segment needs any more.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// What another process has been writing for so long is left over.
const UNFINISHED: Duration = Duration::from_secs(3_600);
/// Indexes in the cache that nobody has written for so long are cleared away.
const OLD: Duration = Duration::from_secs(30 * 24 * 3_600);

/// The folders for the indexes of one journal, the best first.
#[derive(Debug, Clone, Default)]
pub(super) struct Places(Vec<PathBuf>);

impl Places {
    /// Beside the journal, else in `$XDG_CACHE_HOME/smartgate`.
    pub(super) fn of(journal: &Path) -> Self {
        let mut beside = journal.as_os_str().to_owned();
        beside.push(".index");
        Self([Some(beside.into()), cache()].into_iter().flatten().collect())
    }

    /// In the cache alone.
    pub(super) fn cached() -> Self {
        Self(cache().into_iter().collect())
    }

    /// In these folders alone.
    #[cfg(test)]
    pub(super) fn in_folders(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Where an index of this name may be found.
    pub(super) fn candidates(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.0.iter().map(move |folder| folder.join(name))
    }

    /// Writes an index to the first place that takes it.
    pub(super) fn keep(&self, name: &str, write: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut result = Err(io::Error::other("there is no place for an index"));
        for folder in &self.0 {
            result = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .and_then(|()| write(&folder.join(name)));
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Clears away what belongs to no segment: beside the journal whatever is not in `needed`, in the cache
    /// what is old.
    pub(super) fn tidy(&self, needed: &[String]) {
        for folder in &self.0 {
            let is_cache = Some(folder) == cache().as_ref();
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let is_older = |than| {
                    let written = entry.metadata().and_then(|m| m.modified());
                    written.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > than))
                };
                let stray = if is_cache {
                    is_older(OLD)
                } else if name.to_string_lossy().ends_with(".new") {
                    is_older(UNFINISHED)
                } else {
                    !needed.iter().any(|n| name == n.as_str())
                };
                if stray
                    && is_index(&name.to_string_lossy())
                    && let Err(error) = fs::remove_file(entry.path())
                {
                    tracing::debug!(%error, "an index that nothing needs stays");
                }
            }
        }
    }
}

/// Whether a file has the name of an index, or of one that is being written: others are none of our business.
fn is_index(name: &str) -> bool {
    let (name, rest) = name.split_once('.').unwrap_or((name, ".new"));
    name.len() == 32 && name.bytes().all(|b| b.is_ascii_hexdigit()) && rest.ends_with(".new")
}

fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("smartgate/audit-index"))
}
