//! One session at a legacy server. Owns its id, its revision, the ids of requests in it and its log level.
//!
//! Invariants: no id is used twice in a session. A session that nobody holds any more is ended by DELETE, unless the
//! server has forgotten it, or a client's id names it: then it ends with the client's own DELETE.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    answer::same_id,
    hello::Hello,
    hub::Hub,
    level::Level,
    messages::{Broken, Item, Messages, is_stream},
    pool::{Key, Pool},
    reply::Refusal,
};
use crate::{
    mcp::{
        era::{SESSION_HEADER, VERSION_HEADER},
        message::{self, Body},
    },
    upstream::{
        BoxFuture, ResponseBody, Upstream, UpstreamError, catalog::Catalog, named::Opened, refusal::disowned,
    },
};

/// The bridge's own requests and notices in a session take no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first revision whose clients name the revision in a header.
const NAMES_VERSION: &str = "2025-06-18";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The way to a server for somebody.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) upstream: Arc<dyn Upstream>,
    /// Of the request that it comes from, without those of MCP.
    pub(super) headers: HeaderMap,
    pub(super) extensions: Extensions,
}

/// A request that is on its way.
pub(super) type Sent = BoxFuture<'static, Result<Response<ResponseBody>, UpstreamError>>;

/// See the module.
pub(super) struct Session {
    way: Way,
    pub(super) id: Option<HeaderValue>,
    pub(super) hello: Hello,
    next: AtomicU64,
    level: tokio::sync::Mutex<Option<Level>>,
    pub(super) hub: Hub,
    gone: AtomicBool,
    /// The client's own id names it, so that other processes go on with it.
    named: AtomicBool,
    used: Mutex<Instant>,
    /// Of all sessions with the server, see [`Session::keep_apart`].
    pub(super) apart: Arc<AtomicBool>,
    /// What is known of the server.
    pub(super) catalog: Option<Arc<Catalog>>,
    /// The server has given it a GET stream before.
    has_streamed: AtomicBool,
    /// All its calls are of one session of one client.
    pub(super) one_client: bool,
    /// Where the session is that is listened to, if it is not this one.
    pub(super) kin: Option<(Weak<Pool>, Key)>,
}

impl Way {
    /// A POST with the headers that every session has.
    pub(super) fn post(&self, body: Bytes) -> Request<Bytes> {
        let mut request = self.request(Method::POST, body);
        request.headers_mut().insert(header::ACCEPT, BOTH);
        request.headers_mut().insert(header::CONTENT_TYPE, JSON);
        request
    }

    fn request(&self, method: Method, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        request
    }
}

impl Session {
    pub(super) fn new(way: Way, id: Option<HeaderValue>, hello: Hello) -> Self {
        Self {
            way,
            id,
            hello,
            next: AtomicU64::new(1),
            level: tokio::sync::Mutex::default(),
            hub: Hub::default(),
            gone: AtomicBool::new(false),
            named: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
            apart: Arc::default(),
            catalog: None,
            has_streamed: AtomicBool::new(false),
            one_client: false,
            kin: None,
        }
    }

    /// A session that another process has opened, or this one before it forgot it. `None` if the id cannot be one.
    pub(super) fn adopted(way: Way, opened: &Opened) -> Option<Self> {
        let id = HeaderValue::from_str(&opened.id).ok()?;
        let hello = Hello::retold((*opened.version).into(), opened.offers);
        // Others have counted from 1 or from numbers as large as this one; JSON's numbers are exact below 2^53.
        let next = 1 << 51 | getrandom::u64().ok()? >> 13;
        let mut session = Self::new(way, Some(id), hello);
        (session.next, session.named) = (AtomicU64::new(next), AtomicBool::new(true));
        Some(session)
    }

    /// Has it named, if `name` takes it.
    pub(super) fn named_by(&self, name: impl FnOnce(Opened) -> bool) {
        let Some(id) = self.id.as_ref().and_then(|id| id.to_str().ok()) else { return };
        let (version, offers) = ((*self.hello.version).into(), self.hello.offered());
        if name(Opened { id: id.into(), version, offers, owner: None }) {
            self.named.store(true, Relaxed);
        }
    }

    /// Whether the client's own id names it.
    pub(super) fn is_named(&self) -> bool {
        self.named.load(Relaxed)
    }

    /// Its client has ended it: so is it at the server, as soon as nobody holds it.
    pub(super) fn ended(&self) {
        self.named.store(false, Relaxed);
    }

    /// An id that was not used yet.
    pub(super) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// For how long nothing has happened.
    pub(super) fn idle(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The server has forgotten it: whoever listens looks for another.
    pub(super) fn lost(&self) {
        self.gone.store(true, Relaxed);
        self.hub.close();
    }

    /// The server's questions do not say which call they belong to: calls that can be asked are to have sessions of
    /// their own from now on.
    pub(super) fn keep_apart(&self) {
        self.apart.store(true, Relaxed);
    }

    /// Hands news to those who want them. A server may tell them only in the session whose call has brought them about.
    pub(super) fn news(&self, method: &str, text: &Bytes) {
        if let Some(catalog) = self.catalog.as_ref().filter(|_| method.ends_with("/list_changed")) {
            catalog.nudge();
        }
        self.hub.tell(text);
        let kin = self.kin.as_ref().and_then(|(pool, key)| pool.upgrade()?.first(key));
        if let Some(first) = kin {
            first.hub.tell(text);
        }
    }

    pub(super) fn has_streamed(&self) -> bool {
        self.has_streamed.load(Relaxed)
    }

    pub(super) fn streams(&self) {
        self.has_streamed.store(true, Relaxed);
    }

    pub(super) fn is_lost(&self) -> bool {
        self.gone.load(Relaxed)
    }

    fn within(&self, mut request: Request<Bytes>) -> Request<Bytes> {
        let headers = request.headers_mut();
        if &*self.hello.version >= NAMES_VERSION
            && let Ok(version) = HeaderValue::from_str(&self.hello.version)
        {
            headers.insert(VERSION_HEADER, version);
        }
        if let Some(id) = &self.id {
            headers.insert(SESSION_HEADER, id.clone());
        }
        request
    }

    /// Sends a client's request by that client's own way.
    pub(super) fn call(self: Arc<Self>, way: Way, body: Bytes) -> Sent {
        Box::pin(async move { way.upstream.call(self.within(way.post(body))).await })
    }

    /// Opens the stream of what belongs to no request, or goes on with one that broke.
    /// Does not hold the session.
    pub(super) fn get(
        &self,
        after: Option<&[u8]>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, UpstreamError>> + Send + use<> {
        let mut request = self.within(self.way.request(Method::GET, Bytes::new()));
        request.headers_mut().insert(header::ACCEPT, STREAM);
        if let Some(id) = after.and_then(|id| HeaderValue::from_bytes(id).ok()) {
            request.headers_mut().insert("last-event-id", id);
        }
        let upstream = Arc::clone(&self.way.upstream);
        async move { upstream.call(request).await }
    }

    /// Posts a notification or a response; whether the server took it.
    pub(super) async fn tell(&self, body: Bytes) -> bool {
        let sent = self.way.upstream.call(self.within(self.way.post(body)));
        let Ok(Ok(response)) = tokio::time::timeout(PATIENCE, sent).await else { return false };
        if response.status() == StatusCode::NOT_FOUND && self.id.is_some() {
            self.lost();
        }
        response.status().is_success()
    }

    /// A request of the bridge's own: its result, or `None` if it was refused.
    pub(super) async fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let id = self.next_id();
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let sent = async {
            let response = self.way.upstream.call(self.within(self.way.post(body.into()))).await.ok()?;
            let (response, is_disowned) = disowned(response).await.ok()?;
            if is_disowned && self.id.is_some() {
                self.lost();
                return None;
            }
            outcome(response, id).await.ok()?.ok()
        };
        tokio::time::timeout(PATIENCE, sent).await.ok()?
    }

    /// Makes the server say at least what `level` asks for.
    pub(super) async fn raise(&self, level: Level) {
        if !self.hello.offers("logging") {
            return;
        }
        let mut current = self.level.lock().await;
        if current.is_none_or(|now| level < now)
            && self.ask("logging/setLevel", &json!({"level": level.name()})).await.is_some()
        {
            *current = Some(level);
        }
    }

    /// Answers a `ping`.
    pub(super) async fn pong(&self, id: &str) {
        self.tell(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).into()).await;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.close();
        if self.id.is_none() || self.is_lost() || self.is_named() {
            return;
        }
        let request = self.within(self.way.request(Method::DELETE, Bytes::new()));
        let upstream = Arc::clone(&self.way.upstream);
        spawn(async move {
            drop(tokio::time::timeout(PATIENCE, upstream.call(request)).await);
        });
    }
}

/// For goodbyes: a process that ends has no time for them.
pub(super) fn spawn(goodbye: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(goodbye);
    }
}

/// The result or error of request `id`, and nothing else of the answer.
pub(super) async fn outcome(
    response: Response<ResponseBody>,
    id: u64,
) -> Result<Result<Value, Value>, Refusal> {
    let status = response.status().as_u16();
    let Some(stream) = is_stream(response.headers()) else {
        return Err(Refusal::upstream(format!(
            "the server answered HTTP {status} without a JSON-RPC message"
        )));
    };
    let mut messages = Messages::new(response.into_body(), stream);
    loop {
        let text = match messages.next().await {
            Ok(Some(Item::Message(text))) => text,
            Ok(Some(Item::Alive)) => continue,
            Ok(None) => {
                return Err(Refusal::upstream(format!(
                    "the server answered HTTP {status} without a response"
                )));
            }
            Err(Broken(why)) => return Err(Refusal::upstream(why)),
        };
        let Ok(Body::Object(message)) = message::parse(&text) else { continue };
        // A refused `initialize` may name no id: it could not be read, by the server's word.
        let ours = same_id(message.id_raw, id) || message.has_error && !stream;
        if message.method_raw.is_some() || !ours {
            continue;
        }
        let value = |name: &str| {
            let raw = message.envelope.get(name)?;
            serde_json::from_str(raw.text()).ok()
        };
        return match (value("result"), value("error")) {
            (_, Some(error @ Value::Object(_))) => Ok(Err(error)),
            (Some(result @ Value::Object(_)), _) => Ok(Ok(result)),
            _ => Err(Refusal::upstream("the server's response has no result")),
        };
    }
}
