//! A quick keyed hash for member and tool names, which come from outside.
//!
//! SipHash costs more than scanning the text it hashes. This one multiplies eight bytes at a time and folds the
//! product; its keys are random for each process, so that collisions cannot be prepared. Invariant: equal
//! strings hash equal within one process.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::LazyLock,
};

static KEYS: LazyLock<[u64; 3]> = LazyLock::new(|| {
    let random = RandomState::new();
    [1u8, 2, 3].map(|n| random.hash_one(n) | 1)
});

/// Builds [`Fold`] hashers with this process's keys.
#[derive(Debug, Clone, Copy)]
pub struct FoldState([u64; 3]);

impl Default for FoldState {
    fn default() -> Self {
        Self(*KEYS)
    }
}

impl BuildHasher for FoldState {
    type Hasher = Fold;

    fn build_hasher(&self) -> Fold {
        Fold { state: self.0[0], keys: [self.0[1], self.0[2]] }
    }
}

/// The hasher itself.
#[derive(Debug, Clone)]
pub struct Fold {
    state: u64,
    keys: [u64; 2],
}

impl Fold {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product =
            u128::from(self.state ^ word ^ self.keys[0]) * u128::from(self.keys[1] ^ word.rotate_left(32));
        self.state = self.state.rotate_left(23) ^ (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(u64::from_le_bytes(chunk.try_into().expect("chunks have eight bytes")));
        }
        let rest = chunks.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    #[inline]
    fn write_u8(&mut self, _: u8) {
        // The terminator that `str` adds; `write` already mixes the length in.
    }

    #[inline]
    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * u128::from(self.keys[0] | 1);
        (product as u64) ^ ((product >> 64) as u64)
    }
}
