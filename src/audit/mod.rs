//! The record of every call: built by the pipeline, written to the journal, exported as spans.
//!
//! The call path does nothing but fill in a [`record::Record`] and hand it to the [`Recorder`]; one thread
//! does the rest. Invariant: one record per message that reached the pipeline, whatever happened to it.

mod chain;
mod checkpoint;
mod collector;
mod export;
mod feed;
mod fields;
mod health;
mod journal;
mod line;
mod log_layer;
mod otel_env;
mod otlp;
mod otlp_logs;
mod otlp_metrics;
mod proof;
mod protobuf;
pub mod query;
mod queue;
mod recall;
pub mod record;
mod recorder;
mod redact;
pub mod resend;
mod retention;
mod segments;
mod sync;
mod tail;
#[cfg(test)]
mod tests;
mod text;
mod tries;
pub mod verify;

mod worker;

pub use feed::{Feed, Piece};
pub use health::{ExporterState, JournalState};
pub use log_layer::LogLayer;
pub use otel_env::Signal;
pub use proof::{Proof, Proven};
pub use recorder::{AuditUnavailable, Recorder, RecorderThread, StartError, Status, Unwritten};
