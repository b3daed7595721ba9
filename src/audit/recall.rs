//! A call's record, read back from its line, so that its spans can be built again. Owns which member is which field.
//! Invariant: what a line does not have, or has in another form than ours, makes it no record; it never makes a panic.

use std::{
    borrow::Cow,
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    chain::Place,
    record::{Attempt, Client, Edit, Failure, Outcome, Payload, Record, Tokens},
    redact::Shown,
    text,
};
use crate::mcp::era::Era;

/// Names of rules, reasons and types that are kept for good: we have some dozens.
const MOST_NAMES: usize = 4_096;

type Text<'a> = Cow<'a, str>;

/// What the lines of every kind have.
#[derive(Deserialize)]
pub(super) struct Head<'a> {
    pub(super) kind: &'a str,
    pub(super) boot: &'a str,
    pub(super) seq: u64,
    pub(super) time: &'a str,
}

#[derive(Deserialize)]
struct Line<'a> {
    duration_ms: f64,
    trace_id: &'a str,
    span_id: &'a str,
    parent_id: Option<&'a str>,
    #[serde(borrow)]
    principal: Option<Text<'a>>,
    client: Caller<'a>,
    era: Option<&'a str>,
    protocol_version: Option<Text<'a>>,
    bridged: bool,
    upstream_version: Option<Text<'a>>,
    session: Option<Text<'a>>,
    method: Option<Text<'a>>,
    request_id: Option<Text<'a>>,
    upstream: Option<Text<'a>>,
    tool: Option<Text<'a>>,
    original_method: Option<Text<'a>>,
    normalized: Vec<Text<'a>>,
    lossy: bool,
    edits: Vec<Repair<'a>>,
    shadow: Option<Vec<Text<'a>>>,
    outcome: &'a str,
    status: Option<u16>,
    error: Option<Wrong<'a>>,
    request_bytes: u64,
    response_bytes: u64,
    tokens: Option<Counts>,
    arguments: Option<Kept<'a>>,
    result: Option<Kept<'a>>,
    http_version: &'a str,
    client_port: Option<u16>,
    prompt: Option<Text<'a>>,
    resource: Option<Text<'a>>,
    trace_state: Option<Text<'a>>,
    link: Option<&'a str>,
    #[serde(default)]
    tries: Vec<Try<'a>>,
}

#[derive(Deserialize)]
struct Caller<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    version: Option<Text<'a>>,
    address: Option<IpAddr>,
}

#[derive(Deserialize)]
struct Repair<'a> {
    #[serde(borrow)]
    rule: Text<'a>,
    path: Text<'a>,
    from: Text<'a>,
    to: Text<'a>,
}

#[derive(Deserialize)]
struct Wrong<'a> {
    #[serde(borrow)]
    reason: Option<Text<'a>>,
    code: Option<i64>,
    message: Text<'a>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
    saved: u64,
}

#[derive(Deserialize)]
struct Kept<'a> {
    sha256: &'a str,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    truncated: Option<bool>,
}

#[derive(Deserialize)]
struct Try<'a> {
    span_id: &'a str,
    after_ms: f64,
    duration_ms: f64,
    #[serde(borrow)]
    server: Text<'a>,
    port: u16,
    status: Option<u16>,
    error: Option<Text<'a>>,
}

/// A call as its line tells it.
pub(super) struct Recalled<'a> {
    pub(super) record: Record,
    pub(super) place: Place,
    hashes: [Option<[u8; 32]>; 2],
    values: [Option<Kept<'a>>; 2],
}

impl Recalled<'_> {
    /// The payloads as they were shown.
    pub(super) fn payloads(&self) -> [Shown<'_>; 2] {
        [0, 1].map(|n| match (&self.hashes[n], &self.values[n]) {
            (Some(sha256), Some(Kept { value, truncated: Some(truncated), .. })) => {
                Shown::Kept { sha256, value: value.map(|v| v.get().as_bytes().into()), truncated: *truncated }
            }
            (Some(sha256), _) => Shown::Hash(sha256),
            (None, _) => Shown::None,
        })
    }
}

/// Reads the line of a call that ends in `hash`.
pub(super) fn call<'a>(line: &'a [u8], head: &Head<'_>, hash: [u8; 64]) -> Result<Recalled<'a>, String> {
    let line: Line<'a> = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    read(line, head, hash).ok_or_else(|| "a member has another form than ours".to_owned())
}

fn read<'a>(line: Line<'a>, head: &Head<'_>, hash: [u8; 64]) -> Option<Recalled<'a>> {
    let time = text::time(head.time)?;
    let owned = |text: Option<Text<'_>>| text.map(Cow::into_owned);
    let shared = |text: Option<Text<'_>>| text.map(|t| t.as_ref().into());
    let tries = line.tries.into_iter().map(|t| attempt(time, t)).collect::<Option<Vec<_>>>()?;
    let hashes = [&line.arguments, &line.result].map(|p| p.as_ref().and_then(|p| bytes(p.sha256)));
    let record = Record {
        time,
        duration: millis(line.duration_ms)?,
        trace_id: bytes(line.trace_id)?,
        span_id: bytes(line.span_id)?,
        parent_id: line.parent_id.and_then(bytes),
        trace_state: owned(line.trace_state),
        link: line.link.and_then(|l| Some((bytes(l.get(..32)?)?, bytes(l.get(32..)?)?))),
        principal: shared(line.principal),
        client: Client {
            name: shared(line.client.name),
            version: shared(line.client.version),
            address: line.client.address.map(|ip| SocketAddr::new(ip, line.client_port.unwrap_or_default())),
        },
        era: line.era.and_then(|era| [Era::Legacy, Era::Modern].into_iter().find(|e| e.as_str() == era)),
        protocol_version: owned(line.protocol_version),
        bridged: line.bridged,
        upstream_version: owned(line.upstream_version),
        session: owned(line.session),
        method: owned(line.method),
        request_id: owned(line.request_id),
        upstream: shared(line.upstream),
        tool: owned(line.tool),
        prompt: owned(line.prompt),
        resource: owned(line.resource),
        original_method: owned(line.original_method),
        normalized: line.normalized.iter().map(|n| name(n)).collect(),
        lossy: line.lossy,
        edits: line.edits.into_iter().map(edit).collect(),
        shadow: line.shadow.map(|names| names.iter().map(|n| name(n)).collect()),
        outcome: Outcome::ALL.into_iter().find(|o| o.as_str() == line.outcome)?,
        status: line.status,
        error: line.error.map(failure),
        attempts: tries,
        request_bytes: line.request_bytes,
        response_bytes: line.response_bytes,
        received: None,
        arguments: Payload::None,
        result: Payload::None,
        tokens: line.tokens.map(|t| Tokens { input: t.input, output: t.output, saved: t.saved }),
        http_version: name(line.http_version),
    };
    let values = [line.arguments, line.result];
    Some(Recalled { record, place: Place { seq: head.seq, hash }, hashes, values })
}

fn attempt(begin: SystemTime, t: Try<'_>) -> Option<Attempt> {
    Some(Attempt {
        span_id: bytes(t.span_id)?,
        start: begin.checked_add(millis(t.after_ms)?)?,
        duration: millis(t.duration_ms)?,
        server_address: t.server.as_ref().into(),
        server_port: t.port,
        status: t.status,
        error_type: t.error.map(Cow::into_owned),
    })
}

fn edit(r: Repair<'_>) -> Edit {
    Edit { rule: name(&r.rule), path: r.path.into_owned(), from: name(&r.from), to: name(&r.to) }
}

fn failure(w: Wrong<'_>) -> Failure {
    Failure { reason: w.reason.map(|r| name(&r)), code: w.code, message: w.message.into_owned() }
}

/// Milliseconds as we write them, to the microsecond.
fn millis(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1_000.0).ok().map(|d| {
        let micros = d.as_nanos().saturating_add(500) / 1_000;
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    })
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    hex::decode_to_slice(text, &mut out).ok().map(|()| out)
}

/// A name that records have for good, since ours are written in the program. A file of others cannot fill memory.
fn name(text: &str) -> &'static str {
    static NAMES: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let mut names = NAMES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(text) {
        return known;
    }
    if names.len() >= MOST_NAMES {
        return "unknown";
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    names.insert(kept);
    kept
}
