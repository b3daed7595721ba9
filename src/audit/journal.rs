//! The journal's file: opened and locked, healed, written in whole lines, rotated. Knows lines only as bytes;
//! what they say is `line`'s. Invariant: on disk every segment is whole lines, except while a write is under
//! way; a failed write is cut off before the next try, so nothing is lost or doubled.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{line::GENESIS, query, recorder::StartError, segments};
use crate::config;

/// Bytes written at once, and so the most that a try can fail with.
const CHUNK: usize = 1024 * 1024;
/// Step in which the last line is looked for, from the end.
const STEP: u64 = 64 * 1024;
/// What ends every line: `,"hash":"` + 64 digits + `"}`.
const ENDING: usize = 9 + 64 + 2;
/// What begins every line.
const BEGINNING: &[u8] = b"{\"v\":";

/// An open, locked journal.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<Arc<File>>,
    /// Bytes of whole lines in the current segment.
    good: u64,
    /// Size at which the next segment is begun.
    rotate_at: u64,
    rotate: u64,
    keep: usize,
    /// A device or pipe is only written to: it has no end to heal, nothing to lock or rotate.
    regular: bool,
    /// Lines that are not on disk yet; the first `written` bytes already are.
    waiting: Vec<u8>,
    written: usize,
    _lock: Option<File>,
}

/// Where an opened journal ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Hash of the last line.
    pub(super) prev: [u8; 64],
    /// Bytes of a torn line that were cut off.
    pub(super) healed_bytes: u64,
}

impl Journal {
    /// Opens or makes the file, takes its lock and cuts off a torn last line.
    ///
    /// # Errors
    /// It is locked, is not a journal, or the system refuses.
    pub(super) fn open(settings: &config::Journal) -> Result<(Self, End), StartError> {
        let refused = |error| StartError::Io(settings.path.clone(), error);
        let folder = segments::folder(&settings.path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(refused)?;
        let file = open_segment(&settings.path).map_err(refused)?;
        let path = segments::resolved(&settings.path);
        let regular = file.metadata().map_err(refused)?.is_file();
        let lock = if regular { Some(take_lock(&path)?) } else { None };
        let end = if regular { find_end(&path, &file)? } else { FoundEnd::default() };
        if end.torn > 0 {
            file.set_len(end.good).map_err(refused)?;
        }
        let new = Self {
            path,
            file: Some(Arc::new(file)),
            good: end.good,
            rotate_at: settings.rotate,
            rotate: settings.rotate,
            keep: settings.keep,
            regular,
            waiting: Vec::new(),
            written: 0,
            _lock: lock,
        };
        Ok((new, End { prev: end.prev.unwrap_or(GENESIS), healed_bytes: end.torn }))
    }

    /// Where whole lines, each ending in a line feed, are appended for the next [`write`](Self::write).
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Whether lines wait to be written.
    pub(super) fn has_waiting(&self) -> bool {
        self.written < self.waiting.len()
    }

    /// The current segment, for syncing; `None` for what cannot be synced.
    pub(super) fn segment(&self) -> Option<Arc<File>> {
        self.file.clone().filter(|_| self.regular)
    }

    /// Writes what waits. After an error the rest still waits and the file ends in a whole line, or is cut
    /// there at the next try.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while self.has_waiting() {
            let end = self.written + chunk(&self.waiting[self.written..]);
            self.make_room(end - self.written)?;
            let file = self.ready()?;
            let result = (&*file).write_all(&self.waiting[self.written..end]);
            if let Err(error) = result {
                self.cut();
                return Err(error);
            }
            self.good += bytes(end - self.written);
            self.written = end;
        }
        self.waiting.clear();
        self.waiting.shrink_to(2 * CHUNK);
        self.written = 0;
        Ok(())
    }

    /// The current segment, ready to be appended to: opened again if it is gone, and without a torn line.
    fn ready(&mut self) -> io::Result<Arc<File>> {
        if let Some(file) = &self.file {
            if !self.regular {
                return Ok(Arc::clone(file));
            }
            let found = file.metadata()?;
            if found.nlink() > 0 {
                let file = Arc::clone(file);
                self.agree(&file, found.len())?;
                return Ok(file);
            }
            tracing::error!(path = %self.path.display(), "the journal was deleted; it is begun again");
        }
        let file = Arc::new(open_segment(&self.path)?);
        self.good = file.metadata()?.len();
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Cuts a half-written line off. A file that became shorter was cut by somebody else, which `verify` will
    /// report; it is never filled up.
    fn agree(&mut self, file: &File, length: u64) -> io::Result<()> {
        if length < self.good {
            tracing::error!(path = %self.path.display(), "the journal was cut by somebody else");
            self.good = length;
        }
        if length > self.good { file.set_len(self.good) } else { Ok(()) }
    }

    /// Takes a half-written line away at once, for readers; if that fails too, `ready` does it later.
    fn cut(&self) {
        if let Some(file) = self.segment()
            && let Err(error) = file.set_len(self.good)
        {
            tracing::debug!(%error, "a half-written line stays until the next try");
        }
    }

    /// Begins a new segment if `more` bytes would overfill this one. A segment that cannot be renamed is
    /// written on, and rotation is tried again a segment later.
    fn make_room(&mut self, more: usize) -> io::Result<()> {
        if !self.regular || self.good == 0 || self.good + bytes(more) <= self.rotate_at {
            return Ok(());
        }
        let old = self.ready()?;
        old.sync_data()?;
        if let Err(error) = self.rename() {
            tracing::error!(%error, path = %self.path.display(), "the journal cannot be rotated; it grows on");
            self.rotate_at = self.good + self.rotate;
            return Ok(());
        }
        let closed = self.good;
        (self.file, self.good, self.rotate_at) = (None, 0, self.rotate);
        self.ready()?;
        query::index_later(&self.path, closed);
        if let Err(error) =
            self.forget_oldest().and_then(|()| File::open(segments::folder(&self.path))?.sync_all())
        {
            tracing::warn!(%error, path = %self.path.display(), "old journal segments could not be removed");
        }
        Ok(())
    }

    fn rename(&self) -> io::Result<()> {
        let last = segments::old(&self.path)?.last().map_or(0, |(number, _)| *number);
        fs::rename(&self.path, segments::numbered(&self.path, last + 1))
    }

    fn forget_oldest(&self) -> io::Result<()> {
        let old = segments::old(&self.path)?;
        let surplus = old.len().saturating_sub(self.keep);
        old[..surplus].iter().try_for_each(|(_, path)| fs::remove_file(path))
    }
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// How much to write at once: whole lines, at most [`CHUNK`] bytes, or one longer line.
fn chunk(waiting: &[u8]) -> usize {
    if waiting.len() <= CHUNK {
        return waiting.len();
    }
    let before = memchr::memrchr(b'\n', &waiting[..CHUNK]);
    let after = || memchr::memchr(b'\n', &waiting[CHUNK..]).map(|at| CHUNK + at);
    before.or_else(after).map_or(waiting.len(), |at| at + 1)
}

fn open_segment(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)
}

fn take_lock(path: &Path) -> Result<File, StartError> {
    let lock = segments::lock(path);
    let refused = |error| StartError::Io(lock.clone(), error);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&lock).map_err(refused)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::Locked(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(refused(error)),
    }
}

#[derive(Debug, Default)]
struct FoundEnd {
    good: u64,
    torn: u64,
    prev: Option<[u8; 64]>,
}

/// The end of the journal: of the current segment, or of the newest old one if that is still empty.
fn find_end(path: &Path, file: &File) -> Result<FoundEnd, StartError> {
    let refused = |error| StartError::Io(path.to_owned(), error);
    let found = end_of(path, file)?;
    if found.prev.is_some() {
        return Ok(found);
    }
    let Some((_, newest)) = segments::old(path).map_err(refused)?.pop() else { return Ok(found) };
    let older = File::open(&newest).map_err(|error| StartError::Io(newest.clone(), error))?;
    Ok(FoundEnd { prev: end_of(&newest, &older)?.prev, ..found })
}

/// Looks at the last lines alone, however long the file is. A file whose last whole line is not a record, or
/// whose only line is no beginning of one, belongs to somebody else.
fn end_of(path: &Path, file: &File) -> Result<FoundEnd, StartError> {
    let refused = |error| StartError::Io(path.to_owned(), error);
    let length = file.metadata().map_err(refused)?.len();
    let good = line_start(file, length).map_err(refused)?;
    let torn = length - good;
    if good == 0 {
        let head = read(file, 0, torn.min(bytes(BEGINNING.len()))).map_err(refused)?;
        let ours = BEGINNING.starts_with(&head) || head.iter().all(|b| *b == 0);
        return if ours { Ok(FoundEnd { good, torn, prev: None }) } else { Err(foreign(path)) };
    }
    let start = line_start(file, good - 1).map_err(refused)?;
    let head = read(file, start, bytes(BEGINNING.len()).min(good - start)).map_err(refused)?;
    let tail =
        read(file, good - 1 - bytes(ENDING).min(good - 1 - start), bytes(ENDING).min(good - 1 - start))
            .map_err(refused)?;
    match stated_hash(&tail) {
        Some(prev) if head == BEGINNING => Ok(FoundEnd { good, torn, prev: Some(prev) }),
        _ => Err(foreign(path)),
    }
}

fn foreign(path: &Path) -> StartError {
    StartError::Foreign(path.to_owned())
}

/// The hash that a line (without its line feed) ends in, if it ends like a record.
pub(super) fn stated_hash(line: &[u8]) -> Option<[u8; 64]> {
    let ending = line.get(line.len().checked_sub(ENDING)?..)?;
    let hash = ending.strip_prefix(b",\"hash\":\"")?.strip_suffix(b"\"}")?;
    let hash: [u8; 64] = hash.try_into().ok()?;
    hash.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')).then_some(hash)
}

/// Where the line begins that holds the byte before `end`: after the last line feed before `end`, or at 0.
fn line_start(file: &File, end: u64) -> io::Result<u64> {
    let mut upto = end;
    while upto > 0 {
        let from = upto.saturating_sub(STEP);
        let part = read(file, from, upto - from)?;
        if let Some(at) = memchr::memrchr(b'\n', &part) {
            return Ok(from + bytes(at) + 1);
        }
        upto = from;
    }
    Ok(0)
}

fn read(mut file: &File, from: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(length).read_to_end(&mut part)?;
    Ok(part)
}
