//! A running child as its callers use it: they send, wait for what comes back, or stop waiting.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::Instant,
};
use tokio_util::task::TaskTracker;

use super::{
    calls::{Core, Ended, Open},
    child::{Child, Listener},
    framing::as_line,
    hear::Audience,
    mapping,
    noise::Noise,
};
use crate::{
    config,
    mcp::{message::Message, method::is_askable},
    upstream::shown::{
        outbox::{Item, Reader, Waits, outbox},
        owner::Owner,
    },
};

/// Lines that wait for a child to read them.
const ORDERS: usize = 16;

/// See the module. Dropping it ends the child.
#[derive(Debug)]
pub(super) struct Peer {
    core: Arc<Core>,
    child: Child,
    _place: OwnedSemaphorePermit,
}

impl Peer {
    /// Starts a child. Nobody hears what it says of itself until [`Peer::talk_to`].
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(
        upstream: &Arc<str>,
        command: &config::Command,
        tasks: &TaskTracker,
        place: OwnedSemaphorePermit,
    ) -> std::io::Result<Self> {
        let (orders, queue) = mpsc::channel(ORDERS);
        let core = Arc::new(Core::new(orders, Noise::new(Arc::clone(upstream), command)));
        let child = Child::start(upstream, command, tasks, queue, Arc::clone(&core))?;
        Ok(Self { core, child, _place: place })
    }

    /// Sets whom the child talks to, once.
    pub(super) fn talk_to(&self, audience: Audience) {
        drop(self.core.audience.set(audience));
    }

    /// Ends the child; calls that wait are told.
    pub(super) fn stop(&self) {
        self.core.ended("was stopped");
        self.child.stop();
    }

    /// Ends the child if no call waits. Whether it did.
    pub(super) fn retire(&self) -> bool {
        let idle = self.core.end_if_idle();
        if idle {
            self.child.stop();
        }
        idle
    }

    /// Why it ended, if it has.
    pub(super) fn ended(&self) -> Option<Arc<str>> {
        self.core.state().ended.as_ref().map(|(why, _)| Arc::clone(why))
    }

    /// Whether it has ever answered.
    pub(super) fn has_answered(&self) -> bool {
        self.core.answered.load(Relaxed)
    }

    /// When it ended, and how long it had run, if it has ended.
    pub(super) fn life(&self) -> Option<(Instant, Duration)> {
        let (_, end) = self.core.state().ended.clone()?;
        Some((end, end.saturating_duration_since(self.child.started())))
    }

    /// How long nobody has used it; `None` while a call waits.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.core.state();
        (!state.is_busy()).then(|| state.used.elapsed())
    }

    /// Notes that a call of `owner` comes.
    pub(super) fn is_called_by(&self, owner: Owner) {
        self.core.state().is_called_by(owner);
    }

    /// Sends a request; its answer and what belongs to it come out of the reader.
    ///
    /// # Errors
    /// [`Ended`]
    pub(super) async fn call(
        self: &Arc<Self>,
        text: &[u8],
        message: &Message<'_>,
        owner: u64,
        leaving: Leaving,
    ) -> Result<(Reader, Waiting), Ended> {
        let id = message.id().unwrap_or("null").to_owned();
        let token = mapping::asked_token(message).map(|t| t.text().to_owned());
        let (outbox, reader) = outbox();
        let logs = mapping::asks_for_logs(message);
        let askable = message.method.as_deref().is_some_and(is_askable);
        let own =
            self.core.open(Open { owner, id, token, askable, logs, outbox: Some(outbox), heard: None })?;
        let waiting = Waiting { peer: Arc::clone(self), own, leaving, done: false };
        self.send(mapping::request(text, message, own)).await?;
        Ok((reader, waiting))
    }

    /// Sends a request of the gateway's own and waits for its answer. Events on the way are held for the session.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn ask(self: &Arc<Self>, text: &[u8]) -> Result<Bytes, Arc<str>> {
        let message = mapping::read(text).ok_or("cannot be asked")?;
        let (mut reader, waiting) = self.call(text, &message, 0, Leaving::quiet()).await.map_err(|e| e.0)?;
        loop {
            match reader.recv().await {
                Some(Item::Event(message, _)) => {
                    if let Some(Audience::One(inbox)) = self.core.audience.get() {
                        inbox.hold(message, None);
                    }
                }
                Some(Item::Answer(answer)) => {
                    Box::new(waiting).done();
                    return Ok(answer);
                }
                Some(Item::Failed(why)) => {
                    Box::new(waiting).done();
                    return Err(why);
                }
                None => return Err("gave no answer".into()),
            }
        }
    }

    /// Sends a request of the gateway's own whose answer nobody needs, unless the child does not read.
    pub(super) fn mention(&self, method: &str, params: &Value) {
        let open = Open {
            owner: 0,
            id: "null".into(),
            token: None,
            askable: false,
            logs: false,
            outbox: None,
            heard: None,
        };
        if let Ok(own) = self.core.open(open) {
            let message = json!({"jsonrpc": "2.0", "id": own, "method": method, "params": params});
            self.core.order(message.to_string());
        }
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// [`Ended`]
    pub(super) async fn notify(&self, text: &[u8], message: &Message<'_>, owner: u64) -> Result<(), Ended> {
        if message.method.as_deref() != Some("notifications/cancelled") {
            return self.send(as_line(text.to_vec())).await;
        }
        let Some(request) = mapping::param(message, "requestId") else { return Ok(()) };
        // One that names no call of this client is for nobody.
        match self.core.own_id(owner, request.text()) {
            Some(own) => self.send(mapping::cancelled(text, request, own)).await,
            None => Ok(()),
        }
    }

    /// Sends a client's answer to a question of the child. Whether there was such a question.
    ///
    /// # Errors
    /// [`Ended`]
    pub(super) async fn reply(&self, text: &[u8], message: &Message<'_>) -> Result<bool, Ended> {
        let own = message.id_raw.and_then(mapping::own);
        let theirs = own.and_then(|own| self.core.state().questions.close(own));
        let (Some(place), Some(theirs)) = (message.id_raw, theirs) else { return Ok(false) };
        self.send(as_line(mapping::put(text, place, &theirs).to_vec())).await?;
        Ok(true)
    }

    async fn send(&self, line: Bytes) -> Result<(), Ended> {
        self.core.state().used = Instant::now();
        let sent = self.core.orders.send(line).await;
        sent.map_err(|_| Ended(self.ended().unwrap_or_else(|| "has ended".into())))
    }
}

/// What happens to a call whose client stops waiting, and how long it may.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    /// Whether leaving is cancelling (modern revisions); else the call goes on, and its answer is for nobody.
    pub(super) cancels: bool,
    /// When the call began.
    pub(super) began: Instant,
    /// How long until the child says something of the call. Then the gateway gives up, which cancels always.
    pub(super) first: Duration,
    /// How long from then to the next time.
    pub(super) next: Duration,
}

impl Leaving {
    /// Waits for ever; leaving is nobody's business.
    fn quiet() -> Self {
        Self { cancels: false, began: Instant::now(), first: Duration::MAX, next: Duration::MAX }
    }
}

/// That somebody waits for a call.
#[derive(Debug)]
pub(super) struct Waiting {
    peer: Arc<Peer>,
    own: u64,
    leaving: Leaving,
    done: bool,
}

impl Waits for Waiting {
    fn deadline(&self) -> Option<Instant> {
        let heard = self.peer.core.state().calls.get(&self.own)?.heard;
        let Leaving { began, first, next, .. } = self.leaving;
        heard.map_or_else(|| began.checked_add(first), |heard| heard.checked_add(next))
    }

    fn done(mut self: Box<Self>) {
        self.done = true;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let core = &self.peer.core;
        let gave_up = self.deadline().is_some_and(|deadline| deadline <= Instant::now());
        if !self.leaving.cancels && !gave_up {
            if let Some(call) = core.state().calls.get_mut(&self.own) {
                call.outbox = None;
            }
        } else if core.state().calls.remove(&self.own).is_some() {
            let params = json!({"requestId": self.own, "reason": "nobody waits for the answer any more"});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
            core.order(message.to_string());
        }
    }
}
