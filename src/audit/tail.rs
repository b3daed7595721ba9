//! Where a journal ends: looked for from the back, however long the file is. Invariant: a file that is not a journal is
//! told from one that a crash has torn.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use super::{recorder::StartError, segments};

/// Step in which the last line is looked for.
const STEP: u64 = 64 * 1024;
/// What ends every line: `,"hash":"` + 64 digits + `"}`.
pub(super) const ENDING: usize = 9 + 64 + 2;
/// What begins every line.
const BEGINNING: &[u8] = b"{\"v\":";

#[derive(Debug, Default)]
pub(super) struct FoundEnd {
    /// Bytes of whole lines.
    pub(super) good: u64,
    /// Bytes after them.
    pub(super) torn: u64,
    /// Hash of the last line.
    pub(super) prev: Option<[u8; 64]>,
}

/// The end of the journal: of the current segment, or of the newest old one if that is still empty.
pub(super) fn find_end(path: &Path, file: &File) -> Result<FoundEnd, StartError> {
    let refused = |error| StartError::Io(path.to_owned(), error);
    let found = find_end_of(path, file)?;
    if found.prev.is_some() {
        return Ok(found);
    }
    let Some((_, newest)) = segments::old(path).map_err(refused)?.pop() else { return Ok(found) };
    let older = File::open(&newest).map_err(|error| StartError::Io(newest.clone(), error))?;
    Ok(FoundEnd { prev: find_end_of(&newest, &older)?.prev, ..found })
}

/// Looks at the last lines alone, however long the file is. A file whose last whole line is not a record, or
/// whose only line is no beginning of one, belongs to somebody else.
pub(super) fn find_end_of(path: &Path, file: &File) -> Result<FoundEnd, StartError> {
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

pub(super) fn read(mut file: &File, from: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(length).read_to_end(&mut part)?;
    Ok(part)
}

/// A length as files have it.
pub(super) fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
