//! The one thread behind the recorder. Owns the order of things: a record is counted, becomes a journal line,
//! then spans. Invariant: lines reach the file in the order of their chain, and a record stops weighing on the
//! backlog only when its line is written.

use std::{
    io,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    chain::{Chain, Reason},
    checkpoint::{Checkpoints, Published},
    export::Exporter,
    health::Step,
    journal::Journal,
    proof::Proven,
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

/// Between two looks at what is kept, on a gateway that rotates nothing.
const TIDY: Duration = Duration::from_secs(3_600);

/// What the thread is told.
pub(super) enum Message {
    Record(Box<Record>),
    /// Show that a record reaches the disk.
    Prove(SyncSender<Result<Proven, String>>),
    Stop,
}

pub(super) struct Worker {
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    journal: Journal,
    chain: Chain,
    syncer: Syncer,
    exporter: Option<Exporter>,
    /// Lines that wait to be written, and what their records weigh.
    lines: u64,
    weight: u64,
    retry_at: Option<Instant>,
    checkpoints: Checkpoints,
    tidy_at: Instant,
}

impl Worker {
    /// Writes the `start` record, which is the first line that waits in `journal`; a disk that refuses it already is
    /// tried again like any other time.
    pub(super) fn new(
        receiver: Receiver<Message>,
        shared: Arc<Shared>,
        journal: Journal,
        chain: Chain,
        syncer: Syncer,
        exporter: Option<Exporter>,
        checkpoints: Checkpoints,
    ) -> Self {
        let tidy_at = Instant::now() + TIDY;
        let (lines, weight, retry_at) = (1, 0, None);
        let mut new = Self {
            receiver,
            shared,
            journal,
            chain,
            syncer,
            exporter,
            lines,
            weight,
            retry_at,
            checkpoints,
            tidy_at,
        };
        new.write();
        new
    }

    /// Runs until it is told to stop.
    pub(super) fn run(mut self) {
        loop {
            match self.next() {
                Ok(first) => {
                    if !self.syncer.at_once() && matches!(first, Message::Record(_)) {
                        thread::sleep(GATHER);
                    }
                    if !self.take(first) || !self.drain() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.checkpoints.is_due() {
                self.checkpoint(Reason::Due);
            }
            self.write();
            if self.tidy_at <= Instant::now() {
                self.journal.tidy();
                self.tidy_at = Instant::now() + TIDY;
            }
            if self.journal.has_rotated() {
                self.checkpoint(Reason::Rotation);
                self.write();
            }
        }
        self.finish();
    }

    fn next(&self) -> Result<Message, RecvTimeoutError> {
        let next =
            [self.retry_at, self.checkpoints.due()].into_iter().flatten().fold(self.tidy_at, Instant::min);
        self.receiver.recv_timeout(next.saturating_duration_since(Instant::now()))
    }

    /// Takes what has come in meanwhile; false when told to stop.
    fn drain(&mut self) -> bool {
        for _ in 1..BATCH {
            let Ok(message) = self.receiver.try_recv() else { break };
            if !self.take(message) {
                return false;
            }
        }
        true
    }

    /// False when told to stop.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Record(mut record) => self.record(&mut record),
            // Whoever asked may be gone.
            Message::Prove(answer) => drop(answer.send(self.prove())),
            Message::Stop => return false,
        }
        true
    }

    fn record(&mut self, record: &mut Record) {
        record.each_text(secrets::changed);
        self.shared.metrics.observe(record);
        let masks = self.shared.masks.load();
        let payloads = [&record.arguments, &record.result].map(|p| redact::show(p, &masks));
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        let from = self.journal.buffer().len();
        let place = self.chain.call(self.journal.buffer(), record, &payloads, lost);
        self.shared.feed.push(&self.journal.buffer()[from..]);
        self.added();
        self.weight += record.weight();
        if let Some(exporter) = &mut self.exporter {
            exporter.add(record, &payloads, place, &self.journal.buffer()[from..]);
        }
    }

    fn added(&mut self) {
        self.lines += 1;
        self.checkpoints.line();
    }

    fn checkpoint(&mut self, reason: Reason) {
        if self.checkpoints.make(&mut self.chain, self.journal.buffer(), reason) {
            self.lines += 1;
        }
    }

    /// Writes a line, forces it to the disk and reads it back. The first of a boot is followed by a checkpoint.
    fn prove(&mut self) -> Result<Proven, String> {
        let from = self.journal.buffer().len();
        let place = self.chain.selftest(self.journal.buffer());
        let line = self.journal.buffer()[from..].to_vec();
        self.added();
        self.write();
        if self.lines > 0 {
            return Err("the journal cannot be written".into());
        }
        let result = self.found(&line);
        self.shared.health.report(Step::Proof, &result);
        if place.seq == 1 {
            self.checkpoint(Reason::Start);
        }
        let boot = self.chain.boot().to_owned();
        result.map(|()| Proven { boot, place }).map_err(|e| e.to_string())
    }

    fn found(&self, line: &[u8]) -> io::Result<()> {
        if let Some(segment) = self.journal.segment() {
            segment.sync_data()?;
        }
        match self.journal.read_back(line.len())? {
            Some(found) if found != line => {
                Err(io::Error::other("a line that was written is not in the file"))
            }
            _ => Ok(()),
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
        let checkpoints = self.checkpoints.written();
        match self.journal.segment() {
            Some(segment) => self.syncer.wrote(segment, checkpoints),
            None => checkpoints.iter().for_each(Published::tell),
        }
    }

    fn finish(mut self) {
        let give_up = Instant::now() + LAST_TRIES;
        self.write();
        if self.journal.has_rotated() {
            self.checkpoint(Reason::Rotation);
        }
        self.checkpoint(Reason::Stop);
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
