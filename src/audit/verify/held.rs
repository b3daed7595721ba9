//! What somebody kept of a journal elsewhere: spans that were exported, checkpoints that were logged. Owns the judgement
//! on each: it is there, it was altered, it was taken away, it was lost in a crash, or it is older than the journal.
//! Invariant: a loss is called one only where a crash can have caused it.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicU8, Ordering},
};

use super::Fault;

/// Faults that are named one by one.
const NAMED: usize = 10;

const SAME: u8 = 1;
const OTHER: u8 = 2;

/// One line that was kept.
struct Entry {
    seq: u64,
    hash: [u8; 32],
    is_checkpoint: bool,
    seen: AtomicU8,
}

/// Everything that was kept.
#[derive(Default)]
pub struct Held {
    boots: HashMap<String, Vec<Entry>>,
    lines: u64,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("lines", &self.lines).finish_non_exhaustive()
    }
}

/// How a journal compares with what was kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Lines that are there.
    pub matched: u64,
    /// Lines from before the oldest one in the journal.
    pub older: u64,
    /// Lines that a crash can have taken.
    pub lost: Vec<Lost>,
}

/// What is missing at the end of a boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The boot.
    pub boot: String,
    /// First number that is missing of those that were kept.
    pub first: u64,
    /// And the last.
    pub last: u64,
    /// How many of them were kept.
    pub lines: u64,
}

/// A boot as the journal has it.
pub(super) struct BootSpan {
    pub(super) boot: String,
    pub(super) first: u64,
    pub(super) last: u64,
    /// Number of its checkpoint at a clean stop.
    pub(super) stopped: Option<u64>,
}

impl Held {
    /// Takes a line. `hash` in hex; false if it is none.
    pub fn add(&mut self, boot: &str, seq: u64, hash: &str, is_checkpoint: bool) -> bool {
        let mut bytes = [0; 32];
        if hex::decode_to_slice(hash, &mut bytes).is_err() {
            return false;
        }
        self.lines += 1;
        let entry = Entry { seq, hash: bytes, is_checkpoint, seen: AtomicU8::new(0) };
        match self.boots.get_mut(boot) {
            Some(entries) => entries.push(entry),
            None => drop(self.boots.insert(boot.to_owned(), vec![entry])),
        }
        true
    }

    /// Sorts what was added: needed once, before anything is compared. A line that was kept twice counts once.
    pub fn sort(&mut self) {
        for entries in self.boots.values_mut() {
            entries.sort_unstable_by_key(|e| (e.seq, e.hash, !e.is_checkpoint));
            entries.dedup_by_key(|e| (e.seq, e.hash));
        }
        self.lines = self.boots.values().map(|e| e.len() as u64).sum();
    }

    /// Lines in it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.lines
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// Begins anew.
    pub(super) fn forget(&self) {
        self.boots.values().flatten().for_each(|e| e.seen.store(0, Ordering::Relaxed));
    }

    /// Judges what was seen of it in the journal with these boots.
    pub(super) fn judge(&self, boots: &[BootSpan], from_the_beginning: bool) -> Result<Compared, Fault> {
        let known: HashMap<&str, &BootSpan> = boots.iter().map(|b| (b.boot.as_str(), b)).collect();
        let oldest = boots.first().filter(|_| !from_the_beginning);
        let mut found = Judgement::default();
        let mut names: Vec<&String> = self.boots.keys().collect();
        names.sort_unstable();
        for boot in names {
            let span = known.get(boot.as_str()).copied();
            let older = |seq| {
                oldest.is_some_and(|o| {
                    if o.boot == *boot { seq < o.first } else { span.is_none() && *boot < o.boot }
                })
            };
            for entry in &self.boots[boot] {
                match entry.seen.load(Ordering::Relaxed) {
                    SAME => found.compared.matched += 1,
                    OTHER => found.fault(boot, entry, "was altered: its hash was another"),
                    _ if older(entry.seq) => found.compared.older += 1,
                    _ => found.missing(boot, entry, span),
                }
            }
        }
        found.end()
    }
}

#[derive(Default)]
struct Judgement {
    compared: Compared,
    faults: Vec<String>,
    more: usize,
}

impl Judgement {
    fn missing(&mut self, boot: &str, entry: &Entry, span: Option<&BootSpan>) {
        let Some(span) = span else {
            return self.fault(
                boot,
                entry,
                "is of a boot that the journal does not know: it was taken away, or forged",
            );
        };
        if entry.seq <= span.last {
            return self.fault(boot, entry, "is not there: it was taken away");
        }
        if span.stopped == Some(span.last) {
            let what =
                format!("comes after the boot's end at seq {}: it was forged, or the end was", span.last);
            return self.fault(boot, entry, &what);
        }
        if entry.is_checkpoint {
            return self.fault(boot, entry, "is a checkpoint after the last line: the end was cut off");
        }
        match self.compared.lost.last_mut().filter(|l| l.boot == boot) {
            Some(lost) => (lost.last, lost.lines) = (entry.seq, lost.lines + 1),
            None => self.compared.lost.push(Lost {
                boot: boot.to_owned(),
                first: entry.seq,
                last: entry.seq,
                lines: 1,
            }),
        }
    }

    fn fault(&mut self, boot: &str, entry: &Entry, what: &str) {
        if self.faults.len() < NAMED {
            self.faults.push(format!("seq {} of boot {boot} {what}", entry.seq));
        } else {
            self.more += 1;
        }
    }

    fn end(mut self) -> Result<Compared, Fault> {
        if self.faults.is_empty() {
            return Ok(self.compared);
        }
        if self.more > 0 {
            self.faults.push(format!("and {} more", self.more));
        }
        Err(Fault::Whole(self.faults.join("\n")))
    }
}

/// Looks lines up as they pass, in their order.
pub(super) struct Cursor<'a> {
    held: &'a Held,
    boot: String,
    rest: &'a [Entry],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(held: &'a Held) -> Self {
        Self { held, boot: String::new(), rest: &[] }
    }

    /// A line of the journal.
    pub(super) fn see(&mut self, boot: &str, seq: u64, hash: &[u8; 64]) {
        if self.held.is_empty() {
            return;
        }
        if self.boot != boot {
            boot.clone_into(&mut self.boot);
            self.rest = self.held.boots.get(boot).map(Vec::as_slice).unwrap_or_default();
            self.rest = &self.rest[self.rest.partition_point(|e| e.seq < seq)..];
        }
        let skipped = self.rest.iter().take_while(|e| e.seq < seq).count();
        self.rest = &self.rest[skipped..];
        let mut bytes = [0; 32];
        if self.rest.first().is_none_or(|e| e.seq != seq) || hex::decode_to_slice(hash, &mut bytes).is_err() {
            return;
        }
        for entry in self.rest.iter().take_while(|e| e.seq == seq) {
            let verdict = if entry.hash == bytes { SAME } else { OTHER };
            entry.seen.store(verdict, Ordering::Relaxed);
        }
    }
}
