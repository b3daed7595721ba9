//! What the gateway knows of an upstream: its tools, prompts and resources, era and revision. Owns the learning,
//! which happens without a client asking: at start, when the upstream tells of a change, when its word runs out, and
//! when nudged.
//!
//! Not here: how requests reach the upstream, and what is done with the tools. Invariant: readers never wait;
//! until something is learned the set is empty, and while the upstream is away the last known set stays.

mod answer;
mod borrowed;
mod kept;
mod learned;
mod link;
mod list;
mod offers;
mod pins;
mod probe;
mod run;
mod state;
mod watch;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch::Sender};

use self::{
    borrowed::Borrowed,
    kept::Kept,
    link::{Failure, Link, Peer},
    pins::Pins,
    state::Status,
};
use crate::{
    mcp::{era::Era, tools::ToolSet, version::is_modern},
    upstream::{Upstream, credentials},
};

pub use self::{
    offers::{About, Definition, Kind, List, Offers},
    pins::Lock,
    state::State,
};

/// How long a call waits for a new look at the upstream.
const RELIST: Duration = Duration::from_secs(3);

/// Rung at each change of what a catalog offers.
pub type Bell = Sender<u64>;

/// The knowledge of one upstream. Cheap to read from any task; written by [`Catalog::run`] alone, or by
/// [`Catalog::observe_list`] where the gateway may not ask for itself.
#[derive(Debug)]
pub struct Catalog {
    name: Arc<str>,
    fixed: Option<Box<str>>,
    timeout: Duration,
    pins: Option<Arc<Pins>>,
    kept: Option<Kept>,
    tools: ArcSwap<ToolSet>,
    offers: ArcSwap<Offers>,
    /// Counts the changes of `tools` and `offers`.
    version: AtomicU64,
    found: ArcSwapOption<Found>,
    writing: Mutex<Writing>,
    wake: Notify,
    asking: tokio::sync::Mutex<()>,
    borrowed: Borrowed,
}

/// Era and revision, swapped as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    era: Era,
    /// Whether a modern one serves legacy clients as well; `None` until the first of them has come.
    serves_legacy: Option<bool>,
    version: Box<str>,
}

impl Found {
    fn of(era: Era, version: &str) -> Self {
        Self { era, serves_legacy: None, version: version.into() }
    }

    fn fixed(version: &str) -> Self {
        Self::of(if is_modern(version) { Era::Modern } else { Era::Legacy }, version)
    }
}

/// What only writers look at.
#[derive(Debug)]
struct Writing {
    status: Status,
    /// Whether `offers` is the upstream's own word since the start, and so may be compared with a new look.
    told: bool,
    /// As it was last kept.
    kept: Option<Arc<Found>>,
    /// Who wants to know of changes.
    bells: Vec<Weak<Bell>>,
}

impl Catalog {
    /// An empty catalog of the upstream `name`. `protocol` is the revision fixed by the configuration, `None`
    /// for `auto`: with it, the era is known from the start. `timeout` bounds each of the gateway's own requests.
    #[must_use]
    pub fn new(name: Arc<str>, protocol: Option<&str>, timeout: Duration) -> Self {
        Self {
            name,
            fixed: protocol.map(Into::into),
            timeout,
            pins: None,
            kept: None,
            tools: ArcSwap::from_pointee(ToolSet::default()),
            offers: ArcSwap::from_pointee(Offers::default()),
            version: AtomicU64::new(0),
            found: ArcSwapOption::new(protocol.map(|version| Arc::new(Found::fixed(version)))),
            writing: Mutex::new(Writing {
                status: Status::Learning,
                told: false,
                kept: None,
                bells: Vec::new(),
            }),
            wake: Notify::new(),
            asking: tokio::sync::Mutex::default(),
            borrowed: Borrowed::new(),
        }
    }

    /// Keeps what is learned in a file of this folder, so that a restart lists at once. `origin` tells what stands
    /// behind the name: what was learned of another server is not taken over. The era is known from here on, if it was
    /// kept; all else is remembered when the catalog runs.
    #[must_use]
    pub fn kept_in(mut self, folder: &Path, origin: &str) -> Self {
        let kept = Kept::new(folder, &self.name, origin);
        if self.fixed.is_none() {
            self.found.store(kept.found().map(Arc::new));
        }
        self.kept = Some(kept);
        self
    }

    /// Withholds tools whose definition is not the one in this lock file, which is made at the first look.
    #[must_use]
    pub fn pinned(mut self, file: PathBuf) -> Self {
        self.pins = Some(Arc::new(Pins::new(file)));
        self
    }

    /// Whose catalog it is.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Everything that is offered, as last learned; empty until then.
    #[must_use]
    pub fn offers(&self) -> Arc<Offers> {
        self.offers.load_full()
    }

    /// Another number as soon as tools or offers are other ones.
    #[must_use]
    pub fn offers_version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The same, once everybody who wants to know of changes has been told of it.
    #[must_use]
    pub fn told_version(&self) -> u64 {
        let _nobody_is_being_told = self.writing();
        self.offers_version()
    }

    /// How long ago the upstream confirmed what is known of it; `None` if the last look at it failed, or there was none.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        match &self.writing().status {
            Status::Ready { confirmed, .. } => Some(confirmed.elapsed()),
            _ => None,
        }
    }

    /// Rings `bell` at each change from now on, as long as somebody holds it.
    pub fn tell(&self, bell: &Arc<Bell>) {
        let mut writing = self.writing();
        writing.bells.retain(|bell| bell.strong_count() > 0);
        writing.bells.push(Arc::downgrade(bell));
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

    /// Whether the upstream can be spoken to in this era, as far as is known: an upstream of which nothing is known
    /// gets what the client sends.
    #[must_use]
    pub fn speaks(&self, era: Era) -> bool {
        self.found.load().as_ref().is_none_or(|f| f.era == era || f.serves_legacy == Some(true))
    }

    /// Finds out what has to be known before a call of this era can be sent, if it is not known yet. `headers` are the
    /// call's.
    pub async fn before(self: &Arc<Self>, era: Era, upstream: &Arc<dyn Upstream>, headers: &HeaderMap) {
        self.ask_for(upstream, headers).await;
        if era == Era::Legacy {
            self.before_legacy(upstream, headers).await;
        }
    }

    /// Asks a modern upstream, when the first legacy client comes, whether it serves such clients by itself.
    async fn before_legacy(&self, upstream: &Arc<dyn Upstream>, headers: &HeaderMap) {
        let unknown = |f: &Arc<Found>| f.era == Era::Modern && f.serves_legacy.is_none();
        // A revision that the configuration fixes ends the asking.
        if self.fixed.is_some() || !self.found.load().as_ref().is_some_and(unknown) {
            return;
        }
        let is_refused = matches!(self.writing().status, Status::Unauthorized);
        let credentials = if is_refused { credentials::of(headers) } else { HeaderMap::new() };
        if is_refused && credentials.is_empty() {
            return;
        }
        let _one_at_a_time = self.asking.lock().await;
        let Some(found) = self.found.load_full().filter(unknown) else { return };
        let link = Link::new(Arc::clone(upstream), self.timeout).with(credentials);
        let Some(serves_legacy) = probe::serves_legacy(&link).await else { return };
        let other = Found { serves_legacy: Some(serves_legacy), ..Found::clone(&found) };
        // Unless it was found to be another one meanwhile.
        self.found.compare_and_swap(&Some(found), Some(Arc::new(other)));
    }

    /// The revision that the gateway and the upstream agreed on, once known.
    #[must_use]
    pub fn version(&self) -> Option<Arc<str>> {
        self.found.load().as_ref().map(|f| f.version.as_ref().into())
    }

    /// How far the knowledge has come.
    #[must_use]
    pub fn state(&self) -> State {
        self.writing().status.show(self.tools.load().len())
    }

    /// Asks for a new look at the upstream soon: something that passed by suggests that the tools changed. May
    /// be called as often as wanted: at most one look a second follows.
    pub fn nudge(&self) {
        self.borrowed.doubt();
        self.wake.notify_one();
    }

    /// Has everything listed again, for a call that waits; whether it is something else than at `version` by now.
    pub async fn relisted(&self, version: u64) -> bool {
        let bell = Arc::new(Bell::new(0));
        let mut rung = bell.subscribe();
        self.tell(&bell);
        if self.offers_version() == version {
            self.nudge();
            // No ring in time, too, is an answer.
            drop(tokio::time::timeout(RELIST, rung.changed()).await);
        }
        self.offers_version() != version
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
            writing.told = false;
            self.changed(&mut writing);
        }
    }

    /// `tools` or `offers` are other ones.
    fn changed(&self, writing: &mut Writing) {
        self.version.fetch_add(1, Release);
        writing.bells.retain(|bell| match bell.upgrade() {
            Some(bell) => {
                bell.send_modify(|n| *n += 1);
                true
            }
            None => false,
        });
    }

    fn withholds(&self) -> bool {
        matches!(&self.writing().status, Status::Ready { withheld, .. } if !withheld.is_empty())
    }

    fn writing(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The era and revision were found out.
    fn met(&self, peer: &Peer) {
        let version = peer.version.as_deref().unwrap_or_default();
        self.found.store(Some(Arc::new(Found::of(peer.era, version))));
    }

    fn failed(&self, failure: &Failure) {
        let mut writing = self.writing();
        writing.status = writing.status.after_failure(&self.name, failure);
    }
}
