//! The recorder as a whole, over real files and sockets.

mod chain;
mod checkpoints;
mod faults;
mod otlp;
mod resend;
mod verify;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, UNIX_EPOCH},
};

use serde_json::Value;

use super::{
    Recorder, RecorderThread,
    record::{Attempt, Client, Edit, Failure, Outcome, Payload, Record},
};
use crate::{
    config::{Audit, Capture, Globs, Journal, Telemetry},
    mcp::era::Era,
    metrics::Metrics,
};

/// Waits for a condition; fails after a time that no healthy machine needs.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let give_up = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < give_up, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn settings(path: &Path) -> Audit {
    Audit {
        journal: Journal {
            path: path.to_owned(),
            fsync: Duration::from_millis(20),
            rotate: 256 * 1024 * 1024,
            keep: 8,
            keep_age: None,
            keep_bytes: None,
            deny_on_error: true,
        },
        capture: Capture::Hash,
        capture_tools: Vec::new(),
        redact: Globs::new(["authorization", "password", "*token*", "*secret*"]),
        signing_key: None,
        checkpoint: Duration::ZERO,
    }
}

fn no_export() -> Telemetry {
    Telemetry {
        otlp: None,
        protocol: None,
        headers: [].into(),
        service_name: None,
        metrics: false,
        logs: false,
    }
}

fn start(audit: &Audit) -> (Recorder, RecorderThread, Arc<Metrics>) {
    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = Recorder::start(audit, &no_export(), Arc::clone(&metrics)).unwrap();
    (recorder, thread, metrics)
}

/// A folder with the path of a journal in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    (folder, path)
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The contract's example.
fn example() -> Record {
    let time = UNIX_EPOCH + Duration::from_micros(1_796_025_600_123_456);
    Record {
        time,
        duration: Duration::from_micros(12_400),
        trace_id: [0xab; 16],
        span_id: [0xcd; 8],
        parent_id: None,
        trace_state: None,
        link: None,
        principal: Some("cursor-ada".into()),
        client: Client {
            name: Some("cursor".into()),
            version: Some("2.1".into()),
            address: Some("10.0.0.7:5555".parse().unwrap()),
        },
        era: Some(Era::Legacy),
        protocol_version: Some("2025-11-25".into()),
        bridged: false,
        upstream_version: Some("2025-11-25".into()),
        session: Some("5e55".into()),
        method: Some("tools/call".into()),
        request_id: Some("7".into()),
        upstream: Some("files".into()),
        tool: Some("files__read".into()),
        prompt: None,
        resource: None,
        original_method: Some("files__read".into()),
        normalized: vec!["direct_tool_method"],
        lossy: false,
        edits: vec![Edit { rule: "schema_coercion", path: "/n".into(), from: "string", to: "integer" }],
        shadow: None,
        outcome: Outcome::Ok,
        status: Some(200),
        error: None,
        attempts: vec![Attempt {
            span_id: [0xef; 8],
            start: time + Duration::from_micros(300),
            duration: Duration::from_micros(11_900),
            server_address: "127.0.0.1".into(),
            server_port: 3001,
            status: Some(200),
            error_type: None,
        }],
        request_bytes: 210,
        response_bytes: 5_120,
        arguments: Payload::Hash([0x11; 32]),
        result: Payload::Hash([0x22; 32]),
        received: None,
        tokens: None,
        http_version: "1.1",
    }
}

/// A call that the gateway refused before it knew anything.
fn refused() -> Record {
    Record {
        principal: None,
        client: Client::default(),
        era: None,
        protocol_version: None,
        upstream_version: None,
        session: None,
        method: None,
        request_id: None,
        upstream: None,
        tool: None,
        original_method: None,
        normalized: vec![],
        edits: vec![],
        outcome: Outcome::Rejected,
        status: Some(400),
        error: Some(Failure {
            reason: Some("parse_error"),
            code: Some(-32_700),
            message: "body is not JSON".into(),
        }),
        attempts: vec![],
        arguments: Payload::None,
        result: Payload::None,
        ..example()
    }
}
