//! The legacy face of a modern upstream: takes streamable-HTTP calls of 2024-11-05 to 2025-11-25 and speaks
//! 2026-07-28 to what it wraps (a modern server, an aggregate, or an adapter over a legacy server).
//!
//! Owns the way of a legacy message: sessions as sealed ids, `initialize` from discovery, `_meta` and mirrored headers,
//! questions to the client, the stream of changes, and what older revisions cannot hold. Invariants: ids and tokens of
//! one side never appear on the other; nothing is spawned for a call, so that dropping its answer ends it.

mod batch;
mod body;
mod discover;
mod end;
mod exchange;
mod http_sse;
mod inner;
mod listen;
mod live;
mod losses;
mod memory;
mod messages;
mod questions;
mod refusal;
mod reply;
mod request;
mod revision;
mod rewrite;
mod session;
mod standing;
mod tools;

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, request::Parts};

use super::sealed::Sealer;
use crate::{
    mcp::message::{self, Body, Kind, Message, ParseError},
    upstream::{self, BoxFuture, ResponseBody, Upstream, UpstreamError},
};
pub use batch::{MAX_BATCH, serve as serve_batch, split as split_batch};
pub use http_sse::HttpSse;
pub use live::{Limit, Limits};
use memory::Memory;
use refusal::Refusal;
use request::Call;
use revision::Revision;
use session::Session;
pub use session::session_revision;
pub use tools::Tools;

/// Silence on a stream of ours before a comment is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How a face is bounded.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a client, or the person before it, may think about a question.
    pub answer_within: Duration,
    /// What is remembered of clients.
    pub limits: Limits,
    /// Whether what it wraps opens sessions with servers for a client's session, whose id then names them.
    pub names_sessions: bool,
}

/// How much a face remembers, as metrics show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Sessions with something to remember.
    pub sessions: usize,
    /// Questions that wait for an answer.
    pub questions: usize,
    /// Resources subscribed to.
    pub subscriptions: usize,
}

impl std::ops::Add for Remembered {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            questions: self.questions + other.questions,
            subscriptions: self.subscriptions + other.subscriptions,
        }
    }
}

/// A modern upstream, as legacy clients see it.
pub struct Face {
    core: Arc<Core>,
}

impl std::fmt::Debug for Face {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Face").finish_non_exhaustive()
    }
}

/// What all calls share.
struct Core {
    inner: Arc<dyn Upstream>,
    sealer: Arc<Sealer>,
    tools: Box<dyn Tools>,
    answer_within: Duration,
    names_sessions: bool,
    memory: Arc<Memory>,
    discovered: discover::Cache,
    ids: AtomicU64,
}

impl Face {
    /// A face of `inner`, whose sessions open wherever `sealer`'s key is. It takes the place of `before`: what that one
    /// remembers of clients, and their open streams.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Upstream>,
        sealer: Arc<Sealer>,
        tools: Box<dyn Tools>,
        settings: Settings,
        before: Option<&Self>,
    ) -> Self {
        let memory = before.map_or_else(|| Memory::new(settings.limits), |b| Arc::clone(&b.core.memory));
        let core = Core {
            inner,
            sealer,
            tools,
            answer_within: settings.answer_within,
            names_sessions: settings.names_sessions,
            memory,
            discovered: discover::Cache::default(),
            ids: AtomicU64::new(1),
        };
        let core = Arc::new(core);
        core.memory.serve_by(&core);
        Self { core }
    }

    /// It serves no endpoint any more. Where no other has taken its place, the open streams end.
    pub fn retire(&self) {
        self.core.memory.leave(&self.core);
    }

    /// How much is remembered of clients.
    #[must_use]
    pub fn remembers(&self) -> Remembered {
        let [sessions, questions, subscriptions] = self.core.memory.live.counts();
        Remembered { sessions, questions, subscriptions }
    }
}

impl Upstream for Face {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(Arc::clone(&self.core).serve(call))
    }
}

impl Core {
    async fn serve(self: Arc<Self>, call: Request<Bytes>) -> Result<Response<ResponseBody>, UpstreamError> {
        let (head, body) = call.into_parts();
        match head.method {
            Method::POST => self.post(head, body).await,
            Method::GET => match self.session(&head) {
                Ok(session) => Box::pin(self.get(Call::new(&Message::default(), "", session, head))).await,
                Err(refusal) => Ok(refusal.response(None, &head)),
            },
            Method::DELETE => Ok(self.end(&head).await),
            _ => Ok(Refusal::method_not_allowed().response(None, &head)),
        }
    }

    async fn post(
        self: Arc<Self>,
        head: Parts,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let message = match message::parse(&body) {
            Ok(Body::Object(message)) => message,
            Ok(Body::Batch) => return Box::pin(self.batch(head, body)).await,
            Ok(Body::Scalar) => {
                return Ok(Refusal::invalid_request("the body is no object").response(None, &head));
            }
            Err(ParseError::NotJson { .. }) => return Ok(Refusal::not_json().response(None, &head)),
            Err(ParseError::TooDeep { .. }) => {
                let refusal = Refusal::invalid_request("the body is nested too deep");
                return Ok(refusal.response(None, &head));
            }
        };
        if let Some(why) = message.refusal(false) {
            return Ok(Refusal::invalid_request(why).response(message.id(), &head));
        }
        match message.kind() {
            Kind::Request => {
                let call = match self.to_call(&message, head) {
                    Ok(call) => call,
                    Err(refused) => return Ok(*refused),
                };
                drop(message);
                self.request(call).await
            }
            _ => Ok(match self.session(&head) {
                Err(refusal) => refusal.response(None, &head),
                Ok(session) if message.kind() == Kind::Response => {
                    self.take_answer(&session, &message, &head)
                }
                Ok(session) => self.notified(&session, &message),
            }),
        }
    }

    /// A request with its session; `initialize` brings its own.
    fn to_call(&self, message: &Message<'_>, head: Parts) -> Result<Call, Box<Response<ResponseBody>>> {
        let id = message.id().unwrap_or("null");
        let session = if message.method.as_deref() == Some("initialize") {
            let params = message.params.and_then(|p| serde_json::from_str(p.text()).ok()).unwrap_or_default();
            discover::asked(&params, principal(&head))
        } else {
            self.session(&head)
        };
        match session {
            Ok(session) => Ok(Call::new(message, id, session, head)),
            Err(refusal) => Err(Box::new(refusal.response(message.id(), &head))),
        }
    }

    async fn request(self: Arc<Self>, call: Call) -> Result<Response<ResponseBody>, UpstreamError> {
        match call.method.as_str() {
            "initialize" => Box::pin(self.initialize(&call)).await,
            "ping" => Ok(body::result(&call.id, "{}")),
            "logging/setLevel" => Ok(self.set_level(&call)),
            "resources/subscribe" | "resources/unsubscribe" => Box::pin(self.subscribe(&call)).await,
            // Of the other era, or of a protocol of tasks that is not bridged.
            method if is_foreign(method) => Ok(Refusal::no_method(method).response(Some(&call.id), &call)),
            _ => Box::pin(self.exchange(call)).await,
        }
    }

    /// The session of a request.
    fn session(&self, head: &Parts) -> Result<Session, Refusal> {
        let session = Session::of(&self.sealer, &head.headers, principal(head))?;
        match &session.nonce {
            Some(nonce) if self.memory.live.is_ended(nonce) => Err(Refusal::session_not_found()),
            _ => Ok(session),
        }
    }

    /// Remembers the level of the session's log. Without a session there is nowhere to remember it.
    fn set_level(&self, call: &Call) -> Response<ResponseBody> {
        const LEVELS: [&str; 8] =
            ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let asked = call.param("level").unwrap_or_default();
        let refusal = match LEVELS.into_iter().find(|level| *level == asked) {
            None => Refusal::invalid_params("params.level must be one of debug to emergency"),
            Some(level) => {
                match call
                    .session
                    .nonce
                    .as_ref()
                    .map(|nonce| self.memory.live.at(nonce, &call.session.principal))
                {
                    Some(Err(refusal)) => refusal,
                    live => {
                        if let Some(Ok(live)) = live {
                            live.set_level(level);
                        }
                        return body::result(&call.id, "{}");
                    }
                }
            }
        };
        refusal.response(Some(&call.id), call)
    }

    /// A notification: only a cancellation means something to the other side. The era bridge knows none that a
    /// modern server takes over HTTP.
    fn notified(&self, session: &Session, message: &Message<'_>) -> Response<ResponseBody> {
        if message.method.as_deref() == Some("notifications/cancelled")
            && let Some(live) = session.nonce.as_ref().and_then(|n| self.memory.live.find(n))
            && let Some(id) = message.params.and_then(|p| p.get("requestId"))
        {
            live.cancel(id.text());
        }
        body::accepted()
    }
}

/// Methods that a legacy client has no use for here.
fn is_foreign(method: &str) -> bool {
    matches!(method, "server/discover" | "subscriptions/listen") || method.starts_with("tasks/")
}

fn principal(head: &Parts) -> Arc<str> {
    let caller = head.extensions.get::<upstream::Caller>();
    caller.map_or_else(|| upstream::LOCAL.into(), |c| Arc::clone(&c.name))
}
