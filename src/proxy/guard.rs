//! The audit guard: opened when a request head arrives, closed exactly once when its answer ends.
//!
//! [`AuditGuard::finish`] consumes; `Drop` is the backstop for everything else: a panic, a drain, or the
//! client leaving. Whatever holds the guard therefore decides nothing about whether a record is written.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Instant,
};

use tokio_util::sync::CancellationToken;

use super::{limits::Permit, mask::Mask};
use crate::{
    audit::{
        Recorder,
        record::{Attempt, Failure, Outcome, Record, Tokens},
    },
    metrics::Present,
};

/// What guards share: where records go, and whether the process is being forced down.
#[derive(Debug)]
pub struct Desk {
    /// Takes the finished records.
    pub recorder: Recorder,
    /// Cancelled when the drain's grace is over.
    pub force: CancellationToken,
}

/// One open record. Dereferences to the [`Record`] being filled in.
#[derive(Debug)]
pub struct AuditGuard {
    record: Option<Box<Record>>,
    started: Instant,
    attempt_started: Option<Instant>,
    desk: Arc<Desk>,
    permit: Option<Permit>,
    mask: Mask,
    _in_flight: Present,
}

impl AuditGuard {
    /// Opens a record; its clock starts here. `in_flight` counts the call while it is open.
    #[must_use]
    pub fn open(desk: Arc<Desk>, record: Record, in_flight: Present) -> Self {
        Self {
            record: Some(Box::new(record)),
            started: Instant::now(),
            attempt_started: None,
            desk,
            permit: None,
            mask: Mask::default(),
            _in_flight: in_flight,
        }
    }

    /// Holds a place among the calls in flight until the record is closed.
    pub fn hold(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// These credentials must not be in the record, wherever a client or a server repeats them.
    pub fn hide(&mut self, mask: &Mask) {
        self.mask = mask.clone();
    }

    /// Begins a try at an upstream.
    pub fn begin_attempt(&mut self, attempt: Attempt) {
        self.end_attempt(None);
        self.attempt_started = Some(Instant::now());
        // Most calls need one: room for four would leave the allocator's quick path, on another thread at that.
        self.attempts.reserve_exact(1);
        self.attempts.push(attempt);
    }

    /// Ends the current try, with its `error.type` if it failed.
    pub fn end_attempt(&mut self, error_type: Option<String>) {
        let Some(started) = self.attempt_started.take() else { return };
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.duration = started.elapsed();
            attempt.error_type = attempt.error_type.take().or(error_type);
        }
    }

    /// Notes why the call failed, unless something earlier is noted already.
    pub fn fail(&mut self, failure: Failure) {
        self.error.get_or_insert(failure);
    }

    /// Closes the record.
    pub fn finish(mut self, outcome: Outcome) {
        drop(self.close(outcome));
    }

    /// Closes the record, and lets something be added to it before it goes.
    #[must_use]
    pub fn seal(mut self, outcome: Outcome) -> Sealed {
        let sealed = self.close(outcome);
        sealed.expect("only `close` takes the record, and it ends the guard")
    }

    /// How a call ends that nothing else has ended.
    #[must_use]
    pub fn abandoned(&self) -> Outcome {
        if std::thread::panicking() {
            Outcome::Panicked
        } else if self.desk.force.is_cancelled() {
            Outcome::Drained
        } else {
            Outcome::ClientClosed
        }
    }

    fn close(&mut self, outcome: Outcome) -> Option<Sealed> {
        let error_type = match outcome {
            Outcome::Ok => None,
            Outcome::RpcError => self.error.as_ref().and_then(|e| e.code).map(|c| c.to_string()),
            Outcome::UpstreamFailed => {
                Some(self.error.as_ref().and_then(|e| e.reason).unwrap_or("upstream").into())
            }
            other => Some(other.as_str().into()),
        };
        self.end_attempt(error_type);
        let mut record = self.record.take()?;
        record.duration = self.started.elapsed();
        record.outcome = outcome;
        record.received = record.received.take().filter(|kept| !kept.undecided);
        if !self.mask.is_empty() {
            record.each_text(|text| self.mask.text(text));
        }
        Some(Sealed { record: Some(record), desk: Arc::clone(&self.desk) })
    }
}

/// A record that is closed. It goes to the recorder when it is dropped.
#[derive(Debug)]
pub struct Sealed {
    record: Option<Box<Record>>,
    desk: Arc<Desk>,
}

impl Sealed {
    /// Notes the call's size.
    pub fn weigh(&mut self, tokens: Tokens) {
        if let Some(record) = &mut self.record {
            record.tokens = Some(tokens);
        }
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.desk.recorder.record(record);
        }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        if self.record.is_none() {
            return;
        }
        let outcome = self.abandoned();
        drop(self.close(outcome));
    }
}

impl Deref for AuditGuard {
    type Target = Record;

    fn deref(&self) -> &Record {
        self.record.as_ref().expect("only `close` takes the record, and it ends the guard")
    }
}

impl DerefMut for AuditGuard {
    fn deref_mut(&mut self) -> &mut Record {
        self.record.as_mut().expect("only `close` takes the record, and it ends the guard")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, panic::AssertUnwindSafe, time::Duration};

    use super::*;
    use crate::{
        config::{Audit, Capture, Globs, Journal, Telemetry},
        metrics::Metrics,
    };

    fn audit(folder: &std::path::Path) -> Audit {
        Audit {
            journal: Journal {
                path: folder.join("audit.jsonl"),
                fsync: Duration::ZERO,
                rotate: 1 << 20,
                keep: 1,
                keep_age: None,
                keep_bytes: None,
                deny_on_error: true,
            },
            capture: Capture::None,
            capture_tools: Vec::new(),
            redact: Globs::default(),
            signing_key: None,
            checkpoint: Duration::ZERO,
        }
    }

    #[test]
    fn a_panic_leaves_one_record_of_itself() {
        let folder = tempfile::tempdir().unwrap();
        let metrics = Arc::new(Metrics::new());
        let telemetry = Telemetry {
            otlp: None,
            protocol: None,
            headers: [].into(),
            service_name: None,
            metrics: false,
            logs: false,
        };
        let audit = audit(folder.path());
        let (recorder, thread) = Recorder::start(&audit, &telemetry, Arc::clone(&metrics)).unwrap();
        let desk = Arc::new(Desk { recorder, force: CancellationToken::new() });
        for fails in [true, false] {
            let record = super::super::opening(
                &http::Request::new(()).into_parts().0,
                crate::server::Peer { addr: ([127, 0, 0, 1], 1).into(), tls: false },
            );
            let guard = AuditGuard::open(Arc::clone(&desk), record, metrics.in_flight());
            let ended = std::panic::catch_unwind(AssertUnwindSafe(move || {
                let guard = guard;
                assert!(!fails, "a fault of ours");
                guard.finish(Outcome::Ok);
            }));
            assert_eq!(ended.is_err(), fails);
        }
        drop(desk);
        thread.stop();
        let text = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
        let outcomes: Vec<_> = text.lines().skip(1).map(|l| l.contains("\"outcome\":\"panicked\"")).collect();
        assert_eq!(outcomes, [true, false]);
    }
}
