//! Where the budgets of keys stand.

use serde::Serialize;

use crate::{metrics::Level, policy::budget::rfc3339, snapshot::Snapshot};

/// One wall of one key. `used + held + remaining = limit`.
#[derive(Debug, Serialize)]
pub(super) struct Bar {
    pub(super) key: String,
    pub(super) scope: &'static str,
    pub(super) unit: &'static str,
    pub(super) window: &'static str,
    pub(super) limit: u64,
    pub(super) used: u64,
    pub(super) held: u64,
    pub(super) remaining: u64,
    pub(super) over_by: u64,
    pub(super) warn: bool,
    pub(super) resets_at: Option<String>,
}

/// Of all keys that have a budget, in the order of the configuration.
pub(super) fn bars(snapshot: &Snapshot) -> Vec<Bar> {
    let keys = snapshot.config.keys.iter().filter_map(|key| snapshot.keys.by_hash(&key.sha256));
    keys.filter_map(|key| Some((&key.name, key.facts.caller.wallet.as_ref()?)))
        .flat_map(|(name, wallet)| {
            wallet.ledger().views(wallet.walls()).into_iter().map(|view| Bar {
                key: name.to_string(),
                scope: view.scope.as_str(),
                unit: view.unit.as_str(),
                window: view.window.as_str(),
                limit: view.limit,
                used: view.used,
                held: view.held,
                remaining: view.remaining,
                over_by: view.over_by,
                warn: view.warn,
                resets_at: view.resets_at.map(rfc3339),
            })
        })
        .collect()
}

/// The same as metrics tell it.
pub(super) fn levels(snapshot: &Snapshot) -> impl Iterator<Item = Level> {
    bars(snapshot).into_iter().map(|bar| Level {
        key: bar.key.into(),
        unit: bar.unit,
        window: bar.window,
        limit: bar.limit,
        used: bar.used + bar.over_by,
    })
}
