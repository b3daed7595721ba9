//! A server over HTTP+SSE, the transport of 2024-11-05, shown as a streamable HTTP server: a stream on which everything
//! comes, and an address that everything is posted to. Owns the HTTP face and the sessions, of which each has a stream of
//! its own; connections, headers and TLS are [`HttpUpstream`]'s.
//!
//! Invariant: messages go to the configured origin and no other, whatever address the server announces; a stream that
//! is lost ends its session.

mod hear;
mod session;
mod stream;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
    uri::PathAndQuery,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    session::{NoCall, Session},
    stream::Stream,
};
use super::{
    BodyError, BoxFuture, Caller, ForwardPath, OneStream, ResponseBody, Upstream, UpstreamError,
    http::{HttpUpstream, resolve, same_authority},
    shown::{
        answer::{answered, empty, refusal, stream},
        find::{find, gone, named, new_id},
        outbox::{Events, Item},
        owner::Owner,
    },
};
use crate::{
    bridge::hops::Recipient,
    config::{self, Target},
    mcp::{
        era::SESSION_HEADER,
        message::{self, Body, Kind, Message},
        response::Format,
    },
};

/// Sessions at once; each has a connection. Where there is no room the one that was unused longest makes it.
const SESSIONS: usize = 1024;
const BUSY: Duration = Duration::from_secs(5);
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// See the module.
pub struct HttpSseUpstream {
    host: Arc<Host>,
}

struct Host {
    http: Arc<HttpUpstream>,
    url: Uri,
    stop: CancellationToken,
    tasks: TaskTracker,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

/// How a request began to be answered.
enum First {
    /// Without a word on the stream.
    Refused(Response<ResponseBody>),
    /// By its response.
    Answer(Bytes),
    /// By something that comes before it.
    Stream(Response<ResponseBody>),
}

impl HttpSseUpstream {
    /// Connects to nothing yet. Streams end when `stop` is cancelled and their calls are answered, or when this is
    /// dropped; `tasks` has them.
    ///
    /// # Errors
    /// Those of [`HttpUpstream::new`].
    pub fn new(
        spec: &config::Upstream,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Result<Self, String> {
        let http = Arc::new(HttpUpstream::new(spec)?);
        let Target::Http(url) = &spec.target else { return Err("not an HTTP upstream".into()) };
        let host = Host { http, url: url.clone(), stop, tasks: tasks.clone(), sessions: Mutex::default() };
        Ok(Self { host: Arc::new(host) })
    }
}

impl std::fmt::Debug for HttpSseUpstream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSseUpstream").finish_non_exhaustive()
    }
}

impl Drop for HttpSseUpstream {
    fn drop(&mut self) {
        // Once retired, its last calls may go on.
        if !self.host.stop.is_cancelled() {
            self.host.sessions().values().for_each(|session| session.stop.cancel());
        }
    }
}

impl Upstream for HttpSseUpstream {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            if is_document(&call) {
                return self.host.http.call(call).await;
            }
            let owner = Owner::from(call.extensions().get::<Caller>().unwrap_or(&Caller::default()));
            let (head, body) = call.into_parts();
            let session = named(&head.headers);
            let to = Recipient::from(&head);
            match head.method {
                Method::POST => self.host.post(&head.headers, body, owner, &to).await,
                Method::GET => Ok(match self.host.find(session, &owner, None, &to) {
                    Ok(session) => stream(Events::open(session.mailbox.open().await)),
                    Err(refusal) => *refusal,
                }),
                Method::DELETE => Ok(match self.host.find(session, &owner, None, &to) {
                    // Its task forgets it.
                    Ok(session) => {
                        session.stop.cancel();
                        empty(StatusCode::NO_CONTENT)
                    }
                    Err(refusal) => *refusal,
                }),
                _ => Ok(empty(StatusCode::METHOD_NOT_ALLOWED)),
            }
        })
    }
}

impl Host {
    async fn post(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Bytes,
        owner: Owner,
        to: &Recipient,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let Ok(Body::Object(message)) = message::parse(&body) else {
            return Ok(refusal(StatusCode::BAD_REQUEST, None, "the body is not one JSON-RPC message"));
        };
        let is_request = message.kind() == Kind::Request;
        if is_request && message.method.as_deref() == Some("initialize") {
            return self.open(headers, body.clone(), &message, owner, to).await;
        }
        let session = match self.find(named(headers), &owner, message.id(), to) {
            Ok(session) => session,
            Err(refusal) => return Ok(*refusal),
        };
        if is_request {
            return Ok(match self.exchange(&session, headers, body.clone(), &message, to).await? {
                First::Refused(response) | First::Stream(response) => response,
                First::Answer(answer) => answered(StatusCode::OK, answer),
            });
        }
        match session.post(headers.clone(), body.clone()).await? {
            None => Ok(empty(StatusCode::ACCEPTED)),
            Some(response) => Ok(self.refused(&session, response, None, to)),
        }
    }

    /// Sends a request. What comes first decides: the answer is JSON, anything else begins a stream.
    async fn exchange(
        &self,
        session: &Arc<Session>,
        headers: &HeaderMap,
        body: Bytes,
        message: &Message<'_>,
        to: &Recipient,
    ) -> Result<First, UpstreamError> {
        let (mut reader, waiting) = match session.begin(message) {
            Ok(begun) => begun,
            Err(NoCall::Ended) => return Ok(First::Refused(gone(message.id(), to))),
            Err(NoCall::Taken) => {
                let why = "a request with this id is open in this session";
                return Ok(First::Refused(refusal(StatusCode::BAD_REQUEST, message.id(), why)));
            }
            Err(NoCall::Full) => return Err(busy("too many calls of this session are open")),
        };
        let mut post = session.post(headers.clone(), body);
        let mut posting = true;
        let first = loop {
            tokio::select! {
                item = reader.recv() => break item,
                sent = &mut post, if posting => match sent? {
                    None => posting = false,
                    Some(response) => {
                        return Ok(First::Refused(self.refused(session, response, message.id(), to)));
                    }
                },
            }
        };
        if posting {
            // The answer came before the receipt; a POST that is cut short looks like a client that has left.
            self.tasks.spawn(async move { drop(post.await) });
        }
        match first {
            Some(Item::Answer(answer)) => Ok(First::Answer(answer)),
            Some(Item::Event(first, _)) => Ok(First::Stream(stream(Events::of_call(first, reader, waiting)))),
            Some(Item::Failed(why)) => Err(UpstreamError::Protocol(why.to_string().into())),
            None => Err(UpstreamError::Protocol("the session was ended".into())),
        }
    }

    /// Opens a stream, and on it the session that `initialize` asks for.
    async fn open(
        self: &Arc<Self>,
        headers: &HeaderMap,
        body: Bytes,
        message: &Message<'_>,
        owner: Owner,
        to: &Recipient,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        self.make_room()?;
        let response = self.http.call(listening(headers)).await?;
        if !response.status().is_success() {
            return Ok(response);
        }
        if !Format::is_sse(response.headers()) {
            return Err(odd("the server opened no event stream; `url` must be that of its SSE stream"));
        }
        let mut events = Stream::new(response.into_body());
        let place = events.endpoint().await.ok_or_else(|| odd("the server's stream named no endpoint"))?;
        let place = self.place(&place).ok_or_else(|| {
            odd("the server's stream named an endpoint that is no address of the server's own origin")
        })?;
        let id = new_id().ok_or_else(|| UpstreamError::Connect("no randomness for a session id".into()))?;
        let stop = CancellationToken::new();
        let session = Session::new(owner, Arc::clone(&self.http), place, headers.clone(), stop.clone());
        let session = Arc::new(session);
        // Ends the stream if the client leaves before the session has begun.
        let ends = stop.drop_guard();
        self.sessions().insert(id.clone(), Arc::clone(&session));
        self.tasks.spawn(hear::hear(Arc::clone(&session), events, Arc::downgrade(self), id.clone()));
        let mut response = match self.exchange(&session, headers, body, message, to).await? {
            First::Refused(response) => return Ok(response),
            First::Answer(answer) if !has_result(&answer) => return Ok(answered(StatusCode::OK, answer)),
            First::Answer(answer) => answered(StatusCode::OK, answer),
            First::Stream(response) => response,
        };
        if let Ok(value) = HeaderValue::try_from(&id) {
            response.headers_mut().insert(SESSION_HEADER, value);
            response.extensions_mut().insert(OneStream { is_process: false });
            ends.disarm();
        }
        Ok(response)
    }

    /// The server did not take a message. One that does not know the session any more ends it.
    fn refused(
        &self,
        session: &Session,
        response: Response<ResponseBody>,
        id: Option<&str>,
        to: &Recipient,
    ) -> Response<ResponseBody> {
        if !matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::GONE) {
            return response;
        }
        session.stop.cancel();
        gone(id, to)
    }

    /// Path and query of the announced endpoint, if it is at the configured origin.
    fn place(&self, announced: &str) -> Option<PathAndQuery> {
        let target = resolve(&self.url, announced).filter(|t| same_authority(t, &self.url))?;
        Some(target.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")))
    }

    fn make_room(&self) -> Result<(), UpstreamError> {
        let mut sessions = self.sessions();
        if sessions.len() < SESSIONS {
            return Ok(());
        }
        let oldest = sessions.iter().filter_map(|(id, s)| Some((s.idle()?, id))).max();
        let oldest = oldest.map(|(_, id)| id.clone()).ok_or_else(|| busy("too many sessions are open"))?;
        if let Some(session) = sessions.remove(&oldest) {
            session.stop.cancel();
        }
        Ok(())
    }

    /// The session, or the refusal of one that is not the caller's.
    fn find(
        &self,
        id: Option<&str>,
        owner: &Owner,
        request: Option<&str>,
        to: &Recipient,
    ) -> Result<Arc<Session>, Box<Response<ResponseBody>>> {
        let get = |id: &str| {
            self.sessions().get(id).filter(|s| s.owner == *owner && !s.stop.is_cancelled()).cloned()
        };
        let session = find(id, request, to, get)?;
        session.touch();
        Ok(session)
    }

    fn forget(&self, id: &str) {
        drop(self.sessions().remove(id));
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The GET that opens a stream, with what `initialize` came with.
fn listening(headers: &HeaderMap) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    let ours = request.headers_mut();
    *ours = headers.clone();
    for of_the_body in [CONTENT_TYPE, CONTENT_LENGTH] {
        ours.remove(of_the_body);
    }
    ours.remove(SESSION_HEADER);
    ours.insert(ACCEPT, EVENT_STREAM);
    request
}

/// A well-known document is of no session.
fn is_document(call: &Request<Bytes>) -> bool {
    let place = call.extensions().get::<ForwardPath>();
    call.method() == Method::GET && place.is_some_and(|p| p.0.path().contains("/.well-known/"))
}

fn has_result(answer: &[u8]) -> bool {
    matches!(message::parse(answer), Ok(Body::Object(m)) if m.envelope.get("result").is_some())
}

fn odd(why: &'static str) -> UpstreamError {
    UpstreamError::Protocol(BodyError::from(why))
}

fn busy(why: &str) -> UpstreamError {
    UpstreamError::Unavailable { why: why.into(), retry_after: BUSY }
}
