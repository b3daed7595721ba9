//! Metrics that are derived from finished calls. Owns which labels a call has; the recorder thread feeds it.

use std::sync::Arc;

use prometheus_client::{
    metrics::{counter::Counter, exemplar::HistogramWithExemplars, family::Family},
    registry::Registry,
};

use super::{
    exemplar::SpanRef,
    labels::{OTHER, Series, Values},
};
use crate::{
    audit::record::{Attempt, Outcome, Record},
    mcp::{era::Era, method, version},
};

/// Bucket bounds in seconds that the MCP semantic conventions recommend.
const BUCKETS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

type Labels = Vec<(&'static str, Arc<str>)>;
type Histogram = HistogramWithExemplars<SpanRef>;
type Durations = Family<Labels, Histogram, fn() -> Histogram>;

fn histogram() -> Histogram {
    Histogram::new(BUCKETS.into_iter())
}

fn durations() -> Durations {
    Family::new_with_constructor(histogram)
}

/// The values seen so far of each label.
#[derive(Debug)]
struct Seen {
    methods: Values,
    tools: Values,
    upstreams: Values,
    clients: Values,
    versions: Values,
    protocols: Values,
    errors: Values,
    servers: Values,
}

/// Numbers that stand for a call's label values, in the order of the label names.
type Key<const N: usize> = [u16; N];

/// The series that calls move.
#[derive(Debug)]
pub(super) struct Calls {
    seen: Seen,
    calls: Family<Labels, Counter>,
    repairs: Family<Labels, Counter>,
    bridged: Family<Labels, Counter>,
    server: Durations,
    client: Durations,
    call_series: Series<(Key<3>, Outcome), Counter>,
    repair_series: Series<(&'static str, Key<2>), Counter>,
    server_series: Series<Key<4>, Histogram>,
    client_series: Series<(Key<5>, u16), Histogram>,
}

impl Calls {
    /// Registers the families.
    pub(super) fn new(registry: &mut Registry) -> Self {
        let new = Self {
            seen: Seen {
                methods: Values::new(),
                tools: Values::new(),
                upstreams: Values::new(),
                clients: Values::new(),
                versions: Values::new(),
                protocols: Values::new(),
                errors: Values::new(),
                servers: Values::new(),
            },
            calls: Family::default(),
            repairs: Family::default(),
            bridged: Family::default(),
            server: durations(),
            client: durations(),
            call_series: Series::new(),
            repair_series: Series::new(),
            server_series: Series::new(),
            client_series: Series::new(),
        };
        registry.register("smartgate_calls", "Calls by how they ended", new.calls.clone());
        registry.register("smartgate_repairs", "Repairs by rule and client", new.repairs.clone());
        let help = "Calls translated between eras, by the client's and the server's";
        registry.register("smartgate_bridged_calls", help, new.bridged.clone());
        registry.register(
            "mcp_server_operation_duration_seconds",
            "Time from a request's head to the end of its answer, without long-lived streams",
            new.server.clone(),
        );
        registry.register(
            "mcp_client_operation_duration_seconds",
            "Time of one attempt at an upstream, without long-lived streams",
            new.client.clone(),
        );
        new
    }

    /// Counts one finished call.
    pub(super) fn observe(&mut self, record: &Record) {
        let proven = matches!(record.outcome, Outcome::Ok | Outcome::ToolError);
        let method = self.seen.methods.id(record.method.as_deref().map(known_method), true);
        let tool = self.seen.tools.id(record.tool.as_deref(), proven);
        self.count(record, method, tool);
        self.count_repairs(record);
        if record.bridged {
            self.bridged.get_or_create(&vec![("direction", direction(record).into())]).inc();
        }
        if is_timed(record) {
            self.time(record, method, tool);
        }
    }

    fn count(&mut self, record: &Record, method: u16, tool: u16) {
        let upstream = self.seen.upstreams.id(record.upstream.as_deref(), true);
        let (seen, calls) = (&self.seen, &self.calls);
        let key = ([method, tool, upstream], record.outcome);
        let make = |([method, tool, upstream], outcome): (Key<3>, Outcome)| {
            calls.get_or_create_owned(&vec![
                ("method", seen.methods.name(method)),
                ("tool", seen.tools.name(tool)),
                ("upstream", seen.upstreams.name(upstream)),
                ("outcome", outcome.as_str().into()),
            ])
        };
        self.call_series.get(key, ([method, 1, 1], record.outcome), make).inc();
    }

    fn count_repairs(&mut self, record: &Record) {
        if record.normalized.is_empty() {
            return;
        }
        let name = self.seen.clients.id(record.client.name.as_deref(), true);
        let version = self.seen.versions.id(record.client.version.as_deref(), true);
        let (seen, repairs) = (&self.seen, &self.repairs);
        let make = |(rule, [name, version]): (&'static str, Key<2>)| {
            repairs.get_or_create_owned(&vec![
                ("rule", rule.into()),
                ("client_name", seen.clients.name(name)),
                ("client_version", seen.versions.name(version)),
            ])
        };
        for rule in &record.normalized {
            self.repair_series.get((rule, [name, version]), (rule, [1, 1]), make).inc();
        }
    }

    fn time(&mut self, record: &Record, method: u16, tool: u16) {
        let error = record.error_type();
        let error = self.seen.errors.id(error.as_deref(), false);
        let protocol = self.seen.protocols.id(record.protocol_version.as_deref(), false);
        let (seen, server) = (&self.seen, &self.server);
        let make = |[method, tool, protocol, error]: Key<4>| {
            server.get_or_create_owned(&operation_labels(seen, method, tool, protocol, error))
        };
        let (key, fallback) = ([method, tool, protocol, error], [method, 1, 1, 1]);
        let example = SpanRef { trace_id: record.trace_id, span_id: record.span_id };
        let end = Some(record.time + record.duration);
        let series = self.server_series.get(key, fallback, make);
        series.observe(record.duration.as_secs_f64(), Some(example), end);
        let upstream_version = record.upstream_version.as_deref().or(record.protocol_version.as_deref());
        let protocol = self.seen.protocols.id(upstream_version, false);
        for attempt in &record.attempts {
            self.time_attempt(record.trace_id, attempt, method, tool, protocol);
        }
    }

    fn time_attempt(&mut self, trace_id: [u8; 16], attempt: &Attempt, method: u16, tool: u16, protocol: u16) {
        let error = self.seen.errors.id(attempt.error_type.as_deref(), false);
        let host = self.seen.servers.id(Some(&attempt.server_address), true);
        let port = attempt.server_port;
        let (seen, client) = (&self.seen, &self.client);
        let make = |([method, tool, protocol, error, host], port): (Key<5>, u16)| {
            let mut labels = operation_labels(seen, method, tool, protocol, error);
            labels.push(("server_address", seen.servers.name(host)));
            labels.push(("server_port", port.to_string().into()));
            client.get_or_create_owned(&labels)
        };
        let key = ([method, tool, protocol, error, host], port);
        let fallback = ([method, 1, 1, 1, 1], 0);
        let example = SpanRef { trace_id, span_id: attempt.span_id };
        let end = Some(attempt.start + attempt.duration);
        let series = self.client_series.get(key, fallback, make);
        series.observe(attempt.duration.as_secs_f64(), Some(example), end);
    }
}

fn operation_labels(seen: &Seen, method: u16, tool: u16, protocol: u16, error: u16) -> Labels {
    vec![
        ("mcp_method_name", seen.methods.name(method)),
        ("gen_ai_tool_name", seen.tools.name(tool)),
        ("mcp_protocol_version", seen.protocols.name(protocol)),
        ("error_type", seen.errors.name(error)),
    ]
}

/// Whose era was translated into whose. Between two of the legacy one the modern form stands.
fn direction(record: &Record) -> &'static str {
    let to_modern = record.upstream_version.as_deref().is_some_and(version::is_modern);
    match (record.era, to_modern) {
        (Some(Era::Modern), _) => "modern_to_legacy",
        (_, true) => "legacy_to_modern",
        (_, false) => "legacy_to_legacy",
    }
}

/// Method names are the client's: only those that some revision has become labels.
fn known_method(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "DELETE" => "DELETE",
        _ => method::known(method).unwrap_or(OTHER),
    }
}

/// A stream that stays open by design says nothing about how long answers take; nor does what is not MCP.
fn is_timed(record: &Record) -> bool {
    record.mcp_method().is_some_and(|method| method != "subscriptions/listen")
}
