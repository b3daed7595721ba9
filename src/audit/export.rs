//! The way of spans out of the process: a bounded queue, and a thread that sends what it holds. Owns what is
//! dropped and when; not what a span says (`otlp`) or how a batch is sent (`collector`). Invariant: a slow,
//! dead or absent collector costs spans, each of them counted, and never a call any time.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use tokio::sync::Notify;

use super::{
    chain::Place, collector::Collector, health::ExporterHealth, otel_env::Settings, otlp, record::Record,
    redact::Shown,
};
use crate::metrics::Metrics;

/// Spans that may wait: more than a second at 20,000 calls a second.
const MOST_SPANS: usize = 65_536;
/// Bytes that they may take, since kept payloads are spans' attributes too.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Spans of one request.
const BATCH_SPANS: usize = 2_048;
/// Bytes of one request: collectors take 4 MiB over gRPC by default.
const BATCH_BYTES: usize = 2 * 1024 * 1024;
/// Spans are handed to the queue when they have grown to this many bytes, at the latest.
const PIECE_BYTES: usize = 256 * 1024;
/// How long the first span of a batch waits for more.
const LINGER: Duration = Duration::from_millis(250);
/// How long the end of the process waits for the last batches.
const LAST_FLUSH: Duration = Duration::from_secs(2);

/// Encoded spans.
#[derive(Debug, Default)]
struct Piece {
    bytes: Vec<u8>,
    spans: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    pieces: VecDeque<Piece>,
    spans: usize,
    bytes: usize,
    /// Spans of the batch that is being sent.
    sending: usize,
    stop: bool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Something came into the empty queue, a batch is full, or it is time to stop.
    changed: Notify,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece, or gives back how many spans found no room.
    fn push(&self, piece: Piece) -> usize {
        let mut waiting = self.lock();
        if waiting.spans + piece.spans > MOST_SPANS || waiting.bytes + piece.bytes.len() > MOST_BYTES {
            return piece.spans;
        }
        let before = waiting.spans;
        waiting.spans += piece.spans;
        waiting.bytes += piece.bytes.len();
        waiting.pieces.push_back(piece);
        let worth_waking = before == 0 || (before < BATCH_SPANS && waiting.spans >= BATCH_SPANS);
        drop(waiting);
        if worth_waking {
            self.changed.notify_one();
        }
        0
    }

    /// Takes the next batch; empty when nothing waits.
    fn pop(&self) -> Piece {
        let mut waiting = self.lock();
        let mut batch = Piece::default();
        while let Some(next) = waiting.pieces.front() {
            let fits = batch.spans + next.spans <= BATCH_SPANS
                && batch.bytes.len() + next.bytes.len() <= BATCH_BYTES;
            if !fits && batch.spans > 0 {
                break;
            }
            let Some(next) = waiting.pieces.pop_front() else { break };
            waiting.spans -= next.spans;
            waiting.bytes -= next.bytes.len();
            batch.spans += next.spans;
            if batch.bytes.is_empty() {
                batch.bytes = next.bytes;
            } else {
                batch.bytes.extend_from_slice(&next.bytes);
            }
        }
        waiting.sending = batch.spans;
        batch
    }
}

/// The recorder thread's end of the queue.
pub(super) struct Exporter {
    boot: String,
    piece: Piece,
    queue: Arc<Queue>,
    health: Arc<ExporterHealth>,
    metrics: Arc<Metrics>,
    ended: mpsc::Receiver<()>,
}

impl Exporter {
    /// Starts the sending thread. `boot` becomes `service.instance.id`.
    ///
    /// # Errors
    /// The settings cannot work, whatever the collector does.
    pub(super) fn start(settings: Settings, boot: &str, metrics: &Arc<Metrics>) -> Result<Self, String> {
        let resource = settings.resource_of(boot);
        let collector = Collector::new(settings)?;
        let queue = Arc::new(Queue::default());
        let health = Arc::new(ExporterHealth::default());
        let (end, ended) = mpsc::channel();
        let sender = Sender {
            queue: Arc::clone(&queue),
            health: Arc::clone(&health),
            metrics: Arc::clone(metrics),
            collector,
            resource,
        };
        thread::Builder::new()
            .name("otlp".into())
            .spawn(move || sender.run(end))
            .map_err(|e| format!("the export thread cannot be started: {e}"))?;
        Ok(Self {
            boot: boot.to_owned(),
            piece: Piece::default(),
            queue,
            health,
            metrics: Arc::clone(metrics),
            ended,
        })
    }

    pub(super) fn health(&self) -> Arc<ExporterHealth> {
        Arc::clone(&self.health)
    }

    /// Encodes the spans of a record.
    pub(super) fn add(&mut self, record: &Record, payloads: &[Shown<'_>; 2], place: Place) {
        self.piece.spans += otlp::spans(&mut self.piece.bytes, &self.boot, record, payloads, place);
        if self.piece.bytes.len() >= PIECE_BYTES {
            self.hand_over();
        }
    }

    /// Gives what was encoded to the queue.
    pub(super) fn hand_over(&mut self) {
        if self.piece.spans > 0 {
            let room = self.piece.bytes.len();
            let piece =
                std::mem::replace(&mut self.piece, Piece { bytes: Vec::with_capacity(room), spans: 0 });
            let dropped = self.queue.push(piece);
            self.metrics.spans_dropped.inc_by(count(dropped));
        }
    }

    /// Sends what waits, for two seconds at most; the rest is dropped and counted.
    pub(super) fn stop(mut self) {
        self.hand_over();
        self.queue.lock().stop = true;
        self.queue.changed.notify_one();
        if self.ended.recv_timeout(LAST_FLUSH) == Err(mpsc::RecvTimeoutError::Timeout) {
            let waiting = self.queue.lock();
            let spans = waiting.spans + waiting.sending;
            self.metrics.spans_dropped.inc_by(count(spans));
            tracing::warn!(spans, "the collector did not take the last spans in time");
        }
    }
}

fn count(spans: usize) -> u64 {
    u64::try_from(spans).unwrap_or(u64::MAX)
}

/// The sending thread.
struct Sender {
    queue: Arc<Queue>,
    health: Arc<ExporterHealth>,
    metrics: Arc<Metrics>,
    collector: Collector,
    resource: Vec<(String, String)>,
}

impl Sender {
    /// `end` is dropped when the thread is done, which tells the other side.
    fn run(mut self, end: mpsc::Sender<()>) {
        match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(self.send_all()),
            Err(error) => self.health.report(Err(&format!("no runtime: {error}"))),
        }
        drop(end);
    }

    async fn send_all(&mut self) {
        loop {
            let (spans, stop) = {
                let waiting = self.queue.lock();
                (waiting.spans, waiting.stop)
            };
            match (spans, stop) {
                (0, true) => return,
                (0, false) => self.queue.changed.notified().await,
                (1..BATCH_SPANS, false) => {
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
        let spans = count(batch.spans);
        let mut message = self.collector.frame(batch.bytes.len() + 1_024);
        otlp::request(&mut message, &self.resource, &batch.bytes);
        drop(batch);
        let result = self.collector.send(message, &self.health).await;
        self.queue.lock().sending = 0;
        let dropped = match &result {
            Ok(answer) => otlp::rejected(answer).min(spans),
            Err(_) => spans,
        };
        self.metrics.spans_dropped.inc_by(dropped);
        self.metrics.spans_exported.inc_by(spans - dropped);
        self.health.report(result.as_ref().map(|_| ()).map_err(String::as_str));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(spans: usize, bytes: usize) -> Piece {
        Piece { bytes: vec![0; bytes], spans }
    }

    #[test]
    fn the_queue_is_bounded_in_spans_and_bytes() {
        let queue = Queue::default();
        assert_eq!(queue.push(piece(MOST_SPANS, 1)), 0);
        assert_eq!(queue.push(piece(3, 1)), 3);
        assert_eq!(queue.pop().spans, MOST_SPANS);
        assert_eq!(queue.push(piece(1, MOST_BYTES)), 0);
        assert_eq!(queue.push(piece(1, 1)), 1);
    }

    #[test]
    fn batches_stay_within_their_bounds() {
        let queue = Queue::default();
        for _ in 0..5 {
            queue.push(piece(BATCH_SPANS / 2, 10));
        }
        let sizes: Vec<usize> = std::iter::repeat_with(|| queue.pop().spans).take(4).collect();
        assert_eq!(sizes, [BATCH_SPANS, BATCH_SPANS, BATCH_SPANS / 2, 0]);
        for _ in 0..3 {
            queue.push(piece(1, BATCH_BYTES / 2));
        }
        assert_eq!([queue.pop().spans, queue.pop().spans], [2, 1]);
    }
}
