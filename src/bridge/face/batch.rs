//! Batches of 2025-03-26: an array is split, its messages run side by side, and their answers become one again.
//!
//! Invariant: every request of a batch is answered once; a batch never has more than [`MAX_BATCH`] messages, of which
//! [`AT_ONCE`] run.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    Core, body,
    messages::{self, Framing, Messages},
    refusal::Refusal,
};
use crate::{
    bridge::hops::Recipient,
    mcp::{
        json::{self, Type},
        message::{self, Body, Kind},
    },
    upstream::{BoxFuture, ResponseBody, UpstreamError},
};

/// Messages that one array may hold.
pub const MAX_BATCH: usize = 100;
/// Of these, how many run at once.
const AT_ONCE: usize = 8;

type Answer = Result<Response<ResponseBody>, UpstreamError>;

/// The messages of a batch.
///
/// # Errors
/// Why the body is no batch (400 / -32600).
pub fn split(body: &[u8]) -> Result<Vec<Bytes>, &'static str> {
    let Ok(array) = json::parse(body) else { return Err("the batch is not JSON") };
    if array.kind() != Type::Array {
        return Err("the body is no batch");
    }
    let messages: Vec<_> =
        array.elements().take(MAX_BATCH + 1).map(|m| Bytes::copy_from_slice(m.bytes())).collect();
    match messages.len() {
        0 => Err("an empty batch"),
        n if n > MAX_BATCH => Err("a batch of more than 100 messages"),
        _ => Ok(messages),
    }
}

/// Runs each message and joins the answers: 202 if there are none, an array if all of them are JSON, else an event
/// stream. `run` gets the messages in their order, and an array has its answers in it. If every message is refused by
/// a status, the first refusal is the batch's.
///
/// # Errors
/// The first error, if no message got an answer.
pub async fn serve<F, Running>(batch: Vec<Bytes>, run: F) -> Answer
where
    F: FnMut(Bytes) -> Running,
    Running: Future<Output = Answer> + Send + 'static,
{
    let asked: Vec<_> = batch.iter().map(|m| asks(m)).collect();
    let answers = run_all(batch, run).await;
    if answers.iter().all(|a| !a.as_ref().is_some_and(|a| a.as_ref().is_ok_and(|r| r.status().is_success())))
    {
        let first = answers.into_iter().flatten().next();
        return first.unwrap_or_else(|| Err(super::inner::broken("the batch was not run")));
    }
    let (mut whole, mut streams) = (Vec::new(), Vec::new());
    for (answer, asks) in answers.into_iter().zip(asked) {
        match read(answer).await {
            Part::Nothing => {}
            // Nobody waits for it.
            Part::Whole(_) if matches!(asks, Asks::Nothing) => {}
            Part::Whole(text) => whole.push(text),
            Part::Stream(messages) => streams.push(messages),
            Part::Lost => {
                let refusal = Refusal::upstream_protocol("one message of the batch was not answered");
                if let Asks::Answer(id) = asks {
                    whole.push(refusal.message(Some(&id), Recipient::default()).into_bytes());
                }
            }
        }
    }
    Ok(match (whole.is_empty(), streams.is_empty()) {
        (true, true) => body::accepted(),
        (false, true) => body::json(StatusCode::OK, [&b"["[..], &whole.join(&b","[..]), b"]"].concat()),
        _ => body::streamed(body::stream(move |events| merge(whole, streams, events))),
    })
}

async fn run_all<F, Running>(batch: Vec<Bytes>, mut run: F) -> Vec<Option<Answer>>
where
    F: FnMut(Bytes) -> Running,
    Running: Future<Output = Answer> + Send + 'static,
{
    let mut answers: Vec<Option<Answer>> = Vec::new();
    answers.resize_with(batch.len(), || None);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    // Dropped, the set aborts what runs in it.
    let mut running = JoinSet::new();
    for (at, message) in batch.into_iter().enumerate() {
        let (work, places) = (run(message), Arc::clone(&places));
        running.spawn(async move {
            let Ok(_place) = places.acquire_owned().await else {
                return (at, Err(super::inner::broken("the batch was left")));
            };
            (at, work.await)
        });
    }
    let _closing = Closing(places);
    while let Some(done) = running.join_next().await {
        if let Ok((at, answer)) = done {
            answers[at] = Some(answer);
        }
    }
    answers
}

/// Keeps those that wait from taking the places of those that are aborted.
struct Closing(Arc<Semaphore>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// One message's answer.
enum Part {
    Nothing,
    Whole(Vec<u8>),
    Stream(Messages),
    Lost,
}

async fn read(answer: Option<Answer>) -> Part {
    let Some(Ok(response)) = answer else { return Part::Lost };
    if response.status() == StatusCode::ACCEPTED {
        return Part::Nothing;
    }
    match Framing::of(response.headers()) {
        Some(Framing::Events) => Part::Stream(Messages::new(response.into_body())),
        Some(Framing::Json) => match messages::whole(response.into_body()).await {
            Ok(text) if matches!(message::parse(&text), Ok(Body::Object(_))) => Part::Whole(text),
            _ => Part::Lost,
        },
        None => Part::Lost,
    }
}

async fn merge(whole: Vec<Vec<u8>>, streams: Vec<Messages>, events: body::Events) {
    for text in whole {
        if events.raw(crate::mcp::sse::frame(&text)).await.is_err() {
            return;
        }
    }
    let mut running = JoinSet::new();
    for mut messages in streams {
        let events = events.clone();
        running.spawn(async move {
            while let Ok(Some(message)) = messages.next().await {
                if events.raw(crate::mcp::sse::frame(&message)).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(running.join_all().await);
}

/// What the sender of a message waits for.
enum Asks {
    /// An answer with this id.
    Answer(String),
    /// Nothing: a notification, or a response.
    Nothing,
    /// It is no message; JSON-RPC has that answered without an id.
    Unclear,
}

fn asks(message: &[u8]) -> Asks {
    let Ok(Body::Object(message)) = message::parse(message) else { return Asks::Unclear };
    match (message.kind(), message.id()) {
        (Kind::Request, Some(id)) => Asks::Answer(id.to_owned()),
        (Kind::Notification | Kind::Response, _) => Asks::Nothing,
        _ => Asks::Unclear,
    }
}

impl Core {
    /// A POSTed array.
    pub(super) async fn batch(self: Arc<Self>, head: Parts, body: Bytes) -> Answer {
        let refuse = |refusal: Refusal| Ok(refusal.response(None, &head));
        match self.session(&head) {
            Ok(session) if session.revision.has_batches() => {}
            Ok(_) => {
                return refuse(Refusal::invalid_request("only 2025-03-26 has batches; send one message"));
            }
            Err(refusal) => return refuse(refusal),
        }
        let batch = match split(&body) {
            Ok(batch) => batch,
            Err(why) => return refuse(Refusal::invalid_request(why)),
        };
        serve(batch, |message| {
            let mut request = Request::from_parts(head.clone(), message);
            request.headers_mut().remove(http::header::CONTENT_LENGTH);
            Arc::clone(&self).element(request)
        })
        .await
    }

    /// One message of a batch.
    fn element(self: Arc<Self>, request: Request<Bytes>) -> BoxFuture<'static, Answer> {
        let refused = match message::parse(request.body()) {
            Ok(Body::Object(message)) if message.method.as_deref() == Some("initialize") => {
                Some((message.id().map(str::to_owned), "initialize must not be part of a batch"))
            }
            Ok(Body::Object(_)) => None,
            _ => Some((None, "a batch holds messages only")),
        };
        match refused {
            Some((id, why)) => {
                let response = Refusal::invalid_request(why).response(id.as_deref(), &request);
                Box::pin(std::future::ready(Ok(response)))
            }
            None => Box::pin(self.serve(request)),
        }
    }
}
