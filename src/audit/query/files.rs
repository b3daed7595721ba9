//! The files of a journal, and errors that name them.

use std::{
    collections::HashSet,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::audit::segments;

/// The files of a journal, oldest first. The current one is opened first, so that none is missed that is
/// rotated meanwhile.
pub(super) fn of_journal(journal: &Path) -> io::Result<Vec<(PathBuf, File)>> {
    let current = File::open(journal);
    let mut seen = HashSet::new();
    let mut files = Vec::new();
    let old = match segments::old(journal) {
        Ok(old) => old,
        // Without a folder there is no journal, which is said of it.
        Err(_) if current.is_err() => Vec::new(),
        Err(error) => return Err(named(journal, &error)),
    };
    for (path, file) in old.into_iter().map(|(_, path)| path).map(|path| (path.clone(), File::open(path))) {
        match file {
            // Nobody is told of what retention has taken away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(named(&path, &error)),
            Ok(file) => {
                let found = file.metadata()?;
                seen.insert((found.dev(), found.ino()));
                files.push((path, file));
            }
        }
    }
    match current {
        Ok(file) => {
            let found = file.metadata()?;
            if !seen.contains(&(found.dev(), found.ino())) {
                files.push((journal.to_owned(), file));
            }
        }
        // A gateway that ended in the middle of a rotation leaves no current file.
        Err(error) if files.is_empty() => return Err(named(journal, &error)),
        Err(_) => {}
    }
    Ok(files)
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
