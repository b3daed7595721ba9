//! The admin pages: what happens (activity), how to get in (connect), and the same as data. Owns what they show and who
//! may see it; the listener is `server::admin`'s.
//!
//! Invariant: of calls, they show what the journal's lines say, and no more. Nothing here is on the path of a call.

mod answer;
mod budgets;
mod call;
mod door;
mod events;
mod filter;
mod history;
mod html;
mod sessions;
mod site;
mod state;
mod stats;
mod window;

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
};

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    proxy::Gateway,
    reload::Trouble,
    server::{
        Peer,
        admin::{AdminBody, AdminState, Readiness},
    },
};
use door::Door;
use history::History;
use state::FirstLook;
pub use state::refresh;
use window::Window;

/// Most live streams at once.
const STREAMS: usize = 64;

/// What the admin pages show.
pub struct Pages {
    gateway: Arc<Gateway>,
    trouble: Trouble,
    draining: Arc<AtomicBool>,
    looked: FirstLook,
    listen: SocketAddr,
    window: Arc<Window>,
    history: History,
    door: Arc<Door>,
    streams: Arc<Semaphore>,
    stop: CancellationToken,
}

/// Where a process listens.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// For MCP clients.
    pub mcp: SocketAddr,
    /// For the admin pages.
    pub admin: SocketAddr,
}

impl Pages {
    /// The pages of `gateway`. `trouble` is what is wrong with the configuration, `draining` whether the process is
    /// ending; `stop` ends live streams.
    #[must_use]
    pub fn new(
        gateway: Arc<Gateway>,
        trouble: Trouble,
        draining: Arc<AtomicBool>,
        at: Listening,
        stop: CancellationToken,
    ) -> Self {
        let window = Arc::new(Window::new(gateway.desk.recorder.feed().clone()));
        let snapshot = gateway.snapshot.load_full();
        let config = &snapshot.config;
        let key = config.admin.key.as_ref().map(|key| key.expose());
        Self {
            trouble,
            draining,
            looked: FirstLook::default(),
            listen: at.mcp,
            window,
            history: History::new(config.audit.journal.path.clone()),
            door: Arc::new(Door::new(at.admin, key)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            stop,
            gateway,
        }
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("listen", &self.listen).finish_non_exhaustive()
    }
}

impl AdminState for Pages {
    fn readiness(&self) -> Readiness {
        state::readiness(self)
    }

    async fn selftest(&self) -> Result<String, String> {
        let recorder = self.gateway.desk.recorder.clone();
        let (answer, answered) = tokio::sync::oneshot::channel();
        // No task of the runtime's, which would wait for it at the end; whoever asked may be gone.
        std::thread::spawn(move || drop(answer.send(recorder.prove())));
        let proof = answered.await.map_err(|_| "the self-test has failed".to_owned())?;
        let position =
            proof.journal.as_ref().and_then(|j| j.as_ref().ok()).map(crate::audit::Proven::position);
        match (proof.passed(), position) {
            (Some(true), Some(position)) => Ok(format!("{position}\n{proof}")),
            _ => Err(proof.to_string()),
        }
    }

    fn metrics(&self) -> String {
        self.gateway.metrics.encode()
    }

    fn open_metrics(&self) -> String {
        self.gateway.metrics.encode_open()
    }

    async fn page(&self, req: Request<Incoming>, peer: Peer) -> Response<AdminBody> {
        site::answer(self, req, peer).await
    }
}
