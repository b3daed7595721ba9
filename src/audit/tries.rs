//! The members of a call's line that its spans have and nothing else shows: each try at an upstream, and the rest of
//! the trace context. With them `audit export` builds the same spans again. Invariant: what is absent takes no room.

use super::{
    line::{list, optional, whole},
    record::{Attempt, Record},
    text,
};

/// Appends them, each with a comma before.
pub(super) fn write(out: &mut Vec<u8>, r: &Record) {
    optional(out, b",\"http_version\":", Some(r.http_version));
    if let Some(address) = r.client.address {
        whole(out, b",\"client_port\":", Some(address.port()));
    }
    for (name, value) in [
        (&b",\"prompt\":"[..], r.prompt.as_deref()),
        (b",\"resource\":", r.resource.as_deref()),
        (b",\"trace_state\":", r.trace_state.as_deref()),
    ] {
        if value.is_some() {
            optional(out, name, value);
        }
    }
    if let Some((trace_id, span_id)) = r.link {
        out.extend_from_slice(b",\"link\":\"");
        text::hex(out, &trace_id);
        text::hex(out, &span_id);
        out.push(b'"');
    }
    if !r.attempts.is_empty() {
        out.extend_from_slice(b",\"tries\":");
        list(out, &r.attempts, |out, attempt| one(out, r, attempt));
    }
}

fn one(out: &mut Vec<u8>, r: &Record, attempt: &Attempt) {
    out.extend_from_slice(b"{\"span_id\":\"");
    text::hex(out, &attempt.span_id);
    out.extend_from_slice(b"\",\"after_ms\":");
    // A clock that was set back in between makes it 0.
    text::millis(out, attempt.start.duration_since(r.time).unwrap_or_default().as_micros());
    out.extend_from_slice(b",\"duration_ms\":");
    text::millis(out, attempt.duration.as_micros());
    optional(out, b",\"server\":", Some(&attempt.server_address));
    whole(out, b",\"port\":", Some(attempt.server_port));
    whole(out, b",\"status\":", attempt.status);
    optional(out, b",\"error\":", attempt.error_type.as_deref());
    out.push(b'}');
}
