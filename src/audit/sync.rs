//! When written lines are forced to disk. A thread of its own does it, so that a slow disk does not hold up
//! metrics and spans. Owns the timing; not what a failure means (the recorder's state does).
//! Invariant: from a write to the start of its sync no more than the interval passes.

use std::{
    fs::File,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use super::checkpoint::Published;

#[derive(Debug, Default)]
struct State {
    /// The segment with lines that are not synced.
    dirty: Option<Arc<File>>,
    /// Checkpoints among them.
    checkpoints: Vec<Published>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a sync reported.
pub(super) type Report = Box<dyn Fn(std::io::Result<()>) + Send>;

/// Syncs segments some time after they were written to.
pub(super) struct Syncer {
    interval: Duration,
    report: Option<Report>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// With an interval of zero every [`wrote`](Self::wrote) syncs before it returns, and there is no thread.
    pub(super) fn start(interval: Duration, report: Report) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        if interval.is_zero() {
            return Ok(Self { interval, report: Some(report), shared, thread: None });
        }
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("journal-sync".into())
            .spawn(move || run(&theirs, interval, &report))?;
        Ok(Self { interval, report: None, shared, thread: Some(thread) })
    }

    /// Whether the interval is zero.
    pub(super) fn at_once(&self) -> bool {
        self.interval.is_zero()
    }

    /// Lines were written to `segment`. Checkpoints among them are told to the world once they are on the disk, so that
    /// no crash can make one look cut off.
    pub(super) fn wrote(&self, segment: Arc<File>, checkpoints: Vec<Published>) {
        if let Some(report) = &self.report {
            let result = segment.sync_data();
            if result.is_ok() {
                checkpoints.iter().for_each(Published::tell);
            }
            return report(result);
        }
        let mut state = self.shared.lock();
        state.checkpoints.extend(checkpoints);
        let clean = state.dirty.replace(segment).is_none();
        drop(state);
        if clean {
            self.shared.changed.notify_one();
        }
    }

    /// Syncs what is left and ends the thread.
    pub(super) fn stop(mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(interval = ?self.interval, "the sync thread ended before its time");
        }
    }
}

fn run(shared: &Shared, interval: Duration, report: &Report) {
    loop {
        let mut state = shared.lock();
        while state.dirty.is_none() && !state.stop {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let wait = shared.changed.wait_timeout_while(state, interval, |s| !s.stop);
        let mut state = wait.unwrap_or_else(PoisonError::into_inner).0;
        let (segment, stop) = (state.dirty.take(), state.stop);
        let checkpoints = std::mem::take(&mut state.checkpoints);
        drop(state);
        if let Some(segment) = segment {
            let result = segment.sync_data();
            if result.is_ok() {
                checkpoints.iter().for_each(Published::tell);
            } else {
                let mut state = shared.lock();
                state.dirty.get_or_insert(segment);
                state.checkpoints.splice(..0, checkpoints);
            }
            report(result);
        }
        if stop {
            return;
        }
    }
}
