//! The file as the system has it: its folder, who may read it, the lock of the gateway that serves from it, and how
//! SQLite is told to treat it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};

use super::StoreError;

/// How long to wait for another process that writes.
pub(super) const BUSY: Duration = Duration::from_secs(5);
const PAGE: u32 = 4096;

/// The lock lies beside the file: SQLite has locks of its own on it.
pub(super) fn take_lock(path: &Path) -> Result<File, String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = OpenOptions::new().append(true).create(true).open(&name).map_err(|e| e.to_string())?;
    only_ours(Path::new(&name));
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err("another smartgate serves from it, and two would each spend its budgets in \
            full; stop that one, or give this one a storage.path of its own"
                .into())
        }
        Err(TryLockError::Error(error)) => Err(error.to_string()),
    }
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.busy_timeout(BUSY)?;
    Ok(reader)
}

pub(super) fn check(connection: &Connection) -> Result<(), String> {
    let found: rusqlite::Result<String> = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match found {
        Ok(text) if text == "ok" => Ok(()),
        Ok(text) => Err(format!("it is damaged ({text}); restore a copy, or move it away to begin anew")),
        Err(error) => {
            Err(format!("it cannot be read as a SQLite file ({error}); restore a copy, or move it away"))
        }
    }
}

pub(super) fn settings(connection: &Connection, quota: u64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // SQLite itself refuses what would make the file larger.
    connection
        .query_row(&format!("PRAGMA max_page_count = {}", (quota / u64::from(PAGE)).max(1)), [], |_| Ok(()))
}

#[cfg(unix)]
pub(crate) fn private_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
pub(crate) fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// What the tools remember is nobody else's business.
pub(super) fn only_ours(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
            tracing::warn!(%error, path = %path.display(), "others may be able to read the storage");
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}
