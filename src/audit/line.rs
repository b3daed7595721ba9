//! The members of a call's journal line, their order, and which JSON may stand in one. Knows nothing of files, nor of
//! the chain. Invariant: what is appended is on one line, and every member is there, known or not.

use std::time::Duration;

use super::{
    record::{Client, Edit, Failure, Received, Record},
    redact::Shown,
    text, tries,
};
use crate::mcp::json::{keys::Duplicates, scan::Scanner};

/// Repairs that one record lists; `edits_omitted` counts the rest.
pub(super) const MOST_EDITS: usize = 256;

/// Whether a text is JSON that every reader takes for the same, inside `depth` levels: no object in it has a member
/// twice, and it nests no deeper than `MAX_DEPTH` with what is around it.
pub(super) fn is_plain(text: &str, depth: usize) -> bool {
    let (mut scanner, mut duplicates) = (Scanner::new(text), Duplicates::default());
    scanner.visited(depth, &mut duplicates).is_ok() && scanner.end().is_ok() && !duplicates.found()
}

/// Appends everything between `time` and `prev`.
pub(super) fn call(out: &mut Vec<u8>, record: &Record, payloads: &[Shown<'_>; 2], lost: u64) {
    members(out, record);
    payload(out, b",\"arguments\":", &payloads[0]);
    payload(out, b",\"result\":", &payloads[1]);
    if let Some(message) = &record.received {
        received(out, message);
    }
    tries::write(out, record);
    if lost > 0 {
        whole(out, b",\"lost\":", Some(lost));
    }
}

/// Everything between `time` and the payloads, in the order that users know.
fn members(out: &mut Vec<u8>, r: &Record) {
    out.extend_from_slice(b",\"duration_ms\":");
    text::millis(out, r.duration.as_micros());
    out.extend_from_slice(b",\"trace_id\":\"");
    text::hex(out, &r.trace_id);
    out.extend_from_slice(b"\",\"span_id\":\"");
    text::hex(out, &r.span_id);
    out.push(b'"');
    span(out, b",\"parent_id\":", r.parent_id);
    optional(out, b",\"principal\":", r.principal.as_deref());
    client(out, &r.client);
    optional(out, b",\"era\":", r.era.map(|e| e.as_str()));
    optional(out, b",\"protocol_version\":", r.protocol_version.as_deref());
    flag(out, b",\"bridged\":", r.bridged);
    optional(out, b",\"upstream_version\":", r.upstream_version.as_deref());
    optional(out, b",\"session\":", r.session.as_deref());
    optional(out, b",\"method\":", r.method.as_deref());
    optional(out, b",\"request_id\":", r.request_id.as_deref());
    optional(out, b",\"upstream\":", r.upstream.as_deref());
    optional(out, b",\"tool\":", r.tool.as_deref());
    optional(out, b",\"original_method\":", r.original_method.as_deref());
    out.extend_from_slice(b",\"normalized\":");
    rules(out, &r.normalized);
    flag(out, b",\"lossy\":", r.lossy);
    edits(out, &r.edits);
    out.extend_from_slice(b",\"shadow\":");
    match &r.shadow {
        Some(names) => rules(out, names),
        None => null(out),
    }
    optional(out, b",\"outcome\":", Some(r.outcome.as_str()));
    whole(out, b",\"status\":", r.status);
    failure(out, r.error.as_ref());
    out.extend_from_slice(b",\"upstream_ms\":");
    match upstream_time(r) {
        Some(time) => text::millis(out, time.as_micros()),
        None => null(out),
    }
    whole(out, b",\"attempts\":", Some(r.attempts.len()));
    whole(out, b",\"request_bytes\":", Some(r.request_bytes));
    whole(out, b",\"response_bytes\":", Some(r.response_bytes));
    out.extend_from_slice(b",\"tokens\":");
    match r.tokens {
        Some(tokens) => {
            whole(out, b"{\"in\":", Some(tokens.input));
            whole(out, b",\"out\":", Some(tokens.output));
            whole(out, b",\"saved\":", Some(tokens.saved));
            out.push(b'}');
        }
        None => null(out),
    }
}

/// Sum of all attempts, if there was one.
pub(super) fn upstream_time(record: &Record) -> Option<Duration> {
    (!record.attempts.is_empty()).then(|| record.attempts.iter().map(|a| a.duration).sum())
}

fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}

fn flag(out: &mut Vec<u8>, name: &[u8], value: bool) {
    out.extend_from_slice(name);
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

pub(super) fn optional(out: &mut Vec<u8>, name: &[u8], value: Option<&str>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => text::string(out, value),
        None => null(out),
    }
}

pub(super) fn whole(out: &mut Vec<u8>, name: &[u8], value: Option<impl itoa::Integer>) {
    out.extend_from_slice(name);
    match value {
        Some(value) => text::number(out, value),
        None => null(out),
    }
}

fn span(out: &mut Vec<u8>, name: &[u8], id: Option<[u8; 8]>) {
    out.extend_from_slice(name);
    match id {
        Some(id) => {
            out.push(b'"');
            text::hex(out, &id);
            out.push(b'"');
        }
        None => null(out),
    }
}

fn client(out: &mut Vec<u8>, client: &Client) {
    optional(out, b",\"client\":{\"name\":", client.name.as_deref());
    optional(out, b",\"version\":", client.version.as_deref());
    out.extend_from_slice(b",\"address\":");
    match client.ip() {
        Some(ip) => {
            use std::io::Write;
            out.push(b'"');
            write!(out, "{ip}").expect("a Vec takes every write");
            out.push(b'"');
        }
        None => null(out),
    }
    out.push(b'}');
}

pub(super) fn list<T>(out: &mut Vec<u8>, items: &[T], mut one: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        one(out, item);
    }
    out.push(b']');
}

fn rules(out: &mut Vec<u8>, names: &[&'static str]) {
    list(out, names, |out, name| text::string(out, name));
}

/// Appends the list of edits that a record shows, as JSON.
pub(super) fn edit_list(out: &mut Vec<u8>, edits: &[Edit]) {
    list(out, &edits[..edits.len().min(MOST_EDITS)], |out, edit| {
        optional(out, b"{\"rule\":", Some(edit.rule));
        optional(out, b",\"path\":", Some(&edit.path));
        optional(out, b",\"from\":", Some(edit.from));
        optional(out, b",\"to\":", Some(edit.to));
        out.push(b'}');
    });
}

fn edits(out: &mut Vec<u8>, edits: &[Edit]) {
    out.extend_from_slice(b",\"edits\":");
    edit_list(out, edits);
    if edits.len() > MOST_EDITS {
        whole(out, b",\"edits_omitted\":", Some(edits.len() - MOST_EDITS));
    }
}

fn failure(out: &mut Vec<u8>, failure: Option<&Failure>) {
    out.extend_from_slice(b",\"error\":");
    let Some(failure) = failure else { return null(out) };
    optional(out, b"{\"reason\":", failure.reason);
    whole(out, b",\"code\":", failure.code);
    optional(out, b",\"message\":", Some(&failure.message));
    out.push(b'}');
}

/// The message as it was received, of any length that was kept.
fn received(out: &mut Vec<u8>, message: &Received) {
    out.extend_from_slice(b",\"received\":{\"path\":");
    text::whole_string(out, &message.path);
    out.extend_from_slice(b",\"headers\":");
    list(out, &message.headers, |out, (name, value)| {
        out.push(b'[');
        text::whole_string(out, name);
        out.push(b',');
        text::whole_string(out, value);
        out.push(b']');
    });
    out.extend_from_slice(b",\"body\":");
    match &message.body {
        Some(body) => text::whole_string(out, body),
        None => null(out),
    }
    flag(out, b",\"masked\":", message.masked);
    out.extend_from_slice(b",\"forwarded\":");
    match &message.forwarded {
        Some(sha256) => {
            out.push(b'"');
            text::hex(out, sha256);
            out.push(b'"');
        }
        None => null(out),
    }
    out.push(b'}');
}

fn payload(out: &mut Vec<u8>, name: &[u8], payload: &Shown<'_>) {
    out.extend_from_slice(name);
    let (sha256, kept) = match payload {
        Shown::None => return null(out),
        Shown::Hash(sha256) => (sha256, None),
        Shown::Kept { sha256, value, truncated } => (sha256, Some((value, truncated))),
    };
    out.extend_from_slice(b"{\"sha256\":\"");
    text::hex(out, *sha256);
    out.push(b'"');
    if let Some((value, truncated)) = kept {
        if let Some(value) = value {
            out.extend_from_slice(b",\"value\":");
            out.extend_from_slice(value);
        }
        flag(out, b",\"truncated\":", *truncated);
    }
    out.push(b'}');
}
