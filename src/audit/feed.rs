//! The last lines of the journal in memory, for the admin pages. Owns how many are kept and how watchers wake.
//!
//! Invariant: the recorder's thread never waits for a watcher. A watcher holds a position and no queue of its own, so
//! one that is slow finds the oldest lines gone, and their number.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// Most lines kept.
const LINES: usize = 2_048;
/// Most bytes kept: lines with payloads are long.
const BYTES: usize = 4 * 1024 * 1024;

/// The last lines. Clones share them.
#[derive(Clone)]
pub struct Feed(Arc<Inner>);

struct Inner {
    boot: Box<str>,
    ring: Mutex<Ring>,
    /// The position of the next line.
    end: watch::Sender<u64>,
}

#[derive(Default)]
struct Ring {
    lines: VecDeque<Arc<[u8]>>,
    bytes: usize,
    end: u64,
}

/// Some lines in order.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// Lines that were asked for and are gone.
    pub lost: u64,
    /// Position of the first of `lines`.
    pub first: u64,
    /// Journal lines, each without its line feed.
    pub lines: Vec<Arc<[u8]>>,
}

impl Feed {
    /// An empty one.
    #[must_use]
    pub fn new(boot: &str) -> Self {
        Self(Arc::new(Inner { boot: boot.into(), ring: Mutex::default(), end: watch::Sender::new(0) }))
    }

    /// Keeps a finished line.
    pub fn push(&self, line: &[u8]) {
        let end = self.ring().push(line.strip_suffix(b"\n").unwrap_or(line));
        if self.0.end.receiver_count() > 0 {
            self.0.end.send_replace(end);
        }
    }

    /// The boot that positions count in.
    #[must_use]
    pub fn boot(&self) -> &str {
        &self.0.boot
    }

    /// The position of the next line.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.ring().end
    }

    /// The position of the oldest line that is kept.
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.ring().oldest()
    }

    /// At most `most` lines from `position` on, or from the oldest that is kept.
    #[must_use]
    pub fn since(&self, position: u64, most: usize) -> Piece {
        let ring = self.ring();
        let oldest = ring.oldest();
        let first = position.clamp(oldest, ring.end);
        let skip = usize::try_from(first - oldest).unwrap_or(usize::MAX);
        Piece {
            lost: oldest.saturating_sub(position),
            first,
            lines: ring.lines.iter().skip(skip).take(most).map(Arc::clone).collect(),
        }
    }

    /// Changes when lines have come; subscribe before reading.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.0.end.subscribe()
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("end", &self.end()).finish_non_exhaustive()
    }
}

impl Ring {
    fn push(&mut self, line: &[u8]) -> u64 {
        self.bytes += line.len();
        self.lines.push_back(line.into());
        while self.lines.len() > LINES || (self.bytes > BYTES && self.lines.len() > 1) {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len();
        }
        self.end += 1;
        self.end
    }

    fn oldest(&self) -> u64 {
        self.end - u64::try_from(self.lines.len()).unwrap_or(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(lines: usize) -> Feed {
        let feed = Feed::new("b");
        (0..lines).for_each(|n| feed.push(format!("{n}\n").as_bytes()));
        feed
    }

    #[test]
    fn a_slow_reader_is_told_what_it_missed() {
        let feed = feed(LINES + 10);
        let piece = feed.since(3, 2);
        assert_eq!((piece.lost, piece.first, piece.lines.len()), (7, 10, 2));
        assert_eq!(&*piece.lines[0], b"10");
        let rest = feed.since(12, usize::MAX);
        assert_eq!((rest.lost, rest.lines.len()), (0, LINES - 2));
        assert_eq!(feed.since(feed.end(), 5).lines, Vec::<Arc<[u8]>>::new());
        assert_eq!(feed.since(u64::MAX, 5).first, feed.end(), "a position of another boot");
    }

    #[test]
    fn long_lines_push_out_more_and_one_always_stays() {
        let feed = feed(5);
        feed.push(&vec![b'x'; BYTES + 1]);
        let piece = feed.since(0, usize::MAX);
        assert_eq!((piece.lost, piece.lines.len()), (5, 1));
        feed.push(b"y\n");
        assert_eq!(&*feed.since(0, 9).lines[0], b"y");
    }

    #[test]
    fn only_watchers_are_woken() {
        let feed = feed(1);
        let watcher = feed.watch();
        assert!(!watcher.has_changed().unwrap());
        feed.push(b"z\n");
        assert!(watcher.has_changed().unwrap());
    }
}
