//! HTTP+SSE, the transport of 2024-11-05, over anything that takes legacy streamable-HTTP calls: this face, or a legacy
//! server that passes as it is. A GET opens the stream, its first event says where to POST, and every answer comes on
//! the stream.
//!
//! Invariant: the stream owns its session; when the client leaves it, the calls end and the session is deleted. What is
//! POSTed elsewhere than at the process that holds the stream gets a 404.

mod relay;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderValue, Method, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};
use serde::{Deserialize, Serialize};
use tokio::{sync::mpsc, task::JoinSet};

use self::relay::{id, lost, pass, relay};
use super::{
    KEEP_ALIVE,
    body::{self, Events},
    live::{Limit, Place, Places},
    messages::{self, Framing, Messages},
    refusal::Refusal,
    session::fresh,
};
use crate::{
    bridge::sealed::{Purpose, Sealer},
    mcp::{
        era::{SESSION_HEADER, VERSION_HEADER},
        json,
        message::{self, Body},
    },
    upstream::{self, ResponseBody, Upstream},
};

const BOTH_TYPES: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Streams at once.
const STREAMS: Limit = Limit { each: 2_048, all: 4_096 };
/// Messages of one client that wait for their turn, and that run.
const MAX_QUEUED: usize = 64;
const MAX_RUNNING: usize = 64;

/// The transport.
pub struct HttpSse {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for HttpSse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSse").finish_non_exhaustive()
    }
}

struct Shared {
    inner: Arc<dyn Upstream>,
    sealer: Arc<Sealer>,
    streams: Mutex<HashMap<u64, mpsc::Sender<Request<Bytes>>>>,
    places: Arc<Places>,
    process: u64,
}

/// What the address for POSTs holds.
#[derive(Serialize, Deserialize)]
struct Address {
    #[serde(rename = "sp")]
    process: u64,
    #[serde(rename = "sn")]
    stream: u64,
    /// Where its messages go, so that a session never comes to another server than its own.
    #[serde(rename = "sm")]
    messages: String,
}

impl HttpSse {
    /// The transport over `inner`, which takes legacy streamable-HTTP calls.
    #[must_use]
    pub fn new(inner: Arc<dyn Upstream>, sealer: Arc<Sealer>) -> Self {
        let places = Places::new(STREAMS);
        let shared = Shared { inner, sealer, streams: Mutex::default(), places, process: fresh() };
        Self { shared: Arc::new(shared) }
    }

    /// Answers the GET that opens a stream. `messages` is the path that the client is to POST to, as it sees it.
    #[must_use]
    pub fn open(&self, request: Request<Bytes>, messages: &str) -> Response<ResponseBody> {
        let (head, _) = request.into_parts();
        let stream = fresh();
        let (queue, posts) = mpsc::channel(MAX_QUEUED);
        let principal = principal(&head.extensions);
        let place = match self.shared.places.take(&principal) {
            Ok(place) => place,
            Err(full) => return Refusal::no_place("streams", full).response(None, &head),
        };
        self.shared.lock().insert(stream, queue);
        let address = Address { process: self.shared.process, stream, messages: messages.to_owned() };
        let sealed = self.shared.sealer.seal(Purpose::Session, &principal, LIFETIME, &address);
        let first = format!("event: endpoint\ndata: {messages}?sessionId={sealed}\n\n");
        let open = Open { shared: Arc::clone(&self.shared), stream, session: None, _place: place };
        body::streamed(body::stream(move |events| open.run(first, posts, events)))
    }

    /// Takes a message that a client POSTs; its answer comes on the stream that the address names.
    #[must_use]
    pub fn post(&self, request: Request<Bytes>) -> Response<ResponseBody> {
        let principal = principal(request.extensions());
        let address = request
            .uri()
            .query()
            .and_then(|q| q.split('&').find_map(|p| p.strip_prefix("sessionId=")))
            .and_then(|sealed| self.shared.sealer.open::<Address>(Purpose::Session, &principal, sealed).ok())
            .filter(|a| a.process == self.shared.process && a.messages == request.uri().path());
        let queue = address.and_then(|a| self.shared.lock().get(&a.stream).cloned());
        let Some(queue) = queue else {
            return Refusal::session_not_found().response(None, &request);
        };
        if !matches!(message::parse(request.body()), Ok(Body::Object(_))) {
            return Refusal::invalid_request("the body is not one JSON-RPC message").response(None, &request);
        }
        match queue.try_send(request) {
            Ok(()) => body::accepted(),
            Err(mpsc::error::TrySendError::Full(r)) => Refusal::full("messages").response(None, &r),
            Err(mpsc::error::TrySendError::Closed(r)) => Refusal::session_not_found().response(None, &r),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<Request<Bytes>>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open stream.
struct Open {
    shared: Arc<Shared>,
    stream: u64,
    session: Option<Joined>,
    _place: Place,
}

/// The session that `initialize` opened, with whom it belongs to.
struct Joined {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
    headers: HeaderMap,
    extensions: Extensions,
}

impl Joined {
    /// Puts the session on a request.
    fn sign(&self, headers: &mut HeaderMap) {
        for (name, value) in [(SESSION_HEADER, &self.session), (VERSION_HEADER, &self.version)] {
            if let Some(value) = value {
                headers.insert(name, value.clone());
            }
        }
    }

    /// A request without a body, on behalf of the client.
    fn request(&self, method: Method) -> Request<Bytes> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().remove(CONTENT_LENGTH);
        request.headers_mut().remove(CONTENT_TYPE);
        request.headers_mut().insert(ACCEPT, EVENT_STREAM);
        self.sign(request.headers_mut());
        *request.extensions_mut() = self.extensions.clone();
        request
    }
}

impl Open {
    async fn run(mut self, first: String, mut posts: mpsc::Receiver<Request<Bytes>>, events: Events) {
        if events.raw(first).await.is_err() {
            return;
        }
        // Dropped with the stream, it aborts what runs in it.
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                post = posts.recv(), if running.len() < MAX_RUNNING => {
                    let Some(post) = post else { return };
                    self.take(post, &mut running, &events).await;
                }
                Some(_) = running.join_next() => {}
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    if events.keep_alive().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    async fn take(&mut self, mut post: Request<Bytes>, running: &mut JoinSet<()>, events: &Events) {
        let method = match message::parse(post.body()) {
            Ok(Body::Object(message)) => message.method.as_deref().map(str::to_owned),
            _ => None,
        };
        let headers = post.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(ACCEPT, BOTH_TYPES);
        headers.insert(CONTENT_TYPE, JSON);
        if method.as_deref() == Some("initialize") {
            // Everything later needs the session that this brings.
            self.join(post, events).await;
            return;
        }
        if let Some(joined) = &self.session {
            joined.sign(headers);
        }
        let changes = (method.as_deref() == Some("notifications/initialized"))
            .then(|| self.session.as_ref().map(|joined| joined.request(Method::GET)))
            .flatten();
        let (inner, events) = (Arc::clone(&self.shared.inner), events.clone());
        running.spawn(async move {
            relay(&*inner, post, &events).await;
            if let Some(get) = changes
                && let Ok(response) = inner.call(get).await
                && response.status().is_success()
            {
                pass(response, None, &events).await;
            }
        });
    }

    async fn join(&mut self, post: Request<Bytes>, events: &Events) {
        let (headers, extensions) = (post.headers().clone(), post.extensions().clone());
        let id = id(post.body());
        let Ok(response) = self.shared.inner.call(post).await else {
            return lost(id.as_deref(), events).await;
        };
        let session = response.headers().get(SESSION_HEADER).cloned();
        let events_first = Framing::of(response.headers()) == Some(Framing::Events);
        let text = if events_first {
            Messages::new(response.into_body()).next().await.ok().flatten()
        } else {
            messages::whole(response.into_body()).await.ok()
        };
        let Some(text) = text.filter(|t| matches!(message::parse(t), Ok(Body::Object(_)))) else {
            return lost(id.as_deref(), events).await;
        };
        let version = json::parse(&text).ok().and_then(|m| m.get("result")?.get("protocolVersion")?.as_str());
        // Revisions before 2025-06-18 have no such header.
        let version = version.filter(|v| &**v >= "2025-06-18").and_then(|v| HeaderValue::from_str(&v).ok());
        self.session = Some(Joined { session, version, headers, extensions });
        drop(events.raw(crate::mcp::sse::frame(&text)).await);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.stream);
        let request =
            self.session.as_ref().filter(|j| j.session.is_some()).map(|j| j.request(Method::DELETE));
        if let (Some(delete), Ok(runtime)) = (request, tokio::runtime::Handle::try_current()) {
            let inner = Arc::clone(&self.shared.inner);
            drop(runtime.spawn(async move { drop(inner.call(delete).await) }));
        }
    }
}

fn principal(extensions: &Extensions) -> Arc<str> {
    let caller = extensions.get::<upstream::Caller>();
    caller.map_or_else(|| upstream::LOCAL.into(), |c| Arc::clone(&c.name))
}
