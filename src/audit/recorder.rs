//! The handle that the pipeline holds. Owns what happens when too much waits; the thread behind it (`worker`)
//! owns the rest. Invariant: handing over a record never blocks, never fails and never loses it without counting it.

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use arc_swap::ArcSwap;

use super::{
    chain::{Chain, Start},
    checkpoint::Checkpoints,
    export::Exporter,
    feed::Feed,
    health::{ExporterHealth, ExporterState, JournalHealth, JournalState, Step},
    journal::Journal,
    otel_env::{Exports, Settings},
    proof::Proof,
    record::{Outcome, Record},
    redact::Masks,
    sync::Syncer,
    worker::{Message, Worker},
};
use crate::{config, metrics::Metrics, secrets};

/// Bytes of records that may wait: about 80,000 records without payloads, some seconds at full speed.
const BACKLOG: u64 = 64 * 1024 * 1024;

/// Why the recorder could not start.
#[derive(Debug)]
pub enum StartError {
    /// Another process writes this journal.
    Locked(PathBuf),
    /// The file holds something that is not a journal; it is left alone.
    Foreign(PathBuf),
    /// The file cannot be used.
    Io(PathBuf, io::Error),
    /// `audit.signing_key` is none.
    SigningKey(String),
    /// The exporter's settings make no sense.
    Exporter(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked(path) => write!(f, "journal {} is in use by another process", path.display()),
            Self::Foreign(path) => {
                write!(
                    f,
                    "{} does not end in a journal record; move it away or choose another journal path",
                    path.display()
                )
            }
            Self::Io(path, error) => write!(f, "journal {}: {error}", path.display()),
            Self::SigningKey(why) => write!(f, "audit.signing_key: {why}"),
            Self::Exporter(message) => write!(f, "telemetry: {message}"),
        }
    }
}

impl std::error::Error for StartError {}

/// New calls cannot be recorded, and the configuration says that they must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditUnavailable;

impl fmt::Display for AuditUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the audit journal cannot be written")
    }
}

impl std::error::Error for AuditUnavailable {}

/// What `/readyz` tells about recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The journal.
    pub journal: JournalState,
    /// Whether calls are refused because of it.
    pub denying: bool,
    /// Lines written since the start.
    pub records: u64,
    /// Records that the journal had no room for since the start.
    pub lost: u64,
    /// The exporter.
    pub exporter: ExporterState,
    /// What the last self-test showed.
    pub proof: Proof,
    /// Spans that no collector took since the start.
    pub dropped_spans: u64,
}

/// What the handle and the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    /// What the records weigh that are not written yet.
    pub(super) pending: AtomicU64,
    /// Records that found no room since the last one that did.
    pub(super) lost: AtomicU64,
    pub(super) health: JournalHealth,
    pub(super) masks: ArcSwap<Masks>,
    pub(super) feed: Feed,
    pub(super) metrics: Arc<Metrics>,
    pub(super) exporter: Option<Arc<ExporterHealth>>,
    /// How the collector is reached, for the self-test.
    pub(super) proving: Option<Settings>,
    pub(super) proof: Mutex<Proof>,
    deny: bool,
}

/// Takes the records of finished calls. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    pub(super) sender: mpsc::Sender<Message>,
    pub(super) shared: Arc<Shared>,
}

/// The thread behind a [`Recorder`]; stop it last, after every call has ended.
#[derive(Debug)]
pub struct RecorderThread {
    sender: mpsc::Sender<Message>,
    thread: JoinHandle<()>,
}

impl RecorderThread {
    /// Writes what waits, syncs, gives the exporter two seconds for the rest, and unlocks the journal.
    /// Blocks: call it outside the async runtime, or in `spawn_blocking`.
    pub fn stop(self) {
        let gone = self.sender.send(Message::Stop).is_err();
        if self.thread.join().is_err() || gone {
            tracing::error!("the recorder thread ended before its time");
        }
    }
}

/// Records that are handed to whoever asks instead of being written.
#[derive(Debug)]
pub struct Unwritten {
    receiver: mpsc::Receiver<Message>,
    shared: Arc<Shared>,
}

impl Unwritten {
    /// The next record; `None` if none has been handed over.
    pub fn take(&mut self) -> Option<Box<Record>> {
        let Ok(Message::Record(record)) = self.receiver.try_recv() else { return None };
        self.shared.pending.fetch_sub(record.weight(), Ordering::Relaxed);
        Some(record)
    }
}

impl Recorder {
    /// A recorder without a journal and a thread.
    #[must_use]
    pub fn unwritten(metrics: Arc<Metrics>) -> (Self, Unwritten) {
        let shared = Arc::new(Shared {
            pending: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            health: JournalHealth::default(),
            masks: ArcSwap::from_pointee(Masks::none()),
            feed: Feed::new(""),
            metrics,
            exporter: None,
            proving: None,
            proof: Mutex::default(),
            deny: false,
        });
        let (sender, receiver) = mpsc::channel();
        (Self { sender, shared: Arc::clone(&shared) }, Unwritten { receiver, shared })
    }

    /// Opens and locks the journal, writes its `start` record and starts the thread (and the exporter's, if
    /// `telemetry.otlp` is set). Must not be called on an async worker: it reads and writes files.
    ///
    /// # Errors
    /// The journal is locked by another process, is not a journal, or cannot be opened; or the exporter's
    /// settings are wrong. A disk that is full, or a collector that does not answer, is no error.
    pub fn start(
        audit: &config::Audit,
        telemetry: &config::Telemetry,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, RecorderThread), StartError> {
        let refused = |error| StartError::Io(audit.journal.path.clone(), error);
        let exports = Exports::resolve(telemetry).map_err(StartError::Exporter)?;
        let mut checkpoints = Checkpoints::of(audit).map_err(StartError::SigningKey)?;
        let (mut journal, end) = Journal::open(&audit.journal)?;
        let mut chain = Chain::new(end.prev);
        let proving = exports.as_ref().and_then(|e| e.traces.clone());
        let exporter = match exports {
            Some(exports) => {
                Some(Exporter::start(exports, chain.boot(), &metrics).map_err(StartError::Exporter)?)
            }
            None => None,
        };
        let shared = Arc::new(Shared {
            pending: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            health: JournalHealth::default(),
            masks: ArcSwap::from_pointee(Masks::of(audit)),
            feed: Feed::new(chain.boot()),
            metrics,
            exporter: exporter.as_ref().map(Exporter::health),
            proving,
            proof: Mutex::default(),
            deny: audit.journal.deny_on_error,
        });
        let theirs = Arc::clone(&shared);
        let report = Box::new(move |result| theirs.synced(&result));
        let syncer = Syncer::start(audit.journal.fsync, report).map_err(refused)?;
        let (sender, receiver) = mpsc::channel();
        journal.tidy();
        chain.start(journal.buffer(), Start { healed_bytes: end.healed_bytes });
        checkpoints.line();
        let ours = Arc::clone(&shared);
        let worker = Worker::new(receiver, ours, journal, chain, syncer, exporter, checkpoints);
        let thread =
            thread::Builder::new().name("recorder".into()).spawn(|| worker.run()).map_err(refused)?;
        Ok((Self { sender: sender.clone(), shared }, RecorderThread { sender, thread }))
    }

    /// Takes a finished call. Never blocks.
    pub fn record(&self, record: impl Into<Box<Record>>) {
        let mut record = record.into();
        let weight = record.weight();
        let waiting = self.shared.pending.fetch_add(weight, Ordering::Relaxed);
        if waiting > BACKLOG && self.shared.may_drop(&record) {
            self.shared.pending.fetch_sub(weight, Ordering::Relaxed);
            self.shared.lose(&mut record);
        } else if let Err(mpsc::SendError(Message::Record(mut record))) =
            self.sender.send(Message::Record(record))
        {
            self.shared.health.dead();
            self.shared.lose(&mut record);
        }
    }

    /// Whether a new call may begin: with `on_error = "deny"`, not while the journal cannot be written nor
    /// while too much waits for it. Two atomic loads.
    ///
    /// # Errors
    /// The call must be refused.
    pub fn accepting(&self) -> Result<(), AuditUnavailable> {
        if self.shared.denying() { Err(AuditUnavailable) } else { Ok(()) }
    }

    /// Takes `capture` and `redact` of a reloaded configuration; the journal's own settings need a restart.
    pub fn reconfigure(&self, audit: &config::Audit) {
        self.shared.masks.store(Arc::new(Masks::of(audit)));
    }

    /// The last lines, for the admin pages.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.shared.feed
    }

    /// What `/readyz` tells.
    #[must_use]
    pub fn status(&self) -> Status {
        let metrics = &self.shared.metrics;
        Status {
            journal: self.shared.health.state(),
            denying: self.shared.denying(),
            records: metrics.journal_records.get(),
            lost: metrics.journal_lost.get(),
            exporter: self.shared.exporter.as_ref().map_or(ExporterState::Off, |e| e.state()),
            proof: self.proof(),
            dropped_spans: metrics.spans_dropped.get(),
        }
    }
}

impl Shared {
    fn denying(&self) -> bool {
        let full = || self.pending.load(Ordering::Relaxed) > BACKLOG;
        self.deny && (self.health.is_failing() || full())
    }

    /// With `deny`, a call that was let in is never dropped; refusals are, or a flood of them fills memory.
    fn may_drop(&self, record: &Record) -> bool {
        !self.deny || record.outcome == Outcome::Rejected
    }

    fn lose(&self, record: &mut Record) {
        record.each_text(secrets::changed);
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.metrics.journal_lost.inc();
        self.metrics.observe(record);
    }

    fn synced(&self, result: &io::Result<()>) {
        if result.is_err() {
            self.metrics.journal_errors.inc();
        }
        self.health.report(Step::Sync, result);
    }
}
