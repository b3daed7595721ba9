//! Reads lines of a file whose places are known, many with one call to the system.

use std::{fs::File, io, os::unix::fs::FileExt};

use super::Order;

/// Read at once at least, around what is asked for.
const WINDOW: u64 = 64 * 1024;

/// A reader that goes one way through a file.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    file: &'a File,
    order: Order,
    from: u64,
    window: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a File, order: Order) -> Self {
        Self { file, order, from: 0, window: Vec::new() }
    }

    /// The first line between these places, without its line feed.
    pub(super) fn read(&mut self, from: u64, to: u64) -> io::Result<&[u8]> {
        if from < self.from || to > self.from + self.window.len() as u64 {
            self.move_to(from, to)?;
        }
        let at = |place: u64| usize::try_from(place - self.from).map_err(io::Error::other);
        let line = &self.window[at(from)?..at(to)?];
        Ok(&line[..memchr::memchr(b'\n', line).unwrap_or(line.len())])
    }

    fn move_to(&mut self, from: u64, to: u64) -> io::Result<()> {
        let (start, end) = match self.order {
            Order::OldestFirst => (from, to.max(from + WINDOW)),
            Order::NewestFirst => (from.min(to.saturating_sub(WINDOW)), to),
        };
        self.window.resize(usize::try_from(end - start).map_err(io::Error::other)?, 0);
        let mut filled = 0;
        while filled < self.window.len() {
            match self.file.read_at(&mut self.window[filled..], start + filled as u64)? {
                0 => break,
                n => filled += n,
            }
        }
        self.window.truncate(filled);
        self.from = start;
        if start + (filled as u64) < to {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut while it was read"));
        }
        Ok(())
    }
}
