//! Every metric that the gateway exposes. Owns their names (a contract with dashboards), their labels and the
//! bounds on label values; not when they move. Invariant: nothing here blocks or allocates on the call path,
//! except the call series, which only the recorder thread feeds.

mod calls;
mod exemplar;
mod keys;
mod labels;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicI64},
};

use prometheus_client::{
    encoding::{prometheus_text, text},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

use crate::{
    audit::{Signal, record::Record},
    bridge::face::Remembered,
};

pub use keys::Level;
/// `Content-Type` of [`Metrics::encode`].
pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// `Content-Type` of [`Metrics::encode_open`].
pub const OPEN_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// States of a breaker.
pub const BREAKER: [&str; 3] = ["closed", "half_open", "open"];

type Named<const N: usize, M> = Family<[(&'static str, Arc<str>); N], M>;

/// Sets what is only known when somebody asks.
struct Refresh(Box<dyn Fn(&Metrics) + Send + Sync>);

impl fmt::Debug for Refresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refresh")
    }
}

/// All metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Mutex<calls::Calls>,
    keys: Mutex<keys::Keys>,
    budgets: keys::Budgets,
    rate_limited: Named<1, Counter>,
    reloads: Named<1, Counter>,
    http_refused: Named<1, Counter>,
    otlp_exported: Named<1, Counter>,
    otlp_dropped: Named<1, Counter>,
    refresh: OnceLock<Refresh>,
    upstream_up: Named<1, Gauge>,
    breaker: Named<2, Gauge>,
    bridge_sessions: Named<1, Gauge>,
    parked: Named<1, Gauge>,
    legacy_sessions: Named<1, Gauge>,
    questions: Named<1, Gauge>,
    subscriptions: Named<1, Gauge>,
    open_streams: Gauge,
    in_flight: Gauge,
    /// Spans that no collector took; moved by [`otlp_dropped`](Self::otlp_dropped).
    pub spans_dropped: Counter,
    /// Spans that a collector took.
    pub spans_exported: Counter,
    /// Lines on disk.
    pub journal_records: Counter,
    /// Failed writes and syncs, each try counted.
    pub journal_errors: Counter,
    /// Records that found no room while the journal could not be written.
    pub journal_lost: Counter,
    /// Records that wait to be written.
    pub journal_backlog: Gauge,
}

/// Counts one thing as present until it is dropped.
#[derive(Debug)]
pub struct Present(Gauge);

impl Present {
    fn new(gauge: &Gauge<i64, AtomicI64>) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers every family under its fixed name.
    #[must_use]
    pub fn new() -> Self {
        let mut r = Registry::default();
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        r.register("smartgate_build", "The running version", build);
        Self {
            calls: Mutex::new(calls::Calls::new(&mut r)),
            keys: Mutex::new(keys::Keys::new(&mut r)),
            budgets: keys::Budgets::new(&mut r),
            rate_limited: add(&mut r, "smartgate_rate_limited", "Calls refused by a limit, by wall"),
            reloads: add(&mut r, "smartgate_reloads", "Configuration reloads by result"),
            http_refused: add(&mut r, "smartgate_http_refused", "Requests that the HTTP parser refused"),
            otlp_exported: add(&mut r, "smartgate_otlp_exported", "What a collector took, by signal"),
            otlp_dropped: add(&mut r, "smartgate_otlp_dropped", "What no collector took, by signal"),
            refresh: OnceLock::new(),
            upstream_up: add(&mut r, "smartgate_upstream_up", "1 while an upstream answers, else 0"),
            breaker: add(
                &mut r,
                "smartgate_upstream_breaker",
                "1 for the state that an upstream's breaker has",
            ),
            bridge_sessions: add(&mut r, "smartgate_bridge_sessions", "Sessions that the era bridge keeps"),
            parked: add(&mut r, "smartgate_parked_calls", "Calls that wait for an answer of their client"),
            legacy_sessions: add(
                &mut r,
                "smartgate_legacy_sessions",
                "Sessions of legacy clients of which something is remembered",
            ),
            questions: add(
                &mut r,
                "smartgate_waiting_questions",
                "Questions that wait for an answer of a legacy client",
            ),
            subscriptions: add(
                &mut r,
                "smartgate_resource_subscriptions",
                "Resources that legacy clients have subscribed to",
            ),
            open_streams: add(&mut r, "smartgate_open_streams", "Open GET and listen streams"),
            in_flight: add(&mut r, "smartgate_calls_in_flight", "Calls between their head and their end"),
            spans_dropped: add(&mut r, "smartgate_spans_dropped", "Spans that no collector took"),
            spans_exported: add(&mut r, "smartgate_spans_exported", "Spans that a collector took"),
            journal_records: add(&mut r, "smartgate_journal_records", "Records written to the journal"),
            journal_errors: add(&mut r, "smartgate_journal_errors", "Failed journal writes and syncs"),
            journal_lost: add(&mut r, "smartgate_journal_lost", "Records that the journal had no room for"),
            journal_backlog: add(&mut r, "smartgate_journal_backlog", "Records that wait to be written"),
            registry: r,
        }
    }

    /// Counts a finished call, its repairs and its durations.
    pub fn observe(&self, record: &Record) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).observe(record);
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).observe(record);
    }

    /// Where the budgets of all keys stand; those that are not named any more are forgotten.
    pub fn budgets(&self, levels: impl Iterator<Item = Level>) {
        self.budgets.set(levels);
    }

    /// A limit refused a call; `wall` names it as in `error.data.wall`.
    pub fn rate_limited(&self, wall: &'static str) {
        self.rate_limited.get_or_create(&[("wall", wall.into())]).inc();
    }

    /// A reload was taken, or refused.
    pub fn reloaded(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.reloads.get_or_create(&[("result", result.into())]).inc();
    }

    /// The HTTP parser refused what arrived; it never became a call.
    pub fn http_refused(&self, reason: &'static str) {
        self.http_refused.get_or_create(&[("reason", reason.into())]).inc();
    }

    /// Whether an upstream of the configuration answers.
    pub fn upstream_up(&self, upstream: &Arc<str>, up: bool) {
        self.upstream_up.get_or_create(&[("upstream", Arc::clone(upstream))]).set(up.into());
    }

    /// The state of an upstream's breaker: one of [`BREAKER`].
    pub fn breaker(&self, upstream: &Arc<str>, state: &str) {
        for known in BREAKER {
            let labels = [("upstream", Arc::clone(upstream)), ("state", known.into())];
            self.breaker.get_or_create(&labels).set((known == state).into());
        }
    }

    /// What the bridge keeps for an upstream: sessions, and calls that wait for answers.
    pub fn bridge(&self, upstream: &Arc<str>, sessions: usize, parked: usize) {
        let labels = [("upstream", Arc::clone(upstream))];
        self.bridge_sessions.get_or_create(&labels).set(number(sessions));
        self.parked.get_or_create(&labels).set(number(parked));
    }

    /// What the bridge remembers of legacy clients of an upstream.
    pub fn legacy_clients(&self, upstream: &Arc<str>, remembered: Remembered) {
        let labels = [("upstream", Arc::clone(upstream))];
        self.legacy_sessions.get_or_create(&labels).set(number(remembered.sessions));
        self.questions.get_or_create(&labels).set(number(remembered.questions));
        self.subscriptions.get_or_create(&labels).set(number(remembered.subscriptions));
    }

    /// An upstream left the configuration.
    pub fn forget_upstream(&self, upstream: &Arc<str>) {
        let labels = [("upstream", Arc::clone(upstream))];
        let of_bridges = [&self.bridge_sessions, &self.parked];
        let of_faces = [&self.legacy_sessions, &self.questions, &self.subscriptions];
        for family in of_bridges.into_iter().chain(of_faces).chain([&self.upstream_up]) {
            family.remove(&labels);
        }
        for state in BREAKER {
            self.breaker.remove(&[("upstream", Arc::clone(upstream)), ("state", state.into())]);
        }
    }

    /// Counts a GET or listen stream as open while the result lives.
    #[must_use]
    pub fn open_stream(&self) -> Present {
        Present::new(&self.open_streams)
    }

    /// Counts a call as in flight while the result lives.
    #[must_use]
    pub fn in_flight(&self) -> Present {
        Present::new(&self.in_flight)
    }

    /// A collector took so many items of a signal.
    pub fn otlp_exported(&self, signal: Signal, items: u64) {
        if signal == Signal::Traces {
            self.spans_exported.inc_by(items);
        }
        self.otlp_exported.get_or_create(&[("signal", signal.as_str().into())]).inc_by(items);
    }

    /// No collector took so many items of a signal.
    pub fn otlp_dropped(&self, signal: Signal, items: u64) {
        if signal == Signal::Traces {
            self.spans_dropped.inc_by(items);
        }
        self.otlp_dropped.get_or_create(&[("signal", signal.as_str().into())]).inc_by(items);
    }

    /// Has `refresh` called before anything is told. The first one stays.
    pub fn before_telling(&self, refresh: impl Fn(&Self) + Send + Sync + 'static) {
        self.refresh.get_or_init(|| Refresh(Box::new(refresh)));
    }

    fn refresh(&self) {
        if let Some(Refresh(refresh)) = self.refresh.get() {
            refresh(self);
        }
    }

    /// Everything in the OpenMetrics text format 1.0, with exemplars, see [`OPEN_CONTENT_TYPE`].
    #[must_use]
    pub fn encode_open(&self) -> String {
        self.refresh();
        let mut all = String::with_capacity(16 * 1024);
        text::encode(&mut all, &self.registry).expect("a String takes every write");
        all
    }

    /// Everything in the Prometheus text format 0.0.4, see [`CONTENT_TYPE`].
    #[must_use]
    pub fn encode(&self) -> String {
        self.refresh();
        let mut all = String::with_capacity(16 * 1024);
        prometheus_text::encode(&mut all, &self.registry).expect("a String takes every write");
        all
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Registers a metric whose default value starts at nothing, and keeps a handle to it.
fn add<M>(registry: &mut Registry, name: &str, help: &str) -> M
where
    M: prometheus_client::registry::Metric + Clone + Default,
{
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}
