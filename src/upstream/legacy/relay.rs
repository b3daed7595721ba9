//! Between a call at the server and the HTTP request that its client waits on. Owns the choice between JSON and a
//! stream, the parking of calls that wait for answers, and their resumption.
//!
//! Invariant: a stream that has begun is translated event by event; the status line waits for the first message, but not
//! for long.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc::Sender, time::Instant};

use super::{
    Bridge,
    answer::{Translated, translate},
    call::{Call, Step, status_of},
    incoming::Incoming,
    question::{Question, input_required},
    reply::{self, Refusal},
};
use crate::{
    bridge::{
        hops::Recipient,
        parked::{Full, Handle},
        sealed::{Purpose, Unsealed},
    },
    upstream::ResponseBody,
};

/// How long the status line waits for the first message.
const FIRST: Duration = Duration::from_secs(1);
/// How long a user may take to open a link. Nothing is held for it.
const LINK: Duration = Duration::from_secs(60 * 60);
/// Between two signs of life.
const ALIVE_EVERY: Duration = Duration::from_secs(5);

/// What a `requestState` says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    /// Of the request that it continues.
    digest: [u8; 32],
    /// What is parked, and in which process; without it the request is sent again.
    parked: Option<([u8; 8], Handle)>,
}

/// Who waits for the call now.
pub(super) struct Asker {
    pub(super) incoming: Box<Incoming>,
    pub(super) owner: Arc<str>,
    pub(super) to: Recipient,
    /// Of the server's response.
    pub(super) status: StatusCode,
}

type Last = (StatusCode, Bytes);

/// Answers the client with what comes of the call.
pub(super) async fn relay(bridge: Arc<Bridge>, mut call: Call, asker: Asker) -> Response<ResponseBody> {
    let until = Instant::now() + FIRST;
    let first = loop {
        match call.step(&asker.incoming.client, Some(until)).await {
            Step::Alive => {}
            Step::Tell(message) => break reply::event(&message),
            Step::Late => break reply::ALIVE,
            last => {
                let (status, body) = bridge.last(call, &asker, last);
                return reply::of_ours(status, body);
            }
        }
    };
    let (events, response) = reply::stream();
    tokio::spawn(async move {
        tokio::select! {
            // The client left; the call says so to the server when it is dropped.
            () = events.closed() => {}
            () = stream(&bridge, call, &asker, &events, first) => {}
        }
    });
    response
}

async fn stream(bridge: &Bridge, mut call: Call, asker: &Asker, events: &Sender<Bytes>, first: Bytes) {
    let mut next = first;
    let mut alive = Instant::now();
    loop {
        if events.send(next).await.is_err() {
            return;
        }
        next = loop {
            match call.step(&asker.incoming.client, None).await {
                Step::Alive if alive.elapsed() < ALIVE_EVERY => {}
                Step::Alive | Step::Late => {
                    alive = Instant::now();
                    break reply::ALIVE;
                }
                Step::Tell(message) => break reply::event(&message),
                last => {
                    let (_, message) = bridge.last(call, asker, last);
                    drop(events.send(reply::event(&message)).await);
                    return;
                }
            }
        };
    }
}

impl Bridge {
    /// The last message to the client: the response, or that it has to answer questions.
    fn last(&self, mut call: Call, asker: &Asker, step: Step) -> Last {
        let Incoming { client, method, asks, .. } = &*asker.incoming;
        let refuse = |refusal: Refusal| {
            let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, refusal.message(Some(&client.id), &asker.to))
        };
        match step {
            Step::Answer(text) => match translate(&text, &client.id, method, *asks) {
                Ok(Translated::Message(message, of_code)) => (status_of(asker.status, of_code), message),
                Ok(Translated::Links(links)) => (StatusCode::OK, self.links(asker, &links)),
                Err(refusal) => refuse(refusal),
            },
            Step::Ask => self.park(call, asker).unwrap_or_else(refuse),
            Step::Broken(why) => {
                // Nothing reads its stream any more; the cancel that follows reaches a call that may still run.
                call.questions.clear();
                refuse(Refusal::upstream(why))
            }
            Step::Tell(_) | Step::Alive | Step::Late => {
                refuse(Refusal::new(500, -32603, "internal", "the call ended before its answer"))
            }
        }
    }

    fn park(&self, call: Call, asker: &Asker) -> Result<Last, Refusal> {
        let digest = asker.incoming.digest();
        let asked: Vec<_> = call.questions.iter().map(Question::shown).collect();
        call.session.touch();
        let handle = self.parked.park(&asker.owner, call).map_err(|(Full, _call)| {
            let why = "too many calls wait for answers; answer or give up some of them, then call again";
            Refusal::new(503, 503, "parked_exhausted", why)
        })?;
        let state = State { digest, parked: Some((self.instance, handle)) };
        let state = self.seal(&asker.owner, self.parked.lifetime(), &state);
        let asked = asked.iter().map(|(key, method, params)| (&**key, &**method, params.as_deref()));
        Ok((StatusCode::OK, input_required(&asker.incoming.client.id, asked, &state)))
    }

    /// Asks for links to be opened; the retry is the call again.
    pub(super) fn links(&self, asker: &Asker, links: &[String]) -> Bytes {
        let state = self.seal(&asker.owner, LINK, &State { digest: asker.incoming.digest(), parked: None });
        let keys: Vec<_> = (1..=links.len()).map(|n| n.to_string()).collect();
        let asked = keys.iter().zip(links).map(|(key, link)| (&**key, "elicitation/create", Some(&**link)));
        input_required(&asker.incoming.client.id, asked, &state)
    }

    fn seal(&self, owner: &str, lifetime: Duration, state: &State) -> String {
        self.sealer.seal(Purpose::RequestState, owner, lifetime, state)
    }

    /// What a retry continues: the parked call, or `None` for the call again.
    pub(super) fn continued(
        &self,
        incoming: &Incoming,
        owner: &str,
        state: &str,
    ) -> Result<Option<Call>, Refusal> {
        let opened = self.sealer.open::<State>(Purpose::RequestState, owner, state);
        let state = opened.map_err(|why| {
            Refusal::params(match why {
                Unsealed::Expired => "the time to answer is over; make the call again without requestState",
                Unsealed::Foreign => {
                    "this requestState is not one of this gateway for this key, or was altered; send it as it was \
                     given, with the same key, or make the call again without it"
                }
            })
        })?;
        if state.digest != incoming.digest() {
            let why = "this requestState belongs to another request; send the same method and params with it";
            return Err(Refusal::params(why));
        }
        let Some((instance, handle)) = state.parked else { return Ok(None) };
        if instance != self.instance {
            let why = "the call waited in another process of the gateway, or the gateway was restarted since; make the \
                       call again without requestState";
            return Err(Refusal::params(why));
        }
        self.parked.take(owner, handle).map(Some).ok_or_else(|| {
            Refusal::params(
                "this requestState was used already, or the time to answer is over; make the call again without it",
            )
        })
    }

    /// Gives the server the answers and goes on with the same call.
    pub(super) async fn resume(self: Arc<Self>, mut call: Call, asker: Asker) -> Response<ResponseBody> {
        let answers = asker.incoming.answers.as_deref().unwrap_or_default();
        call.session.touch();
        if let Err(why) = call.answer(answers).await {
            return Refusal::upstream(why).response(Some(&asker.incoming.client.id), &asker.to);
        }
        if !call.questions.is_empty() {
            // Answers are missing: the client is asked again for those.
            let (status, body) = self.last(call, &asker, Step::Ask);
            return reply::json_response(status, body);
        }
        relay(self, call, asker).await
    }
}
