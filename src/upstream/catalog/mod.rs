//! What the gateway knows of an upstream: its tools, era and revision. Owns the learning, which happens without
//! a client asking: at start, when the upstream tells of a change, when its word runs out, and when nudged.
//!
//! Not here: how requests reach the upstream, and what is done with the tools. Invariant: readers never wait;
//! until something is learned the set is empty, and while the upstream is away the last known set stays.

mod answer;
mod link;
mod list;
mod probe;
mod run;
mod state;
mod watch;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::{sync::Notify, time::Instant};

use self::{
    link::{Failure, Peer},
    list::Listed,
    state::Status,
};
use crate::mcp::{era::Era, tools::ToolSet};

pub use self::state::State;

/// The knowledge of one upstream. Cheap to read from any task; written by [`Catalog::run`] alone, or by
/// [`Catalog::observe_list`] where the gateway may not ask for itself.
#[derive(Debug)]
pub struct Catalog {
    name: Arc<str>,
    fixed: Option<Box<str>>,
    timeout: Duration,
    tools: ArcSwap<ToolSet>,
    found: ArcSwapOption<Found>,
    writing: Mutex<Writing>,
    wake: Notify,
}

/// Era and revision, swapped as one.
#[derive(Debug)]
struct Found {
    era: Era,
    version: Arc<str>,
}

/// What only writers look at.
#[derive(Debug)]
struct Writing {
    status: Status,
    /// Of the list that `tools` was made of, to tell whether a new one says anything new.
    digest: Option<u64>,
}

impl Catalog {
    /// An empty catalog of the upstream `name`. `protocol` is the revision fixed by the configuration, `None`
    /// for `auto`; `timeout` bounds each of the gateway's own requests.
    #[must_use]
    pub fn new(name: Arc<str>, protocol: Option<&str>, timeout: Duration) -> Self {
        Self {
            name,
            fixed: protocol.map(Into::into),
            timeout,
            tools: ArcSwap::from_pointee(ToolSet::default()),
            found: ArcSwapOption::empty(),
            writing: Mutex::new(Writing { status: Status::Learning, digest: None }),
            wake: Notify::new(),
        }
    }

    /// The tools as last learned; empty until then. The same `Arc` as long as nothing changed.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolSet> {
        self.tools.load_full()
    }

    /// The era that the upstream speaks (the modern one if both), once known.
    #[must_use]
    pub fn era(&self) -> Option<Era> {
        self.found.load().as_ref().map(|f| f.era)
    }

    /// The revision that the gateway and the upstream agreed on, once known.
    #[must_use]
    pub fn version(&self) -> Option<Arc<str>> {
        self.found.load().as_ref().map(|f| f.version.clone())
    }

    /// How far the knowledge has come.
    #[must_use]
    pub fn state(&self) -> State {
        self.writing().status.show(self.tools.load().len())
    }

    /// Asks for a new look at the upstream soon: something that passed by suggests that the tools changed. May
    /// be called as often as wanted: at most one look a second follows.
    pub fn nudge(&self) {
        self.wake.notify_one();
    }

    /// Takes note of a `tools/list` answer, or its `result` alone, that passed by on behalf of a client. Counts
    /// only while the gateway itself is refused (pass-through mode): tools are added, or replaced by name.
    pub fn observe_list(&self, body: &[u8]) {
        let mut writing = self.writing();
        if !matches!(writing.status, Status::Unauthorized) {
            return;
        }
        let mut tools = ToolSet::clone(&self.tools.load());
        if tools.extend(body).is_ok() {
            self.tools.store(Arc::new(tools));
            writing.digest = None;
        }
    }

    fn writing(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The era and revision were found out.
    fn met(&self, peer: &Peer) {
        let version = peer.version.clone().unwrap_or_default();
        self.found.store(Some(Arc::new(Found { era: peer.era, version })));
    }

    /// A whole list was learned.
    fn learned(&self, peer: &Peer, listed: Listed) {
        if let Some(limit) = listed.cut {
            tracing::warn!(
                upstream = &*self.name,
                limit,
                "the upstream's list of tools was not read to its end"
            );
        }
        let mut writing = self.writing();
        let changed = writing.digest != Some(listed.digest);
        let count = listed.tools.len();
        if changed {
            self.tools.store(Arc::new(listed.tools));
            writing.digest = Some(listed.digest);
        }
        if changed || !matches!(writing.status, Status::Ready { .. }) {
            let (era, version) = (peer.era.as_str(), peer.version.as_deref());
            tracing::info!(
                upstream = &*self.name,
                tools = count,
                era,
                version,
                "learned the upstream's tools"
            );
        }
        writing.status = Status::Ready { era: peer.era, confirmed: Instant::now() };
    }

    fn failed(&self, failure: &Failure) {
        let mut writing = self.writing();
        writing.status = writing.status.after_failure(&self.name, failure);
    }
}
