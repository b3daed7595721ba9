//! A recorder of the test's own, without a gateway: journals of so many boots.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use smartgate::{
    audit::{Recorder, RecorderThread},
    config::{Audit, Capture, Globs, Journal, Secret, Telemetry},
    metrics::Metrics,
};

/// Begins a boot. With a key its checkpoints are signed; with a `checkpoint` of zero it has none.
pub(crate) fn boot(path: &Path, key: Option<&str>, checkpoint: Duration) -> (Recorder, RecorderThread) {
    let audit = Audit {
        journal: Journal {
            path: path.to_owned(),
            fsync: Duration::ZERO,
            rotate: 1 << 20,
            keep: 8,
            keep_age: None,
            keep_bytes: None,
            deny_on_error: true,
        },
        capture: Capture::Hash,
        capture_tools: Vec::new(),
        redact: Globs::default(),
        signing_key: key.map(Secret::new),
        checkpoint,
    };
    let telemetry = Telemetry {
        otlp: None,
        protocol: None,
        headers: BTreeMap::new(),
        service_name: None,
        metrics: false,
        logs: false,
    };
    Recorder::start(&audit, &telemetry, Arc::new(Metrics::new())).unwrap()
}
