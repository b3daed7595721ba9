//! Metrics of OpenTelemetry (opentelemetry-proto, `metrics/v1/metrics.proto`), from what `/metrics` says: one source,
//! so that both always tell the same. Owns the names that the semantic conventions give to what Prometheus names
//! otherwise. Invariant: everything is cumulative since the process began.

use std::time::SystemTime;

use super::{otlp_logs::nanos, protobuf as pb};

mod text;

use text::{Exemplar, Labels, Sample};

/// `ScopeMetrics.metrics`
const METRICS: u64 = 2;
/// `AggregationTemporality`
const CUMULATIVE: u64 = 2;

/// Names of the conventions, with their unit.
const NAMES: &[(&str, &str, &str)] = &[
    ("mcp_server_operation_duration_seconds", "mcp.server.operation.duration", "s"),
    ("mcp_client_operation_duration_seconds", "mcp.client.operation.duration", "s"),
];
const ATTRIBUTES: &[(&str, &str)] = &[
    ("mcp_method_name", "mcp.method.name"),
    ("gen_ai_tool_name", "gen_ai.tool.name"),
    ("mcp_protocol_version", "mcp.protocol.version"),
    ("error_type", "error.type"),
    ("server_address", "server.address"),
    ("server_port", "server.port"),
];

/// The span of time that the points are about.
#[derive(Clone, Copy)]
struct Times {
    start: u64,
    now: u64,
}

/// A metric whose points are being gathered.
#[derive(Default)]
struct Metric<'a> {
    name: &'a str,
    help: &'a str,
    kind: &'a str,
    points: Vec<u8>,
    histogram: Option<Histogram<'a>>,
}

#[derive(Default)]
struct Histogram<'a> {
    labels: Labels<'a>,
    sum: f64,
    count: u64,
    bounds: Vec<f64>,
    counts: Vec<u64>,
    exemplars: Vec<Exemplar<'a>>,
}

/// Appends every metric of an OpenMetrics text as a `Metric`. Returns how many points they have.
pub(super) fn points(out: &mut Vec<u8>, text: &str, start: SystemTime, now: SystemTime) -> usize {
    let times = Times { start: nanos(start), now: nanos(now) };
    let (mut metric, mut number) = (Metric::default(), 0);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            metric.write(out);
            let (name, help) = help.split_once(' ').unwrap_or((help, ""));
            metric = Metric { name, help, ..Metric::default() };
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            metric.kind = of.split_once(' ').map_or("", |(_, kind)| kind);
        } else if let Some(sample) = text::sample(line) {
            number += usize::from(metric.take(sample, times));
        }
    }
    metric.write(out);
    number
}

impl<'a> Metric<'a> {
    /// Takes a sample; true if a point is complete with it.
    fn take(&mut self, sample: Sample<'a>, times: Times) -> bool {
        if self.kind != "histogram" {
            let start = (self.kind == "counter").then_some(times.start);
            pb::message(&mut self.points, 1, |out| number(out, &sample, start, times.now));
            return true;
        }
        let histogram = self.histogram.get_or_insert_default();
        match sample.name.rsplit_once('_').map(|(_, part)| part) {
            Some("sum") => histogram.sum = sample.value.parse().unwrap_or_default(),
            Some("count") => histogram.count = sample.value.parse().unwrap_or_default(),
            _ => return self.bucket(sample, times),
        }
        false
    }

    /// The last bucket completes the point.
    fn bucket(&mut self, mut sample: Sample<'a>, times: Times) -> bool {
        let Some(histogram) = &mut self.histogram else { return false };
        let bound =
            sample.labels.iter().position(|(name, _)| *name == "le").map(|at| sample.labels.remove(at).1);
        let below: u64 = sample.value.parse().unwrap_or_default();
        let before: u64 = histogram.counts.iter().sum();
        histogram.counts.push(below.saturating_sub(before));
        histogram.exemplars.extend(sample.exemplar);
        match bound.as_deref().map(str::parse::<f64>) {
            Some(Ok(bound)) if bound.is_finite() => {
                histogram.bounds.push(bound);
                false
            }
            _ => {
                histogram.labels = sample.labels;
                if let Some(whole) = self.histogram.take() {
                    pb::message(&mut self.points, 1, |out| whole.write(out, times));
                }
                true
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.points.is_empty() {
            return;
        }
        pb::message(out, METRICS, |out| {
            match NAMES.iter().find(|(name, ..)| *name == self.name) {
                Some((_, name, unit)) => {
                    pb::bytes(out, 1, name.as_bytes());
                    pb::bytes(out, 3, unit.as_bytes());
                }
                None => pb::bytes(out, 1, self.name.replacen('_', ".", 1).as_bytes()),
            }
            pb::bytes(out, 2, self.help.trim_end_matches('.').as_bytes());
            let (field, is_sum) = match self.kind {
                "counter" => (7, true),
                "histogram" => (9, false),
                _ => (5, false),
            };
            pb::message(out, field, |out| {
                out.extend_from_slice(&self.points);
                if field != 5 {
                    pb::integer(out, 2, CUMULATIVE);
                }
                if is_sum {
                    pb::integer(out, 3, 1);
                }
            });
        });
    }
}

/// A `NumberDataPoint`.
fn number(out: &mut Vec<u8>, sample: &Sample<'_>, start: Option<u64>, now: u64) {
    if let Some(start) = start {
        pb::fixed64(out, 2, start);
    }
    pb::fixed64(out, 3, now);
    match sample.value.parse::<i64>() {
        Ok(whole) => pb::fixed64(out, 6, whole.cast_unsigned()),
        Err(_) => pb::fixed64(out, 4, sample.value.parse::<f64>().unwrap_or_default().to_bits()),
    }
    attributes(out, 7, &sample.labels);
}

impl Histogram<'_> {
    /// A `HistogramDataPoint`.
    fn write(&self, out: &mut Vec<u8>, times: Times) {
        pb::fixed64(out, 2, times.start);
        pb::fixed64(out, 3, times.now);
        pb::fixed64(out, 4, self.count);
        pb::fixed64(out, 5, self.sum.to_bits());
        packed(out, 6, self.counts.iter().copied());
        packed(out, 7, self.bounds.iter().map(|bound| bound.to_bits()));
        for exemplar in &self.exemplars {
            pb::message(out, 8, |out| self::exemplar(out, exemplar, times.now));
        }
        attributes(out, 9, &self.labels);
    }
}

/// Repeated numbers of eight bytes.
fn packed(out: &mut Vec<u8>, field: u64, numbers: impl ExactSizeIterator<Item = u64>) {
    pb::head(out, field, 8 * numbers.len());
    numbers.for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
}

/// An `Exemplar`.
fn exemplar(out: &mut Vec<u8>, exemplar: &Exemplar<'_>, now: u64) {
    pb::fixed64(out, 2, exemplar.time.unwrap_or(now));
    pb::fixed64(out, 3, exemplar.value.to_bits());
    for (name, value) in &exemplar.labels {
        if let (Some(field), Ok(id)) = (
            match *name {
                "span_id" => Some(4),
                "trace_id" => Some(5),
                _ => None,
            },
            hex::decode(value),
        ) {
            pb::bytes(out, field, &id);
        }
    }
}

/// Attributes that have a value.
fn attributes(out: &mut Vec<u8>, field: u64, labels: &Labels<'_>) {
    for (name, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
        let known = ATTRIBUTES.iter().find(|(prometheus, _)| prometheus == name);
        let name = known.map_or(*name, |(_, conventional)| conventional);
        pb::message(out, field, |out| {
            pb::bytes(out, 1, name.as_bytes());
            pb::message(out, 2, |out| match value.parse::<u64>() {
                Ok(port) if name == "server.port" => pb::integer(out, 3, port),
                _ => pb::bytes(out, 1, value.as_bytes()),
            });
        });
    }
}
