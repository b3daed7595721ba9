//! What is written to a journal from a moment on, over rotations. Asked from time to time; waits for nothing itself.
//! Invariant: every whole line that is written after the moment is handed out once, in order, also those of segments
//! that were rotated between two questions.

use std::{
    fs::{File, Metadata},
    io,
    ops::ControlFlow,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Row, files::named};
use crate::audit::segments;

/// Read at once.
const STEP: usize = 256 * 1024;

/// A place in a journal that is being written.
#[derive(Debug)]
pub struct Follower {
    journal: PathBuf,
    file: File,
    /// Of the line that is read next.
    at: u64,
    /// What has been read of it by this question.
    begun: Vec<u8>,
}

impl Follower {
    pub(super) fn new(journal: PathBuf, file: File, at: u64) -> Self {
        Self { journal, file, at, begun: Vec::new() }
    }

    /// Hands out what has been written since the last time; a line that is not complete yet waits.
    ///
    /// # Errors
    /// A file cannot be read; asking again may do.
    pub fn poll(&mut self, mut each: impl FnMut(Row) -> ControlFlow<()>) -> io::Result<()> {
        loop {
            // Looked at before the last read: what is written to a segment is written before it is rotated.
            let next = self.next().map_err(|e| named(&self.journal, &e))?;
            if self.drain(&mut each).map_err(|e| named(&self.journal, &e))?.is_break() {
                return Ok(());
            }
            let Some(next) = next else { return Ok(()) };
            self.file = next;
            self.at = 0;
            self.begun.clear();
        }
    }

    fn drain(&mut self, each: &mut impl FnMut(Row) -> ControlFlow<()>) -> io::Result<ControlFlow<()>> {
        let path: Arc<Path> = self.journal.as_path().into();
        let mut part = vec![0; STEP];
        loop {
            let length = self.file.metadata()?.len();
            // The file may have been cut by somebody.
            self.at = self.at.min(length);
            let read = self.file.read_at(&mut part, self.at + self.begun.len() as u64)?;
            if read == 0 {
                // Read again the next time: a torn line may have been cut off and another written in its place.
                self.begun.clear();
                return Ok(ControlFlow::Continue(()));
            }
            self.begun.extend_from_slice(&part[..read]);
            let mut done = 0;
            while let Some(end) = memchr::memchr(b'\n', &self.begun[done..]).map(|n| done + n) {
                let offset = self.at + done as u64;
                let row = Row { file: Arc::clone(&path), offset, line: self.begun[done..end].to_vec() };
                done = end + 1;
                if each(row).is_break() {
                    self.forget(done);
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.forget(done);
        }
    }

    fn forget(&mut self, bytes: usize) {
        self.begun.drain(..bytes);
        self.at += bytes as u64;
    }

    /// The segment after this one; `None` while this is the current one.
    fn next(&self) -> io::Result<Option<File>> {
        let mine = id(&self.file.metadata()?);
        let current = match File::open(&self.journal) {
            Ok(file) => file,
            // In the middle of a rotation.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if id(&current.metadata()?) == mine {
            return Ok(None);
        }
        let mut old = Vec::new();
        for (_, path) in segments::old(&self.journal)? {
            match File::open(path) {
                Ok(file) => old.push(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        // Segments are deleted oldest first: what is left of a journal without this one comes after it.
        let mut after = 0;
        for (n, file) in old.iter().enumerate() {
            if id(&file.metadata()?) == mine {
                after = n + 1;
            }
        }
        Ok(Some(old.into_iter().nth(after).unwrap_or(current)))
    }
}

fn id(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}
