//! What is remembered of clients, and by which face: the one that takes the place of another at a reload goes on with it.
//!
//! Invariant: questions are answered and streams go on wherever they began, because a face and its successor have the
//! same memory.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::{
    Core,
    live::{Limits, Registry},
    session,
};

/// See the module.
pub(super) struct Memory {
    pub(super) live: Registry,
    /// Tells this process from its replicas, and from itself before a restart.
    pub(super) process: u64,
    /// Who serves new calls; nobody, when the endpoint is gone.
    serving: watch::Sender<Weak<Core>>,
}

impl Memory {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let serving = watch::Sender::new(Weak::new());
        Arc::new(Self { live: Registry::new(limits), process: session::fresh(), serving })
    }

    /// From now on `core` serves; streams go on there.
    pub(super) fn serve_by(&self, core: &Arc<Core>) {
        self.serving.send_replace(Arc::downgrade(core));
    }

    /// `core` has left its endpoint: streams end, unless another one has taken its place.
    pub(super) fn leave(&self, core: &Arc<Core>) {
        self.serving.send_if_modified(|serving| {
            let ours = serving.ptr_eq(&Arc::downgrade(core));
            if ours {
                *serving = Weak::new();
            }
            ours
        });
    }

    /// Who serves, from now on.
    pub(super) fn serving(&self) -> watch::Receiver<Weak<Core>> {
        self.serving.subscribe()
    }
}
