//! The background task of a catalog: connect, list, wait for a reason to list again; on failure, back off.
//! Invariant: after a look that went well the next one begins at least [`MIN_GAP`] later, whatever nudges.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Catalog,
    link::{Failure, Link, Peer},
    list::{Lists, everything},
    probe::probe,
    watch::watch,
};
use crate::{
    mcp::era::Era,
    upstream::{Upstream, backoff::Backoff},
};

/// Shortest time between two looks at the upstream.
pub(super) const MIN_GAP: Duration = Duration::from_secs(1);
/// Longest pause between tries while the upstream is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Pause while the upstream refuses the gateway itself: only its operator can change that.
pub(super) const REFUSED_PAUSE: Duration = Duration::from_secs(60);
/// How often the list is read again where changes are announced, or the upstream says that there are none.
const SLOW_POLL: Duration = Duration::from_secs(300);
/// How often it is read again where changes may happen and nothing tells of them.
const UNWATCHED_POLL: Duration = Duration::from_secs(30);
/// Longest that a `ttlMs` is trusted.
const LONGEST_TTL: Duration = Duration::from_secs(3_600);
/// How long an era that was found is taken for granted. A server without sessions, or a modern one, may learn the other
/// era without anything failing.
pub(super) const ERA_HOLDS: Duration = Duration::from_secs(3_600);
/// Longest pause between tries to start an upstream that sleeps.
const LONGEST_SLEEPER_PAUSE: Duration = Duration::from_secs(300);
/// Shortest time between two looks at an upstream that sleeps: each may start it.
const SLEEPER_GAP: Duration = Duration::from_secs(10);
/// How often the pins are looked at while tools are withheld.
const PINS_POLL: Duration = Duration::from_secs(2);
/// How long the end of the own session may take.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);

impl Catalog {
    /// Learns and keeps learning until `stop`; then ends the gateway's own session at the upstream, within 1 s.
    /// One task runs this for each catalog. It never fails: an upstream that is away is tried again.
    pub async fn run(self: Arc<Self>, upstream: Arc<dyn Upstream>, stop: CancellationToken) {
        self.remember().await;
        let sleeps = upstream.sleeps();
        let link = Link::new(upstream, self.timeout);
        let mut peer = None;
        tokio::select! {
            () = stop.cancelled() => {}
            never = async {
                if sleeps {
                    self.look_when_nudged(&link, &mut peer).await
                } else {
                    self.learn_forever(&link, &mut peer).await
                }
            } => match never {},
        }
        leave(&link, &mut peer).await;
    }

    /// One look at an upstream that is part of this process, and so cannot be away.
    pub(crate) async fn look_once(&self, upstream: &Arc<dyn Upstream>) {
        let link = Link::new(Arc::clone(upstream), self.timeout);
        if let Err(failure) = self.look(&link, &mut None).await {
            self.failed(&failure);
        }
    }

    /// For an upstream that sleeps: one look at it, then none until a nudge.
    async fn look_when_nudged(&self, link: &Link, peer: &mut Option<Peer>) -> Infallible {
        let mut pause = Backoff::up_to(LONGEST_SLEEPER_PAUSE);
        loop {
            let began = Instant::now();
            let failure = self.look(link, peer).await.err();
            leave(link, peer).await;
            match failure {
                None => {
                    pause.reset();
                    tokio::select! {
                        () = self.wake.notified() => {}
                        () = self.accepted() => {}
                    }
                    sleep_until(began + SLEEPER_GAP).await;
                }
                Some(failure) => {
                    self.failed(&failure);
                    self.nudged_or(pause.next(), began).await;
                }
            }
        }
    }

    async fn look(&self, link: &Link, peer: &mut Option<Peer>) -> Result<(), Failure> {
        let found = probe(link, self.fixed.as_deref()).await?;
        self.met(&found);
        let found = peer.insert(found);
        let lists = everything(&self.name, link, found).await?;
        self.learned(found, lists).await;
        Ok(())
    }

    async fn learn_forever(&self, link: &Link, peer: &mut Option<Peer>) -> Infallible {
        let mut pause = Backoff::up_to(LONGEST_PAUSE);
        loop {
            let began = Instant::now();
            let failure = self.learn(link, peer, &mut pause).await;
            if failure == Failure::Old {
                leave(link, peer).await;
                continue;
            }
            if matches!(failure, Failure::Odd(_) | Failure::Lost) {
                *peer = None;
            }
            self.failed(&failure);
            match failure {
                Failure::Unauthorized(_) => sleep(REFUSED_PAUSE).await,
                _ => self.nudged_or(pause.next(), began).await,
            }
        }
    }

    /// Finds the peer if it is not known, then keeps the tools current until something fails.
    async fn learn(&self, link: &Link, peer: &mut Option<Peer>, pause: &mut Backoff) -> Failure {
        let peer = match peer {
            Some(peer) => peer,
            None => match probe(link, self.fixed.as_deref()).await {
                Ok(found) => {
                    self.met(&found);
                    peer.insert(found)
                }
                Err(failure) => return failure,
            },
        };
        let watched = AtomicUsize::new(0);
        tokio::select! {
            failure = self.keep_current(link, peer, &watched, pause) => failure,
            never = watch(link, peer, self.fixed.as_deref(), &self.wake, &watched) => match never {},
        }
    }

    async fn keep_current(
        &self,
        link: &Link,
        peer: &Peer,
        watched: &AtomicUsize,
        pause: &mut Backoff,
    ) -> Failure {
        let mut worked = false;
        loop {
            let began = Instant::now();
            if self.fixed.is_none() && peer.since.elapsed() >= ERA_HOLDS {
                return Failure::Old;
            }
            let lists = match everything(&self.name, link, peer).await {
                Ok(lists) => lists,
                Err(Failure::Odd(_)) if worked => return Failure::Lost,
                Err(failure) => return failure,
            };
            worked = true;
            let fresh = fresh_for(peer, &lists);
            self.learned(peer, lists).await;
            pause.reset();
            let wait = fresh.unwrap_or(if watched.load(Relaxed) > 0 { SLOW_POLL } else { UNWATCHED_POLL });
            self.nudged_or(wait, began).await;
        }
    }

    /// Waits for `wait`, or for a nudge; but at least until [`MIN_GAP`] after `began` if nudged.
    async fn nudged_or(&self, wait: Duration, began: Instant) {
        tokio::select! {
            () = sleep(wait) => {}
            () = self.wake.notified() => sleep_until(began + MIN_GAP).await,
            () = self.accepted() => {}
        }
    }

    /// Resolves when somebody has changed the pins while tools are withheld.
    async fn accepted(&self) {
        let Some(pins) = self.pins.clone().filter(|_| self.withholds()) else { return pending().await };
        loop {
            sleep(PINS_POLL).await;
            let pins = Arc::clone(&pins);
            if tokio::task::spawn_blocking(move || pins.changed()).await.unwrap_or(false) {
                return;
            }
        }
    }
}

/// Ends the gateway's own session.
async fn leave(link: &Link, peer: &mut Option<Peer>) {
    if let Some(peer) = peer.take() {
        drop(timeout(GOODBYE, link.delete_session(&peer)).await);
    }
}

/// How long the lists hold by the upstream's own word; `None` if it gave none.
fn fresh_for(peer: &Peer, lists: &Lists) -> Option<Duration> {
    match lists.iter().flatten().filter_map(|list| list.ttl).min() {
        Some(ttl) if !ttl.is_zero() && peer.era == Era::Modern => Some(ttl.clamp(MIN_GAP, LONGEST_TTL)),
        None if !peer.about.announces() => Some(SLOW_POLL),
        _ => None,
    }
}
