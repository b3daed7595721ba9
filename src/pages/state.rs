//! What the admin pages show: the state of every part, gathered when somebody asks.
//!
//! Invariant: nothing here waits, and nothing here is a secret.

use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use crate::{
    audit::{ExporterState, JournalState},
    proxy::Gateway,
    reload::Trouble,
    server::admin::{AdminState, Part, Readiness, UpstreamPart},
    snapshot::{Route, Snapshot},
    upstream::{catalog::State, replicas::Replicas},
};

/// How long the gateway waits with being ready for upstreams that neither answer nor fail. A package that a command has
/// to fetch may take that long.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// Most collisions that are shown.
const COLLISIONS: usize = 100;

/// What the admin pages show.
#[derive(Debug)]
pub struct Pages {
    /// Whose state.
    pub gateway: Arc<Gateway>,
    /// What is wrong with the configuration.
    pub trouble: Trouble,
    /// Whether the process is ending.
    pub draining: Arc<AtomicBool>,
    /// Whether the first look at every upstream is over.
    pub looked: FirstLook,
}

/// Waits for the first look at every upstream: until then lists are partial, and nobody knows whether a client has to be
/// translated. What a reload adds later is not waited for.
#[derive(Debug)]
pub struct FirstLook {
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

impl AdminState for Pages {
    fn readiness(&self) -> Readiness {
        let status = self.gateway.desk.recorder.status();
        let draining = self.draining.load(Ordering::Relaxed);
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = self.gateway.snapshot.load();
        let mut together = snapshot.endpoint.all.as_ref().map(|all| all.aggregate.state());
        if let Some(all) = &mut together {
            all.collisions.truncate(COLLISIONS);
        }
        let part = |name: &str, route: &Route| {
            let seat = together.iter().flat_map(|all| &all.members).find(|m| m.name == name);
            UpstreamPart {
                part: upstream(&route.catalog.state()),
                breaker: seat.map(|s| s.breaker),
                in_flight: seat.map(|s| s.in_flight),
                replicas: route.replicas().map(Replicas::state).unwrap_or_default(),
            }
        };
        let starting = !self.looked.is_over(&snapshot);
        Readiness {
            ready: !draining && !status.denying && !starting,
            state: match (draining, starting) {
                (true, _) => "draining",
                (false, true) => "starting",
                (false, false) => "serving",
            },
            upstreams: snapshot.routes.iter().map(|(n, r)| (n.to_string(), part(n, r))).collect(),
            collisions: together.map(|all| all.collisions).unwrap_or_default(),
            configuration: match trouble {
                None => Part::ok(),
                Some(why) => Part { state: "not_reloaded", detail: Some(why) },
            },
            journal: journal(&status.journal),
            exporter: exporter(&status.exporter),
        }
    }

    fn metrics(&self) -> String {
        let snapshot = self.gateway.snapshot.load();
        let metrics = &self.gateway.metrics;
        for (name, route) in &snapshot.routes {
            metrics.upstream_up(name, !matches!(route.catalog.state(), State::Unreachable { .. }));
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
        let together = snapshot.endpoint.all.as_ref().map(|all| all.aggregate.state());
        for member in together.iter().flat_map(|all| &all.members) {
            metrics.breaker(&member.name.as_str().into(), member.breaker);
        }
        metrics.encode()
    }
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
            Part { state: "ok", detail: Some(detail) }
        }
        State::Unreachable { error, since_s } => {
            Part { state: "unreachable", detail: Some(format!("for {since_s} s: {error}")) }
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
    Part { state: "failing", detail: Some(format!("for {seconds} s: {why}")) }
}
