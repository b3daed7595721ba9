//! The record of every call: built by the pipeline, written to the journal, exported as spans.
//!
//! The call path does nothing but fill in a [`record::Record`] and hand it to the [`Recorder`]; one thread
//! does the rest. Invariant: one record per message that reached the pipeline, whatever happened to it.

pub mod record;
mod recorder;

pub use recorder::{
    AuditUnavailable, ExporterState, JournalState, Recorder, RecorderThread, StartError, Status,
};
