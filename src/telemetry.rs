//! The program's own log lines, on stderr. Owns their format and levels; spans and records of calls are
//! `audit`'s. Invariant: stdout stays free for what a command prints, and logging never fails the program.

use std::{
    env,
    io::{self, IsTerminal},
};

use crate::{audit::LogLayer, secrets};
use tracing::Subscriber;
use tracing_subscriber::{
    Layer, Registry,
    filter::{LevelFilter, Targets},
    fmt,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Starts logging, as `SMARTGATE_LOG` (else `RUST_LOG`; default `info`) and `SMARTGATE_LOG_FORMAT` (`text`, the
/// default, or `json`) say. Directives are a level, or `target=level` pairs with commas between. Colours only on
/// a terminal, and not with `NO_COLOR`. A second call changes nothing.
pub fn init_logs() {
    let written = ["SMARTGATE_LOG", "RUST_LOG"].into_iter().find_map(variable);
    let format = variable("SMARTGATE_LOG_FORMAT");
    let targets = written.as_deref().and_then(|text| text.parse::<Targets>().ok());
    let understood = targets.is_some() || written.is_none();
    let targets = targets.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let lines = lines(format.as_deref() == Some("json"));
    let exported = LogLayer.with_filter(targets.clone());
    let registry = tracing_subscriber::registry().with(lines.with_filter(targets)).with(exported);
    if registry.try_init().is_err() {
        return;
    }
    if !understood {
        tracing::warn!(directives = written, "log directives are not understood; logging at info");
    }
    if !matches!(format.as_deref(), None | Some("json" | "text")) {
        tracing::warn!(format, "log format is neither json nor text; logging text");
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn lines(json: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    let masked = || Masked(io::stderr());
    if json { Box::new(as_json(masked)) } else { Box::new(as_text(masked)) }
}

/// Writes lines without the secrets in them. Each event arrives as one line at once.
struct Masked<W>(W);

impl<W: io::Write> io::Write for Masked<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(line).ok().and_then(secrets::changed) {
            Some(masked) => self.0.write_all(masked.as_bytes())?,
            None => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn as_json<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'a> fmt::MakeWriter<'a> + 'static,
{
    fmt::layer().json().flatten_event(true).with_writer(writer)
}

fn as_text<S, W>(writer: W) -> impl Layer<S>
where
    S: Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
    W: for<'a> fmt::MakeWriter<'a> + 'static,
{
    let colours = io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    fmt::layer().with_ansi(colours).with_writer(writer)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(
        layer: impl FnOnce(Sink) -> Box<dyn Layer<Registry> + Send + Sync>,
        directives: &str,
    ) -> String {
        let sink = Sink::default();
        let targets: Targets = directives.parse().unwrap();
        let subscriber = tracing_subscriber::registry().with(layer(sink.clone()).with_filter(targets));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(port = 8787, "listening");
            tracing::debug!("detail");
            tracing::info!(target: "hyper", "noise");
        });
        let bytes = sink.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn json(sink: Sink) -> Box<dyn Layer<Registry> + Send + Sync> {
        Box::new(as_json(move || sink.clone()))
    }

    fn text(sink: Sink) -> Box<dyn Layer<Registry> + Send + Sync> {
        Box::new(as_text(move || sink.clone()))
    }

    #[test]
    fn json_lines_carry_the_fields_beside_the_message() {
        let out = written(json, "info");
        let line: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(line["message"], "listening");
        assert_eq!(line["port"], 8787);
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn directives_choose_by_target_and_level() {
        assert_eq!(written(text, "warn,smartgate=debug").lines().count(), 2);
        assert_eq!(written(text, "off").lines().count(), 0);
    }
}
