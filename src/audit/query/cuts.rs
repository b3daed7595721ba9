//! Where a file of lines can be cut: line ends, and blocks of whole lines. Reads little more than it has to.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Step in which line ends are looked for.
const STEP: u64 = 64 * 1024;

pub(super) fn read(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, from)?;
    Ok(bytes)
}

/// Where the last line feed before `end` ends, not before `from`; `from` if there is none.
fn line_start(file: &File, from: u64, end: u64) -> io::Result<u64> {
    let mut upto = end;
    while upto > from {
        let step = upto.saturating_sub(STEP).max(from);
        if let Some(at) = memchr::memrchr(b'\n', &read(file, step, upto)?) {
            return Ok(step + at as u64 + 1);
        }
        upto = step;
    }
    Ok(from)
}

pub(super) fn whole_lines(file: &File, length: u64) -> io::Result<u64> {
    line_start(file, 0, length)
}

/// Divides what lies between two line ends into blocks of whole lines.
pub(super) fn plan(file: &File, from: u64, to: u64, size: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut cuts = Vec::new();
    let mut start = from;
    while start < to {
        let mark = start + size.min(to - start);
        let mut end = line_start(file, start, mark)?;
        // A line that is longer than a block is one by itself.
        let mut at = mark;
        while end == start {
            if at == to {
                // Somebody has taken the line's end away meanwhile.
                end = to;
                break;
            }
            let upto = at + STEP.min(to - at);
            end = memchr::memchr(b'\n', &read(file, at, upto)?).map_or(start, |n| at + n as u64 + 1);
            at = upto;
        }
        cuts.push((start, end));
        start = end;
    }
    Ok(cuts)
}
