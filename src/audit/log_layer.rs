//! Warnings and errors of the process on their way to the collector. Owns which lines go: not those of the thread that
//! exports, which would beget each other. Invariant: logging never waits, and what is exported was masked.

use std::{
    cell::Cell,
    fmt::{Debug, Write as _},
    sync::Arc,
};

use arc_swap::ArcSwapOption;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

use super::{
    export::count,
    otel_env::Signal,
    otlp_logs::{self, Line},
    queue::{Piece, Queue},
};
use crate::{metrics::Metrics, secrets};

/// Where the lines of this process go, if anywhere.
static SINK: ArcSwapOption<LogSink> = ArcSwapOption::const_empty();

thread_local! {
    static EXPORTS: Cell<bool> = const { Cell::new(false) };
}

/// A queue of log records.
pub(super) struct LogSink {
    pub(super) queue: Arc<Queue>,
    pub(super) metrics: Arc<Metrics>,
}

/// Lines of this thread are about the export.
pub(super) fn never_export_this_thread() {
    EXPORTS.set(true);
}

/// Lines go there from now on.
pub(super) fn install(sink: LogSink) {
    SINK.store(Some(Arc::new(sink)));
}

/// Lines go nowhere.
pub(super) fn remove() {
    SINK.store(None);
}

/// Gives warnings and errors to the exporter, while there is one.
#[derive(Debug)]
pub struct LogLayer;

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if *meta.level() > Level::WARN || EXPORTS.get() {
            return;
        }
        let Some(sink) = &*SINK.load() else { return };
        let mut said = Said::default();
        event.record(&mut said);
        let message = secrets::masked(&said.message);
        let line = Line {
            is_error: *meta.level() == Level::ERROR,
            target: meta.target(),
            message: &message,
            fields: &said.fields,
        };
        let mut bytes = Vec::new();
        otlp_logs::process(&mut bytes, &line);
        sink.metrics.otlp_dropped(Signal::Logs, count(sink.queue.push(Piece { bytes, items: 1 })));
    }
}

#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        let masked = secrets::masked(value).into_owned();
        self.fields.push((field.name(), masked));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            write!(self.message, "{value:?}").expect("a String takes every write");
        } else {
            let text = format!("{value:?}");
            self.fields.push((field.name(), secrets::changed(&text).unwrap_or(text)));
        }
    }
}
