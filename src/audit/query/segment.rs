//! One file of a journal as a row of blocks. Owns which index belongs to it, and reading what no index covers.
//! Invariant: an index is used only for the bytes that it was made of; whatever is wrong with it, the lines decide.

use std::{
    fs::{File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use sha2::{Digest, Sha256};

use super::{
    block::{self, Block, COLUMNS, Name, Number, Outline},
    cuts::{plan, read, whole_lines},
    file::{self, Binding, IndexFile},
    places::Places,
};

/// Bytes of one line; longer ones cannot come from us.
const LONGEST: u64 = 64 * 1024 * 1024;
/// Bytes at the beginning that tell one segment from another.
const HEAD: u64 = 4_096;
/// Bytes at the end of what an index covers that it is bound to.
const ENDING: u64 = 256;

/// When indexes are made, and of what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Bytes of a block, about.
    pub(super) block: u64,
    /// New bytes that are worth writing an index for.
    pub(super) worth: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { block: 8 << 20, worth: 8 << 20 }
    }
}

/// A column was not what it should be.
#[derive(Debug)]
pub(super) struct Bad;

/// A file of a journal.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: Arc<Path>,
    file: File,
    /// Bytes of whole lines.
    whole: u64,
    /// Whether something follows that is no whole line.
    pub(super) torn: bool,
    changed: i64,
    stored: Option<IndexFile>,
    blocks: Vec<Slot>,
    /// The index turned out to be wrong.
    spoiled: AtomicBool,
}

#[derive(Debug)]
struct Slot {
    start: u64,
    end: u64,
    /// Its number in the stored index.
    stored: Option<usize>,
    built: OnceLock<Block>,
}

/// A block that can be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) outline: &'a Outline,
    source: Source<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Memory(&'a Block),
    File(&'a IndexFile, &'a file::Stored),
}

impl View<'_> {
    pub(super) fn number(&self, column: Number) -> Result<Vec<u64>, Bad> {
        self.values(column as usize)
    }

    /// Numbers of dictionary entries, all of them there.
    pub(super) fn ids(&self, column: Name) -> Result<Vec<u64>, Bad> {
        let ids = self.values(block::NUMBERS + column as usize)?;
        let known = self.outline.names[column as usize].len() as u64;
        if ids.iter().all(|id| *id < known) { Ok(ids) } else { Err(Bad) }
    }

    fn values(&self, column: usize) -> Result<Vec<u64>, Bad> {
        let packing = self.outline.columns[column];
        let unpack = |bytes: &[u8]| packing.unpack(bytes, self.outline.rows);
        match self.source {
            Source::Memory(block) => Ok(unpack(&block.bytes[column])),
            Source::File(index, block) => index.column(block, column).map(|b| unpack(&b)).ok_or(Bad),
        }
    }

    fn bytes(&self) -> Option<Vec<Vec<u8>>> {
        match self.source {
            Source::Memory(block) => Some(block.bytes.clone()),
            Source::File(index, block) => (0..COLUMNS).map(|c| index.column(block, c)).collect(),
        }
    }
}

impl Segment {
    pub(super) fn open(path: PathBuf, file: File, places: &Places, sizes: Sizes) -> io::Result<Self> {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let whole = whole_lines(&file, found.len())?;
        let stored = match name(&file, whole)? {
            Some(name) => {
                let fits = |index: &IndexFile| fits(&file, &found, whole, &index.binding);
                let mut all = places.candidates(&name).filter_map(|path| IndexFile::open(&path));
                all.find(|index| fits(index).unwrap_or(false))
            }
            None => None,
        };
        let known = stored.iter().flat_map(|s| s.blocks.iter().enumerate());
        let mut blocks: Vec<Slot> = known
            .map(|(n, b)| Slot { stored: Some(n), ..Slot::new(b.outline.start, b.outline.end) })
            .collect();
        let covered = stored.as_ref().map_or(0, |s| s.binding.covered);
        let contiguous = blocks.iter().try_fold(0, |at, b| (b.start == at && b.end > at).then_some(b.end));
        if contiguous != Some(covered) {
            return Self::without_index(path, file, &found, whole, sizes);
        }
        blocks.extend(slots(plan(&file, covered, whole, sizes.block)?));
        Ok(Self { stored, blocks, ..Self::bare(path, file, &found, whole) })
    }

    fn without_index(
        path: PathBuf,
        file: File,
        found: &Metadata,
        whole: u64,
        sizes: Sizes,
    ) -> io::Result<Self> {
        let blocks = slots(plan(&file, 0, whole, sizes.block)?).collect();
        Ok(Self { blocks, ..Self::bare(path, file, found, whole) })
    }

    fn bare(path: PathBuf, file: File, found: &Metadata, whole: u64) -> Self {
        Self {
            path: path.into(),
            file,
            whole,
            torn: found.len() > whole,
            changed: changed(found),
            stored: None,
            blocks: Vec::new(),
            spoiled: AtomicBool::new(false),
        }
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn whole(&self) -> u64 {
        self.whole
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Does something with a block; a second time, with what the lines say, if its index is wrong.
    pub(super) fn with_block<T>(
        &self,
        n: usize,
        mut work: impl FnMut(View<'_>) -> Result<T, Bad>,
    ) -> io::Result<T> {
        let slot = &self.blocks[n];
        if let (None, Some(index), Some(number)) = (slot.built.get(), &self.stored, slot.stored) {
            let block = &index.blocks[number];
            match work(View { outline: &block.outline, source: Source::File(index, block) }) {
                Ok(result) => return Ok(result),
                Err(Bad) => self.spoiled.store(true, Ordering::Relaxed),
            }
        }
        let block = self.built(slot)?;
        work(View { outline: &block.outline, source: Source::Memory(block) })
            .map_err(|Bad| io::Error::other("the index of a part of it contradicts itself"))
    }

    fn built<'a>(&self, slot: &'a Slot) -> io::Result<&'a Block> {
        if let Some(block) = slot.built.get() {
            return Ok(block);
        }
        let block = if slot.end - slot.start > LONGEST.max(2 * Sizes::default().block) {
            block::monster(slot.start, slot.end)
        } else {
            block::build(slot.start, &read(&self.file, slot.start, slot.end)?)
        };
        Ok(slot.built.get_or_init(|| block))
    }

    /// The name that its index has; `None` while it is too short to be told from others.
    pub(super) fn index_name(&self) -> Option<String> {
        name(&self.file, self.whole).ok().flatten()
    }

    /// Writes an index if all of it has been looked at and enough of that is new.
    pub(super) fn keep(&self, places: &Places, sizes: Sizes) -> io::Result<()> {
        let Some(name) = self.index_name() else { return Ok(()) };
        let covered = self.stored.as_ref().map_or(0, |s| s.binding.covered);
        let spoiled = self.spoiled.load(Ordering::Relaxed);
        let known = |slot: &Slot| slot.built.get().is_some() || slot.stored.is_some();
        if (self.whole - covered < sizes.worth && !spoiled) || !self.blocks.iter().all(known) {
            return Ok(());
        }
        let ending = ending(&self.file, self.whole)?;
        let binding = Binding { covered: self.whole, ending, changed: self.changed };
        let views: Option<Vec<_>> = self.blocks.iter().map(|slot| self.known(slot)).collect();
        let Some(views) = views else { return Ok(()) };
        let bytes: Option<Vec<_>> = views.iter().map(View::bytes).collect();
        let Some(bytes) = bytes else { return Ok(()) };
        places.keep(&name, |path| {
            let blocks = views.iter().map(|v| v.outline).zip(bytes.iter().cloned());
            file::write(path, binding.clone(), blocks)
        })
    }

    fn known<'a>(&'a self, slot: &'a Slot) -> Option<View<'a>> {
        if let Some(block) = slot.built.get() {
            return Some(View { outline: &block.outline, source: Source::Memory(block) });
        }
        let index = self.stored.as_ref()?;
        let block = &index.blocks[slot.stored?];
        Some(View { outline: &block.outline, source: Source::File(index, block) })
    }
}

impl Slot {
    fn new(start: u64, end: u64) -> Self {
        Self { start, end, stored: None, built: OnceLock::new() }
    }
}

fn slots(cuts: Vec<(u64, u64)>) -> impl Iterator<Item = Slot> {
    cuts.into_iter().map(|(start, end)| Slot::new(start, end))
}

/// Whether an index was made of what the segment holds now.
fn fits(file: &File, found: &Metadata, whole: u64, binding: &Binding) -> io::Result<bool> {
    if binding.covered > whole || (binding.covered == found.len() && binding.changed != changed(found)) {
        return Ok(false);
    }
    Ok(ending(file, binding.covered)? == binding.ending)
}

fn changed(found: &Metadata) -> i64 {
    found.mtime().saturating_mul(1_000_000_000).saturating_add(found.mtime_nsec())
}

fn ending(file: &File, end: u64) -> io::Result<String> {
    Ok(hex::encode(Sha256::digest(read(file, end.saturating_sub(ENDING), end)?)))
}

fn name(file: &File, whole: u64) -> io::Result<Option<String>> {
    if whole < HEAD {
        return Ok(None);
    }
    Ok(Some(hex::encode(&Sha256::digest(read(file, 0, HEAD)?)[..16])))
}
