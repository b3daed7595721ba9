//! Metrics by key: calls, refusals, budgets. Owns their labels. Invariant: only names of configured keys become labels, at
//! most [`MAX_VALUES`] of them; a caller without a valid key is in none.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::{
    Named, add,
    labels::{MAX_VALUES, Series, Values},
};
use crate::audit::record::{Outcome, Record};

/// What calls of keys move.
#[derive(Debug)]
pub(super) struct Keys {
    names: Values,
    calls: Named<2, Counter>,
    refusals: Named<2, Counter>,
    call_series: Series<(u16, Outcome), Counter>,
    refusal_series: Series<(u16, &'static str), Counter>,
}

impl Keys {
    /// Registers the families.
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            names: Values::new(),
            calls: add(registry, "smartgate_key_calls", "Calls of each key by how they ended"),
            refusals: add(
                registry,
                "smartgate_key_refusals",
                "Calls of each key that the gateway refused, by reason",
            ),
            call_series: Series::new(),
            refusal_series: Series::new(),
        }
    }

    /// Counts a finished call, if a key made it.
    pub(super) fn observe(&mut self, record: &Record) {
        let Some(principal) = record.principal.as_deref() else { return };
        let key = self.names.id(Some(principal), true);
        let (names, calls, refusals) = (&self.names, &self.calls, &self.refusals);
        let make = |(key, outcome): (u16, Outcome)| {
            calls.get_or_create_owned(&[("key", names.name(key)), ("outcome", outcome.as_str().into())])
        };
        self.call_series.get((key, record.outcome), (1, record.outcome), make).inc();
        if record.outcome != Outcome::Rejected {
            return;
        }
        let reason = record.error.as_ref().and_then(|failure| failure.reason).unwrap_or("other");
        let make = |(key, reason): (u16, &'static str)| {
            refusals.get_or_create_owned(&[("key", names.name(key)), ("reason", reason.into())])
        };
        self.refusal_series.get((key, reason), (1, reason), make).inc();
    }
}

/// Where one budget of a key stands.
#[derive(Debug, Clone)]
pub struct Level {
    /// Name of the key.
    pub key: Arc<str>,
    /// `tokens` or `calls`.
    pub unit: &'static str,
    /// `day` or `month`.
    pub window: &'static str,
    /// What there is in a window.
    pub limit: u64,
    /// What was used of it, or more; what calls in flight hold is not in it.
    pub used: u64,
}

type Labels = [(&'static str, Arc<str>); 3];

/// What is known of budgets when somebody asks.
#[derive(Debug)]
pub(super) struct Budgets {
    used: Family<Labels, Gauge>,
    limit: Family<Labels, Gauge>,
    /// What was told last; keys leave the configuration.
    told: Mutex<Vec<Labels>>,
}

impl Budgets {
    /// Registers the families.
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            used: add(
                registry,
                "smartgate_key_budget_used",
                "What a key has used of its budget in this window",
            ),
            limit: add(registry, "smartgate_key_budget_limit", "A key's budget for one window"),
            told: Mutex::default(),
        }
    }

    pub(super) fn set(&self, levels: impl Iterator<Item = Level>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Vec::new();
        for level in levels.take(MAX_VALUES) {
            let labels = [("key", level.key), ("unit", level.unit.into()), ("window", level.window.into())];
            let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
            self.used.get_or_create(&labels).set(whole(level.used));
            self.limit.get_or_create(&labels).set(whole(level.limit));
            now.push(labels);
        }
        for gone in told.iter().filter(|labels| !now.contains(labels)) {
            self.used.remove(gone);
            self.limit.remove(gone);
        }
        *told = now;
    }
}
