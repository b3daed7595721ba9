//! What waits to be exported: a bounded queue of encoded items of one signal. Owns what finds no room; not what an item
//! says or who sends it. Invariant: pushing never waits for the collector.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

/// Items that may wait: more than a second at 20,000 calls a second.
pub(super) const MOST_ITEMS: usize = 65_536;
/// Bytes that they may take, since kept payloads are part of items too.
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Items of one request.
pub(super) const BATCH_ITEMS: usize = 2_048;
/// Bytes of one request: collectors take 4 MiB over gRPC by default.
pub(super) const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Encoded items, one after the other.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) items: usize,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pieces: VecDeque<Piece>,
    pub(super) items: usize,
    bytes: usize,
    /// Items of the batch that is being sent.
    pub(super) sending: usize,
    pub(super) stop: bool,
    /// The collector does not have this signal: nothing is taken any more.
    pub(super) unwanted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Something came into the empty queue, a batch is full, or it is time to stop.
    pub(super) changed: Notify,
}

impl Queue {
    pub(super) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a piece, or gives back how many items found no room.
    pub(super) fn push(&self, piece: Piece) -> usize {
        let mut waiting = self.lock();
        let full = waiting.items + piece.items > MOST_ITEMS || waiting.bytes + piece.bytes.len() > MOST_BYTES;
        if full || waiting.unwanted {
            return piece.items;
        }
        let before = waiting.items;
        waiting.items += piece.items;
        waiting.bytes += piece.bytes.len();
        waiting.pieces.push_back(piece);
        let worth_waking = before == 0 || (before < BATCH_ITEMS && waiting.items >= BATCH_ITEMS);
        drop(waiting);
        if worth_waking {
            self.changed.notify_one();
        }
        0
    }

    /// Takes the next batch; empty when nothing waits.
    pub(super) fn pop(&self) -> Piece {
        let mut waiting = self.lock();
        let mut batch = Piece::default();
        while let Some(next) = waiting.pieces.front() {
            let fits = batch.items + next.items <= BATCH_ITEMS
                && batch.bytes.len() + next.bytes.len() <= BATCH_BYTES;
            if !fits && batch.items > 0 {
                break;
            }
            let Some(next) = waiting.pieces.pop_front() else { break };
            waiting.items -= next.items;
            waiting.bytes -= next.bytes.len();
            batch.items += next.items;
            if batch.bytes.is_empty() {
                batch.bytes = next.bytes;
            } else {
                batch.bytes.extend_from_slice(&next.bytes);
            }
        }
        waiting.sending = batch.items;
        batch
    }

    /// No more will come.
    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.changed.notify_one();
    }

    /// Items that wait or are being sent.
    pub(super) fn unsent(&self) -> usize {
        let waiting = self.lock();
        waiting.items + waiting.sending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(items: usize, bytes: usize) -> Piece {
        Piece { bytes: vec![0; bytes], items }
    }

    #[test]
    fn the_queue_is_bounded_in_items_and_bytes() {
        let queue = Queue::default();
        assert_eq!(queue.push(piece(MOST_ITEMS, 1)), 0);
        assert_eq!(queue.push(piece(3, 1)), 3);
        assert_eq!(queue.pop().items, MOST_ITEMS);
        assert_eq!(queue.push(piece(1, MOST_BYTES)), 0);
        assert_eq!(queue.push(piece(1, 1)), 1);
    }

    #[test]
    fn batches_stay_within_their_bounds() {
        let queue = Queue::default();
        for _ in 0..5 {
            queue.push(piece(BATCH_ITEMS / 2, 10));
        }
        let sizes: Vec<usize> = std::iter::repeat_with(|| queue.pop().items).take(4).collect();
        assert_eq!(sizes, [BATCH_ITEMS, BATCH_ITEMS, BATCH_ITEMS / 2, 0]);
        for _ in 0..3 {
            queue.push(piece(1, BATCH_BYTES / 2));
        }
        assert_eq!([queue.pop().items, queue.pop().items], [2, 1]);
    }

    #[test]
    fn a_signal_that_nobody_wants_is_not_kept() {
        let queue = Queue::default();
        queue.lock().unwanted = true;
        assert_eq!(queue.push(piece(2, 1)), 2);
    }
}
