//! The children of one upstream: starts them, greets them, and gives each call the one that it is for.
//!
//! Invariant: at most [`CHILDREN`] run, and none is started after the upstream was retired.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    calls::{Ended, lock},
    era::Verdict,
    hear::{Audience, Many},
    mapping,
    peer::Peer,
    session::{Pace, Session, Slot},
    wishes::subscription,
};
use crate::{
    config,
    mcp::{
        era::Era,
        version::{LATEST_LEGACY, is_modern},
    },
    upstream::UpstreamError,
};

/// Children that run at once. Where there is no room the one that was idle longest makes it.
pub(super) const CHILDREN: usize = 64;

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Everything that one upstream has.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: Arc<str>,
    pub(super) command: config::Command,
    pub(super) timeout: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) fixed: Option<String>,
    pub(super) stop: CancellationToken,
    tasks: TaskTracker,
    places: Arc<Semaphore>,
    /// Of children that ended before they had answered anything.
    pub(super) pace: Mutex<Pace>,
    /// One that nobody has greeted yet.
    pub(super) spare: Mutex<Option<Arc<Peer>>>,
    pub(super) sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// The child that all legacy sessions share, if they do, and how it answered `initialize`.
    pub(super) shared: Slot,
    pub(super) welcome: Mutex<Bytes>,
    pub(super) many: Many,
    /// The child of all modern calls.
    pub(super) modern: Slot,
    pub(super) verdict: tokio::sync::Mutex<Option<Verdict>>,
}

impl Host {
    pub(super) fn new(
        spec: &config::Upstream,
        command: &config::Command,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            name: Arc::clone(&spec.name),
            command: command.clone(),
            timeout: spec.timeout,
            idle_timeout: spec.idle_timeout,
            fixed: spec.protocol.clone(),
            stop,
            tasks: tasks.clone(),
            places: Arc::new(Semaphore::new(CHILDREN)),
            pace: Mutex::default(),
            spare: Mutex::default(),
            sessions: Mutex::default(),
            shared: Slot::default(),
            welcome: Mutex::default(),
            many: Many::default(),
            modern: Slot::default(),
            verdict: tokio::sync::Mutex::default(),
        }
    }

    /// A text about the command for an error.
    pub(super) fn says(&self, what: &str) -> Box<dyn std::error::Error + Send + Sync> {
        format!("the command {} {what}", self.command.name()).into()
    }

    /// Nothing was sent.
    pub(super) fn unsent(&self, why: &Ended) -> UpstreamError {
        UpstreamError::Connect(self.says(&why.0))
    }

    /// Keeps a child ready, if that is wanted.
    pub(super) fn prepare(&self) {
        let there = lock(&self.spare).as_ref().is_some_and(|p| p.ended().is_none());
        // The child that is asked for its era becomes the one that is kept ready.
        let is_asking = self.verdict.try_lock().is_err();
        if !self.command.at_once || self.command.shared || there || is_asking {
            return;
        }
        match self.start() {
            Ok(peer) => *lock(&self.spare) = Some(peer),
            Err(e) => tracing::debug!(upstream = &*self.name, "no command is kept ready: {e}"),
        }
    }

    /// A child that nobody has greeted; the next one is made ready.
    pub(super) fn fresh(&self) -> Result<Arc<Peer>, UpstreamError> {
        let peer = self.take()?;
        self.prepare();
        Ok(peer)
    }

    /// A child that nobody has greeted.
    pub(super) fn take(&self) -> Result<Arc<Peer>, UpstreamError> {
        let spare = lock(&self.spare).take().filter(|p| p.ended().is_none());
        spare.map_or_else(|| self.start(), Ok)
    }

    fn start(&self) -> Result<Arc<Peer>, UpstreamError> {
        let refuse = |what: &str| Err(UpstreamError::Connect(self.says(what)));
        if self.stop.is_cancelled() {
            return refuse("is not started any more: the gateway stops, or its configuration was changed");
        }
        if let Some(left) = lock(&self.pace).left() {
            return refuse(&format!("ended without an answer, next try in {left:.1?}"));
        }
        let place = Arc::clone(&self.places).try_acquire_owned().or_else(|_| {
            self.make_room();
            Arc::clone(&self.places).try_acquire_owned()
        });
        let Ok(place) = place else {
            return refuse(&format!("runs {CHILDREN} times already, and every process is busy"));
        };
        let started = Peer::start(&self.name, &self.command, &self.tasks, place);
        started.map(Arc::new).or_else(|e| refuse(&format!("cannot be started: {e}")))
    }

    /// Stops the child that has been idle longest.
    fn make_room(&self) {
        let longest = lock(&self.sessions)
            .values()
            .filter_map(|s| Some((s.slot.idle()?, Arc::clone(s))))
            .max_by_key(|(idle, _)| *idle);
        if let Some((_, session)) = longest {
            session.slot.retire();
        }
    }

    /// Takes note of a child that did not do what it was started for.
    pub(super) fn failed(&self, peer: &Peer) {
        if let (false, Some((end, lived))) = (peer.has_answered(), peer.life()) {
            lock(&self.pace).ended(end, lived);
        }
    }

    /// The child of `slot`, or one that `greet` has made ready.
    async fn child(
        &self,
        slot: &Slot,
        audience: impl FnOnce() -> Audience,
        greet: impl AsyncFnOnce(&Arc<Peer>) -> Result<(), Arc<str>>,
    ) -> Result<Arc<Peer>, UpstreamError> {
        let mut running = slot.running.lock().await;
        if let Some(peer) = running.as_ref().filter(|p| p.ended().is_none()) {
            return Ok(Arc::clone(peer));
        }
        settle(slot, running.take());
        if let Some(left) = lock(&slot.pace).left() {
            let why = format!("keeps ending, next try in {left:.1?}");
            return Err(UpstreamError::Connect(self.says(&why)));
        }
        let peer = self.fresh()?;
        peer.talk_to(audience());
        if let Err(why) = greet(&peer).await {
            self.failed(&peer);
            return Err(UpstreamError::Connect(self.says(&why)));
        }
        *running = Some(Arc::clone(&peer));
        Ok(peer)
    }

    /// The child of a session.
    pub(super) async fn child_of(&self, session: &Session) -> Result<Arc<Peer>, UpstreamError> {
        if self.command.shared {
            return self.shared_child().await;
        }
        let audience = || Audience::One(Arc::clone(&session.inbox));
        self.child(&session.slot, audience, async |peer| {
            self.greet(peer, &session.hello).await?;
            let wishes: Vec<_> = {
                let wishes = session.inbox.wishes();
                wishes
                    .level()
                    .into_iter()
                    .chain(wishes.subscribed().iter().map(|u| subscription(u)))
                    .collect()
            };
            self.remind(peer, wishes).await;
            Ok(())
        })
        .await
    }

    /// The child of a session, if it runs. One that is being started is waited for.
    pub(super) async fn running(&self, session: &Session) -> Option<Arc<Peer>> {
        let slot = if self.command.shared { &self.shared } else { &session.slot };
        slot.running.lock().await.as_ref().filter(|p| p.ended().is_none()).cloned()
    }

    /// The child that all legacy sessions share.
    pub(super) async fn shared_child(&self) -> Result<Arc<Peer>, UpstreamError> {
        let audience = || Audience::Many(Arc::clone(&self.many));
        self.child(&self.shared, audience, async |peer| {
            *lock(&self.welcome) = self.greet(peer, &self.own_hello()).await?;
            let inboxes: Vec<_> = lock(&self.many).values().cloned().collect();
            let wanted: BTreeSet<_> = inboxes.iter().flat_map(|i| i.wishes().subscribed().clone()).collect();
            self.remind(peer, wanted.iter().map(|uri| subscription(uri)).collect()).await;
            Ok(())
        })
        .await
    }

    /// The child of modern calls.
    pub(super) async fn modern_child(&self) -> Result<Arc<Peer>, UpstreamError> {
        self.child(&self.modern, || Audience::Calls, async |_| Ok(())).await
    }

    /// The handshake; gives the result of `initialize`.
    async fn greet(&self, peer: &Arc<Peer>, hello: &Bytes) -> Result<Bytes, Arc<str>> {
        let late = || Err("did not answer initialize in time".into());
        let asked = timeout(self.timeout, peer.ask(hello)).await;
        let answer = asked.unwrap_or_else(|_| late())?;
        let result = result(&answer).ok_or("refused initialize")?;
        lock(&self.pace).reset();
        let initialized = mapping::read(INITIALIZED.as_bytes()).ok_or("cannot be greeted")?;
        peer.notify(INITIALIZED.as_bytes(), &initialized, 0).await.map_err(|e| e.0)?;
        Ok(result)
    }

    /// Asks a new child for what the one before it was asked for. A refusal is nobody's to hear: the client heard it.
    async fn remind(&self, peer: &Arc<Peer>, wishes: Vec<String>) {
        let all = async {
            for wish in wishes {
                drop(peer.ask(wish.as_bytes()).await);
            }
        };
        if timeout(self.timeout, all).await.is_err() {
            tracing::warn!(
                upstream = &*self.name,
                "the new command did not take every subscription of the one before it"
            );
        }
    }

    fn own_hello(&self) -> Bytes {
        let version = self.fixed.as_deref().filter(|v| !is_modern(v)).unwrap_or(LATEST_LEGACY);
        let info = json!({"name": "smartgate", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info});
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string().into()
    }

    /// Which era the child speaks.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn era(&self) -> Result<Era, UpstreamError> {
        match self.fixed.as_deref() {
            Some(version) if is_modern(version) => Ok(Era::Modern),
            Some(_) => Ok(Era::Legacy),
            None => self.probe().await,
        }
    }
}

/// Takes note of how a child of `slot` ended.
pub(super) fn settle(slot: &Slot, peer: Option<Arc<Peer>>) {
    if let Some((end, lived)) = peer.and_then(|p| p.life()) {
        lock(&slot.pace).ended(end, lived);
    }
}

/// The `result` of a response.
pub(super) fn result(answer: &Bytes) -> Option<Bytes> {
    let result = mapping::read(answer)?.envelope.get("result").filter(|r| r.is_object())?;
    Some(answer.slice_ref(result.bytes()))
}
