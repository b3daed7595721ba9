//! The calls that the pages show: the feed's lines, each read once, and only when somebody looks.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use super::call::Call;
use crate::audit::Feed;

/// See the module.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) feed: Feed,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    calls: VecDeque<Arc<Call>>,
    next: u64,
}

/// Calls from some position on.
pub(super) struct Calls {
    /// Lines that were asked for and are gone.
    pub(super) lost: u64,
    /// Where to go on.
    pub(super) next: u64,
    pub(super) calls: Vec<Arc<Call>>,
}

impl Window {
    pub(super) fn new(feed: Feed) -> Self {
        Self { feed, read: Mutex::default() }
    }

    /// All that is there, the oldest first, and the position behind it.
    pub(super) fn all(&self) -> Calls {
        self.since(0)
    }

    /// What has come since `position`.
    pub(super) fn since(&self, position: u64) -> Calls {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = read.catch_up(&self.feed);
        let next = read.next;
        let from = read.calls.partition_point(|call| call.position < position);
        let calls = read.calls.iter().skip(from).map(Arc::clone).collect();
        Calls { lost: oldest.saturating_sub(position), next, calls }
    }

    /// One call by its place in the journal.
    pub(super) fn find(&self, boot: &str, seq: u64) -> Option<Arc<Call>> {
        self.all().calls.into_iter().rev().find(|call| call.seq == seq && call.boot == boot)
    }
}

impl Read {
    /// Takes over the feed's new lines and drops what it dropped; the position of the oldest that is left.
    fn catch_up(&mut self, feed: &Feed) -> u64 {
        let piece = feed.since(self.next, usize::MAX);
        self.next = piece.first + u64::try_from(piece.lines.len()).unwrap_or(0);
        let numbered = piece.lines.iter().zip(piece.first..);
        self.calls.extend(numbered.filter_map(|(line, at)| Call::read(line, at)).map(Arc::new));
        let oldest = feed.oldest();
        while self.calls.front().is_some_and(|call| call.position < oldest) {
            self.calls.pop_front();
        }
        oldest
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line as the journal has it.
    pub(in crate::pages) fn line(seq: u64, more: &str) -> String {
        format!(
            "{{\"kind\":\"call\",\"boot\":\"B\",\"seq\":{seq},\"time\":\"2026-11-30T08:00:{:02}.000000Z\",\
             \"duration_ms\":{}.5,\"outcome\":\"ok\"{more}}}\n",
            seq % 60,
            seq % 50,
        )
    }

    #[test]
    fn follows_the_feed_and_forgets_with_it() {
        let feed = Feed::new("B");
        let window = Window::new(feed.clone());
        assert_eq!((window.all().calls.len(), window.all().next), (0, 0));
        (0..3).for_each(|n| feed.push(line(n, "").as_bytes()));
        feed.push(b"{\"kind\":\"start\"}\n");
        let first = window.all();
        assert_eq!((first.calls.len(), first.next, first.lost), (3, 4, 0));
        (4..3_000).for_each(|n| feed.push(line(n, "").as_bytes()));
        let rest = window.since(first.next);
        assert!(rest.lost > 0);
        assert_eq!(rest.calls.len() as u64, 3_000 - first.next - rest.lost);
        assert_eq!(rest.calls.last().unwrap().seq, 2_999);
        assert!(window.find("B", 1).is_none() && window.find("B", 2_999).is_some());
        assert!(window.find("C", 2_999).is_none());
    }
}
