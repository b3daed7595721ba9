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

impl FoldState {
    /// The hash of a text's bytes. Every bit depends on every byte.
    #[inline]
    #[must_use]
    pub fn hash_bytes(self, bytes: &[u8]) -> u64 {
        let mut fold = self.build_hasher();
        fold.write(bytes);
        fold.finish()
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
        // The length first: the parts of short texts alone do not tell it.
        self.state = self.state.wrapping_add((bytes.len() as u64).wrapping_mul(self.keys[0]));
        let mut rest = bytes;
        while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
            self.mix(u64::from_le_bytes(*chunk));
            rest = tail;
        }
        self.mix(last(rest));
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

/// Up to seven bytes as a number that no other bytes of this length give.
#[inline]
fn last(rest: &[u8]) -> u64 {
    let word = |four: &[u8; 4]| u64::from(u32::from_le_bytes(*four));
    match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(first), Some(last), _) => word(first) | (word(last) << 32),
        (_, _, []) => 0,
        (_, _, few) => {
            let at = |i: usize| u64::from(few[i]);
            at(0) | (at(few.len() / 2) << 8) | (at(few.len() - 1) << 16)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::FoldState;

    #[test]
    fn short_names_that_look_alike_have_different_hashes() {
        let names = (0..200_000)
            .flat_map(|n| [format!("k{n}"), format!("{n}k"), format!("{n:x}"), format!("name_{n:09}")]);
        let names: HashSet<String> = names.collect();
        let hashes: HashSet<u64> =
            names.iter().map(|n| FoldState::default().hash_bytes(n.as_bytes())).collect();
        assert_eq!(hashes.len(), names.len());
    }
}
