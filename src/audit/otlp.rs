//! A record as OpenTelemetry spans: one SERVER span, and under it one CLIENT span for each attempt at an
//! upstream. The only file with attribute names: the MCP semantic conventions' where they have one, else
//! `smartgate.<field>`. Spans are encoded (opentelemetry-proto, `trace/v1/trace.proto`) straight from the
//! record, without a span object between: at 20,000 calls a second that costs a tenth of building and
//! converting such objects. Invariant: every record becomes its spans; no sampler is asked.

use std::{
    borrow::Cow,
    fmt::Write as _,
    net::IpAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    chain::Place,
    line::{MOST_EDITS, edit_list, upstream_time},
    protobuf as pb,
    record::{Attempt, Failure, Outcome, Record},
    redact::Shown,
    text,
};
use crate::mcp::era::Era;

/// `ScopeSpans.spans`: spans are encoded as entries of this field.
const SPANS: u64 = 2;
/// `Span.attributes`, `Resource.attributes` have different numbers.
const SPAN_ATTRIBUTES: u64 = 9;
const RESOURCE_ATTRIBUTES: u64 = 1;
/// `SpanKind`
const INTERNAL: u64 = 1;
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// `Span.flags`: sampled; whether the parent is remote is known; it is.
const SAMPLED: u32 = 0x001;
const KNOWN_REMOTE: u32 = 0x100;
const REMOTE: u32 = 0x200;

/// The address of what is in this process.
const BUILT_IN: &str = "builtin";

/// JSON-RPC codes that blame the caller: no error of a SERVER span (semantic conventions, MCP, span status).
const CALLERS_FAULT: [i64; 5] = [-32_700, -32_600, -32_601, -32_602, -32_002];

/// Appends the spans of a record. Returns how many.
pub(super) fn spans(
    out: &mut Vec<u8>,
    boot: &str,
    record: &Record,
    payloads: &[Shown<'_>; 2],
    place: Place,
) -> usize {
    pb::message(out, SPANS, |out| server_span(out, boot, record, payloads, place));
    for attempt in &record.attempts {
        pb::message(out, SPANS, |out| client_span(out, record, attempt));
    }
    1 + record.attempts.len()
}

/// Appends the span of a self-test, as long as a moment.
pub(super) fn selftest(out: &mut Vec<u8>, ids: ([u8; 16], [u8; 8]), boot: &str, place: Place) {
    let now = nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    pb::message(out, SPANS, |out| {
        pb::bytes(out, 1, &ids.0);
        pb::bytes(out, 2, &ids.1);
        pb::bytes(out, 5, b"smartgate selftest");
        pb::integer(out, 6, INTERNAL);
        pb::fixed64(out, 7, now);
        pb::fixed64(out, 8, now);
        pb::fixed32(out, 16, SAMPLED);
        string(out, "smartgate.kind", "selftest");
        chain(out, boot, place);
    });
}

/// The request that carries `spans`: everything around them.
pub(super) fn request(out: &mut Vec<u8>, resource: &[(String, String)], spans: &[u8]) {
    pb::message(out, 1, |out| {
        pb::message(out, 1, |out| {
            for (key, value) in resource {
                attribute(out, RESOURCE_ATTRIBUTES, key, |out| pb::bytes(out, 1, value.as_bytes()));
            }
        });
        pb::message(out, 2, |out| {
            pb::message(out, 1, |out| {
                pb::bytes(out, 1, b"smartgate");
                pb::bytes(out, 2, env!("CARGO_PKG_VERSION").as_bytes());
            });
            out.extend_from_slice(spans);
        });
    });
}

/// Spans that the collector says it did not take (`ExportTraceServiceResponse.partial_success`).
pub(super) fn rejected(mut response: &[u8]) -> u64 {
    let mut rejected = 0;
    while let Some((number, field)) = pb::next(&mut response) {
        if let (1, pb::Field::Bytes(mut partial)) = (number, field) {
            while let Some((number, field)) = pb::next(&mut partial) {
                if let (1, pb::Field::Integer(spans)) = (number, field) {
                    rejected = spans;
                }
            }
        }
    }
    rejected
}

/// What both kinds of span begin with.
struct Head<'a> {
    span_id: [u8; 8],
    parent: Option<[u8; 8]>,
    kind: u64,
    flags: u32,
    start: SystemTime,
    duration: Duration,
    record: &'a Record,
}

impl Head<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let r = self.record;
        pb::bytes(out, 1, &r.trace_id);
        pb::bytes(out, 2, &self.span_id);
        if let Some(state) = &r.trace_state {
            pb::bytes(out, 3, state.as_bytes());
        }
        if let Some(parent) = self.parent {
            pb::bytes(out, 4, &parent);
        }
        self.name(out);
        pb::integer(out, 6, self.kind);
        let start = self.start.duration_since(UNIX_EPOCH).unwrap_or_default();
        pb::fixed64(out, 7, nanos(start));
        pb::fixed64(out, 8, nanos(start + self.duration));
        pb::fixed32(out, 16, self.flags);
    }

    /// `{method} {target}`; what never had a method is named after what arrived.
    fn name(&self, out: &mut Vec<u8>) {
        let r = self.record;
        let method = text::bounded(r.method.as_deref().unwrap_or("POST")).0;
        match r.tool.as_deref().or(r.prompt.as_deref()) {
            Some(target) => {
                let target = text::bounded(target).0;
                pb::head(out, 5, method.len() + 1 + target.len());
                for part in [method, " ", target] {
                    out.extend_from_slice(part.as_bytes());
                }
            }
            None => pb::bytes(out, 5, method.as_bytes()),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn server_span(out: &mut Vec<u8>, boot: &str, r: &Record, payloads: &[Shown<'_>; 2], place: Place) {
    let remote = if r.parent_id.is_some() { REMOTE } else { 0 };
    let head = Head {
        span_id: r.span_id,
        parent: r.parent_id,
        kind: SERVER,
        flags: SAMPLED | KNOWN_REMOTE | remote,
        start: r.time,
        duration: r.duration,
        record: r,
    };
    head.write(out);
    let error = r.error_type();
    mcp_attributes(out, r, error.as_deref(), r.protocol_version.as_deref());
    code(out, r.error.as_ref().and_then(|f| f.code));
    caller(out, r);
    own_fields(out, r);
    chain(out, boot, place);
    payload(out, &payloads[0], "smartgate.arguments.sha256", "gen_ai.tool.call.arguments");
    payload(out, &payloads[1], "smartgate.result.sha256", "gen_ai.tool.call.result");
    repairs(out, r);
    if let Some((trace_id, span_id)) = r.link {
        pb::message(out, 13, |out| {
            pb::bytes(out, 1, &trace_id);
            pb::bytes(out, 2, &span_id);
            pb::fixed32(out, 6, KNOWN_REMOTE | REMOTE);
        });
    }
    if is_server_error(r) {
        status(out, r.error.as_ref());
    }
}

fn client_span(out: &mut Vec<u8>, r: &Record, attempt: &Attempt) {
    let head = Head {
        span_id: attempt.span_id,
        parent: Some(r.span_id),
        kind: CLIENT,
        flags: SAMPLED | KNOWN_REMOTE,
        start: attempt.start,
        duration: attempt.duration,
        record: r,
    };
    head.write(out);
    let error = attempt.error_type.as_deref();
    let version = r.upstream_version.as_deref().or(r.protocol_version.as_deref());
    mcp_attributes(out, r, error, version);
    code(out, error.and_then(|e| e.parse().ok()));
    string(out, "server.address", &attempt.server_address);
    match (attempt.server_port, &*attempt.server_address) {
        // What is built in is reached over nothing, and a command over its input and output.
        (0, BUILT_IN) => {}
        (0, _) => string(out, "network.transport", "pipe"),
        (port, _) => {
            over_http(out);
            integer(out, "server.port", port.into());
        }
    }
    maybe(out, "smartgate.upstream", r.upstream.as_deref());
    if let Some(status) = attempt.status {
        integer(out, "http.response.status_code", status.into());
    }
    if error.is_some() {
        status(out, r.error.as_ref());
    }
}

/// What the MCP conventions ask of both kinds of span.
fn mcp_attributes(out: &mut Vec<u8>, r: &Record, error: Option<&str>, version: Option<&str>) {
    maybe(out, "mcp.method.name", r.mcp_method());
    maybe(out, "http.request.method", r.http_method());
    if r.method.as_deref() == Some("tools/call") {
        string(out, "gen_ai.operation.name", "execute_tool");
    }
    maybe(out, "gen_ai.tool.name", r.tool.as_deref());
    maybe(out, "gen_ai.prompt.name", r.prompt.as_deref());
    maybe(out, "mcp.resource.uri", r.resource.as_deref());
    maybe(out, "jsonrpc.request.id", r.request_id.as_deref().and_then(id_text).as_deref());
    maybe(out, "mcp.protocol.version", version);
    if r.era != Some(Era::Modern) {
        maybe(out, "mcp.session.id", r.session.as_deref());
    }
    maybe(out, "error.type", error);
}

fn over_http(out: &mut Vec<u8>) {
    string(out, "network.transport", "tcp");
    string(out, "network.protocol.name", "http");
}

/// The id in string form: `7` and `"7"` are both `7`; null is none.
fn id_text(json: &str) -> Option<Cow<'_, str>> {
    match json.as_bytes() {
        b"null" => None,
        [b'"', ..] => serde_json::from_str(json).ok(),
        _ => Some(json.into()),
    }
}

fn code(out: &mut Vec<u8>, code: Option<i64>) {
    if let Some(code) = code {
        string(out, "rpc.response.status_code", itoa::Buffer::new().format(code));
    }
}

fn caller(out: &mut Vec<u8>, r: &Record) {
    over_http(out);
    string(out, "network.protocol.version", r.http_version);
    if let Some(address) = r.client.address {
        string(out, "client.address", &ip_text(address.ip()));
        integer(out, "client.port", address.port().into());
    }
    maybe(out, "smartgate.principal", r.principal.as_deref());
    maybe(out, "smartgate.client.name", r.client.name.as_deref());
    maybe(out, "smartgate.client.version", r.client.version.as_deref());
}

/// The address as text, in one allocation: growing one that a call's thread made would wait for that thread.
fn ip_text(address: IpAddr) -> String {
    const LONGEST: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();
    let mut text = String::with_capacity(LONGEST);
    write!(text, "{address}").expect("a String takes everything");
    text
}

fn own_fields(out: &mut Vec<u8>, r: &Record) {
    maybe(out, "smartgate.era", r.era.map(|e| e.as_str()));
    boolean(out, "smartgate.bridged", r.bridged);
    maybe(out, "smartgate.upstream_version", r.upstream_version.as_deref());
    maybe(out, "smartgate.upstream", r.upstream.as_deref());
    maybe(out, "smartgate.original_method", r.original_method.as_deref());
    strings(out, "smartgate.normalized", &r.normalized);
    boolean(out, "smartgate.lossy", r.lossy);
    if !r.edits.is_empty() {
        let mut json = Vec::new();
        edit_list(&mut json, &r.edits);
        attribute(out, SPAN_ATTRIBUTES, "smartgate.edits", |out| pb::bytes(out, 1, &json));
    }
    if let Some(shadow) = &r.shadow {
        strings(out, "smartgate.shadow", shadow);
    }
    string(out, "smartgate.outcome", r.outcome.as_str());
    if let Some(status) = r.status {
        integer(out, "smartgate.status", status.into());
        integer(out, "http.response.status_code", status.into());
    }
    maybe(out, "smartgate.error.reason", r.error.as_ref().and_then(|f| f.reason));
    if let Some(time) = upstream_time(r) {
        double(out, "smartgate.upstream_ms", time.as_secs_f64() * 1_000.0);
    }
    integer(out, "smartgate.attempts", u64::try_from(r.attempts.len()).unwrap_or(u64::MAX));
    integer(out, "smartgate.request_bytes", r.request_bytes);
    integer(out, "smartgate.response_bytes", r.response_bytes);
    if let Some(tokens) = r.tokens {
        integer(out, "smartgate.tokens.in", tokens.input);
        integer(out, "smartgate.tokens.out", tokens.output);
        integer(out, "smartgate.tokens.saved", tokens.saved);
    }
}

/// Where the record's line stands, so that spans and journal can be compared.
fn chain(out: &mut Vec<u8>, boot: &str, place: Place) {
    string(out, "smartgate.boot", boot);
    integer(out, "smartgate.seq", place.seq);
    attribute(out, SPAN_ATTRIBUTES, "smartgate.hash", |out| pb::bytes(out, 1, &place.hash));
}

fn payload(out: &mut Vec<u8>, payload: &Shown<'_>, hash: &str, content: &str) {
    let (sha256, value) = match payload {
        Shown::None => return,
        Shown::Hash(sha256) => (sha256, None),
        Shown::Kept { sha256, value, .. } => (sha256, value.as_deref()),
    };
    attribute(out, SPAN_ATTRIBUTES, hash, |out| pb::bytes(out, 1, &text::hex_of(sha256)));
    if let Some(value) = value {
        attribute(out, SPAN_ATTRIBUTES, content, |out| pb::bytes(out, 1, value));
    }
}

/// `Span.events`: what was repaired, when the message came. Rules that moved whole parts of it have no path.
fn repairs(out: &mut Vec<u8>, r: &Record) {
    let whole = r.normalized.iter().filter(|rule| !r.edits.iter().any(|edit| edit.rule == **rule));
    for rule in whole {
        repair(out, r.time, rule, &[]);
    }
    for edit in r.edits.iter().take(MOST_EDITS) {
        let path = text::bounded(&edit.path).0;
        repair(out, r.time, edit.rule, &[("path", path), ("from", edit.from), ("to", edit.to)]);
    }
    if r.edits.len() > MOST_EDITS {
        pb::integer(out, 12, u64::try_from(r.edits.len() - MOST_EDITS).unwrap_or(u64::MAX));
    }
}

fn repair(out: &mut Vec<u8>, time: SystemTime, rule: &str, details: &[(&str, &str)]) {
    pb::message(out, 11, |out| {
        pb::fixed64(out, 1, nanos(time.duration_since(UNIX_EPOCH).unwrap_or_default()));
        pb::bytes(out, 2, b"smartgate.repair");
        for (name, value) in [("rule", rule)].iter().chain(details) {
            pb::message(out, 3, |out| {
                pb::head(out, 1, "smartgate.repair.".len() + name.len());
                out.extend_from_slice(b"smartgate.repair.");
                out.extend_from_slice(name.as_bytes());
                pb::message(out, 2, |out| pb::bytes(out, 1, value.as_bytes()));
            });
        }
    });
}

/// Whether the gateway's side failed. A client that leaves, and a caller's own fault, are no failure of ours.
fn is_server_error(r: &Record) -> bool {
    match r.outcome {
        Outcome::Ok | Outcome::ClientClosed => false,
        _ => !r.error.as_ref().and_then(|f| f.code).is_some_and(|code| CALLERS_FAULT.contains(&code)),
    }
}

/// `Span.status` with code `ERROR`.
fn status(out: &mut Vec<u8>, failure: Option<&Failure>) {
    pb::message(out, 15, |out| {
        if let Some(failure) = failure {
            pb::bytes(out, 2, text::bounded(&failure.message).0.as_bytes());
        }
        pb::integer(out, 3, 2);
    });
}

/// A `KeyValue`; `value` writes the fields of its `AnyValue`.
fn attribute(out: &mut Vec<u8>, field: u64, key: &str, value: impl FnOnce(&mut Vec<u8>)) {
    pb::message(out, field, |out| {
        pb::bytes(out, 1, key.as_bytes());
        pb::message(out, 2, value);
    });
}

fn string(out: &mut Vec<u8>, key: &str, value: &str) {
    attribute(out, SPAN_ATTRIBUTES, key, |out| pb::bytes(out, 1, text::bounded(value).0.as_bytes()));
}

fn maybe(out: &mut Vec<u8>, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        string(out, key, value);
    }
}

fn boolean(out: &mut Vec<u8>, key: &str, value: bool) {
    attribute(out, SPAN_ATTRIBUTES, key, |out| pb::integer(out, 2, value.into()));
}

fn integer(out: &mut Vec<u8>, key: &str, value: u64) {
    attribute(out, SPAN_ATTRIBUTES, key, |out| pb::integer(out, 3, value));
}

fn double(out: &mut Vec<u8>, key: &str, value: f64) {
    attribute(out, SPAN_ATTRIBUTES, key, |out| pb::fixed64(out, 4, value.to_bits()));
}

fn strings(out: &mut Vec<u8>, key: &str, values: &[&'static str]) {
    attribute(out, SPAN_ATTRIBUTES, key, |out| {
        pb::message(out, 5, |out| {
            for value in values {
                pb::message(out, 1, |out| pb::bytes(out, 1, value.as_bytes()));
            }
        });
    });
}
