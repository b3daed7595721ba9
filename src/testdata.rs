//! Where quality sets for tests lie: `$SMARTGATE_TEST_DATA`, else `../shared/data` beside the package. They are not
//! part of it, because their contents belong to others.

use std::{env, path::PathBuf};

/// The folder of one set, or `None` after saying that it is absent.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let root = env::var_os("SMARTGATE_TEST_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let folder = root.join(name);
    let found = folder.is_dir();
    if !found {
        eprintln!("skipped: no {}; SMARTGATE_TEST_DATA can name the folder that has it", folder.display());
    }
    found.then_some(folder)
}
