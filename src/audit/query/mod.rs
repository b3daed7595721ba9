//! Questions to journals: which records, and figures about them. Reads only; prints nothing.
//!
//! ```no_run
//! # use std::{ops::ControlFlow, path::PathBuf};
//! # use smartgate::audit::query::{Dimension, Filter, Journals, Names, Order};
//! # fn main() -> std::io::Result<()> {
//! // A journal with its rotated segments; several paths are segments alone, oldest first. This blocks.
//! let journals = Journals::open(&[PathBuf::from("audit.jsonl")])?;
//! let filter = Filter { tool: Names::new(&["files__*"]), ..Filter::default() };
//! journals.find(&filter, Order::NewestFirst, Some(100), |row| {
//!     println!("{:?}", row.entry().map(|e| e.seq));
//!     ControlFlow::Continue(())
//! })?;
//! let stats = journals.stats(&filter.calls(), &[vec![Dimension::Key], vec![Dimension::Rule, Dimension::Client]])?;
//! println!("{} calls", stats.total.calls);
//! journals.keep_indexes();
//! # Ok(())
//! # }
//! ```
//!
//! Invariant: an index makes an answer sooner, never another one. It holds a segment's beginning as columns and is
//! bound to the bytes that it was made of; rows that are handed out are read from the journal and judged again.

mod block;
mod column;
mod cuts;
mod entry;
mod file;
mod files;
mod filter;
mod follow;
mod groups;
mod journals;
mod latency;
mod lines;
mod parallel;
mod places;
mod segment;
mod select;
mod stats;
#[cfg(test)]
mod tests;

use std::{path::Path, sync::Arc};

pub use entry::{Client, Entry, Error, Text, Tokens};
pub use filter::{Filter, NONE, Names, moment, now};
pub use follow::Follower;
pub use journals::Journals;
pub(super) use journals::index_later;
pub use stats::{Dimension, Figures, Group, OUTCOMES, Shown, Stats};

use self::segment::Segment;

/// In which order records are handed out: that of the journal, which is the order in which calls ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The latest first.
    #[default]
    NewestFirst,
    /// As they were written.
    OldestFirst,
}

/// A record that was found.
#[derive(Debug, Clone)]
pub struct Row {
    /// The segment that it is in.
    pub file: Arc<Path>,
    /// Where in it, in bytes.
    pub offset: u64,
    /// The line as it is, without its line feed.
    pub line: Vec<u8>,
}

impl Row {
    /// What the line says; `None` cannot be for a row that was handed out.
    #[must_use]
    pub fn entry(&self) -> Option<Entry<'_>> {
        Entry::parse(&self.line).ok()
    }
}

/// Lines that were left out because they are no records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// How many of those that were looked at.
    pub lines: u64,
    /// One of them: the file, and where in it, in bytes.
    pub one: Option<(Arc<Path>, u64)>,
}

impl Broken {
    fn count(&mut self, path: &Arc<Path>, lines: u64, first: Option<u64>) {
        self.lines += lines;
        if let Some(first) = first {
            self.one.get_or_insert_with(|| (Arc::clone(path), first));
        }
    }

    /// A last line without an end is one that is being written, but not in a segment that is followed by another.
    fn count_torn(&mut self, segments: &[Segment]) {
        for segment in segments.iter().rev().skip(1).filter(|s| s.torn) {
            self.count(&segment.path, 1, Some(segment.whole()));
        }
    }
}
