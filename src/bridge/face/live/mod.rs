//! What one process remembers of a session: log level, subscriptions, the open stream, calls and questions under
//! way. Made on demand, dropped when idle; a session lives on without it.
//!
//! Invariant: everything is bounded, for a session, for its principal and in all ([`Limits`]), and what a call has put in
//! goes with the call ([`Flight`], [`Question`]).

mod places;
mod waiting;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{listen::Listening, refusal::Refusal, session::Nonce};

pub use places::Limit;
pub(super) use places::{Full, Place, Places};
pub(super) use waiting::{Flight, Question};

/// Ended sessions whose ids this process still knows to be ended.
const MAX_ENDED: usize = 16_384;
/// What has been idle this long may be forgotten.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Resources that one session may subscribe to.
const MAX_URIS: usize = 512;
const MAX_URI: usize = 4096;

/// What is remembered at most, of one principal and in all.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sessions with something to remember.
    pub sessions: Limit,
    /// Questions that wait for an answer.
    pub questions: Limit,
    /// Resources subscribed to.
    pub subscriptions: Limit,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: Limit { each: 4_096, all: 16_384 },
            questions: Limit { each: 1_000, all: 10_000 },
            subscriptions: Limit { each: 4_096, all: 32_768 },
        }
    }
}

/// What the client answered: its `result`, or its `error`, as JSON text.
pub(super) type Answer = Result<String, String>;

/// The memory of one process.
#[derive(Debug)]
pub(super) struct Registry {
    known: Mutex<Known>,
    sessions: Arc<Places>,
    questions: Arc<Places>,
    subscriptions: Arc<Places>,
}

#[derive(Debug, Default)]
struct Known {
    live: HashMap<Nonce, Arc<Live>>,
    ended: HashSet<Nonce>,
    order: VecDeque<Nonce>,
}

/// One session's memory.
#[derive(Debug)]
pub(super) struct Live {
    owner: Arc<str>,
    questions: Arc<Places>,
    subscriptions: Arc<Places>,
    state: Mutex<State>,
    /// Held while the listen is changed, so that a later union never loses against an earlier one.
    pub(super) changing: tokio::sync::Mutex<()>,
    _place: Place,
}

#[derive(Debug)]
struct State {
    level: Option<&'static str>,
    uris: BTreeMap<Arc<str>, Place>,
    stream: Option<mpsc::Sender<Listening>>,
    calls: HashMap<Box<str>, CancellationToken>,
    questions: HashMap<u64, oneshot::Sender<Answer>>,
    touched: Instant,
}

impl State {
    fn new() -> Self {
        Self {
            level: None,
            uris: BTreeMap::new(),
            stream: None,
            calls: HashMap::new(),
            questions: HashMap::new(),
            touched: Instant::now(),
        }
    }

    fn is_busy(&self) -> bool {
        !self.calls.is_empty() || self.stream.as_ref().is_some_and(|s| !s.is_closed())
    }
}

impl Registry {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            known: Mutex::default(),
            sessions: Places::new(limits.sessions),
            questions: Places::new(limits.questions),
            subscriptions: Places::new(limits.subscriptions),
        }
    }

    /// How many sessions, questions and subscriptions there are.
    pub(super) fn counts(&self) -> [usize; 3] {
        [&self.sessions, &self.questions, &self.subscriptions].map(|places| places.len())
    }

    /// What is remembered of a session, if anything is.
    pub(super) fn find(&self, nonce: &Nonce) -> Option<Arc<Live>> {
        self.lock().live.get(nonce).cloned()
    }

    /// Whether the client has ended it here.
    pub(super) fn is_ended(&self, nonce: &Nonce) -> bool {
        self.lock().ended.contains(nonce)
    }

    /// The memory of a session of this principal, made if there is none.
    ///
    /// # Errors
    /// All places, or those of the principal, are taken by sessions with calls or streams.
    pub(super) fn at(&self, nonce: &Nonce, owner: &Arc<str>) -> Result<Arc<Live>, Refusal> {
        let mut known = self.lock();
        if let Some(live) = known.live.get(nonce) {
            live.lock().touched = Instant::now();
            return Ok(Arc::clone(live));
        }
        let place = self.sessions.take(owner).or_else(|full| {
            known.make_room(owner, full, self.sessions.limit());
            self.sessions.take(owner)
        });
        let live = Arc::new(Live {
            owner: Arc::clone(owner),
            questions: Arc::clone(&self.questions),
            subscriptions: Arc::clone(&self.subscriptions),
            state: Mutex::new(State::new()),
            changing: tokio::sync::Mutex::default(),
            _place: place.map_err(|full| Refusal::no_place("sessions", full))?,
        });
        known.live.insert(*nonce, Arc::clone(&live));
        Ok(live)
    }

    /// Ends a session: its stream and its calls with it.
    pub(super) fn end(&self, nonce: &Nonce) {
        let mut known = self.lock();
        if known.ended.insert(*nonce) {
            known.order.push_back(*nonce);
        }
        if known.order.len() > MAX_ENDED
            && let Some(oldest) = known.order.pop_front()
        {
            known.ended.remove(&oldest);
        }
        if let Some(live) = known.live.remove(nonce) {
            let mut state = live.lock();
            (state.stream, state.level) = (None, None);
            state.uris.clear();
            state.questions.clear();
            state.calls.drain().for_each(|(_, call)| call.cancel());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Forgets what is idle, of the owner alone if that one has no place left; if nothing is, the eighth part that has been
    /// quiet longest.
    fn make_room(&mut self, owner: &Arc<str>, full: Full, limit: Limit) {
        let (whose, limit) = match full {
            Full::Owner(each) => (Some(owner), each),
            Full::All => (None, limit.all),
        };
        let mut quiet: Vec<(Instant, Nonce)> = self
            .live
            .iter()
            .filter(|(_, live)| whose.is_none_or(|whose| *whose == live.owner))
            .filter_map(|(nonce, live)| {
                let state = live.lock();
                (!state.is_busy()).then_some((state.touched, *nonce))
            })
            .collect();
        quiet.sort_unstable();
        let idle = quiet.iter().take_while(|(touched, _)| touched.elapsed() >= IDLE).count();
        for (_, nonce) in quiet.iter().take(idle.max(limit / 8).max(1)) {
            self.live.remove(nonce);
        }
    }
}

impl Live {
    pub(super) fn level(&self) -> Option<&'static str> {
        self.lock().level
    }

    pub(super) fn set_level(&self, level: &'static str) {
        self.lock().level = Some(level);
    }

    pub(super) fn uris(&self) -> Vec<Arc<str>> {
        self.lock().uris.keys().cloned().collect()
    }

    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        self.lock().uris.contains_key(uri)
    }

    /// Adds a resource.
    ///
    /// # Errors
    /// There are too many, or its name is too long.
    pub(super) fn subscribe(&self, uri: &str) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.uris.contains_key(uri) {
            return Ok(());
        }
        if uri.len() > MAX_URI || state.uris.len() >= MAX_URIS {
            return Err(Refusal::full("subscriptions"));
        }
        let place = self.subscriptions.take(&self.owner);
        let place = place.map_err(|full| Refusal::no_place("subscriptions", full))?;
        state.uris.insert(uri.into(), place);
        Ok(())
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.lock().uris.remove(uri);
    }

    /// Takes the place of the session's stream; one that was open ends.
    pub(super) fn open_stream(&self) -> mpsc::Receiver<Listening> {
        let (sender, receiver) = mpsc::channel(1);
        self.lock().stream = Some(sender);
        receiver
    }

    /// Where a new listen goes, if a stream is open.
    pub(super) fn stream(&self) -> Option<mpsc::Sender<Listening>> {
        self.lock().stream.clone().filter(|s| !s.is_closed())
    }

    /// Cancels a call, if it goes on.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(call) = self.lock().calls.get(id) {
            call.cancel();
        }
    }

    /// Gives a client's answer to the call that waits for it; late and repeated ones go nowhere.
    pub(super) fn answer(&self, number: u64, answer: Answer) {
        let waiting = self.lock().questions.remove(&number);
        if let Some(waiting) = waiting {
            drop(waiting.send(answer));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
