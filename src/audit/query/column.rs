//! A column of numbers: each stored as its distance from the least, in as few bytes as the greatest needs.
//! Invariant: what was packed comes back; bytes that were not packed so come back as something, or not at all.

use serde::{Deserialize, Serialize};

/// How a column's bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Packing {
    /// Bytes of each number: 0, 1, 2, 4 or 8.
    pub(super) width: u8,
    /// The least.
    pub(super) base: u64,
    /// The greatest.
    pub(super) top: u64,
}

pub(super) fn pack(values: &[u64]) -> (Packing, Vec<u8>) {
    let base = values.iter().copied().min().unwrap_or(0);
    let top = values.iter().copied().max().unwrap_or(0);
    let width = match top - base {
        0 => 0,
        1..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x1_0000_0000 => 4,
        _ => 8,
    };
    let mut bytes = Vec::with_capacity(values.len() * usize::from(width));
    for value in values {
        bytes.extend_from_slice(&(value - base).to_le_bytes()[..usize::from(width)]);
    }
    (Packing { width, base, top }, bytes)
}

impl Packing {
    /// Bytes that so many numbers take.
    pub(super) fn size(self, rows: usize) -> usize {
        rows * usize::from(self.width)
    }

    /// The numbers. `bytes` are `size(rows)` long.
    pub(super) fn unpack(self, bytes: &[u8], rows: usize) -> Vec<u64> {
        let from = |distance: u64| self.base.wrapping_add(distance);
        match self.width {
            1 => bytes.iter().map(|b| from(u64::from(*b))).collect(),
            2 => bytes.as_chunks().0.iter().map(|c| from(u64::from(u16::from_le_bytes(*c)))).collect(),
            4 => bytes.as_chunks().0.iter().map(|c| from(u64::from(u32::from_le_bytes(*c)))).collect(),
            8 => bytes.as_chunks().0.iter().map(|c| from(u64::from_le_bytes(*c))).collect(),
            _ => vec![self.base; rows],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(base: u64, spread in 0u32..64, values in prop::collection::vec(any::<u64>(), 0..50)) {
            let values: Vec<u64> = values.iter().map(|v| base.saturating_add(v.wrapping_shr(spread))).collect();
            let (packing, bytes) = pack(&values);
            prop_assert_eq!(bytes.len(), packing.size(values.len()));
            prop_assert_eq!(packing.unpack(&bytes, values.len()), values);
        }
    }
}
