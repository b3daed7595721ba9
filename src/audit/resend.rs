//! Sends journal lines to a collector again. Spans have the ids that they had at first, so that sending twice is the same
//! as once. Owns the range and the batches. Invariant: nothing is sent of a line that does not match its hash, and what
//! was not taken is said.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use sha2::{Digest, Sha256};

pub use super::text::time;
use super::{
    collector::Collector,
    health::ExporterHealth,
    otel_env::{Exports, Settings, Signal},
    otlp,
    recall::{self, Head},
    segments,
    tail::{ENDING, stated_hash},
    text,
};
use crate::config::Telemetry;

/// Bytes of one line.
const LONGEST: u64 = 64 * 1024 * 1024;
/// As the exporter has them.
const BATCH_SPANS: usize = 2_048;
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// Each takes as long as the exporter's timeout.
const TRIES: usize = 3;

/// Which records.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// Not those before.
    pub since: Option<SystemTime>,
    /// Nor those from then on.
    pub until: Option<SystemTime>,
    /// Of this boot those from this number on, and of later boots all.
    pub from: Option<(String, u64)>,
}

impl Range {
    fn has(&self, head: &Head<'_>) -> Result<bool, String> {
        let time = text::time(head.time).ok_or("not a record: `time` is none")?;
        // ULIDs sort by their time.
        let is_late = self
            .from
            .as_ref()
            .is_none_or(|(boot, seq)| head.boot > boot.as_str() || (head.boot == boot && head.seq >= *seq));
        Ok(is_late && self.since.is_none_or(|t| time >= t) && self.until.is_none_or(|t| time < t))
    }
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Records of calls.
    pub records: u64,
    /// Their spans.
    pub spans: u64,
    /// Those that the collector did not want.
    pub rejected: u64,
}

/// The files of a journal, oldest first.
///
/// # Errors
/// Its folder cannot be read.
pub fn files(journal: &Path) -> std::io::Result<Vec<PathBuf>> {
    let journal = segments::resolved(journal);
    let mut files: Vec<PathBuf> = segments::old(&journal)?.into_iter().map(|(_, path)| path).collect();
    files.push(journal);
    Ok(files)
}

/// The boot of the newest record.
#[must_use]
pub fn newest_boot(file: &Path) -> Option<String> {
    let mut file = File::open(file).ok()?;
    let end = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(LONGEST))).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let line = bytes.trim_ascii_end().rsplit(|b| *b == b'\n').next()?;
    serde_json::from_slice::<Head<'_>>(line).ok().map(|head| head.boot.to_owned())
}

/// Sends what these files hold of the range.
///
/// # Errors
/// What is wrong with a line or the settings, or why the collector did not take a batch.
pub fn resend(files: &[PathBuf], range: &Range, telemetry: &Telemetry) -> Result<Sent, String> {
    let settings = Exports::resolve(telemetry)?.and_then(|e| e.traces).ok_or("no collector is named")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
    runtime.block_on(async {
        let mut resend = Resend {
            collector: Collector::new(settings.clone())?,
            settings,
            health: ExporterHealth::default(),
            range,
            batch: Batch::default(),
            sent: Sent::default(),
        };
        for file in files {
            resend.file(file).await?;
        }
        resend.flush().await?;
        Ok(resend.sent)
    })
}

/// Spans of one boot.
#[derive(Default)]
struct Batch {
    boot: String,
    bytes: Vec<u8>,
    spans: usize,
    last_seq: u64,
}

struct Resend<'a> {
    collector: Collector,
    settings: Settings,
    health: ExporterHealth,
    range: &'a Range,
    batch: Batch,
    sent: Sent,
}

impl Resend<'_> {
    async fn file(&mut self, path: &Path) -> Result<(), String> {
        let unreadable = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            // One that is still being written will be there next time.
            let Some(whole) = line.strip_suffix(b"\n") else { break };
            self.line(whole).await.map_err(|why| format!("{}:{number}: {why}", path.display()))?;
        }
        Ok(())
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let hash = stated_hash(line).ok_or("not a record")?;
        if text::hex_of(&Sha256::digest(&line[..line.len() - ENDING]).into()) != hash {
            return Err("the line was changed: it does not match its hash".into());
        }
        let head: Head<'_> = serde_json::from_slice(line).map_err(|e| format!("not a record: {e}"))?;
        if head.kind != "call" || !self.range.has(&head)? {
            return Ok(());
        }
        let call = recall::call(line, &head, hash).map_err(|why| format!("not a record: {why}"))?;
        if self.batch.boot != head.boot {
            self.flush().await?;
            head.boot.clone_into(&mut self.batch.boot);
        }
        let batch = &mut self.batch;
        batch.spans += otlp::spans(&mut batch.bytes, &batch.boot, &call.record, &call.payloads(), call.place);
        batch.last_seq = head.seq;
        self.sent.records += 1;
        if batch.spans >= BATCH_SPANS || batch.bytes.len() >= BATCH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), String> {
        let Batch { boot, bytes, spans, last_seq } = std::mem::take(&mut self.batch);
        if spans == 0 {
            return Ok(());
        }
        let mut message = self.collector.frame(bytes.len() + 1_024);
        otlp::request(&mut message, &self.settings.resource_of(&boot), &bytes);
        let mut result = self.collector.send(message.clone(), Signal::Traces, &self.health).await;
        for _ in 1..TRIES {
            if result.is_ok() {
                break;
            }
            result = self.collector.send(message.clone(), Signal::Traces, &self.health).await;
        }
        let answer = result.map_err(|not_taken| {
            let why = not_taken.message;
            format!("the collector took nothing of the batch up to seq {last_seq} of boot {boot}: {why}; sending the range again is safe")
        })?;
        self.sent.spans += spans as u64;
        self.sent.rejected += otlp::rejected(&answer);
        self.batch.boot = boot;
        Ok(())
    }
}
