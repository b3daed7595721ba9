//! The one SQLite file behind memory, references, budgets and the search index. Owns opening, migrations, the
//! one writer with its group commit, the readers, the quota and the sweeping of what has expired. What the rows
//! mean belongs to those who write them; the schema of each is a file in `schema/`.
//!
//! Invariant: a write that has returned is on disk, and one that failed left nothing behind.

pub mod refs;
mod schema;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::oneshot;

use writer::{Committed, Job};

/// Readers that stay open; more are opened while these are busy.
const IDLE_READERS: usize = 4;
/// How long to wait for another process that writes.
const BUSY: Duration = Duration::from_secs(5);
const PAGE: u32 = 4096;

/// Why the storage cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It holds as much as `storage.quota` allows, or the disk is full.
    Full,
    /// Anything else: what SQLite says.
    Unavailable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the storage is full: raise storage.quota, or free space on its disk"),
            Self::Unavailable(why) => write!(f, "the storage cannot be used: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// The storage. Cheap to clone; the last clone that goes ends the writer.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("path", &self.inner.path).finish()
    }
}

struct Inner {
    /// `None` in memory, where everything goes through the writer.
    path: Option<PathBuf>,
    /// Gone only while the store is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
    readers: Mutex<Vec<Connection>>,
}

impl Drop for Inner {
    /// Waits for the writer, which then closes the file in order.
    fn drop(&mut self) {
        self.readers.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        self.jobs = None;
        // The last to let go of it may be a job, which is the writer.
        let other = self.writer.take().filter(|writer| writer.thread().id() != thread::current().id());
        if other.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the storage's writer ended before its time");
        }
    }
}

impl Store {
    /// Opens or creates the file, checks it and brings its schema up to date; without a path, memory. Blocks.
    ///
    /// # Errors
    /// A sentence for the user: the file cannot be used, is damaged, or is of a later version.
    pub fn open(path: Option<&Path>, quota: u64) -> Result<Self, String> {
        let place =
            path.map_or_else(|| "the storage in memory".to_owned(), |p| format!("storage {}", p.display()));
        let why = |e: rusqlite::Error| format!("{place}: {e}");
        if let Some(folder) = path.and_then(Path::parent) {
            private_folder(folder).map_err(|e| format!("{place}: {e}"))?;
        }
        let mut connection = match path {
            Some(path) => Connection::open(path).map_err(why)?,
            None => Connection::open_in_memory().map_err(why)?,
        };
        connection.busy_timeout(BUSY).map_err(why)?;
        if let Some(path) = path {
            check(&connection).map_err(|e| format!("{place}: {e}"))?;
            only_ours(path);
        }
        settings(&connection, quota).map_err(why)?;
        schema::migrate(&mut connection).map_err(|e| format!("{place}: {e}"))?;
        let (jobs, writer) = writer::start(connection).map_err(|e| format!("{place}: {e}"))?;
        let inner = Inner {
            path: path.map(Path::to_owned),
            jobs: Some(jobs),
            writer: Some(writer),
            readers: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs `job` on the writer, in a transaction that it may share with others; it resolves when that is on disk.
    /// An error of the job undoes the job alone.
    ///
    /// # Errors
    /// What the job or the commit met.
    pub async fn write<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.queue(job)?.await.unwrap_or_else(|_| Err(gone()))
    }

    /// [`Store::write`] for threads that may block.
    ///
    /// # Errors
    /// As there.
    pub fn write_blocking<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.queue(job)?.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }

    /// Queues `job` and does not wait for it; what goes wrong is logged.
    pub fn write_later<F>(&self, job: F)
    where
        F: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        let done = |result: Result<(), StoreError>| {
            if let Err(error) = result {
                tracing::error!(%error, "a write to the storage failed");
            }
        };
        if self.send(job, done).is_err() {
            tracing::error!("a write to the storage failed: its writer has ended");
        }
    }

    /// Runs `job` on a reader, on a thread that may block. It sees what is committed.
    ///
    /// # Errors
    /// What the job met.
    pub async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        if self.inner.path.is_none() {
            return self.write(job).await;
        }
        let this = self.clone();
        tokio::task::spawn_blocking(move || this.read_blocking(job)).await.unwrap_or_else(|_| Err(gone()))
    }

    /// [`Store::read`] for threads that may block.
    ///
    /// # Errors
    /// As there.
    pub fn read_blocking<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let Some(path) = &self.inner.path else { return self.write_blocking(job) };
        let idle = self.readers().pop();
        let reader = match idle {
            Some(reader) => reader,
            None => open_reader(path)?,
        };
        let result = job(&reader)?;
        let mut readers = self.readers();
        if readers.len() < IDLE_READERS {
            readers.push(reader);
        }
        Ok(result)
    }

    /// Waits until everything that was queued is on disk. Blocks.
    pub fn flush(&self) {
        if let Err(error) = self.write_blocking(|_| Ok(())) {
            tracing::error!(%error, "the storage was not flushed");
        }
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.inner.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue<T, F>(&self, job: F) -> Result<oneshot::Receiver<Result<T, StoreError>>, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        // Whoever asked may have left; the work is done all the same.
        self.send(job, move |result| drop(answer.send(result)))?;
        Ok(answered)
    }

    fn send<T, F, D>(&self, job: F, done: D) -> Result<(), StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
        D: FnOnce(Result<T, StoreError>) + Send + 'static,
    {
        let job: Job = Box::new(move |connection| {
            let result = connection.map(job);
            let failed = !matches!(result, Some(Ok(_)));
            let committed: Committed = Box::new(move |commit| {
                done(match (result, commit) {
                    (Some(Err(error)), _) => Err(error.into()),
                    (_, Err(error)) => Err(error),
                    (Some(Ok(value)), Ok(())) => Ok(value),
                    (None, Ok(())) => Err(gone()),
                });
            });
            (failed, committed)
        });
        self.inner.jobs.as_ref().and_then(|jobs| jobs.send(job).ok()).ok_or_else(gone)
    }
}

/// Milliseconds since 1970.
#[must_use]
pub fn now() -> i64 {
    millis(SystemTime::now())
}

/// Milliseconds from 1970 to `time`.
#[must_use]
pub fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn gone() -> StoreError {
    StoreError::Unavailable("its writer has ended".into())
}

fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.busy_timeout(BUSY)?;
    Ok(reader)
}

fn check(connection: &Connection) -> Result<(), String> {
    let found: rusqlite::Result<String> = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
    match found {
        Ok(text) if text == "ok" => Ok(()),
        Ok(text) => Err(format!("it is damaged ({text}); restore a copy, or move it away to begin anew")),
        Err(error) => {
            Err(format!("it cannot be read as a SQLite file ({error}); restore a copy, or move it away"))
        }
    }
}

fn settings(connection: &Connection, quota: u64) -> rusqlite::Result<()> {
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
fn private_folder(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    if folder.as_os_str().is_empty() {
        return Ok(());
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)
}

/// What the tools remember is nobody else's business.
fn only_ours(path: &Path) {
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
