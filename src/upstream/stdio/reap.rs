//! Ends what nobody uses: children that are idle, sessions that were forgotten, and everything when the upstream is
//! retired.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::{
    calls::lock,
    host::{Host, settle},
    session::{Session, Slot},
};

/// How long a session is kept that has neither a child nor a stream.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long a child is kept that was asked for its era, where none is to be kept ready.
const SPARE_KEPT: Duration = Duration::from_secs(60);
/// How long the calls of an upstream that is retired may go on.
const LAST_CALLS: Duration = Duration::from_secs(30);
/// Shortest and longest time between two looks.
const OFTEN: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_secs(15);

/// Looks after `host` until it is retired or gone.
pub(super) async fn reap(host: Weak<Host>) {
    let Some((stop, idle)) = host.upgrade().map(|h| (h.stop.clone(), h.command.idle_stop)) else { return };
    let pause = idle.map_or(SELDOM, |idle| (idle / 4).clamp(OFTEN, SELDOM));
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => break,
        }
        let Some(host) = host.upgrade() else { return };
        host.look(idle);
    }
    let retired = Instant::now();
    while let Some(host) = host.upgrade() {
        if retired.elapsed() >= LAST_CALLS || !host.slots().iter().any(|s| s.slot().is_busy()) {
            return host.end();
        }
        drop(host);
        sleep(OFTEN).await;
    }
}

/// A slot of the host or of a session.
enum Place<'a> {
    Own(&'a Slot),
    Of(Arc<Session>),
}

impl Place<'_> {
    fn slot(&self) -> &Slot {
        match self {
            Self::Own(slot) => slot,
            Self::Of(session) => &session.slot,
        }
    }
}

impl Host {
    fn slots(&self) -> Vec<Place<'_>> {
        let mut slots = vec![Place::Own(&self.shared), Place::Own(&self.modern)];
        slots.extend(lock(&self.sessions).values().cloned().map(Place::Of));
        slots
    }

    fn look(&self, idle_stop: Option<Duration>) {
        for place in self.slots() {
            let slot = place.slot();
            let idle = slot.idle().zip(idle_stop).is_some_and(|(idle, most)| idle >= most);
            if idle && !self.expects_news(&place) {
                tracing::debug!(upstream = &*self.name, "command stopped: nobody uses it");
                slot.retire();
            }
            // One that has ended holds no place any longer.
            if let Ok(mut running) = slot.running.try_lock()
                && running.as_ref().is_some_and(|p| p.ended().is_some())
            {
                settle(slot, running.take());
            }
        }
        let old = |session: &Session| session.forgotten().is_some_and(|age| age >= KEPT);
        let forgotten: Vec<String> =
            lock(&self.sessions).iter().filter(|(_, s)| old(s)).map(|(id, _)| id.clone()).collect();
        forgotten.iter().for_each(|id| self.close(id));
        let died = lock(&self.spare).take_if(|p| p.ended().is_some());
        if let Some(peer) = died {
            self.failed(&peer);
        }
        if self.command.at_once {
            self.prepare();
        } else {
            lock(&self.spare).take_if(|p| p.idle().is_some_and(|idle| idle >= SPARE_KEPT));
        }
    }

    /// Whether a client listens for what the child in this place may say unasked.
    fn expects_news(&self, place: &Place<'_>) -> bool {
        match place {
            Place::Of(session) => session.inbox.expects_news(),
            Place::Own(_) => lock(&self.many).values().any(|inbox| inbox.expects_news()),
        }
    }

    /// Ends everything.
    pub(super) fn end(&self) {
        for place in self.slots() {
            place.slot().stop();
        }
        let sessions = std::mem::take(&mut *lock(&self.sessions));
        sessions.values().for_each(|session| session.end());
        *lock(&self.spare) = None;
    }
}
