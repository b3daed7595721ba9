//! The way of spans, log records and metrics out of the process: a bounded queue for each, and one thread that sends what
//! they hold. Owns when something is sent and what is lost; not what an item says (`otlp`, `otlp_logs`,
//! `otlp_metrics`) or how a batch is sent (`collector`). Invariant: a slow, dead or absent collector costs items, each
//! of them counted by its signal, and never a call any time.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use super::{
    chain::Place,
    collector::Collector,
    health::ExporterHealth,
    log_layer::{self, LogSink},
    otel_env::{Exports, Settings, Signal},
    otlp, otlp_logs, otlp_metrics,
    queue::{BATCH_ITEMS, Piece, Queue},
    record::Record,
    redact::Shown,
};
use crate::metrics::Metrics;

/// Items are handed to the queue when they have grown to this many bytes, at the latest.
const PIECE_BYTES: usize = 256 * 1024;
/// How long the first item of a batch waits for more.
const LINGER: Duration = Duration::from_millis(250);
/// How long the end of the process waits for the last batches.
const LAST_FLUSH: Duration = Duration::from_secs(2);

/// The recorder thread's end of a queue.
struct Feed {
    signal: Signal,
    piece: Piece,
    queue: Arc<Queue>,
}

impl Feed {
    /// Gives what was encoded to the queue.
    fn hand_over(&mut self, metrics: &Metrics) {
        if self.piece.items > 0 {
            let room = self.piece.bytes.len();
            let piece =
                std::mem::replace(&mut self.piece, Piece { bytes: Vec::with_capacity(room), items: 0 });
            metrics.otlp_dropped(self.signal, count(self.queue.push(piece)));
        }
    }
}

/// The recorder thread's end of the queues.
pub(super) struct Exporter {
    boot: String,
    spans: Option<Feed>,
    logs: Option<Feed>,
    queues: Vec<(Signal, Arc<Queue>)>,
    health: Arc<ExporterHealth>,
    metrics: Arc<Metrics>,
    ended: mpsc::Receiver<()>,
}

impl Exporter {
    /// Starts the sending thread. `boot` becomes `service.instance.id`. From now on warnings of the process are
    /// exported too.
    ///
    /// # Errors
    /// The settings cannot work, whatever the collector does.
    pub(super) fn start(exports: Exports, boot: &str, metrics: &Arc<Metrics>) -> Result<Self, String> {
        let health = Arc::new(ExporterHealth::default());
        let mut queues = Vec::new();
        let mut lane = |signal, settings: Option<Settings>| -> Result<_, String> {
            let Some(settings) = settings else { return Ok(None) };
            let queue = Arc::new(Queue::default());
            queues.push((signal, Arc::clone(&queue)));
            Ok(Some(Sender {
                signal,
                queue,
                health: Arc::clone(&health),
                metrics: Arc::clone(metrics),
                resource: settings.resource_of(boot),
                collector: Collector::new(settings)?,
            }))
        };
        let spans = lane(Signal::Traces, exports.traces)?;
        let logs = lane(Signal::Logs, exports.logs)?;
        let points = lane(Signal::Metrics, exports.metrics)?;
        let feed = |sender: &Sender| Feed {
            signal: sender.signal,
            piece: Piece::default(),
            queue: Arc::clone(&sender.queue),
        };
        let (span_feed, log_feed) = (spans.as_ref().map(feed), logs.as_ref().map(feed));
        let (end, ended) = mpsc::channel();
        let (interval, broken) = (exports.interval, Arc::clone(&health));
        thread::Builder::new()
            .name("otlp".into())
            .spawn(move || {
                log_layer::never_export_this_thread();
                match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime.block_on(send([spans, logs], points, interval)),
                    Err(error) => broken.report(Signal::Traces, Err(&format!("no runtime: {error}"))),
                }
                // The other side is told that the thread is done.
                drop(end);
            })
            .map_err(|e| format!("the export thread cannot be started: {e}"))?;
        if let Some(feed) = &log_feed {
            log_layer::install(LogSink { queue: Arc::clone(&feed.queue), metrics: Arc::clone(metrics) });
        }
        Ok(Self {
            boot: boot.to_owned(),
            spans: span_feed,
            logs: log_feed,
            queues,
            health,
            metrics: Arc::clone(metrics),
            ended,
        })
    }

    pub(super) fn health(&self) -> Arc<ExporterHealth> {
        Arc::clone(&self.health)
    }

    /// Encodes a record; `line` is its line of the journal.
    pub(super) fn add(&mut self, record: &Record, payloads: &[Shown<'_>; 2], place: Place, line: &[u8]) {
        if let Some(feed) = &mut self.spans {
            feed.piece.items += otlp::spans(&mut feed.piece.bytes, &self.boot, record, payloads, place);
        }
        if let Some(feed) = &mut self.logs {
            otlp_logs::call(&mut feed.piece.bytes, &self.boot, record, place, line);
            feed.piece.items += 1;
        }
        for feed in [&mut self.spans, &mut self.logs].into_iter().flatten() {
            if feed.piece.bytes.len() >= PIECE_BYTES {
                feed.hand_over(&self.metrics);
            }
        }
    }

    /// Gives what was encoded to the queues.
    pub(super) fn hand_over(&mut self) {
        for feed in [&mut self.spans, &mut self.logs].into_iter().flatten() {
            feed.hand_over(&self.metrics);
        }
    }

    /// Sends what waits, for two seconds at most; the rest is dropped and counted.
    pub(super) fn stop(mut self) {
        if self.logs.is_some() {
            log_layer::remove();
        }
        self.hand_over();
        self.queues.iter().for_each(|(_, queue)| queue.stop());
        if self.ended.recv_timeout(LAST_FLUSH) == Err(mpsc::RecvTimeoutError::Timeout) {
            for (signal, queue) in &self.queues {
                let unsent = queue.unsent();
                self.metrics.otlp_dropped(*signal, count(unsent));
                if unsent > 0 {
                    let what = signal.items();
                    tracing::warn!(unsent, "the collector did not take the last {what} in time");
                }
            }
        }
    }
}

pub(super) fn count(items: usize) -> u64 {
    u64::try_from(items).unwrap_or(u64::MAX)
}

/// Everything that the thread does: each signal at its own pace, so that one that is stuck holds up no other.
async fn send([spans, logs]: [Option<Sender>; 2], points: Option<Sender>, interval: Duration) {
    let queued = async |sender: Option<Sender>| {
        if let Some(mut sender) = sender {
            sender.send_all().await;
        }
    };
    let measured = async {
        if let Some(mut sender) = points {
            sender.send_each(interval).await;
        }
    };
    tokio::join!(queued(spans), queued(logs), measured);
}

/// Sends one signal.
struct Sender {
    signal: Signal,
    queue: Arc<Queue>,
    health: Arc<ExporterHealth>,
    metrics: Arc<Metrics>,
    collector: Collector,
    resource: Vec<(String, String)>,
}

impl Sender {
    /// Sends what comes into the queue, until it is stopped and empty.
    async fn send_all(&mut self) {
        loop {
            let (items, stop) = {
                let waiting = self.queue.lock();
                (waiting.items, waiting.stop)
            };
            match (items, stop) {
                (0, true) => return,
                (0, false) => self.queue.changed.notified().await,
                (1..BATCH_ITEMS, false) => {
                    // Whether it was the time or the wake-up that ended the wait makes no difference.
                    tokio::time::timeout(LINGER, self.queue.changed.notified()).await.ok();
                    self.send_one().await;
                }
                _ => self.send_one().await,
            }
        }
    }

    async fn send_one(&mut self) {
        let batch = self.queue.pop();
        self.deliver(&batch.bytes, count(batch.items)).await;
        self.queue.lock().sending = 0;
    }

    /// Sends all metrics, at each interval and at the end.
    async fn send_each(&mut self, interval: Duration) {
        let start = SystemTime::now();
        loop {
            tokio::time::timeout(interval, self.queue.changed.notified()).await.ok();
            let (stop, unwanted) = {
                let waiting = self.queue.lock();
                (waiting.stop, waiting.unwanted)
            };
            if !unwanted {
                let mut all = Vec::new();
                let points =
                    otlp_metrics::points(&mut all, &self.metrics.encode_open(), start, SystemTime::now());
                self.queue.lock().sending = points;
                self.deliver(&all, count(points)).await;
                self.queue.lock().sending = 0;
            }
            if stop {
                return;
            }
        }
    }

    async fn deliver(&mut self, items: &[u8], number: u64) {
        let mut message = self.collector.frame(items.len() + 1_024);
        otlp::request(&mut message, &self.resource, items);
        let result = self.collector.send(message, self.signal, &self.health).await;
        let dropped = match &result {
            Ok(answer) => otlp::rejected(answer).min(number),
            Err(_) => number,
        };
        self.metrics.otlp_dropped(self.signal, dropped);
        self.metrics.otlp_exported(self.signal, number - dropped);
        match result {
            // Collectors of traces alone are common; that they are is no failure of theirs.
            Err(why) if why.unknown_signal && self.signal != Signal::Traces => {
                let what = self.signal.items();
                tracing::info!("the collector has no place for {what}: no more are sent to it");
                self.queue.lock().unwanted = true;
                self.health.report(self.signal, Ok(()));
            }
            Err(why) => self.health.report(self.signal, Err(&why.message)),
            Ok(_) => self.health.report(self.signal, Ok(())),
        }
    }
}
