//! The one thread that writes. Owns group commit: what has queued up while one transaction was being synced goes
//! into the next one together, because the sync is what costs. Each job has a savepoint of its own.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::Connection;

use super::{StoreError, now, schema};

/// What is told to a job once its transaction is on disk, or is not.
pub(super) type Committed = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// Does its work, unless there is no transaction to do it in; says whether it failed and must be undone.
pub(super) type Job = Box<dyn FnOnce(Option<&Connection>) -> (bool, Committed) + Send>;

/// Jobs in one transaction.
const BATCH: usize = 64;
/// Between two sweeps.
const SWEEP: Duration = Duration::from_secs(60);

/// Starts the thread; it ends when every sender is gone.
pub(super) fn start(connection: Connection) -> io::Result<(Sender<Job>, JoinHandle<()>)> {
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name("store".into()).spawn(move || run(&connection, &receiver))?;
    Ok((sender, thread))
}

fn run(connection: &Connection, jobs: &Receiver<Job>) {
    let mut swept = Instant::now();
    sweep(connection);
    loop {
        match jobs.recv_timeout(SWEEP.saturating_sub(swept.elapsed())) {
            Ok(first) => batch(connection, first, jobs),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if swept.elapsed() >= SWEEP {
            sweep(connection);
            swept = Instant::now();
        }
    }
}

fn batch(connection: &Connection, first: Job, jobs: &Receiver<Job>) {
    let begun = connection.execute_batch("BEGIN IMMEDIATE").map_err(StoreError::from);
    let mut waiting = Vec::new();
    let mut next = Some(first);
    while let Some(job) = next.take() {
        // Outside a transaction a job would be on its own, and could not be undone.
        let work = AssertUnwindSafe(|| one(connection, job, begun.is_ok()));
        // A job that panics has dropped who waits for it; the others are not its fault.
        match catch_unwind(work) {
            Ok(done) => waiting.push(done),
            Err(_) => drop(connection.execute_batch("ROLLBACK TO job; RELEASE job")),
        }
        if waiting.len() < BATCH {
            next = jobs.try_recv().ok();
        }
    }
    let committed = begun.and_then(|()| connection.execute_batch("COMMIT").map_err(StoreError::from));
    if committed.is_err() && !connection.is_autocommit() {
        drop(connection.execute_batch("ROLLBACK"));
    }
    for done in waiting {
        done(committed.clone());
    }
}

fn one(connection: &Connection, job: Job, begun: bool) -> Committed {
    if !begun {
        return job(None).1;
    }
    let savepoint = connection.execute_batch("SAVEPOINT job");
    let (failed, done) = job(Some(connection));
    let undo = if failed { "ROLLBACK TO job; RELEASE job" } else { "RELEASE job" };
    match savepoint.and_then(|()| connection.execute_batch(undo)) {
        Ok(()) => done,
        // SQLite has ended the whole transaction: this job's part is gone with it.
        Err(error) => {
            let error = StoreError::from(error);
            Box::new(move |_| done(Err(error)))
        }
    }
}

fn sweep(connection: &Connection) {
    if let Err(error) = schema::sweep(connection, now()) {
        tracing::warn!(%error, "expired entries of the storage were not swept");
    }
}
