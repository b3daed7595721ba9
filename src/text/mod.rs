//! What the built-in tools know about text: how many tokens it is, and its words.
//! Pure: no I/O, no configuration.

pub mod tokens;
pub mod words;
