//! Whether the journal and the exporter work, as the pipeline and `/readyz` see it. Owns the one log line when
//! that changes. Invariant: reading it on the call path is one atomic load.

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use super::otel_env::Signal;

/// Whether lines reach the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalState {
    /// They do.
    Ok,
    /// They wait in memory.
    Failing {
        /// What the system said.
        message: String,
        /// Since when.
        since: SystemTime,
    },
}

/// Whether what is exported reaches a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExporterState {
    /// None is configured.
    Off,
    /// The last batch was taken, or none has been sent yet.
    Ok,
    /// The last batch was not taken.
    Failing {
        /// What went wrong.
        message: String,
        /// Since when.
        since: SystemTime,
    },
}

/// What can go wrong with the journal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Write,
    Sync,
    /// The self-test.
    Proof,
}

type Failure = Option<(String, SystemTime)>;

/// The journal's health: written by the recorder and sync threads.
#[derive(Debug, Default)]
pub(super) struct JournalHealth {
    failing: AtomicBool,
    steps: Mutex<[Failure; 3]>,
}

impl JournalHealth {
    pub(super) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Takes the result of a step; logs when it differs from the last one.
    pub(super) fn report(&self, step: Step, result: &io::Result<()>) {
        let mut steps = self.lock();
        let slot = &mut steps[step as usize];
        match (result, slot.is_some()) {
            (Err(error), false) => {
                tracing::error!(%error, ?step, "the audit journal cannot be written");
                *slot = Some((error.to_string(), SystemTime::now()));
            }
            (Ok(()), true) => {
                tracing::info!(?step, "the audit journal is written again");
                *slot = None;
            }
            _ => {}
        }
        self.failing.store(steps.iter().any(Option::is_some), Ordering::Relaxed);
    }

    /// The recorder thread is gone: nothing will ever be written again.
    pub(super) fn dead(&self) {
        let error = io::Error::other("the recorder thread has ended");
        self.report(Step::Write, &Err(error));
    }

    pub(super) fn state(&self) -> JournalState {
        match self.lock().iter().flatten().next() {
            Some((message, since)) => JournalState::Failing { message: message.clone(), since: *since },
            None => JournalState::Ok,
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Failure; 3]> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The exporter's health, by signal: written by its thread.
#[derive(Debug, Default)]
pub(super) struct ExporterHealth(Mutex<[Failure; 3]>);

impl ExporterHealth {
    /// Takes the result of a batch; logs when it differs from the last one of its signal.
    pub(super) fn report(&self, signal: Signal, result: Result<(), &str>) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = &mut failures[signal as usize];
        let what = signal.items();
        match (result, failure.is_some()) {
            (Err(message), false) => {
                tracing::warn!(
                    error = message,
                    "the collector takes no {what}; calls go on, dropped {what} are counted"
                );
                *failure = Some((message.to_owned(), SystemTime::now()));
            }
            (Ok(()), true) => {
                tracing::info!("the collector takes {what} again");
                *failure = None;
            }
            _ => {}
        }
    }

    pub(super) fn state(&self) -> ExporterState {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.iter().flatten().next() {
            Some((message, since)) => ExporterState::Failing { message: message.clone(), since: *since },
            None => ExporterState::Ok,
        }
    }
}
