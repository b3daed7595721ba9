//! The journal's file: opened and locked, healed, written in whole lines, rotated. Knows lines only as bytes;
//! what they say is `line`'s. Invariant: on disk every segment is whole lines, except while a write is under
//! way; a failed write is cut off before the next try, so nothing is lost or doubled.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use super::{
    chain::GENESIS,
    query,
    recorder::StartError,
    retention::Retention,
    segments,
    tail::{FoundEnd, bytes, find_end, read},
};
use crate::config;

/// Bytes written at once, and so the most that a try can fail with.
const CHUNK: usize = 1024 * 1024;

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
    retention: Retention,
    /// When the current segment was begun.
    begun: SystemTime,
    /// Whether a segment was begun since somebody asked.
    rotated: bool,
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
        // Not every file system knows when a file was made; one that is not empty is then as old as its last line.
        let about = file.metadata().map_err(refused)?;
        let begun = about.created().or_else(|_| about.modified()).unwrap_or_else(|_| SystemTime::now());
        let new = Self {
            path,
            file: Some(Arc::new(file)),
            good: end.good,
            rotate_at: settings.rotate,
            rotate: settings.rotate,
            retention: Retention::of(settings),
            begun,
            rotated: false,
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

    /// Whether a new segment was begun since the last time this was asked.
    pub(super) fn has_rotated(&mut self) -> bool {
        std::mem::take(&mut self.rotated)
    }

    /// The last `length` bytes of what is on the disk, read the way anybody else would; `None` for what cannot be read.
    pub(super) fn read_back(&self, length: usize) -> io::Result<Option<Vec<u8>>> {
        if !self.regular {
            return Ok(None);
        }
        let file = File::open(&self.path)?;
        let end = file.metadata()?.len();
        read(&file, end.saturating_sub(bytes(length)), bytes(length)).map(Some)
    }

    /// Removes segments whose time is over, and begins a new one if the current one is old enough.
    pub(super) fn tidy(&mut self) {
        if !self.regular {
            return;
        }
        if self.good > 0 && self.retention.ends_segment(self.begun) {
            if let Err(error) = self.begin_segment() {
                tracing::warn!(%error, path = %self.path.display(), "an old segment cannot be ended");
            }
        } else {
            self.forget();
        }
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
        self.begin_segment()
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let old = self.ready()?;
        old.sync_data()?;
        if let Err(error) = self.rename() {
            tracing::error!(%error, path = %self.path.display(), "the journal cannot be rotated; it grows on");
            self.rotate_at = self.good + self.rotate;
            return Ok(());
        }
        let closed = self.good;
        (self.file, self.good, self.rotate_at) = (None, 0, self.rotate);
        (self.begun, self.rotated) = (SystemTime::now(), true);
        self.ready()?;
        query::index_later(&self.path, closed);
        self.forget();
        Ok(())
    }

    fn forget(&self) {
        let folder = segments::folder(&self.path);
        let result =
            self.retention.apply(&self.path, self.good).and_then(|()| File::open(folder)?.sync_all());
        if let Err(error) = result {
            tracing::warn!(%error, path = %self.path.display(), "old journal segments could not be removed");
        }
    }

    fn rename(&self) -> io::Result<()> {
        let last = segments::old(&self.path)?.last().map_or(0, |(number, _)| *number);
        fs::rename(&self.path, segments::numbered(&self.path, last + 1))
    }
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
