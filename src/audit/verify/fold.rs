//! Joins what was found in the blocks, in their order, to a report. Owns the faults that lie between lines far apart:
//! between files, between boots, between checkpoints. Invariant: the first fault of the journal is the one that is told.

use std::collections::HashSet;

use super::{
    Checks, Fault, Position, Report,
    blocks::Source,
    held::BootSpan,
    is_being_written,
    piece::{End, Event, Piece, follows},
};
use crate::audit::{chain::GENESIS, segments};

/// The journal so far.
pub(super) struct Fold<'a> {
    sources: &'a [Source<'a>],
    checks: &'a Checks,
    report: Report,
    last: Option<End>,
    /// The source of the last piece, and its lines before the next.
    source: usize,
    before: u64,
    names: HashSet<String>,
    boots: Vec<BootSpan>,
    /// Lines when the last good signature was met, and where it stands.
    covered: Option<(Position, u64)>,
}

impl<'a> Fold<'a> {
    pub(super) fn new(sources: &'a [Source<'a>], checks: &'a Checks) -> Self {
        Self {
            sources,
            checks,
            report: Report::default(),
            last: None,
            source: 0,
            before: 0,
            names: HashSet::new(),
            boots: Vec::new(),
            covered: None,
        }
    }

    /// Takes the next piece.
    pub(super) fn add(&mut self, mut piece: Piece) -> Result<(), Fault> {
        let is_new = piece.source != self.source;
        if is_new {
            (self.source, self.before) = (piece.source, 0);
        }
        self.join(&piece, is_new)?;
        for event in std::mem::take(&mut piece.events) {
            self.event(event)?;
        }
        self.report.records += piece.lines;
        self.report.lost = self.report.lost.saturating_add(piece.lost);
        self.before += piece.lines;
        if let Some(last) = piece.last {
            if let Some(boot) = self.boots.last_mut() {
                boot.last = last.position.seq;
            }
            self.last = Some(last);
        }
        match piece.fault {
            Some(what) => Err(self.wrong(1, what)),
            None if piece.torn => self.torn(),
            None => Ok(()),
        }
    }

    fn wrong(&self, line: u64, what: String) -> Fault {
        Fault::Line { file: self.sources[self.source].name(), line: self.before + line, what }
    }

    fn torn(&mut self) -> Result<(), Fault> {
        let newest = self.source + 1 == self.sources.len();
        match &self.sources[self.source] {
            Source::File(path) if newest && is_being_written(path) => {
                self.report.unfinished = true;
                Ok(())
            }
            _ => Err(self.wrong(1, "torn: the line has no end".into())),
        }
    }

    fn join(&mut self, piece: &Piece, is_new: bool) -> Result<(), Fault> {
        let Some(first) = &piece.first else { return Ok(()) };
        match &self.last {
            Some(last) => follows(last, first, &first.boot).map_err(|what| {
                let moved = is_new && first.prev != last.hash;
                self.wrong(1, if moved { self.other_file(&first.prev) } else { what })
            }),
            None => {
                self.report.from_the_beginning = first.prev == GENESIS;
                if self.report.from_the_beginning && !first.is_start {
                    return Err(self.wrong(1, "the very first record is no `start`".into()));
                }
                self.report.first = Some(Position { boot: first.boot.clone(), seq: first.seq });
                if !first.is_start {
                    self.boot(first.boot.clone(), first.seq);
                }
                Ok(())
            }
        }
    }

    /// What is wrong with a file that does not continue the one before it.
    fn other_file(&self, prev: &[u8; 64]) -> String {
        let name = |source: &Source<'_>| {
            source.name().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let before = self.source.checked_sub(1).map(|n| name(&self.sources[n])).unwrap_or_default();
        let what = format!("`prev` is not the hash of the line before: the file does not continue {before}");
        let continued = self.sources.iter().find(|source| match source {
            Source::File(path) => segments::last_hash(path).is_some_and(|hash| hash == *prev),
            Source::Bytes(_) => false,
        });
        match continued {
            Some(other) => format!("{what} but {}: files were moved", name(other)),
            None => format!("{what}: a file between them is missing, or one of them was replaced or cut"),
        }
    }

    fn boot(&mut self, boot: String, first: u64) {
        self.names.insert(boot.clone());
        self.boots.push(BootSpan { boot, first, last: first, stopped: None });
    }

    fn event(&mut self, event: Event) -> Result<(), Fault> {
        match event {
            Event::Start { line, boot, before } => {
                let before = before.or(self.last.as_ref().map(|l| l.position.seq));
                if let (Some(ended), Some(seq)) = (self.boots.last_mut(), before) {
                    ended.last = seq;
                }
                if self.names.contains(&boot) {
                    return Err(self.wrong(line, "a boot that was there before begins again".into()));
                }
                self.boot(boot, 0);
            }
            Event::Checkpoint { line, position, is_stop, signed } => {
                if is_stop && let Some(boot) = self.boots.last_mut() {
                    boot.stopped = Some(position.seq);
                }
                if !signed && self.covered.is_some() {
                    return Err(self.wrong(line, "a checkpoint without a signature after signed ones".into()));
                }
                if signed && !self.checks.keys.is_empty() {
                    self.covered = Some((position, self.report.records + line));
                }
                let count = if signed { &mut self.report.signed } else { &mut self.report.unsigned };
                *count += 1;
            }
        }
        Ok(())
    }

    /// The report, once every piece was taken.
    pub(super) fn end(mut self) -> Result<Report, Fault> {
        let mut report = self.report;
        report.segments = self.sources.len();
        report.boots = self.boots.len() as u64;
        report.covered = self.covered.take().map(|(position, lines)| (position, report.records - lines));
        if !self.checks.keys.is_empty() && report.covered.is_none() {
            let what =
                "no checkpoint is signed with the given key: nothing here is shown to be the gateway's";
            return Err(Fault::Whole(what.into()));
        }
        report.compared = self.checks.held.judge(&self.boots, report.from_the_beginning)?;
        if let Some(last) = self.last {
            report.last_hash = String::from_utf8_lossy(&last.hash).into_owned();
            report.last = Some(last.position);
        }
        Ok(report)
    }
}
