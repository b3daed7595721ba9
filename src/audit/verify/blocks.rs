//! Reads segments in blocks of whole lines, so that several threads can check them. Invariant: every byte is in one
//! block, blocks come in the order of the files, and only the last block of a file may end in a line without its end.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::Fault;

/// Bytes of one line; longer ones cannot come from us.
const LONGEST: usize = 64 * 1024 * 1024;

/// Where lines come from.
pub(super) enum Source<'a> {
    File(&'a Path),
    Bytes(&'a [u8]),
}

impl Source<'_> {
    /// As it is named in reports.
    pub(super) fn name(&self) -> PathBuf {
        match self {
            Self::File(path) => path.to_path_buf(),
            Self::Bytes(_) => "-".into(),
        }
    }
}

/// Lines of one source.
pub(super) struct Block {
    /// Which source.
    pub(super) source: usize,
    /// Whole lines, or the one without an end.
    pub(super) bytes: Vec<u8>,
    /// Whether it is that one.
    pub(super) torn: bool,
}

/// Gives one block after the other, with its number.
pub(super) struct Blocks<'a> {
    sources: &'a [Source<'a>],
    size: usize,
    next: u64,
    source: usize,
    open: Option<Box<dyn Read + Send + 'a>>,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(sources: &'a [Source<'a>], size: usize) -> Self {
        Self { sources, size, next: 0, source: 0, open: None, begun: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Option<(u64, Result<Block, Fault>)> {
        loop {
            let source = self.sources.get(self.source)?;
            let found = match self.read() {
                Ok(Some(block)) => Ok(block),
                Ok(None) => continue,
                Err(error) => {
                    self.source = self.sources.len();
                    Err(Fault::Io(source.name(), error))
                }
            };
            self.next += 1;
            return Some((self.next, found));
        }
    }

    /// The next block of the current source; `None` at its end.
    fn read(&mut self) -> io::Result<Option<Block>> {
        let mut bytes = std::mem::take(&mut self.begun);
        let reader = match &mut self.open {
            Some(reader) => reader,
            None => self.open.insert(open(&self.sources[self.source])?),
        };
        loop {
            let before = bytes.len();
            reader.by_ref().take(self.size as u64).read_to_end(&mut bytes)?;
            if bytes.len() == before || bytes.len() > self.size.saturating_add(LONGEST) {
                // The end, or a line that cannot be ours: what comes after it need not be looked at.
                let source = self.source;
                (self.open, self.source) = (None, source + 1);
                return Ok((!bytes.is_empty()).then_some(Block { source, bytes, torn: true }));
            }
            if let Some(end) = memchr::memrchr(b'\n', &bytes[before..]) {
                self.begun = bytes.split_off(before + end + 1);
                return Ok(Some(Block { source: self.source, bytes, torn: false }));
            }
        }
    }
}

fn open<'a>(source: &Source<'a>) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match source {
        Source::File(path) => Box::new(File::open(path)?),
        Source::Bytes(bytes) => Box::new(*bytes),
    })
}
