//! The one thread behind the recorder. Owns the order of things: a record is counted, becomes a journal line,
//! then spans. Invariant: lines reach the file in the order of their chain, and a record stops weighing on the
//! backlog only when its line is written.

use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    export::Exporter,
    health::Step,
    journal::Journal,
    line::{Chain, Start},
    record::Record,
    recorder::Shared,
    redact,
    sync::Syncer,
};
use crate::secrets;

/// Records are gathered for this long, so that a busy process wakes the thread a hundred times a second at most:
/// each time it takes a processor away from the calls. Not with `fsync = "0s"`, where nothing may wait.
const GATHER: Duration = Duration::from_millis(10);
/// Records taken before what they became is written.
const BATCH: usize = 2_048;
/// Between two tries to write.
const RETRY: Duration = Duration::from_millis(200);
/// How long a journal that cannot be written holds up the shutdown.
const LAST_TRIES: Duration = Duration::from_secs(2);

pub(super) struct Worker {
    receiver: Receiver<Option<Box<Record>>>,
    shared: Arc<Shared>,
    journal: Journal,
    chain: Chain,
    syncer: Syncer,
    exporter: Option<Exporter>,
    /// Lines that wait to be written, and what their records weigh.
    lines: u64,
    weight: u64,
    retry_at: Option<Instant>,
}

impl Worker {
    /// Writes the `start` record; a disk that refuses it already is tried again like any other time.
    pub(super) fn new(
        receiver: Receiver<Option<Box<Record>>>,
        shared: Arc<Shared>,
        journal: Journal,
        chain: Chain,
        syncer: Syncer,
        exporter: Option<Exporter>,
        start: Start,
    ) -> Self {
        let mut new =
            Self { receiver, shared, journal, chain, syncer, exporter, lines: 1, weight: 0, retry_at: None };
        new.chain.start(new.journal.buffer(), start);
        new.write();
        new
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            match self.next() {
                Ok(Some(mut first)) => {
                    if !self.syncer.at_once() {
                        thread::sleep(GATHER);
                    }
                    self.take(&mut first);
                    if !self.drain() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(None) | Err(RecvTimeoutError::Disconnected) => break,
            }
            self.write();
        }
        self.finish();
    }

    fn next(&self) -> Result<Option<Box<Record>>, RecvTimeoutError> {
        match self.retry_at {
            Some(at) => self.receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    /// Takes what has come in meanwhile; false when told to stop.
    fn drain(&mut self) -> bool {
        for _ in 1..BATCH {
            match self.receiver.try_recv() {
                Ok(Some(mut record)) => self.take(&mut record),
                Ok(None) => return false,
                Err(_) => break,
            }
        }
        true
    }

    fn take(&mut self, record: &mut Record) {
        record.each_text(secrets::changed);
        self.shared.metrics.observe(record);
        let masks = self.shared.masks.load();
        let payloads = [&record.arguments, &record.result].map(|p| redact::show(p, &masks));
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        let from = self.journal.buffer().len();
        let place = self.chain.call(self.journal.buffer(), record, &payloads, lost);
        self.shared.feed.push(&self.journal.buffer()[from..]);
        self.lines += 1;
        self.weight += record.weight();
        if let Some(exporter) = &mut self.exporter {
            exporter.add(record, &payloads, place, &self.journal.buffer()[from..]);
        }
    }

    /// Writes the lines that wait, unless the last try failed a moment ago.
    fn write(&mut self) {
        if let Some(exporter) = &mut self.exporter {
            exporter.hand_over();
        }
        if self.lines == 0 || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let result = self.journal.write();
        self.shared.health.report(Step::Write, &result);
        match result {
            Ok(()) => self.written(),
            Err(_) => {
                self.shared.metrics.journal_errors.inc();
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
        self.shared.metrics.journal_backlog.set(i64::try_from(self.lines).unwrap_or(i64::MAX));
    }

    fn written(&mut self) {
        self.shared.metrics.journal_records.inc_by(self.lines);
        self.shared.pending.fetch_sub(self.weight, Ordering::Relaxed);
        (self.lines, self.weight, self.retry_at) = (0, 0, None);
        if let Some(segment) = self.journal.segment() {
            self.syncer.wrote(segment);
        }
    }

    fn finish(mut self) {
        let give_up = Instant::now() + LAST_TRIES;
        self.write();
        while let Some(at) = self.retry_at.filter(|at| *at < give_up) {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            self.write();
        }
        if self.lines > 0 {
            tracing::error!(records = self.lines, "records were not written before the end");
            self.shared.metrics.journal_lost.inc_by(self.lines);
        }
        self.syncer.stop();
        if let Some(exporter) = self.exporter {
            exporter.stop();
        }
    }
}
