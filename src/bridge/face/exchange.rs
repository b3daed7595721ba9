//! One call, from its request to its answer: notes pass as they come, what the server needs is asked of the client,
//! and the call is sent again with the answers.
//!
//! Invariant: the future that runs a call owns all of it; dropped, nothing of the call is left here or open at the
//! server.

use std::{sync::Arc, time::Duration};

use http::{Response, StatusCode, header};

use super::{
    Core, KEEP_ALIVE,
    body::{self, Events},
    inner::{Opened, broken, with_json},
    live::Flight,
    messages::Messages,
    refusal::Refusal,
    reply::{Asked, Heard, hear},
    request::{Call, Retry},
};
use crate::upstream::{ResponseBody, UpstreamError};

/// Times that one call is sent.
const MAX_ROUNDS: u32 = 32;
/// Pause before a call is sent again that the server wants again without an answer; doubled each time.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A call under way.
struct Ride {
    core: Arc<Core>,
    call: Call,
    flight: Flight,
}

/// Where the call stands.
enum Step {
    /// The answer to this request is being read.
    Reading(Messages, u64),
    /// The server needs something.
    Asked(Asked),
    /// It has its answer.
    Answered(String),
}

impl Core {
    /// Sends a call on and gives its answer.
    pub(super) async fn exchange(
        self: Arc<Self>,
        call: Call,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let flight = match self.take_off(&call) {
            Ok(flight) => flight,
            Err(refusal) => return Ok(refusal.response(Some(&call.id), &call)),
        };
        let (cancelled, first) = (flight.cancelled.clone(), Retry::default());
        let (opened, number) = tokio::select! {
            biased;
            () = cancelled.cancelled() => return Ok(call.taken_back()),
            opened = self.send_call(&call, &first) => opened?,
        };
        let ride = Ride { core: self, call, flight };
        let (mut head, step) = match opened {
            Opened::Foreign(response) => return Ok(response),
            Opened::Stream(head, messages) => (head, Step::Reading(messages, number)),
            Opened::Whole(head, message) => match hear(&message, number, &ride.call) {
                Heard::Answer(text) => return Ok(with_json(head, text)),
                Heard::Asked(asked) => (head, Step::Asked(asked)),
                // A door's own words.
                _ if !head.status.is_success() => return Ok(with_json(head, message)),
                _ => return Err(broken("the answer is no response to the request")),
            },
        };
        head.status = StatusCode::OK;
        if !ride.call.takes_events {
            let cancelled = ride.flight.cancelled.clone();
            let text = tokio::select! {
                biased;
                () = cancelled.cancelled() => return Ok(ride.call.taken_back()),
                text = ride.run(step, None) => text,
            };
            head.headers.insert(header::CONTENT_TYPE, body::JSON);
            return Ok(with_json(head, text));
        }
        body::set_event_stream(&mut head.headers);
        let stream = body::stream(move |events| async move {
            let cancelled = ride.flight.cancelled.clone();
            tokio::select! {
                biased;
                // Nobody waits for the answer of a cancelled call.
                () = cancelled.cancelled() => ride.call.note_taken_back(),
                text = ride.run(step, Some(&events)) => drop(events.message(&text).await),
            }
        });
        Ok(Response::from_parts(head, stream))
    }

    fn take_off(&self, call: &Call) -> Result<Flight, Refusal> {
        match &call.session.nonce {
            Some(nonce) => Flight::begin(self.memory.live.at(nonce, &call.session.principal)?, &call.id),
            None => Ok(Flight::anonymous()),
        }
    }
}

impl Ride {
    /// Goes on until there is an answer for the client.
    async fn run(&self, mut step: Step, events: Option<&Events>) -> String {
        let (mut rounds, mut pause) = (1, PAUSE);
        loop {
            let asked = match step {
                Step::Answered(text) => return text,
                Step::Reading(messages, number) => {
                    step = self.read(messages, number, events).await;
                    continue;
                }
                Step::Asked(asked) => asked,
            };
            if rounds == MAX_ROUNDS {
                return self.refuse(&Refusal::unanswered("the server kept asking; the call was given up"));
            }
            rounds += 1;
            let answers = if asked.requests.is_empty() {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                None
            } else {
                match self.core.ask_client(&self.call, &asked.requests, events).await {
                    Ok(answers) => Some(answers),
                    Err(refusal) => return self.refuse(&refusal),
                }
            };
            step = self.again(&Retry { answers, state: asked.state }).await;
        }
    }

    /// Reads an answer until it decides something.
    async fn read(&self, mut messages: Messages, number: u64, events: Option<&Events>) -> Step {
        loop {
            let next = tokio::select! {
                biased;
                next = messages.next() => next,
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    // Comments of the server keep the client's line open, too.
                    if let Some(events) = events.filter(|_| messages.take_alive()) {
                        drop(events.keep_alive().await);
                    }
                    continue;
                }
            };
            let message = match next {
                Ok(Some(message)) => message,
                Ok(None) => return self.lost("the stream ended without a response"),
                Err(why) => return self.lost(why),
            };
            match hear(&message, number, &self.call) {
                Heard::Answer(text) => return Step::Answered(text),
                Heard::Asked(asked) => return Step::Asked(asked),
                Heard::Nothing => {}
                Heard::Note(note) => {
                    if let Some(events) = events {
                        // Nobody reads: the body is being dropped, and this future with it.
                        drop(events.message(&note).await);
                    }
                }
            }
        }
    }

    /// Sends the call again.
    async fn again(&self, retry: &Retry) -> Step {
        match self.core.send_call(&self.call, retry).await {
            Ok((Opened::Stream(_, messages), number)) => Step::Reading(messages, number),
            Ok((Opened::Whole(_, message), number)) => match hear(&message, number, &self.call) {
                Heard::Answer(text) => Step::Answered(text),
                Heard::Asked(asked) => Step::Asked(asked),
                _ => self.lost("the answer is no response to the request"),
            },
            Ok((Opened::Foreign(response), _)) => self.lost(&format!("HTTP {}", response.status().as_u16())),
            Err(error) => self.lost(in_short(&error)),
        }
    }

    fn lost(&self, why: &str) -> Step {
        Step::Answered(self.refuse(&Refusal::upstream_protocol(why)))
    }

    fn refuse(&self, refusal: &Refusal) -> String {
        refusal.message(Some(&self.call.id), &self.call)
    }
}

/// Without the cause, which may name addresses that the client need not know.
fn in_short(error: &UpstreamError) -> &'static str {
    match error {
        UpstreamError::Connect(_) => "it cannot be reached",
        UpstreamError::Protocol(_) => "the connection broke off",
        UpstreamError::Redirect(_) => "it answered with a redirect",
        UpstreamError::Timeout(_) | UpstreamError::TooLong(_) => "it did not answer in time",
        UpstreamError::Unavailable { .. } => "it is left alone for now",
    }
}
