//! Several upstreams shown as one: modern in, modern out. Lists and `server/discover` come from the catalogs alone; a call
//! goes to the one member that has the name, under the name that it has there.
//!
//! Invariants: no member is asked for what another one offers; a member that hangs or fails delays its own callers
//! alone; ids, progress tokens, cursors, states and ids of tasks of one side never appear on the other.

mod answer;
mod call;
mod edit;
mod index;
mod links;
mod listen;
mod lists;
mod member;
mod missed;
mod names;
mod present;
mod reply;
mod rewrite;
mod route;
mod sessions;
mod tasks;
mod template;

#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, TryLockError, atomic::AtomicU64},
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    index::{Index, Part},
    links::Links,
};
use super::{
    BoxFuture, ResponseBody, Upstream, UpstreamError,
    catalog::{self, Bell, Catalog},
    seat::Seat,
};
use crate::{
    bridge::sealed::Sealer,
    config::{self, Show, Target},
    glob::Globs,
    mcp::tools::ToolSet,
};

pub use self::index::Collision;

/// How often to look whether somebody else has made the index.
const REBUILDING: Duration = Duration::from_millis(10);

/// One upstream of several.
pub struct Member {
    /// Its name.
    pub name: Arc<str>,
    /// In front of the names of its tools and prompts; "" for nothing.
    pub prefix: String,
    /// Its own tool names that are shown.
    pub tools: Globs,
    /// Other names, descriptions and fixed parameters.
    pub show: Show,
    /// How many calls it may have, and whether it is left alone.
    pub seat: Arc<Seat>,
    /// Who answers, in the modern dialect.
    pub upstream: Arc<dyn Upstream>,
    /// Whether its sessions live at the server alone, so that any process of the gateway can go on with them.
    pub travels: bool,
    /// What it offers.
    pub catalog: Arc<Catalog>,
}

impl Member {
    /// A member as configured.
    #[must_use]
    pub fn of(
        spec: &config::Upstream,
        seat: Arc<Seat>,
        upstream: Arc<dyn Upstream>,
        catalog: Arc<Catalog>,
    ) -> Self {
        Self {
            name: Arc::clone(&spec.name),
            prefix: spec.prefix.clone(),
            tools: spec.tools.clone(),
            show: spec.show.clone(),
            travels: matches!(spec.target, Target::Http(_) | Target::Replicas(_)) && !spec.http_sse,
            seat,
            upstream,
            catalog,
        }
    }

    /// `files (names begin with files__)`
    fn shown_name(&self, separator: &str) -> String {
        match self.prefix.as_str() {
            "" => self.name.to_string(),
            prefix => format!("{} (names begin with {prefix}{separator})", self.name),
        }
    }
}

/// Several upstreams as one. Cheap to clone.
#[derive(Clone)]
pub struct Aggregate(Arc<Core>);

struct Core {
    members: Vec<Member>,
    separator: String,
    sealer: Arc<Sealer>,
    /// Rung by every catalog.
    bell: Arc<Bell>,
    index: ArcSwap<Index>,
    rebuilding: Mutex<()>,
    links: Links,
    /// Ids of our own.
    next_id: AtomicU64,
    /// Ends the streams of changes.
    stop: CancellationToken,
}

impl Aggregate {
    /// Shows `members` as one; their order is that of the lists, and decides nothing else.
    #[must_use]
    pub fn new(members: Vec<Member>, separator: &str, sealer: Arc<Sealer>) -> Self {
        let bell = Arc::new(watch::channel(0).0);
        members.iter().for_each(|m| m.catalog.tell(&bell));
        let core = Core {
            members,
            separator: separator.to_owned(),
            sealer,
            bell,
            index: ArcSwap::from_pointee(Index::default()),
            rebuilding: Mutex::default(),
            links: Links::default(),
            next_id: AtomicU64::new(1),
            stop: CancellationToken::new(),
        };
        core.rebuild();
        Self(Arc::new(core))
    }

    /// The tools as clients see them, for repairs and for checks of mirrored headers.
    #[must_use]
    pub fn tools(&self) -> Arc<ToolSet> {
        Arc::clone(&self.0.index().tools)
    }

    /// The upstream that a public tool name leads to, and the tool's name there.
    #[must_use]
    pub fn owner(&self, tool: &str) -> Option<(Arc<str>, Arc<str>)> {
        let index = self.0.index();
        let entry = index.get(catalog::Kind::Tools, tool)?;
        Some((Arc::clone(&self.0.members[entry.seat].name), Arc::clone(&entry.own)))
    }

    /// Names that are shown of nobody.
    #[must_use]
    pub fn collisions(&self) -> Vec<Collision> {
        self.0.index().collisions.clone()
    }

    /// Ends the streams of changes in order: the configuration has replaced this aggregate, or the gateway stops.
    pub fn retire(&self) {
        self.0.stop.cancel();
    }
}

impl Upstream for Aggregate {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(call::call(&self.0, call))
    }
}

impl Core {
    /// The index, made anew if a catalog has changed. Never waits: while somebody else makes it, the one before.
    fn index(&self) -> Arc<Index> {
        let index = self.index.load_full();
        if self.is_fresh(&index) {
            return index;
        }
        self.rebuild();
        self.index.load_full()
    }

    /// The index, waited for while somebody else makes it: for whom the one before will not do.
    async fn fresh_index(&self) -> Arc<Index> {
        loop {
            let index = self.index();
            if self.is_fresh(&index) {
                return index;
            }
            tokio::time::sleep(REBUILDING).await;
        }
    }

    /// Whether no catalog has told of a change since it was made: asked of every call, however many members there are.
    fn is_fresh(&self, index: &Index) -> bool {
        index.rung == *self.bell.borrow()
    }

    fn rebuild(&self) {
        let _alone = match self.rebuilding.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let before = self.index.load_full();
        // First: what changes meanwhile rings again.
        let rung = *self.bell.borrow();
        let part = |(n, member): (usize, &Member)| {
            let known = before.parts.get(n).filter(|p| p.version == member.catalog.offers_version());
            known.map_or_else(|| Arc::new(Part::of(n, member, &self.separator)), Arc::clone)
        };
        let parts = self.members.iter().enumerate().map(part).collect();
        let members: Vec<&Member> = self.members.iter().collect();
        let index = Index::of(&members, parts, rung);
        let known: HashSet<&Collision> = before.collisions.iter().collect();
        for collision in index.collisions.iter().filter(|c| !known.contains(c)) {
            tracing::warn!(
                list = collision.list.method(),
                name = collision.name,
                upstreams = collision.upstreams.join(", "),
                "a name that more than one would have is shown of none; set another `prefix`, `rename` it, or hide it with `tools`"
            );
        }
        self.index.store(Arc::new(index));
    }
}
