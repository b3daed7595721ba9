//! What a call puts into the memory of its session, and takes out when it ends.

use std::{sync::Arc, time::Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    super::{refusal::Refusal, session::fresh},
    Answer, Live, Place,
};

/// Calls of one session at once.
const MAX_CALLS: usize = 512;
/// Questions to one client at once.
const MAX_QUESTIONS: usize = 64;

/// A call that its client may cancel by its id.
#[derive(Debug)]
pub(in crate::bridge::face) struct Flight {
    /// `None` without a session.
    live: Option<(Arc<Live>, Box<str>)>,
    pub(in crate::bridge::face) cancelled: CancellationToken,
}

impl Flight {
    /// A call that nobody can name.
    pub(in crate::bridge::face) fn anonymous() -> Self {
        Self { live: None, cancelled: CancellationToken::new() }
    }

    /// Registers a call under its id's text.
    ///
    /// # Errors
    /// The id is in use, or there are too many calls.
    pub(in crate::bridge::face) fn begin(live: Arc<Live>, id: &str) -> Result<Self, Refusal> {
        let cancelled = CancellationToken::new();
        {
            let mut state = live.lock();
            if state.calls.len() >= MAX_CALLS {
                return Err(Refusal::full("calls"));
            }
            if state.calls.contains_key(id) {
                return Err(Refusal::invalid_request(
                    "a call with this id is still going on in this session",
                ));
            }
            state.calls.insert(id.into(), cancelled.clone());
        }
        Ok(Self { live: Some((live, id.into())), cancelled })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some((live, id)) = &self.live {
            let mut state = live.lock();
            state.calls.remove(id);
            state.touched = Instant::now();
        }
    }
}

/// A question that waits for its answer.
#[derive(Debug)]
pub(in crate::bridge::face) struct Question {
    live: Arc<Live>,
    pub(in crate::bridge::face) number: u64,
    pub(in crate::bridge::face) answer: oneshot::Receiver<Answer>,
    _place: Place,
}

impl Question {
    /// Registers a question.
    ///
    /// # Errors
    /// There are too many.
    pub(in crate::bridge::face) fn ask(live: &Arc<Live>) -> Result<Self, Refusal> {
        let (sender, answer) = oneshot::channel();
        let mut state = live.lock();
        if state.questions.len() >= MAX_QUESTIONS {
            return Err(Refusal::full("questions"));
        }
        let place = live.questions.take(&live.owner);
        let place = place.map_err(|full| Refusal::no_place("questions", full))?;
        // Not counted: a session that was forgotten and came back must not take answers to older questions.
        let number = fresh();
        state.questions.insert(number, sender);
        drop(state);
        Ok(Self { live: Arc::clone(live), number, answer, _place: place })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.live.lock().questions.remove(&self.number);
    }
}
