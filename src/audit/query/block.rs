//! Some megabytes of a segment as columns: made by reading its lines. Owns which columns there are.
//! Invariant: each line that is a record has one row, in the order of the lines; every other one is counted as broken.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{
    column::{Packing, pack},
    entry::Entry,
};

/// Columns of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    /// Where the line begins, from the block's start.
    At,
    /// Arrival, see [`key_of`].
    Time,
    Duration,
    /// The first four bytes of the trace id.
    Trace,
    Seq,
    RequestBytes,
    ResponseBytes,
    TokensIn,
    TokensOut,
    TokensSaved,
}

/// Columns of names: numbers of entries in the block's dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Kind,
    Boot,
    Key,
    Client,
    Tool,
    Upstream,
    Method,
    Outcome,
    Rules,
    Reason,
}

pub(super) const NUMBERS: usize = Number::TokensSaved as usize + 1;
pub(super) const NAMES: usize = Name::Reason as usize + 1;
pub(super) const COLUMNS: usize = NUMBERS + NAMES;

/// The names that occur in a column; `None` is none.
pub(super) type Dictionary = Vec<Option<String>>;

/// What a block is, without its columns' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outline {
    /// Bytes of the segment.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rows: usize,
    /// Lines that are no records, and where the first begins.
    pub(super) broken: u64,
    pub(super) first_broken: Option<u64>,
    pub(super) columns: Vec<Packing>,
    pub(super) names: Vec<Dictionary>,
}

/// A block in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) outline: Outline,
    pub(super) bytes: Vec<Vec<u8>>,
}

/// Times as numbers that sort as they do.
pub(super) fn key_of(micros: i64) -> u64 {
    micros.cast_unsigned() ^ (1 << 63)
}

/// The number that a trace id is looked for by.
pub(super) fn trace_of(id: Option<&str>) -> u64 {
    id.and_then(|id| id.get(..8)).and_then(|head| u64::from_str_radix(head, 16).ok()).unwrap_or(0)
}

/// Reads whole lines that lie at `start` of a segment.
pub(super) fn build(start: u64, text: &[u8]) -> Block {
    let mut building = Building::default();
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
        match Entry::parse(&text[at..end]) {
            Ok(entry) => building.row(at as u64, &entry),
            Err(_) => building.broken(start + at as u64),
        }
        at = end + 1;
    }
    building.finish(start, start + text.len() as u64)
}

/// A line that is too long to be a record.
pub(super) fn monster(start: u64, end: u64) -> Block {
    let mut building = Building::default();
    building.broken(start);
    building.finish(start, end)
}

#[derive(Default)]
struct Building {
    numbers: [Vec<u64>; NUMBERS],
    ids: [Vec<u64>; NAMES],
    names: [Interned; NAMES],
    broken: u64,
    first_broken: Option<u64>,
}

impl Building {
    fn row(&mut self, at: u64, entry: &Entry<'_>) {
        let tokens = entry.tokens.unwrap_or_default();
        let mut number = |column: Number, value: u64| self.numbers[column as usize].push(value);
        number(Number::At, at);
        number(Number::Time, key_of(entry.micros().unwrap_or(i64::MIN)));
        number(Number::Duration, entry.duration_us());
        number(Number::Trace, trace_of(entry.trace_id.as_deref()));
        number(Number::Seq, entry.seq);
        number(Number::RequestBytes, entry.request_bytes.unwrap_or(0));
        number(Number::ResponseBytes, entry.response_bytes.unwrap_or(0));
        number(Number::TokensIn, tokens.input);
        number(Number::TokensOut, tokens.output);
        number(Number::TokensSaved, tokens.saved);
        let mut name = |column: Name, value: Option<&str>| {
            let id = self.names[column as usize].id(value);
            self.ids[column as usize].push(id);
        };
        name(Name::Kind, Some(&entry.kind));
        name(Name::Boot, Some(&entry.boot));
        name(Name::Key, entry.principal.as_deref());
        name(Name::Client, entry.client_name().as_deref());
        name(Name::Tool, entry.tool.as_deref());
        name(Name::Upstream, entry.upstream.as_deref());
        name(Name::Method, entry.method.as_deref());
        name(Name::Outcome, entry.outcome.as_deref());
        name(Name::Rules, entry.rules().as_deref());
        name(Name::Reason, entry.reason());
    }

    fn broken(&mut self, at: u64) {
        self.broken += 1;
        self.first_broken.get_or_insert(at);
    }

    fn finish(self, start: u64, end: u64) -> Block {
        let rows = self.numbers[0].len();
        let (columns, bytes) = self.numbers.iter().chain(&self.ids).map(|values| pack(values)).unzip();
        let names = self.names.into_iter().map(|n| n.list).collect();
        let (broken, first_broken) = (self.broken, self.first_broken);
        Block { outline: Outline { start, end, rows, broken, first_broken, columns, names }, bytes }
    }
}

/// Names with numbers, in the order in which they came.
#[derive(Default)]
struct Interned {
    list: Dictionary,
    numbers: HashMap<String, u64>,
    none: Option<u64>,
    last: u64,
}

impl Interned {
    fn id(&mut self, name: Option<&str>) -> u64 {
        // Most records share most names with the one before.
        let last = usize::try_from(self.last).ok().and_then(|last| self.list.get(last));
        if last.is_some_and(|l| l.as_deref() == name) {
            return self.last;
        }
        let next = self.list.len() as u64;
        let known = match name {
            Some(name) => self.numbers.get(name).copied(),
            None => self.none,
        };
        self.last = known.unwrap_or_else(|| {
            self.list.push(name.map(str::to_owned));
            match name {
                Some(name) => drop(self.numbers.insert(name.to_owned(), next)),
                None => self.none = Some(next),
            }
            next
        });
        self.last
    }
}
