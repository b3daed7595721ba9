//! What the built-in tools know about text: how many tokens it is, its words, its parts, and which of them matter.
//! Pure: no I/O, no configuration.

pub mod bm25;
mod encoders;
pub mod gate;
mod lossless;
pub mod shingles;
pub mod tokens;
pub mod units;
pub mod words;

#[cfg(test)]
pub(crate) mod xquad;
