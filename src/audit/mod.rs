//! The record of every call: built by the pipeline, written to the journal, exported as spans.
//!
//! The call path does nothing but fill in a [`record::Record`] and hand it to the [`Recorder`]; one thread
//! does the rest. Invariant: one record per message that reached the pipeline, whatever happened to it.

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
mod protobuf;
pub mod query;
mod queue;
pub mod record;
mod recorder;
mod redact;
mod segments;
mod sync;
#[cfg(test)]
mod tests;
mod text;
pub mod verify;

mod worker;

pub use feed::{Feed, Piece};
pub use health::{ExporterState, JournalState};
pub use log_layer::LogLayer;
pub use otel_env::Signal;
pub use recorder::{AuditUnavailable, Recorder, RecorderThread, StartError, Status, Unwritten};
