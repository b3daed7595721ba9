//! The record of every call: built by the pipeline, written to the journal, exported as spans.
//!
//! Invariant: one [`record::Record`] per message that reached the pipeline, whatever happened to it.

pub mod record;
