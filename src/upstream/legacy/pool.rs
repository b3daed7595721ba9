//! The sessions that are kept, one for each principal, set of capabilities and session of a client that has sessions;
//! and more where a server's questions do
//! not say which call they belong to: then each call that can be asked has a session that no other such call has.
//!
//! Invariants: bounded; one `initialize` at a time for one key; a session that is in use is never taken away.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{sync::OnceCell, time::Instant};

use super::{asks::Asks, hello::NoSession, reply::Refusal, session::Session};
use crate::upstream::{ClientSession, catalog::Catalog};

/// Sessions of one key. Beyond them calls share the first, and questions that come then are refused.
const LANES: u16 = 64;

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    owner: Arc<str>,
    asks: Asks,
    /// A client that has sessions has its own here: what the server keeps in one is that client's.
    client: Option<ClientSession>,
    /// The first is everybody's who has to share; in each other one runs one call at a time.
    lane: u16,
}

/// A session for a request.
pub(super) struct Lent {
    pub(super) session: Arc<Session>,
    pub(super) turn: Option<Turn>,
}

/// While it lives no other call that can be asked runs in the session.
pub(super) struct Turn(Arc<Slot>);

/// See the module.
pub(super) struct Pool {
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
    limit: usize,
    idle: Duration,
    /// The server's questions are known not to say which call they belong to.
    apart: Arc<AtomicBool>,
    catalog: Option<Arc<Catalog>>,
}

struct Slot {
    session: OnceCell<Arc<Session>>,
    used: Mutex<Instant>,
    taken: AtomicBool,
    /// The session that the client's own id names is gone.
    is_renewed: bool,
}

impl Key {
    pub(super) fn new(owner: Arc<str>, asks: Asks, client: Option<ClientSession>) -> Self {
        Self { owner, asks, client, lane: 0 }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.taken.store(false, Relaxed);
    }
}

impl Slot {
    fn new(is_renewed: bool) -> Arc<Self> {
        let (session, taken) = (OnceCell::new(), AtomicBool::new(false));
        Arc::new(Self { session, used: Mutex::new(Instant::now()), taken, is_renewed })
    }

    fn is_free(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1 && self.session.get().is_none_or(|s| Arc::strong_count(s) == 1)
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(super) fn new(limit: usize, idle: Duration, catalog: Option<Arc<Catalog>>) -> Arc<Self> {
        Arc::new(Self { slots: Mutex::default(), limit, idle, apart: Arc::default(), catalog })
    }

    /// The session for a call that can be asked something.
    pub(super) async fn lend<F>(
        self: &Arc<Self>,
        key: &Key,
        open: impl Fn(bool) -> F,
    ) -> Result<Lent, NoSession>
    where
        F: Future<Output = Result<Session, NoSession>> + Send + 'static,
    {
        if key.client.is_some() {
            // Whatever call it reaches, it reaches the client that it is for.
            return Ok(Lent { session: self.session(key, &open).await?, turn: None });
        }
        for lane in 0..LANES {
            let key = Key { lane, ..key.clone() };
            let slot = self.slot(&key)?;
            if !slot.taken.swap(true, Relaxed) {
                let turn = Turn(Arc::clone(&slot));
                return match self.session(&key, &open).await {
                    Ok(session) => Ok(Lent { session, turn: Some(turn) }),
                    Err(why) => {
                        drop(turn);
                        self.clear(&key, &slot);
                        Err(why)
                    }
                };
            }
            // That they keep apart may become known by the first session.
            if lane == 0 && !self.apart.load(Relaxed) {
                let session = self.session(&key, &open).await?;
                if !self.apart.load(Relaxed) {
                    return Ok(Lent { session, turn: None });
                }
            }
        }
        Ok(Lent { session: self.session(key, &open).await?, turn: None })
    }

    /// The session that listeners of `key` hear, if there is one.
    pub(super) fn first(&self, key: &Key) -> Option<Arc<Session>> {
        let slots = self.slots();
        slots.get(&Key { lane: 0, ..key.clone() }).and_then(|slot| slot.session.get().cloned())
    }

    /// The session of `key`; `open` makes one where there is none, and is told whether the one that the client's id names
    /// is gone.
    pub(super) async fn session<F>(
        self: &Arc<Self>,
        key: &Key,
        open: impl FnOnce(bool) -> F,
    ) -> Result<Arc<Session>, NoSession>
    where
        F: Future<Output = Result<Session, NoSession>> + Send + 'static,
    {
        let slot = self.slot(key)?;
        let opened = slot.session.get_or_try_init(async || {
            // In a task of its own: a server whose client leaves in between still gets its DELETE.
            let opened = tokio::spawn(open(slot.is_renewed)).await;
            let mut session = opened.map_err(|_| {
                NoSession::Said(Refusal::new(500, -32603, "internal", "the session could not be opened"))
            })??;
            session.apart = Arc::clone(&self.apart);
            session.catalog = self.catalog.clone();
            session.one_client = key.client.is_some();
            if session.one_client {
                session.hello = session.hello.brief();
            }
            if key.lane > 0 {
                session.kin = Some((Arc::downgrade(self), key.clone()));
            }
            if session.hello.one_stream.is_some_and(|one| !one.is_process) {
                session.keep_apart();
            }
            let session = Arc::new(session);
            tokio::spawn(Self::watch(Arc::downgrade(self), key.clone(), Arc::downgrade(&session), self.idle));
            Ok(session)
        });
        let session = opened.await.cloned();
        match &session {
            Ok(session) => session.touch(),
            Err(_) => self.clear(key, &slot),
        }
        session
    }

    fn slot(&self, key: &Key) -> Result<Arc<Slot>, NoSession> {
        let mut slots = self.slots();
        let evicted = if slots.len() >= self.limit && !slots.contains_key(key) {
            let oldest = slots.iter().filter(|(_, slot)| slot.is_free()).min_by_key(|(_, slot)| slot.used());
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                let why = "too many sessions with this server are in use; try again shortly";
                return Err(NoSession::Said(Refusal::new(503, 503, "sessions_exhausted", why)));
            };
            slots.remove(&oldest)
        } else {
            None
        };
        let slot = slots.entry(key.clone()).or_insert_with(|| Slot::new(false));
        *slot.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let slot = Arc::clone(slot);
        drop(slots);
        drop(evicted);
        Ok(slot)
    }

    /// Takes away a slot that stayed empty and that nobody else waits for.
    fn clear(&self, key: &Key, empty: &Arc<Slot>) {
        let mut slots = self.slots();
        let same = slots.get(key).is_some_and(|slot| Arc::ptr_eq(slot, empty));
        if same && empty.session.get().is_none() && Arc::strong_count(empty) == 2 {
            slots.remove(key);
        }
    }

    /// Keeps `session`, which is lost, no longer.
    pub(super) fn forget(&self, session: &Arc<Session>) {
        let mut slots = self.slots();
        let same = |slot: &Arc<Slot>| slot.session.get().is_some_and(|s| Arc::ptr_eq(s, session));
        let gone: Vec<_> = slots.extract_if(|_, slot| same(slot)).collect();
        if session.is_named() {
            slots.extend(gone.iter().map(|(key, _)| (key.clone(), Slot::new(true))));
        }
        drop(slots);
        drop(gone);
    }

    /// Keeps the sessions of a client's session no longer, and ends them; whether there was one.
    pub(super) fn end(&self, owner: &str, client: ClientSession) -> bool {
        let mut slots = self.slots();
        let gone: Vec<_> =
            slots.extract_if(|key, _| key.client == Some(client) && *key.owner == *owner).collect();
        drop(slots);
        let sessions = gone.iter().filter_map(|(_, slot)| slot.session.get());
        sessions.inspect(|session| session.ended()).count() > 0
    }

    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.slots().len()
    }

    /// Ends a session that was idle for long enough.
    async fn watch(pool: Weak<Self>, key: Key, session: Weak<Session>, idle: Duration) {
        let mut pause = idle;
        loop {
            tokio::time::sleep(pause).await;
            let (Some(pool), Some(session)) = (pool.upgrade(), session.upgrade()) else { return };
            let left = idle.saturating_sub(session.idle());
            if left.is_zero() && pool.release(&key, &session) {
                return;
            }
            pause = left.max(idle / 4);
        }
    }

    /// Forgets it unless somebody else than the pool and the caller has it.
    fn release(&self, key: &Key, session: &Arc<Session>) -> bool {
        let mut slots = self.slots();
        let unused = |slot: &Arc<Slot>| Arc::strong_count(slot) == 1 && Arc::strong_count(session) == 2;
        let gone = match slots.get(key) {
            Some(slot) if slot.session.get().is_some_and(|s| Arc::ptr_eq(s, session)) => {
                if !unused(slot) {
                    return false;
                }
                slots.remove(key)
            }
            _ => None,
        };
        drop(slots);
        drop(gone);
        true
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Key, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
