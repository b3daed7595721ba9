//! The one SQLite file behind memory, references, budgets and the search index. Owns opening, migrations, the
//! one writer with its group commit, the readers, the quota and the sweeping of what has expired, and the lock of the
//! gateway that serves from it. What the rows mean belongs to those who write them; the schema of each is a file in `schema/`.
//!
//! Invariant: a write that has returned is on disk, and one that failed left nothing behind.

mod file;
pub mod refs;
mod schema;
pub mod share;
mod writer;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
    time::{SystemTime, UNIX_EPOCH},
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;

pub(crate) use file::private_folder;
use file::{BUSY, check, only_ours, open_reader, settings, take_lock};
use writer::{Committed, Job};

/// Readers that stay open; more are opened while these are busy.
const IDLE_READERS: usize = 4;

/// Why the storage cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// It holds as much as `storage.quota` allows, in all or for this tenant, or the disk is full.
    Full,
    /// Anything else: what SQLite says.
    Unavailable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the storage is full, or this tenant's share of it: raise storage.quota, or free space on its disk"),
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
    _lock: Option<File>,
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
        Self::start(path, quota, false)
    }

    /// [`Store::open`] for the gateway that serves from the file: there is one at a time, because levels of budgets,
    /// holds and runs are in its memory. Others may read and write beside it.
    ///
    /// # Errors
    /// As there; or another gateway serves from it.
    pub fn open_to_serve(path: Option<&Path>, quota: u64) -> Result<Self, String> {
        Self::start(path, quota, true)
    }

    fn start(path: Option<&Path>, quota: u64, serves: bool) -> Result<Self, String> {
        let place =
            path.map_or_else(|| "the storage in memory".to_owned(), |p| format!("storage {}", p.display()));
        let why = |e: rusqlite::Error| format!("{place}: {e}");
        if let Some(folder) = path.and_then(Path::parent) {
            private_folder(folder).map_err(|e| format!("{place}: {e}"))?;
        }
        let lock = match path.filter(|_| serves) {
            Some(path) => Some(take_lock(path).map_err(|e| format!("{place}: {e}"))?),
            None => None,
        };
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
        share::begin(&connection, quota).map_err(why)?;
        let (jobs, writer) = writer::start(connection).map_err(|e| format!("{place}: {e}"))?;
        let inner = Inner {
            path: path.map(Path::to_owned),
            jobs: Some(jobs),
            writer: Some(writer),
            readers: Mutex::default(),
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Gives each tenant its share; see [`share`].
    pub fn divide(&self, tenants: Vec<String>) {
        self.write_later(move |connection| share::divide(connection, &tenants));
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
        self.write_later_or(job, || {});
    }

    /// [`Store::write_later`], with what is to be done when it has not come to the disk.
    pub fn write_later_or<F, G>(&self, job: F, failed: G)
    where
        F: FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static,
        G: FnOnce() + Send + 'static,
    {
        let done = |result: Result<(), StoreError>| {
            if let Err(error) = result {
                tracing::error!(%error, "a write to the storage failed");
                failed();
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
