//! The files of a journal. `audit.jsonl` is written to; full segments become `audit.jsonl.000001`, `.000002`
//! and so on: a segment's name never changes again, and names sort by age. Owns these names alone.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

/// The journal without symbolic links, so that every way to it finds the same lock and the same segments.
pub(super) fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Old segments beside the journal at `path`, oldest first, with their numbers.
pub(super) fn old(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        if let Some(number) = number(path, &entry.file_name()) {
            found.push((number, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The name that segment `number` gets.
pub(super) fn numbered(path: &Path, number: u64) -> PathBuf {
    beside(path, &format!(".{number:06}"))
}

/// The file whose lock stands for the journal. Its own file, because the journal's changes its name.
pub(super) fn lock(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// The folder that holds the journal.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The hash that a segment ends in, if it ends in a record.
pub(super) fn last_hash(path: &Path) -> Option<[u8; 64]> {
    let file = fs::File::open(path).ok()?;
    super::tail::find_end_of(path, &file).ok()?.prev
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    name.into()
}

fn number(path: &Path, name: &std::ffi::OsStr) -> Option<u64> {
    let rest = name.to_str()?.strip_prefix(path.file_name()?.to_str()?)?.strip_prefix('.')?;
    let digits = rest.len() >= 6 && rest.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| rest.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_siblings_are_segments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for suffix in ["", ".000002", ".000010", ".1000000", ".lock", ".bak", ".000001.gz", ".01"] {
            fs::write(beside(&path, suffix), "").unwrap();
        }
        fs::write(folder.path().join("other.jsonl.000003"), "").unwrap();
        let numbers: Vec<u64> = old(&path).unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(numbers, [2, 10, 1_000_000]);
        assert_eq!(numbered(&path, 7), folder.path().join("audit.jsonl.000007"));
    }

    #[test]
    fn a_bare_name_lies_in_the_current_folder() {
        assert_eq!(folder(Path::new("audit.jsonl")), Path::new("."));
    }
}
