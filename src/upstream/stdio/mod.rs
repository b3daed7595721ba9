//! A server that speaks over the standard input and output of a child process, shown as a streamable HTTP server. Owns
//! the HTTP face: statuses, sessions' headers, and whether an answer is JSON or a stream.
//!
//! Legacy clients get sessions, each with a child of its own unless one is shared; modern calls go to one child, if the
//! command speaks that era. Invariant: what belongs to one session never reaches another.

mod answer;
mod calls;
mod child;
mod era;
mod framing;
mod group;
mod hear;
mod host;
mod inbox;
mod mapping;
mod noise;
mod peer;
mod questions;
mod reap;
mod session;
mod sessions;
pub(crate) mod warden;
mod wishes;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    answer::status,
    host::Host,
    peer::{Leaving, Peer},
    session::Session,
};
use super::{
    BoxFuture, Caller, OneStream, ResponseBody, Upstream, UpstreamError,
    shown::{
        answer::{answered, empty, refusal, stream},
        find::{find, named},
        outbox::{Events, Item, Waits},
        owner::Owner,
    },
};
use crate::{
    bridge::hops::Recipient,
    config,
    mcp::{
        era::{Era, SESSION_HEADER, VERSION_HEADER},
        message::{Kind, Message},
        version::is_modern,
    },
};

/// Largest `initialize`, in bytes: each session keeps its own.
const HELLO: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub struct StdioUpstream {
    host: Arc<Host>,
}

impl StdioUpstream {
    /// Starts nothing yet, unless the configuration says so. Children end when `stop` is cancelled and their calls
    /// are answered, or when this is dropped; `tasks` has them. Call it inside the runtime.
    #[must_use]
    pub fn new(
        spec: &config::Upstream,
        command: &config::Command,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let host = Arc::new(Host::new(spec, command, tasks, stop));
        tasks.spawn(reap::reap(Arc::downgrade(&host)));
        if command.at_once && command.shared {
            let host = Arc::clone(&host);
            tasks.spawn(async move {
                tokio::select! {
                    started = host.shared_child() => if let Err(e) = started {
                        tracing::warn!(upstream = &*host.name, "the command did not start: {e}");
                    },
                    () = host.stop.cancelled() => {}
                }
            });
        }
        host.prepare();
        Self { host }
    }
}

impl Drop for StdioUpstream {
    fn drop(&mut self) {
        self.host.end();
    }
}

impl Upstream for StdioUpstream {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        let began = Instant::now();
        Box::pin(async move {
            let caller = Caller::default();
            let owner = Owner::from(call.extensions().get::<Caller>().unwrap_or(&caller));
            let session = named(call.headers());
            let to = Recipient::from(&call);
            match *call.method() {
                Method::POST => self.host.post(&call, owner, session, &to, began).await,
                Method::GET => self.host.listen(session, &owner, &to).await,
                Method::DELETE => Ok(self.host.delete(session, &owner, &to)),
                _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
            }
        })
    }

    fn sleeps(&self) -> bool {
        !(self.host.command.at_once && self.host.command.shared)
    }
}

impl Host {
    async fn post(
        &self,
        call: &Request<Bytes>,
        owner: Owner,
        session: Option<&str>,
        to: &Recipient,
        began: Instant,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let text = mapping::text(call.body());
        let Some(message) = mapping::read(&text) else {
            return Ok(refusal(StatusCode::BAD_REQUEST, None, "the body is not one JSON-RPC message"));
        };
        let is_request = message.kind() == Kind::Request;
        let named = message.protocol_version.as_deref();
        let header = call.headers().get(VERSION_HEADER).and_then(|v| v.to_str().ok());
        if named.or(header.filter(|_| !is_request)).is_some_and(is_modern) {
            return self.modern(&text, &message, owner, began).await;
        }
        if is_request && message.method.as_deref() == Some("initialize") {
            if text.len() > HELLO {
                return Ok(refusal(
                    StatusCode::BAD_REQUEST,
                    message.id(),
                    "initialize is larger than 64 KiB",
                ));
            }
            let (id, answer) = self.open(&text, &message, owner).await?;
            let mut response = answered(StatusCode::OK, answer);
            if let Some(id) = id.and_then(|id| HeaderValue::try_from(id).ok()) {
                response.headers_mut().insert(SESSION_HEADER, id);
            }
            // A shared child asks nobody anything.
            if !self.command.shared {
                response.extensions_mut().insert(OneStream { is_process: true });
            }
            return Ok(response);
        }
        match self.find(session, &owner, message.id(), to) {
            Ok(session) => self.legacy(&session, &text, &message, began).await,
            Err(refusal) => Ok(*refusal),
        }
    }

    async fn legacy(
        &self,
        session: &Session,
        text: &Bytes,
        message: &Message<'_>,
        began: Instant,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        if message.kind() == Kind::Request {
            // First: a child that is started now is asked for what is noted only.
            let peer = self.child_of(session).await?;
            if !session.inbox.wishes().note(message) {
                let why = "this session has too many subscriptions: unsubscribe from some";
                return Ok(refusal(StatusCode::BAD_REQUEST, message.id(), why));
            }
            if self.is_of_others(message) {
                let done =
                    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, message.id().unwrap_or("null"));
                return Ok(answered(StatusCode::OK, done.into()));
            }
            let leaving = Leaving { cancels: false, began, first: self.timeout, next: self.idle_timeout };
            return self.exchange(&peer, text, message, session.number, leaving, Era::Legacy).await;
        }
        // What is no request is no reason to start a child: one that has just begun knows of nothing that it could mean.
        if let Some(peer) = self.running(session).await {
            let taken = match message.kind() {
                // A shared child was greeted already, and nothing else that one client tells is true of all.
                Kind::Notification if self.command.shared && !is_cancel(message) => Ok(()),
                Kind::Notification => peer.notify(text, message, session.number).await,
                _ => peer.reply(text, message).await.map(drop),
            };
            taken.map_err(|e| self.unsent(&e))?;
        }
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// Whether this ends a subscription that another session on the shared child still has.
    fn is_of_others(&self, message: &Message<'_>) -> bool {
        let ends = self.command.shared && message.method.as_deref() == Some("resources/unsubscribe");
        message.uri.as_deref().is_some_and(|uri| ends && self.is_wanted(uri))
    }

    async fn modern(
        &self,
        text: &Bytes,
        message: &Message<'_>,
        owner: Owner,
        began: Instant,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        if message.kind() != Kind::Request {
            // Closing the stream is what cancels here.
            return Ok(empty(StatusCode::ACCEPTED));
        }
        if self.era().await? == Era::Legacy {
            let why = "this server speaks a legacy revision: begin with initialize";
            return Ok(refusal(StatusCode::BAD_REQUEST, message.id(), why));
        }
        let peer = self.modern_child().await?;
        if mapping::is_personal(message) {
            peer.is_called_by(owner);
        }
        let listens = message.method.as_deref() == Some("subscriptions/listen");
        let [first, next] = if listens { [Duration::MAX; 2] } else { [self.timeout, self.idle_timeout] };
        let leaving = Leaving { cancels: true, began, first, next };
        self.exchange(&peer, text, message, 0, leaving, Era::Modern).await
    }

    /// Sends a request. What comes first decides: the answer is JSON, anything else begins a stream.
    async fn exchange(
        &self,
        peer: &Arc<Peer>,
        text: &Bytes,
        message: &Message<'_>,
        owner: u64,
        leaving: Leaving,
        era: Era,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let call = peer.call(text, message, owner, leaving).await;
        let (mut reader, waiting) = call.map_err(|e| self.unsent(&e))?;
        match reader.recv().await {
            Some(Item::Answer(answer)) => {
                Box::new(waiting).done();
                let status = if era == Era::Modern { status(&answer) } else { StatusCode::OK };
                Ok(answered(status, answer))
            }
            Some(Item::Event(first, _)) => Ok(stream(Events::of_call(first, reader, waiting))),
            Some(Item::Failed(why)) => {
                Box::new(waiting).done();
                Err(UpstreamError::Protocol(self.says(&why)))
            }
            None => Err(UpstreamError::Protocol(self.says("gave no answer"))),
        }
    }

    /// The GET stream of a session.
    async fn listen(
        &self,
        session: Option<&str>,
        owner: &Owner,
        to: &Recipient,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        Ok(match self.find(session, owner, None, to) {
            Ok(session) => stream(Events::open(session.inbox.open().await)),
            Err(refusal) => *refusal,
        })
    }

    fn delete(&self, id: Option<&str>, owner: &Owner, to: &Recipient) -> Response<ResponseBody> {
        match self.find(id, owner, None, to) {
            Ok(_) => {
                self.close(id.unwrap_or_default());
                empty(StatusCode::NO_CONTENT)
            }
            Err(refusal) => *refusal,
        }
    }

    /// The session, or the refusal of one that is not the caller's.
    fn find(
        &self,
        id: Option<&str>,
        owner: &Owner,
        request: Option<&str>,
        to: &Recipient,
    ) -> Result<Arc<Session>, Box<Response<ResponseBody>>> {
        find(id, request, to, |id| self.session(id, owner))
    }
}

fn is_cancel(message: &Message<'_>) -> bool {
    message.method.as_deref() == Some("notifications/cancelled")
}
