//! An index on disk: the blocks of one segment's beginning. Owns the format, and what binds it to its segment.
//! Invariant: it is written whole or not at all, and what does not carry the right sums is not read.
//!
//! Layout: all columns' bytes; the directory, which is JSON; its length (8 bytes, little endian) and CRC-32 (4);
//! [`MAGIC`].

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::block::{COLUMNS, NAMES, Outline};

/// Ends every file; another format gets another one.
const MAGIC: [u8; 8] = *b"sgindex1";
const FOOTER: u64 = 8 + 4 + 8;
/// Most bytes of a directory: more is no directory.
const LARGEST: u64 = 1 << 30;

/// What an index was made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Binding {
    /// Bytes of the segment that the blocks cover.
    pub(super) covered: u64,
    /// SHA-256 of the last bytes of them, which hold the hash of the last line.
    pub(super) ending: String,
    /// When the segment was last changed, in nanoseconds since 1970: only means something while nothing follows.
    pub(super) changed: i64,
}

#[derive(Serialize, Deserialize)]
struct Directory {
    binding: Binding,
    blocks: Vec<Stored>,
}

/// A block whose columns are in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) outline: Outline,
    /// Where its columns begin; they follow each other.
    at: u64,
    sums: Vec<u32>,
}

/// An open index.
#[derive(Debug)]
pub(super) struct IndexFile {
    file: File,
    pub(super) binding: Binding,
    pub(super) blocks: Vec<Stored>,
}

impl IndexFile {
    /// Opens an index that somebody wrote; `None` if there is none that can be used.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut footer = [0; FOOTER as usize];
        let footer_at = length.checked_sub(FOOTER)?;
        file.read_exact_at(&mut footer, footer_at).ok()?;
        let size = u64::from_le_bytes(footer[..8].try_into().ok()?);
        let sum = u32::from_le_bytes(footer[8..12].try_into().ok()?);
        let at = footer_at.checked_sub(size).filter(|_| size <= LARGEST)?;
        if footer[12..] != MAGIC {
            return None;
        }
        let mut text = vec![0; usize::try_from(size).ok()?];
        file.read_exact_at(&mut text, at).ok()?;
        if crc(&text) != sum {
            return None;
        }
        let Directory { binding, blocks } = serde_json::from_slice(&text).ok()?;
        let complete = |b: &Stored| {
            let outline = &b.outline;
            [outline.columns.len(), b.sums.len()] == [COLUMNS; 2] && outline.names.len() == NAMES
        };
        blocks.iter().all(complete).then_some(Self { file, binding, blocks })
    }

    /// The bytes of a column; `None` if they are not what was written.
    pub(super) fn column(&self, block: &Stored, column: usize) -> Option<Vec<u8>> {
        let size = |n: usize| block.outline.columns[n].size(block.outline.rows);
        let before: usize = (0..column).map(size).sum();
        let mut bytes = vec![0; size(column)];
        self.file.read_exact_at(&mut bytes, block.at + before as u64).ok()?;
        (crc(&bytes) == block.sums[column]).then_some(bytes)
    }
}

/// Writes an index beside its final name and moves it there.
pub(super) fn write<'a>(
    path: &Path,
    binding: Binding,
    blocks: impl Iterator<Item = (&'a Outline, Vec<Vec<u8>>)>,
) -> io::Result<()> {
    let scratch = path.with_extension(format!("{}.new", std::process::id()));
    let result = write_to(&scratch, binding, blocks).and_then(|()| fs::rename(&scratch, path));
    if result.is_err() {
        // What is left of it is cleared away with the next index that is written.
        drop(fs::remove_file(&scratch));
    }
    result
}

fn write_to<'a>(
    path: &Path,
    binding: Binding,
    blocks: impl Iterator<Item = (&'a Outline, Vec<Vec<u8>>)>,
) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut out = io::BufWriter::with_capacity(1 << 20, file);
    let mut directory = Directory { binding, blocks: Vec::new() };
    let mut at = 0;
    for (outline, columns) in blocks {
        for column in &columns {
            out.write_all(column)?;
        }
        let sums = columns.iter().map(|c| crc(c)).collect();
        directory.blocks.push(Stored { outline: outline.clone(), at, sums });
        at += columns.iter().map(|c| c.len() as u64).sum::<u64>();
    }
    let text = serde_json::to_vec(&directory).map_err(io::Error::other)?;
    out.write_all(&text)?;
    out.write_all(&(text.len() as u64).to_le_bytes())?;
    out.write_all(&crc(&text).to_le_bytes())?;
    out.write_all(&MAGIC)?;
    out.flush()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum()
}
