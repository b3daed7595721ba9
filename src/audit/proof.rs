//! The self-test: a record goes the way of every record, and is looked for at its end. Owns what was shown and when.
//! Invariant: what is said to have arrived was read back from the file, or taken by the collector.

use std::{
    fmt,
    sync::{MutexGuard, PoisonError, mpsc},
    time::{Duration, SystemTime},
};

use super::{
    chain::Place,
    collector::Collector,
    health::ExporterHealth,
    otel_env::{Settings, Signal},
    otlp,
    recorder::Recorder,
    worker::Message,
};

/// How long the recorder's thread may take: a disk that hangs is as good as none.
const PATIENCE: Duration = Duration::from_secs(10);

/// A self-test's line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    pub(super) boot: String,
    pub(super) place: Place,
}

impl Proven {
    /// The line's name: boot, number and hash, with colons between.
    #[must_use]
    pub fn position(&self) -> String {
        let Place { seq, hash } = self.place;
        format!("{}:{seq}:{}", self.boot, String::from_utf8_lossy(&hash))
    }
}

/// What the last self-test showed. `None` is what is not known yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proof {
    /// That a record reaches the journal.
    pub journal: Option<Result<Proven, String>>,
    /// That a span reaches the collector; `Some(None)` where there is none.
    pub collector: Option<Option<Result<(), String>>>,
    /// When it ended.
    pub at: Option<SystemTime>,
}

impl Proof {
    /// Whether everything that is configured works; `None` while that is not known.
    #[must_use]
    pub fn passed(&self) -> Option<bool> {
        let (journal, collector) = (self.journal.as_ref()?, self.collector.as_ref()?);
        Some(journal.is_ok() && !matches!(collector, Some(Err(_))))
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.journal {
            None => f.write_str("no record was sent yet")?,
            Some(Err(why)) => write!(f, "no record reaches the journal: {why}")?,
            Some(Ok(proven)) => {
                write!(f, "record {} of boot {} is in the journal", proven.place.seq, proven.boot)?;
            }
        }
        match &self.collector {
            None => f.write_str("; the collector has not answered yet"),
            Some(None) => f.write_str("; no collector is configured"),
            Some(Some(Ok(()))) => f.write_str("; the collector took its span"),
            Some(Some(Err(why))) => write!(f, "; the collector took no span: {why}"),
        }
    }
}

impl Recorder {
    /// Sends a record to the journal and looks for it there. Blocks.
    ///
    /// # Errors
    /// Why it did not arrive.
    pub fn prove_journal(&self) -> Result<Proven, String> {
        let (answer, answered) = mpsc::sync_channel(1);
        let asked = self.sender.send(Message::Prove(answer)).map_err(|_| ());
        let result = match asked.and_then(|()| answered.recv_timeout(PATIENCE).map_err(|_| ())) {
            Ok(result) => result,
            Err(()) => Err(format!("the recorder has not answered within {PATIENCE:?}")),
        };
        *self.proof_mut() = Proof { journal: Some(result.clone()), ..Proof::default() };
        result
    }

    /// Sends the record's span to the collector, if there is one. Blocks as long as the collector may take for a
    /// batch.
    pub fn prove_collector(&self, proven: Option<&Proven>) -> Proof {
        let settings = self.shared.proving.clone();
        let result = settings.zip(proven).map(|(settings, proven)| {
            let fresh = ExporterHealth::default();
            let health = self.shared.exporter.as_deref().unwrap_or(&fresh);
            let result = send(settings, proven, health);
            health.report(Signal::Traces, result.as_ref().copied().map_err(String::as_str));
            result
        });
        let mut proof = self.proof_mut();
        (proof.collector, proof.at) = (Some(result), Some(SystemTime::now()));
        proof.clone()
    }

    /// Both, one after the other. Blocks.
    pub fn prove(&self) -> Proof {
        let proven = self.prove_journal();
        self.prove_collector(proven.as_ref().ok())
    }

    /// What the last self-test showed.
    #[must_use]
    pub fn proof(&self) -> Proof {
        self.proof_mut().clone()
    }

    fn proof_mut(&self) -> MutexGuard<'_, Proof> {
        self.shared.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn send(settings: Settings, proven: &Proven, health: &ExporterHealth) -> Result<(), String> {
    let mut ids = ([0; 16], [0; 8]);
    getrandom::fill(&mut ids.0).and_then(|()| getrandom::fill(&mut ids.1)).map_err(|e| e.to_string())?;
    let mut span = Vec::new();
    otlp::selftest(&mut span, ids, &proven.boot, proven.place);
    let resource = settings.resource_of(&proven.boot);
    let mut collector = Collector::new(settings)?;
    let mut message = collector.frame(span.len() + 1_024);
    otlp::request(&mut message, &resource, &span);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
    let answer = runtime.block_on(collector.send(message, Signal::Traces, health)).map_err(|e| e.message)?;
    match otlp::rejected(&answer) {
        0 => Ok(()),
        _ => Err("it was rejected".into()),
    }
}
