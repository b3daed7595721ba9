//! What is open on a running child: calls that wait for an answer, and questions of the child that wait for a client's.
//! Owns the gateway's own ids towards the child.
//!
//! Invariant: each id of ours is used once, so an answer reaches the call that it belongs to or nobody.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, atomic::AtomicBool},
};

use bytes::Bytes;
use serde_json::json;
use tokio::{sync::mpsc, time::Instant};

use super::{framing::as_line, hear::Audience, noise::Noise, questions::Questions};
use crate::upstream::shown::{outbox::Outbox, owner::Owner};

/// Calls open on one child. Those whose client has left go first.
const OPEN_CALLS: usize = 1024;

/// What the child's listener and open calls share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) audience: OnceLock<Audience>,
    pub(super) orders: mpsc::Sender<Bytes>,
    state: Mutex<State>,
    pub(super) noise: Mutex<Noise>,
    pub(super) answered: AtomicBool,
}

#[derive(Debug)]
pub(super) struct State {
    last: u64,
    pub(super) calls: BTreeMap<u64, Open>,
    pub(super) questions: Questions,
    pub(super) ended: Option<(Arc<str>, Instant)>,
    pub(super) used: Instant,
    callers: Callers,
}

/// Whose calls a child has had.
#[derive(Debug, Default)]
enum Callers {
    #[default]
    None,
    One(Owner),
    Several,
}

impl State {
    /// The newest call that somebody waits for; the newest of those that servers ask in, if there are some.
    pub(super) fn newest(&mut self) -> Option<&mut Open> {
        let is_open = |call: &Open| call.outbox.as_ref().is_some_and(Outbox::is_open);
        let askable = self.calls.values().any(|call| call.askable && is_open(call));
        self.calls.values_mut().rev().find(|call| is_open(call) && call.askable == askable)
    }

    /// Notes who calls. Only those that have said something of their own count: a list is nobody's secret.
    pub(super) fn is_called_by(&mut self, owner: Owner) {
        self.callers = match std::mem::take(&mut self.callers) {
            Callers::None => Callers::One(owner),
            Callers::One(one) if one == owner => Callers::One(one),
            _ => Callers::Several,
        };
    }

    /// Where a log line goes that names no call: to the only one that asked for some, unless the child may speak of
    /// somebody else's that is over.
    pub(super) fn only_logging(&self) -> Option<Outbox> {
        if matches!(self.callers, Callers::Several) {
            return None;
        }
        let mut asked = self.calls.values().filter(|c| c.logs);
        asked.next().filter(|_| asked.next().is_none()).and_then(|c| c.outbox.clone())
    }

    /// Whether somebody waits for an answer.
    pub(super) fn is_busy(&self) -> bool {
        self.calls.values().any(|c| c.outbox.as_ref().is_some_and(Outbox::is_open))
    }
}

/// A call that waits.
#[derive(Debug)]
pub(super) struct Open {
    /// Whose ids are meant by `id` and `token`.
    pub(super) owner: u64,
    pub(super) id: String,
    pub(super) token: Option<String>,
    /// Whether it is a request in whose middle servers ask.
    pub(super) askable: bool,
    /// Whether it asked for log lines (2026-07-28).
    pub(super) logs: bool,
    /// `None` once the client has left.
    pub(super) outbox: Option<Outbox>,
    /// When the child last said something of this call itself: progress, or a question.
    pub(super) heard: Option<Instant>,
}

/// Why a message could not be given to the child: it had ended before. Nothing was sent.
#[derive(Debug)]
pub(super) struct Ended(pub(super) Arc<str>);

impl Core {
    /// `orders` go to the child's standard input.
    pub(super) fn new(orders: mpsc::Sender<Bytes>, noise: Noise) -> Self {
        Self {
            audience: OnceLock::new(),
            orders,
            state: Mutex::new(State {
                last: 0,
                calls: BTreeMap::new(),
                questions: Questions::default(),
                ended: None,
                used: Instant::now(),
                callers: Callers::default(),
            }),
            noise: Mutex::new(noise),
            answered: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, call: Open) -> Result<u64, Ended> {
        let mut state = self.state();
        if let Some((why, _)) = &state.ended {
            return Err(Ended(Arc::clone(why)));
        }
        if state.calls.len() >= OPEN_CALLS {
            let left = state.calls.iter().find(|(_, c)| c.outbox.is_none()).map(|(own, _)| *own);
            match left {
                Some(left) => drop(state.calls.remove(&left)),
                None => return Err(Ended("has too many calls open".into())),
            }
        }
        state.last += 1;
        let own = state.last;
        state.calls.insert(own, call);
        Ok(own)
    }

    /// Ends what nobody waits for, so that a call which comes now is told before it is sent. Whether it did.
    pub(super) fn end_if_idle(&self) -> bool {
        let mut state = self.state();
        let idle = !state.is_busy() && state.ended.is_none();
        if idle {
            state.ended = Some(("was stopped".into(), Instant::now()));
        }
        idle
    }

    /// Our id of the newest open call that its client calls `id`.
    pub(super) fn own_id(&self, owner: u64, id: &str) -> Option<u64> {
        let state = self.state();
        state.calls.iter().rev().find(|(_, c)| c.owner == owner && c.id == id).map(|(own, _)| *own)
    }

    /// Answers the question that the child calls `id` for a client.
    pub(super) fn refuse(&self, id: &str, code: i64, why: &str) {
        let error = json!({"code": code, "message": why});
        self.order(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Sends a line of the gateway's own, unless the child does not read.
    pub(super) fn order(&self, line: String) {
        drop(self.orders.try_send(as_line(line.into_bytes())));
    }

    pub(super) fn fail(&self, own: u64, why: &Arc<str>) {
        let call = self.state().calls.remove(&own);
        if let Some(outbox) = call.and_then(|c| c.outbox) {
            outbox.fail(why);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
