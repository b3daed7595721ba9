//! Log records of OpenTelemetry (opentelemetry-proto, `logs/v1/logs.proto`): one for each audit record, whose body is
//! its line of the journal as it stands there, and one for each warning of the process. Invariant: what is written here
//! was masked before.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{
    chain::Place,
    protobuf as pb,
    record::{Outcome, Record},
    text,
};

/// `ScopeLogs.log_records`
const LOG_RECORDS: u64 = 2;
/// `LogRecord.attributes`
const ATTRIBUTES: u64 = 6;
/// `SeverityNumber`
const INFO: u64 = 9;
const WARN: u64 = 13;
const ERROR: u64 = 17;

/// A line of the process's own log.
pub(super) struct Line<'a> {
    pub(super) is_error: bool,
    pub(super) target: &'a str,
    pub(super) message: &'a str,
    pub(super) fields: &'a [(&'static str, String)],
}

/// Appends the log record of a call.
pub(super) fn call(out: &mut Vec<u8>, boot: &str, r: &Record, place: Place, line: &[u8]) {
    pb::message(out, LOG_RECORDS, |out| {
        let (severity, name) = match r.outcome {
            Outcome::Ok | Outcome::ClientClosed => (INFO, "INFO"),
            Outcome::Panicked => (ERROR, "ERROR"),
            _ => (WARN, "WARN"),
        };
        head(out, r.time + r.duration, severity, name);
        pb::message(out, 5, |out| pb::bytes(out, 1, line.trim_ascii_end()));
        string(out, "smartgate.boot", boot);
        pb::message(out, ATTRIBUTES, |out| {
            pb::bytes(out, 1, b"smartgate.seq");
            pb::message(out, 2, |out| pb::integer(out, 3, place.seq));
        });
        attribute(out, "smartgate.hash", &place.hash);
        string(out, "smartgate.outcome", r.outcome.as_str());
        let error = r.error_type();
        let named = [
            ("mcp.method.name", r.mcp_method()),
            ("gen_ai.tool.name", r.tool.as_deref()),
            ("smartgate.principal", r.principal.as_deref()),
            ("smartgate.upstream", r.upstream.as_deref()),
            ("error.type", error.as_deref()),
        ];
        for (key, value) in named {
            if let Some(value) = value {
                string(out, key, value);
            }
        }
        pb::fixed32(out, 8, 1);
        pb::bytes(out, 9, &r.trace_id);
        pb::bytes(out, 10, &r.span_id);
        pb::bytes(out, 12, b"smartgate.audit.call");
    });
}

/// Appends the log record of a warning; fields `trace_id` and `span_id` become its context.
pub(super) fn process(out: &mut Vec<u8>, line: &Line<'_>) {
    pb::message(out, LOG_RECORDS, |out| {
        let (severity, name) = if line.is_error { (ERROR, "ERROR") } else { (WARN, "WARN") };
        head(out, SystemTime::now(), severity, name);
        pb::message(out, 5, |out| pb::bytes(out, 1, line.message.as_bytes()));
        string(out, "code.namespace", line.target);
        for (key, value) in line.fields {
            let field = match *key {
                "trace_id" => Some((9, 16)),
                "span_id" => Some((10, 8)),
                _ => None,
            };
            let id = field.and_then(|(field, length)| {
                hex::decode(value).ok().filter(|id| id.len() == length).map(|id| (field, id))
            });
            match id {
                Some((field, id)) => pb::bytes(out, field, &id),
                None => string(out, key, value),
            }
        }
    });
}

fn head(out: &mut Vec<u8>, time: SystemTime, severity: u64, name: &str) {
    let time = nanos(time);
    pb::fixed64(out, 1, time);
    pb::fixed64(out, 11, time);
    pb::integer(out, 2, severity);
    pb::bytes(out, 3, name.as_bytes());
}

/// Nanoseconds since 1970.
pub(super) fn nanos(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn string(out: &mut Vec<u8>, key: &str, value: &str) {
    attribute(out, key, text::bounded(value).0.as_bytes());
}

fn attribute(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    pb::message(out, ATTRIBUTES, |out| {
        pb::bytes(out, 1, key.as_bytes());
        pb::message(out, 2, |out| pb::bytes(out, 1, value));
    });
}
