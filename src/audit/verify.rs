//! Checks a journal's hash chain, line by line in bounded memory, over as many segments as there are. Owns what
//! counts as a fault; says where the first one is. Invariant: no input makes it panic, and only a chain without
//! a gap passes: every line unchanged, each after its predecessor, no number of a boot missing.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{chain::GENESIS, journal::stated_hash, segments, text};

/// Bytes of one line; longer ones cannot come from us.
const LONGEST: u64 = 64 * 1024 * 1024;
/// What `hash` and its value take at a line's end, beginning with the comma.
const ENDING: usize = 9 + 64 + 2;

/// What a journal without a fault holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Files read.
    pub segments: usize,
    /// Lines.
    pub records: u64,
    /// Starts of the gateway, and one more if the first lies before the oldest line.
    pub boots: u64,
    /// Records that the journal had no room for, by the gateway's own account.
    pub lost: u64,
    /// Where the first line stands.
    pub first: Option<Position>,
    /// Whether that is the very first record, with nothing deleted before it.
    pub from_the_beginning: bool,
    /// Where the last line stands.
    pub last: Option<Position>,
    /// Hash of the last line, hex; empty without one.
    pub last_hash: String,
    /// The last line was still being written by a running gateway, and was left out.
    pub unfinished: bool,
}

/// A record's name: unique in a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// ULID of the boot.
    pub boot: String,
    /// Number within it.
    pub seq: u64,
}

/// Why a journal does not pass.
#[derive(Debug)]
pub enum Fault {
    /// A file cannot be read.
    Io(PathBuf, io::Error),
    /// A line is wrong.
    Line {
        /// The segment.
        file: PathBuf,
        /// The line in it, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Line { file, line, what } => write!(f, "{}:{line}: {what}", file.display()),
        }
    }
}

impl std::error::Error for Fault {}

/// What the check reads of a line.
#[derive(Deserialize)]
struct Line<'a> {
    v: u64,
    kind: &'a str,
    boot: &'a str,
    seq: u64,
    #[serde(default)]
    lost: u64,
    prev: &'a str,
}

/// Where the chain stands.
#[derive(Default)]
struct Walk {
    report: Report,
    prev: Option<[u8; 64]>,
}

/// Checks the journal at `path` together with its rotated segments.
///
/// # Errors
/// The first fault.
pub fn journal(path: &Path) -> Result<Report, Fault> {
    let path = &segments::resolved(path);
    let list = || segments::old(path).map_err(|e| Fault::Io(path.to_owned(), e));
    // A rotation between listing and reading would look like a gap, so the list must hold still.
    for _ in 0..3 {
        let before = list()?;
        let mut files: Vec<PathBuf> = before.iter().map(|(_, p)| p.clone()).collect();
        // A gateway that ended in the middle of a rotation leaves no current file.
        if files.is_empty() || fs::exists(path).unwrap_or(true) {
            files.push(path.to_owned());
        }
        let result = segments_in_order(&files);
        if result.is_ok() || list()? == before {
            return result;
        }
    }
    Err(Fault::Io(path.to_owned(), io::Error::other("is rotated faster than it can be read")))
}

/// Checks segments, oldest first.
///
/// # Errors
/// The first fault.
pub fn segments_in_order(files: &[PathBuf]) -> Result<Report, Fault> {
    let mut walk = Walk::default();
    for (n, file) in files.iter().enumerate() {
        walk.segment(file, n + 1 == files.len())?;
        walk.report.segments += 1;
    }
    walk.report.last_hash = walk.prev.map(|h| String::from_utf8_lossy(&h).into_owned()).unwrap_or_default();
    Ok(walk.report)
}

impl Walk {
    fn segment(&mut self, path: &Path, newest: bool) -> Result<(), Fault> {
        let unreadable = |e| Fault::Io(path.to_owned(), e);
        let mut reader = BufReader::with_capacity(256 * 1024, File::open(path).map_err(unreadable)?);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            let wrong = |what| Fault::Line { file: path.to_owned(), line: number, what };
            let Some(whole) = line.strip_suffix(b"\n") else {
                if newest && is_being_written(path) {
                    self.report.unfinished = true;
                    break;
                }
                return Err(wrong("torn: the line has no end".to_owned()));
            };
            self.line(whole).map_err(wrong)?;
        }
        Ok(())
    }

    /// Takes one line, without its line feed; says what is wrong with it.
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let hash = stated_hash(line).ok_or("not a record: it does not end in a hash")?;
        let covered = &line[..line.len() - ENDING];
        if text::hex_of(&Sha256::digest(covered).into()) != hash {
            return Err("the line was changed: it does not match its hash".into());
        }
        let line: Line<'_> = serde_json::from_slice(line).map_err(|e| format!("not a record: {e}"))?;
        if line.v != 1 {
            return Err(format!("records of version {} are not in this version", line.v));
        }
        self.link(&line)?;
        self.count(&line)?;
        self.prev = Some(hash);
        Ok(())
    }

    fn link(&mut self, line: &Line<'_>) -> Result<(), String> {
        match self.prev {
            None => self.report.from_the_beginning = line.prev.as_bytes() == GENESIS,
            Some(prev) if line.prev.as_bytes() == prev => {}
            Some(_) => {
                return Err("`prev` is not the hash of the line before: lines are missing or moved".into());
            }
        }
        Ok(())
    }

    fn count(&mut self, line: &Line<'_>) -> Result<(), String> {
        let report = &mut self.report;
        match &report.last {
            Some(last) if last.boot == line.boot => {
                let expected = last.seq.checked_add(1).and_then(|s| s.checked_add(line.lost));
                if expected != Some(line.seq) {
                    return Err(format!(
                        "`seq` is {} after {}: records are missing or doubled",
                        line.seq, last.seq
                    ));
                }
            }
            Some(_) if line.kind != "start" || line.seq != 0 => {
                return Err("another boot without its `start` record".into());
            }
            _ => report.boots += 1,
        }
        let position = Position { boot: line.boot.to_owned(), seq: line.seq };
        report.first.get_or_insert_with(|| position.clone());
        report.last = Some(position);
        report.records += 1;
        report.lost = report.lost.saturating_add(line.lost);
        Ok(())
    }
}

/// Whether a running gateway holds the journal's lock.
fn is_being_written(path: &Path) -> bool {
    let Ok(lock) = File::open(segments::lock(path)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}
