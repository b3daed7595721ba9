//! One client's session: the stream that the server keeps for it, and the calls that wait for an answer there.
//!
//! Invariant: when the stream has ended, every call that waits is told, and no other begins to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, uri::PathAndQuery};
use http_body_util::BodyExt;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    mcp::{era::SESSION_HEADER, json::Raw, message::Message, method::is_askable},
    upstream::{
        BoxFuture, ForwardPath, ResponseBody, Upstream, UpstreamError,
        http::HttpUpstream,
        shown::{
            mailbox::Mailbox,
            outbox::{Outbox, Reader, Waits, outbox},
            owner::Owner,
        },
    },
};

/// Calls that wait in one session.
const OPEN_CALLS: usize = 1024;
/// Messages of the gateway's own that are on their way at once.
const OWN_MESSAGES: usize = 16;
/// Most that is read of what a server says of a message that it has taken, in bytes.
const RECEIPT: usize = 64 * 1024;

/// See the module.
pub(super) struct Session {
    pub(super) owner: Owner,
    pub(super) mailbox: Mailbox<String>,
    pub(super) stop: CancellationToken,
    http: Arc<HttpUpstream>,
    /// Where messages go.
    place: PathAndQuery,
    /// Those of `initialize`, for what the gateway itself has to say.
    headers: HeaderMap,
    own: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    last: u64,
    calls: BTreeMap<u64, Open>,
    ended: bool,
    used: Instant,
}

/// A call that waits.
struct Open {
    id: String,
    token: Option<String>,
    /// Whether it is a request in whose middle servers ask.
    askable: bool,
    outbox: Outbox,
}

/// Why a call cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoCall {
    /// The stream is gone.
    Ended,
    /// Another call has this id.
    Taken,
    /// Too many wait.
    Full,
}

impl Session {
    pub(super) fn new(
        owner: Owner,
        http: Arc<HttpUpstream>,
        place: PathAndQuery,
        headers: HeaderMap,
        stop: CancellationToken,
    ) -> Self {
        Self {
            owner,
            mailbox: Mailbox::default(),
            stop,
            http,
            place,
            headers,
            own: Arc::new(Semaphore::new(OWN_MESSAGES)),
            state: Mutex::new(State { last: 0, calls: BTreeMap::new(), ended: false, used: Instant::now() }),
        }
    }

    /// Begins to wait for the answer to a request.
    pub(super) fn begin(self: &Arc<Self>, message: &Message<'_>) -> Result<(Reader, Waiting), NoCall> {
        let id = message.id_raw.map(key).unwrap_or_default();
        let token = message.meta.filter(Raw::is_object).and_then(|m| m.get("progressToken")).map(key);
        let mut state = self.state();
        state.used = Instant::now();
        if state.ended {
            return Err(NoCall::Ended);
        }
        if state.calls.values().any(|call| call.id == id) {
            return Err(NoCall::Taken);
        }
        if state.calls.len() >= OPEN_CALLS {
            return Err(NoCall::Full);
        }
        let (outbox, reader) = outbox();
        state.last += 1;
        let number = state.last;
        let askable = message.method.as_deref().is_some_and(is_askable);
        state.calls.insert(number, Open { id, token, askable, outbox });
        Ok((reader, Waiting { session: Arc::clone(self), number }))
    }

    /// Posts a message. What comes back is the server's refusal, if it did not take the message.
    pub(super) fn post(
        &self,
        mut headers: HeaderMap,
        text: Bytes,
    ) -> BoxFuture<'static, Result<Option<Response<ResponseBody>>, UpstreamError>> {
        self.touch();
        headers.remove(SESSION_HEADER);
        let mut request = Request::new(text);
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        request.extensions_mut().insert(ForwardPath(self.place.clone()));
        let http = Arc::clone(&self.http);
        Box::pin(async move {
            let response = http.call(request).await?;
            if !response.status().is_success() {
                return Ok(Some(response));
            }
            // Read to its end, so that the connection can be used again.
            let (mut receipt, mut read) = (response.into_body(), 0);
            while let Some(Ok(frame)) = receipt.frame().await {
                read += frame.data_ref().map_or(0, Bytes::len);
                if read > RECEIPT {
                    break;
                }
            }
            Ok(None)
        })
    }

    /// Says something of the gateway's own, unless the server is slow to take it.
    pub(super) fn say(&self, text: String) {
        let Ok(place) = Arc::clone(&self.own).try_acquire_owned() else { return };
        let (post, stop) = (self.post(self.headers.clone(), text.into()), self.stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                sent = post => if sent.is_err() {
                    tracing::debug!("a message of the gateway's own did not reach the server");
                },
                () = stop.cancelled() => {}
            }
            drop(place);
        });
    }

    /// Ends the call of this id; gives where its answer goes.
    pub(super) fn answered(&self, id: Raw<'_>) -> Option<Outbox> {
        let id = key(id);
        let mut state = self.state();
        state.used = Instant::now();
        let number = state.calls.iter().find(|(_, call)| call.id == id).map(|(number, _)| *number)?;
        state.calls.remove(&number).map(|call| call.outbox)
    }

    /// Where progress under this token goes.
    pub(super) fn of_token(&self, token: Raw<'_>) -> Option<Outbox> {
        let token = Some(key(token));
        self.state().calls.values().find(|call| call.token == token).map(|call| call.outbox.clone())
    }

    /// Where the newest call is answered; the newest of those that servers ask in, if there are some.
    pub(super) fn newest(&self) -> Option<Outbox> {
        let state = self.state();
        let open = || state.calls.values().rev().filter(|call| call.outbox.is_open());
        open().find(|call| call.askable).or_else(|| open().next()).map(|call| call.outbox.clone())
    }

    /// The only call that waits.
    pub(super) fn only(&self) -> Option<Outbox> {
        let state = self.state();
        let mut calls = state.calls.values();
        calls.next().filter(|_| calls.next().is_none()).map(|call| call.outbox.clone())
    }

    /// The stream has ended: tells all that wait.
    pub(super) fn end(&self, why: &str) {
        let calls = {
            let mut state = self.state();
            state.ended = true;
            std::mem::take(&mut state.calls)
        };
        let why: Arc<str> = why.into();
        calls.into_values().for_each(|call| call.outbox.fail(&why));
        self.mailbox.close();
        self.stop.cancel();
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.state().calls.is_empty()
    }

    /// How long nobody has used it; `None` while somebody does.
    pub(super) fn idle(&self) -> Option<Duration> {
        let free = !self.has_calls() && self.mailbox.stream().is_none();
        free.then(|| self.state().used.elapsed())
    }

    pub(super) fn touch(&self) {
        self.state().used = Instant::now();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// That somebody waits for a call; dropped, nobody does, and its answer is for nobody.
pub(super) struct Waiting {
    session: Arc<Session>,
    number: u64,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Waits for Waiting {
    /// Time is kept outside.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn done(self: Box<Self>) {}
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.session.state();
        state.used = Instant::now();
        drop(state.calls.remove(&self.number));
    }
}

/// An id or a token, however its text was written.
fn key(id: Raw<'_>) -> String {
    id.as_str().map_or_else(|| id.text().to_owned(), |text| format!("\"{text}"))
}
