//! Journals that are open for questions. Owns in which order blocks are looked at, and that what is handed out was read
//! and judged as it stands in the journal.

use std::{
    fs::File,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use super::{
    Broken, Dimension, Entry, Filter, Follower, Order, Row, Stats, block,
    files::{named, of_journal},
    groups,
    lines::Lines,
    parallel,
    places::Places,
    segment::{self, Segment, Sizes},
    select,
};
use crate::audit::segments;

/// Journals that questions are put to, as they were when they were opened.
#[derive(Debug)]
pub struct Journals {
    segments: Vec<Segment>,
    /// The name of the file that is written to.
    last_path: PathBuf,
    places: Places,
    sizes: Sizes,
    /// Whether the segments are all of a journal, so that other indexes are strays.
    is_whole: bool,
}

impl Journals {
    /// Opens a journal with its rotated segments or, where several paths are given, these files alone, oldest first.
    ///
    /// # Errors
    /// A file cannot be read; the text names it.
    pub fn open(paths: &[PathBuf]) -> io::Result<Self> {
        Self::open_with(paths, Sizes::default(), None)
    }

    pub(super) fn open_with(paths: &[PathBuf], sizes: Sizes, places: Option<Places>) -> io::Result<Self> {
        let mut last_path = paths.last().cloned().unwrap_or_default();
        let (files, places, is_whole) = match paths {
            [journal] => {
                last_path = segments::resolved(journal);
                (of_journal(&last_path)?, places.unwrap_or_else(|| Places::of(&last_path)), true)
            }
            files => {
                let open =
                    |path: &PathBuf| Ok((path.clone(), File::open(path).map_err(|e| named(path, &e))?));
                let files = files.iter().map(open).collect::<io::Result<_>>()?;
                (files, places.unwrap_or_else(Places::cached), false)
            }
        };
        let open = |(path, file): (PathBuf, File)| {
            Segment::open(path.clone(), file, &places, sizes).map_err(|e| named(&path, &e))
        };
        Ok(Self {
            segments: files.into_iter().map(open).collect::<io::Result<_>>()?,
            last_path,
            places,
            sizes,
            is_whole,
        })
    }

    /// Hands out the records that pass, until `limit` of them or until `each` has enough.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn find(
        &self,
        filter: &Filter,
        order: Order,
        limit: Option<usize>,
        mut each: impl FnMut(Row) -> ControlFlow<()>,
    ) -> io::Result<Broken> {
        let mut broken = Broken::default();
        let mut left = limit.unwrap_or(usize::MAX);
        let blocks = self.blocks(order);
        let mut at = 0;
        while at < blocks.len() && left > 0 {
            // The first answers of a journal without an index should not wait for all of it.
            let some = &blocks[at..blocks.len().min(at + at.clamp(1, 4) * parallel::threads())];
            at += some.len();
            for found in self.select(some, filter)? {
                broken.count(&self.segments[found.segment].path, found.broken, found.first_broken);
                if !self.hand_out(found, filter, order, &mut left, &mut each)? {
                    return Ok(broken);
                }
            }
        }
        broken.count_torn(&self.segments);
        Ok(broken)
    }

    /// Hands out the records that pass in the order in which they arrived. The journal's own order is that of their ends.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn find_by_arrival(
        &self,
        filter: &Filter,
        mut each: impl FnMut(Row) -> ControlFlow<()>,
    ) -> io::Result<Broken> {
        let mut broken = Broken::default();
        let mut all: Vec<(u64, usize, u64, u64)> = Vec::new();
        for (n, block) in self.blocks(Order::OldestFirst) {
            let segment = &self.segments[n];
            let (found, times) = segment
                .with_block(block, |view| Ok((Found::of(n, view, filter)?, select::times(view, filter)?)))
                .map_err(|e| named(&segment.path, &e))?;
            broken.count(&segment.path, found.broken, found.first_broken);
            all.extend(times.iter().zip(found.lines).map(|(time, (from, to))| (*time, n, from, to)));
        }
        broken.count_torn(&self.segments);
        all.sort_unstable();
        let mut lines: Vec<_> =
            self.segments.iter().map(|s| Lines::new(s.file(), Order::OldestFirst)).collect();
        for (_, n, from, to) in all {
            let segment = &self.segments[n];
            let line = lines[n].read(from, to).map_err(|e| named(&segment.path, &e))?;
            if Entry::parse(line).is_ok_and(|entry| filter.matches(&entry)) {
                let row = Row { file: Arc::clone(&segment.path), offset: from, line: line.to_vec() };
                if each(row).is_break() {
                    break;
                }
            }
        }
        Ok(broken)
    }

    /// The place where the last file ended when it was opened, for what comes after.
    ///
    /// # Errors
    /// The file cannot be opened a second time.
    pub fn follow(&self) -> io::Result<Follower> {
        let Some(last) = self.segments.last() else { return Err(io::Error::other("there is no file")) };
        Ok(Follower::new(self.last_path.clone(), last.file().try_clone()?, last.whole()))
    }

    /// Figures about all records that pass, in the groupings asked for. Put calls alone with [`Filter::calls`].
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn stats(&self, filter: &Filter, by: &[Vec<Dimension>]) -> io::Result<Stats> {
        let blocks = self.blocks(Order::OldestFirst);
        let sums = parallel::fold(&blocks, |sums: &mut groups::Sums, (segment, block)| {
            let segment = &self.segments[*segment];
            segment
                .with_block(*block, |view| sums.add(view, filter, by))
                .map_err(|e| named(&segment.path, &e))
        })?;
        Ok(groups::Sums::merge(sums, by.len()))
    }

    /// Lines that are no records, in what has been looked at.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn broken(&self) -> io::Result<Broken> {
        let mut broken = Broken::default();
        for (segment, block) in self.blocks(Order::OldestFirst) {
            let segment = &self.segments[segment];
            let (lines, first) =
                segment.with_block(block, |view| Ok((view.outline.broken, view.outline.first_broken)))?;
            broken.count(&segment.path, lines, first);
        }
        broken.count_torn(&self.segments);
        Ok(broken)
    }

    /// Writes indexes of what has been looked at, where that is worth it and there is a place for them. Nothing
    /// depends on it.
    pub fn keep_indexes(&self) {
        for segment in &self.segments {
            if let Err(error) = segment.keep(&self.places, self.sizes) {
                tracing::debug!(%error, "no index is kept");
            }
        }
        if self.is_whole {
            let needed: Vec<String> = self.segments.iter().filter_map(Segment::index_name).collect();
            self.places.tidy(&needed);
        }
    }

    /// Reads every segment but the current one, a block at a time, and writes the indexes that are not there yet.
    pub(super) fn index_closed(&self) -> io::Result<()> {
        let closed = self.segments.len().saturating_sub(1);
        for segment in &self.segments[..closed] {
            (0..segment.blocks()).try_for_each(|block| segment.with_block(block, |_| Ok(())))?;
        }
        self.keep_indexes();
        Ok(())
    }

    fn blocks(&self, order: Order) -> Vec<(usize, usize)> {
        let each = |(n, segment): (usize, &Segment)| (0..segment.blocks()).map(move |block| (n, block));
        let mut all: Vec<_> = self.segments.iter().enumerate().flat_map(each).collect();
        if order == Order::NewestFirst {
            all.reverse();
        }
        all
    }

    /// Looks through blocks in parallel; the answers are in their order.
    fn select(&self, blocks: &[(usize, usize)], filter: &Filter) -> io::Result<Vec<Found>> {
        let numbered: Vec<_> = blocks.iter().enumerate().collect();
        let found = parallel::fold(&numbered, |found: &mut Vec<(usize, Found)>, (n, (segment, block))| {
            let at = &self.segments[*segment];
            let one = at.with_block(*block, |view| Found::of(*segment, view, filter));
            found.push((*n, one.map_err(|e| named(&at.path, &e))?));
            Ok::<_, io::Error>(())
        })?;
        let mut found: Vec<_> = found.into_iter().flatten().collect();
        found.sort_by_key(|(n, _)| *n);
        Ok(found.into_iter().map(|(_, f)| f).collect())
    }

    /// Reads the lines of a block that were found. False when there is enough.
    fn hand_out(
        &self,
        mut found: Found,
        filter: &Filter,
        order: Order,
        left: &mut usize,
        each: &mut impl FnMut(Row) -> ControlFlow<()>,
    ) -> io::Result<bool> {
        let segment = &self.segments[found.segment];
        let mut lines = Lines::new(segment.file(), order);
        if order == Order::NewestFirst {
            found.lines.reverse();
        }
        for (from, to) in found.lines {
            if *left == 0 {
                return Ok(false);
            }
            let line = lines.read(from, to).map_err(|e| named(&segment.path, &e))?;
            if !Entry::parse(line).is_ok_and(|entry| filter.matches(&entry)) {
                continue;
            }
            *left -= 1;
            let row = Row { file: Arc::clone(&segment.path), offset: from, line: line.to_vec() };
            if each(row).is_break() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a block has for a filter.
#[derive(Debug)]
struct Found {
    segment: usize,
    /// Where each line begins, and before where it ends.
    lines: Vec<(u64, u64)>,
    broken: u64,
    first_broken: Option<u64>,
}

impl Found {
    fn of(segment: usize, view: segment::View<'_>, filter: &Filter) -> Result<Self, segment::Bad> {
        let outline = view.outline;
        let rows = select::rows(view, filter)?;
        let mut lines = Vec::with_capacity(rows.len());
        if !rows.is_empty() {
            let at = view.number(block::Number::At)?;
            for row in rows.iter().map(|row| *row as usize) {
                let from = outline.start + at[row];
                let to = at.get(row + 1).map_or(outline.end, |next| outline.start + next);
                if from >= to || to > outline.end {
                    return Err(segment::Bad);
                }
                lines.push((from, to));
            }
        }
        Ok(Self { segment, lines, broken: outline.broken, first_broken: outline.first_broken })
    }
}

/// Makes the index of a segment that has just been closed, on a thread of its own, so that the first question need not
/// wait for it. Nothing depends on it; what is under way when the process ends is made by that question.
pub(in crate::audit) fn index_later(journal: &Path, closed: u64) {
    static BUSY: AtomicBool = AtomicBool::new(false);
    if closed < Sizes::default().worth || BUSY.swap(true, Ordering::Relaxed) {
        return;
    }
    let journal = journal.to_owned();
    let work = move || {
        if let Err(error) = Journals::open(&[journal]).and_then(|journals| journals.index_closed()) {
            tracing::debug!(%error, "a closed segment has no index yet");
        }
        BUSY.store(false, Ordering::Relaxed);
    };
    if let Err(error) = thread::Builder::new().name("journal-index".into()).spawn(work) {
        tracing::debug!(%error, "no thread for an index");
        BUSY.store(false, Ordering::Relaxed);
    }
}
