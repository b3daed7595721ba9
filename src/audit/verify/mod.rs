//! Checks a journal: its hash chain, its checkpoints' signatures, and what somebody kept of it elsewhere. Owns what is
//! reported; what counts as a fault is in the modules below. Invariant: no input makes it panic, memory does not grow
//! with the journal, and only a chain without a gap passes: every line unchanged, each after its predecessor, no number
//! of a boot missing.

mod blocks;
mod fold;
mod held;
mod piece;

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io,
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use blocks::{Blocks, Source};
use fold::Fold;
pub use held::{Compared, Held, Lost};
use piece::{Piece, Rules};

use super::segments;
use crate::signing::PublicKey;

/// Bytes that one thread checks at a time. Small journals are then checked by one.
const BLOCK: usize = 4 * 1024 * 1024;
/// More threads than this wait for the disk.
const MOST_THREADS: usize = 16;

/// What a journal is compared with.
#[derive(Debug, Default)]
pub struct Checks {
    /// Keys that may have signed checkpoints. Without one, signatures are not looked at.
    pub keys: Vec<PublicKey>,
    /// Lines that somebody kept.
    pub held: Held,
}

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
    /// Checkpoints without a signature.
    pub unsigned: u64,
    /// Checkpoints with one.
    pub signed: u64,
    /// The last one whose signature was checked, and the lines after it.
    pub covered: Option<(Position, u64)>,
    /// How it compares with what was kept elsewhere.
    pub compared: Compared,
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
    /// Its lines fit each other, and not what was kept elsewhere or signed.
    Whole(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Line { file, line, what } => write!(f, "{}:{line}: {what}", file.display()),
            Self::Whole(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Fault {}

/// Checks the chain of the journal at `path` together with its rotated segments.
///
/// # Errors
/// The first fault.
pub fn journal(path: &Path) -> Result<Report, Fault> {
    journal_with(path, &Checks::default())
}

/// Checks the journal at `path` together with its rotated segments.
///
/// # Errors
/// The first fault.
pub fn journal_with(path: &Path, checks: &Checks) -> Result<Report, Fault> {
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
        let result = segments_in_order(&files, checks);
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
pub fn segments_in_order(files: &[PathBuf], checks: &Checks) -> Result<Report, Fault> {
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |m| m.len());
    let small = files.iter().map(size).sum::<u64>() <= BLOCK as u64;
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    let sources = files.iter().map(|path| Source::File(path)).collect();
    check(sources, BLOCK, if small { 1 } else { threads }, checks)
}

/// Checks a journal in memory, `block` bytes at a time.
///
/// # Errors
/// The first fault.
pub fn bytes(journal: &[u8], block: usize, checks: &Checks) -> Result<Report, Fault> {
    check(vec![Source::Bytes(journal)], block.max(1), 1, checks)
}

fn check(sources: Vec<Source<'_>>, block: usize, threads: usize, checks: &Checks) -> Result<Report, Fault> {
    checks.held.forget();
    let rules = Rules { keys: &checks.keys, held: &checks.held };
    let shared = Shared {
        blocks: Mutex::new(Blocks::new(&sources, block)),
        pieces: Mutex::default(),
        stop: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.work(&rules));
        }
        shared.work(&rules);
    });
    let mut pieces = shared.pieces.into_inner().unwrap_or_else(PoisonError::into_inner);
    pieces.sort_unstable_by_key(|(number, _)| *number);
    let mut fold = Fold::new(&sources, checks);
    for (_, piece) in pieces {
        fold.add(piece?)?;
    }
    fold.end()
}

type Numbered = (u64, Result<Piece, Fault>);

/// What the threads share: blocks are taken in order, and what was taken is finished, so that no earlier fault is missed.
struct Shared<'a> {
    blocks: Mutex<Blocks<'a>>,
    pieces: Mutex<Vec<Numbered>>,
    stop: AtomicBool,
}

impl Shared<'_> {
    fn work(&self, rules: &Rules<'_>) {
        while !self.stop.load(Ordering::Relaxed) {
            let next = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, block)) = next else { return };
            let piece = block.map(|block| Piece::check(block, rules));
            if !matches!(&piece, Ok(piece) if piece.is_good()) {
                self.stop.store(true, Ordering::Relaxed);
            }
            self.pieces.lock().unwrap_or_else(PoisonError::into_inner).push((number, piece));
        }
    }
}

/// Whether a running gateway holds the journal's lock.
fn is_being_written(path: &Path) -> bool {
    let Ok(lock) = File::open(segments::lock(path)) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}
