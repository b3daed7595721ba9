//! The state of every part, for `/readyz` and the pages, gathered when somebody asks.
//!
//! Invariant: nothing here waits, and nothing here is a secret.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use super::{Pages, budgets};
use crate::{
    audit::{ExporterState, JournalState, Proof},
    metrics::Metrics,
    proxy::Gateway,
    secrets,
    server::admin::{Part, Readiness, UpstreamPart},
    snapshot::{Route, Snapshot},
    upstream::{catalog::State, replicas::Replicas, seat::Seat},
};

/// How long the gateway waits with being ready for upstreams that neither answer nor fail. A package that a command has
/// to fetch may take that long.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// Most collisions that are shown.
const COLLISIONS: usize = 100;

/// Waits for the first look at every upstream: until then lists are partial, and nobody knows whether a client has to be
/// translated. What a reload adds later is not waited for.
#[derive(Debug)]
pub(super) struct FirstLook {
    began: Instant,
    over: AtomicBool,
}

impl Default for FirstLook {
    fn default() -> Self {
        Self { began: Instant::now(), over: AtomicBool::new(false) }
    }
}

impl FirstLook {
    fn is_over(&self, snapshot: &Snapshot) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return true;
        }
        let learning = |route: &Route| matches!(route.catalog.state(), State::Learning);
        let left: Vec<_> =
            snapshot.routes.iter().filter(|(_, r)| learning(r)).map(|(name, _)| &**name).collect();
        if !left.is_empty() {
            if self.began.elapsed() < FIRST_LOOK {
                return false;
            }
            tracing::warn!(
                upstreams = left.join(", "),
                "ready without their lists: they have not answered yet"
            );
        }
        self.over.store(true, Ordering::Relaxed);
        true
    }
}

pub(super) fn readiness(pages: &Pages) -> Readiness {
    let status = pages.gateway.desk.recorder.status();
    let draining = pages.draining.load(Ordering::Relaxed);
    let trouble = pages.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let snapshot = pages.gateway.snapshot.load();
    let mut collisions =
        snapshot.endpoint.all.as_ref().map(|all| all.aggregate.collisions()).unwrap_or_default();
    collisions.truncate(COLLISIONS);
    let part = |route: &Route| {
        let seat = route.seat.as_deref();
        UpstreamPart {
            part: upstream(&route.catalog.state()),
            breaker: seat.map(Seat::breaker),
            in_flight: seat.map(Seat::in_flight),
            replicas: route.replicas().map(Replicas::state).unwrap_or_default(),
        }
    };
    let starting = !pages.looked.is_over(&snapshot);
    Readiness {
        ready: !draining && !status.denying && !starting,
        state: match (draining, starting) {
            (true, _) => "draining",
            (false, true) => "starting",
            (false, false) => "serving",
        },
        upstreams: snapshot.routes.iter().map(|(n, r)| (n.to_string(), part(r))).collect(),
        collisions,
        configuration: match trouble {
            None => Part::ok(),
            Some(why) => Part { state: "not_reloaded", detail: Some(told(why)) },
        },
        journal: journal(&status.journal),
        exporter: exporter(&status.exporter),
        selftest: selftest(&status.proof),
    }
}

/// Sets the metrics that say how things are now.
pub fn refresh(gateway: &Gateway, metrics: &Metrics) {
    let snapshot = gateway.snapshot.load();
    for (name, route) in &snapshot.routes {
        metrics.upstream_up(name, !matches!(route.catalog.state(), State::Unreachable { .. }));
        if let Some(seat) = &route.seat {
            metrics.breaker(name, seat.breaker());
        }
        if let Some(bridge) = route.bridge() {
            metrics.bridge(name, bridge.sessions(), bridge.parked());
        }
        let door = snapshot.doors.get(name).filter(|door| !Arc::ptr_eq(door, route));
        let own = route.face().remembers();
        metrics.legacy_clients(name, door.map_or(own, |door| own + door.face().remembers()));
    }
    if snapshot.endpoint.all.is_some() {
        metrics.legacy_clients(&snapshot.endpoint.spec.name, snapshot.endpoint.face().remembers());
    }
    metrics.budgets(budgets::levels(&snapshot));
}

fn upstream(state: &State) -> Part {
    match state {
        State::Learning => Part { state: "learning", detail: None },
        State::Stale { tools } => Part {
            state: "stale",
            detail: Some(format!("{tools} tools known before the restart, not confirmed")),
        },
        State::Ready { tools, era, age_s, withheld } => {
            let withheld = match withheld.as_slice() {
                [] => String::new(),
                names => format!(", withheld by their pins: {}", names.join(", ")),
            };
            let detail = format!("{tools} tools, {era}, confirmed {age_s} s ago{withheld}");
            Part { state: "ok", detail: Some(told(detail)) }
        }
        State::Unreachable { error, since_s } => {
            Part { state: "unreachable", detail: Some(told(format!("for {since_s} s: {error}"))) }
        }
        State::Unauthorized { tools } => Part {
            state: "unauthorized",
            detail: Some(format!(
                "refuses the gateway's own requests; {tools} tools known from passing lists"
            )),
        },
    }
}

fn journal(state: &JournalState) -> Part {
    match state {
        JournalState::Ok => Part::ok(),
        JournalState::Failing { message, since } => failing(message, *since),
    }
}

fn selftest(proof: &Proof) -> Part {
    let state = match proof.passed() {
        None => "running",
        Some(true) => "ok",
        Some(false) => "failed",
    };
    Part { state, detail: Some(proof.to_string()) }
}

fn exporter(state: &ExporterState) -> Part {
    match state {
        ExporterState::Off => Part { state: "off", detail: None },
        ExporterState::Ok => Part::ok(),
        ExporterState::Failing { message, since } => failing(message, *since),
    }
}

fn failing(why: &str, since: SystemTime) -> Part {
    // A clock that was set back makes it 0 s.
    let seconds = since.elapsed().unwrap_or_default().as_secs();
    Part { state: "failing", detail: Some(told(format!("for {seconds} s: {why}"))) }
}

/// What others said may hold what they should not have.
fn told(detail: String) -> String {
    secrets::changed(&detail).unwrap_or(detail)
}
