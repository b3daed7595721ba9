//! A legacy server shown as a modern one. Takes modern calls and speaks streamable HTTP of 2024-11-05 to 2025-11-25 to
//! the upstream that it wraps. Owns the sessions with that server and the calls that run in them.
//!
//! Invariants: ids, progress tokens and session ids of the server's side never reach the client, nor the other way
//! round; a request is sent a second time only if it is certain that it did not run; what waits in memory is bounded.

mod answer;
mod asks;
mod call;
mod elsewhere;
mod get;
mod hello;
mod hub;
mod incoming;
mod level;
mod listen;
mod losses;
mod messages;
mod origin;
mod pool;
mod question;
mod refused;
mod relay;
mod reply;
mod session;
mod wants;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};

use self::{
    answer::{Translated, translate},
    call::{Call, status_of},
    hello::NoSession,
    incoming::{Incoming, Read},
    messages::{Messages, is_stream},
    origin::Origin,
    pool::{Lent, Pool},
    refused::{Refused, as_it_came},
    reply::Refusal,
    session::Session,
};
use super::{BoxFuture, ClientSession, ForwardPath, ResponseBody, Upstream, UpstreamError, catalog::Catalog};
use crate::{
    bridge::{
        hops::Recipient,
        parked::{self, Parked},
        sealed::Sealer,
    },
    mcp::{method::is_askable, version::LATEST_LEGACY},
};

/// How a bridge is bounded.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The revision that the server is asked for.
    pub version: Arc<str>,
    /// Sessions kept at once.
    pub sessions: usize,
    /// How long an unused session is kept.
    pub idle: Duration,
    /// Calls that wait for answers.
    pub parked: parked::Limits,
    /// Who is told that the server's lists have changed, by whichever session it was heard.
    pub catalog: Option<Arc<Catalog>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: LATEST_LEGACY.into(),
            sessions: 16_384,
            idle: Duration::from_secs(10 * 60),
            parked: parked::Limits::default(),
            catalog: None,
        }
    }
}

/// See the module.
pub struct Legacy {
    bridge: Arc<Bridge>,
}

struct Bridge {
    upstream: Arc<dyn Upstream>,
    version: Arc<str>,
    sealer: Arc<Sealer>,
    pool: Arc<Pool>,
    parked: Arc<Parked<Call>>,
    /// Tells this process from others, and from itself before a restart.
    instance: [u8; 8],
}

impl std::fmt::Debug for Legacy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Legacy").field("sessions", &self.sessions()).field("parked", &self.parked()).finish()
    }
}

impl Legacy {
    /// Wraps a legacy server. Says nothing to it until there is a call.
    #[must_use]
    pub fn new(upstream: Arc<dyn Upstream>, sealer: Arc<Sealer>, settings: Settings) -> Self {
        let mut instance = [0; 8];
        getrandom::fill(&mut instance).expect("the system gives random bytes");
        let Settings { version, sessions, idle, parked, catalog } = settings;
        let (pool, parked) = (Pool::new(sessions, idle, catalog), Parked::new(parked));
        Self { bridge: Arc::new(Bridge { upstream, version, sealer, pool, parked, instance }) }
    }

    /// How many sessions are kept.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.bridge.pool.len()
    }

    /// How many calls wait for answers.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.bridge.parked.len()
    }
}

impl Upstream for Legacy {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            if call.method() == Method::POST {
                return Arc::clone(&self.bridge).post(call).await;
            }
            // Documents at other paths are of no era.
            if call.extensions().get::<ForwardPath>().is_some() {
                return self.bridge.upstream.call(call).await;
            }
            if call.method() == Method::DELETE
                && let Some(client) = call.extensions().get().copied()
            {
                self.bridge.end(&Origin::of(&self.bridge.upstream, call), client);
                return Ok(reply::with_body(StatusCode::OK, Bytes::new()));
            }
            let why = "the modern protocol has POST alone";
            let mut response =
                Refusal::new(405, 405, "method_not_allowed", why).response(None, &(&call).into());
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
            Ok(response)
        })
    }
}

impl Bridge {
    async fn post(self: Arc<Self>, call: Request<Bytes>) -> Result<Response<ResponseBody>, UpstreamError> {
        // Whatever becomes of it; a session knows better.
        origin::note(call.extensions(), &self.version);
        let to = Recipient::from(&call);
        let incoming = match incoming::read(call.body()) {
            Ok(Read::Request(incoming)) => incoming,
            // The loss of notifications: none of them means anything between these eras.
            Ok(Read::Notification) => return Ok(reply::with_body(StatusCode::ACCEPTED, Bytes::new())),
            Err(why) => {
                let reason = match why.code {
                    -32700 => "parse_error",
                    -32600 => "invalid_request",
                    _ => "invalid_params",
                };
                let refusal = Refusal::new(400, why.code, reason, why.message);
                return Ok(refusal.response(why.id.as_deref(), &to));
            }
        };
        let id = incoming.client.id.clone();
        let origin = Origin::of(&self.upstream, call);
        let done = match &*incoming.method {
            "server/discover" => self.discover(&origin, &incoming).await,
            "subscriptions/listen" => listen::listen(self, origin, incoming).await,
            gone if losses::is_gone(gone) => {
                let why = "this method does not exist in the modern protocol";
                Ok(Refusal::new(404, -32601, "method_not_found", why).response(Some(&id), &to))
            }
            _ => self.request(origin, incoming).await,
        };
        match done {
            Ok(response) => Ok(response),
            Err(NoSession::Upstream(error)) => Err(error),
            Err(NoSession::Refused(head)) => {
                let why = format!("the server lets nobody in: HTTP {} to initialize", head.status.as_u16());
                Ok(as_it_came(*head, Refusal::upstream(why).message(Some(&id), &to)))
            }
            Err(NoSession::Said(refusal)) => Ok(refusal.response(Some(&id), &to)),
        }
    }

    /// The session for a request that nobody is asked for.
    async fn session(&self, origin: &Origin, incoming: &Incoming) -> Result<Arc<Session>, NoSession> {
        Ok(self.lend(origin, incoming, false).await?.session)
    }

    /// The session for a request; opened if there is none.
    async fn lend(
        &self,
        origin: &Origin,
        incoming: &Incoming,
        can_be_asked: bool,
    ) -> Result<Lent, NoSession> {
        let open = |is_renewed: bool| {
            let (way, version) = (origin.lasting(), Arc::clone(&self.version));
            let (asks, info) = (incoming.asks, incoming.info.clone());
            let named = origin.named().filter(|_| !is_renewed);
            let adopted = named.and_then(|opened| Session::adopted(way.clone(), opened));
            async move {
                match adopted {
                    Some(session) => Ok(session),
                    None => hello::initialize(way, &version, asks, &info).await,
                }
            }
        };
        let key = origin.key(incoming);
        let lend = async || {
            if can_be_asked {
                return self.pool.lend(&key, open).await;
            }
            Ok(Lent { session: self.pool.session(&key, open).await?, turn: None })
        };
        let lent = lend().await?;
        if !lent.session.is_lost() {
            return Ok(lent);
        }
        self.pool.forget(&lent.session);
        drop(lent);
        lend().await
    }

    /// Ends what a client's session has here, or else has named.
    fn end(&self, origin: &Origin, client: ClientSession) {
        if self.pool.end(&origin.owner, client) {
            return;
        }
        if let Some(session) = origin.named().and_then(|opened| Session::adopted(origin.lasting(), opened)) {
            session.ended();
        }
    }

    async fn discover(
        &self,
        origin: &Origin,
        incoming: &Incoming,
    ) -> Result<Response<ResponseBody>, NoSession> {
        let session = self.session(origin, incoming).await?;
        origin.note(&session);
        origin.name(&session);
        let body = reply::result(&incoming.client.id, &session.hello.discovered());
        Ok(reply::json_response(StatusCode::OK, body))
    }

    /// Any request that is the server's to answer.
    async fn request(
        self: Arc<Self>,
        origin: Origin,
        incoming: Box<Incoming>,
    ) -> Result<Response<ResponseBody>, NoSession> {
        let said = NoSession::Said;
        let continued = match incoming.state.as_deref().filter(|_| is_askable(&incoming.method)) {
            Some(state) => self.continued(&incoming, &origin.owner, state).map_err(said)?,
            // Answers without it belong to no call that waits: this is a new one, which asks again what it needs.
            None => None,
        };
        if let Some(call) = continued {
            origin.note(&call.session);
            if let Some(level) = incoming.client.level {
                call.session.raise(level).await;
            }
            let asker = origin.asker(incoming, StatusCode::OK);
            return Ok(self.resume(call, asker).await);
        }
        let can_be_asked = is_askable(&incoming.method) && incoming.asks.any();
        for last_try in [false, true] {
            let lent = self.lend(&origin, &incoming, can_be_asked).await?;
            let session = Arc::clone(&lent.session);
            origin.note(&session);
            if let Some(level) = incoming.client.level {
                session.raise(level).await;
            }
            if can_be_asked {
                hub::stand_by(&session).await;
            }
            let own = session.next_id();
            let mut call = Call::new(lent, own, &incoming.method, incoming.asks);
            let mut sent = Arc::clone(&session).call(origin.way.clone(), incoming.legacy(own));
            let response = tokio::select! {
                response = &mut sent => response,
                // Servers that answer with JSON ask before there is a response head.
                () = call.hears() => {
                    call.reads(Messages::later(sent));
                    let asker = origin.asker(incoming, StatusCode::OK);
                    return Ok(relay::relay(self, call, asker).await);
                }
            };
            let response = response.map_err(|error| {
                // It did not run, or is cancelled already.
                if matches!(error, UpstreamError::Connect(_) | UpstreamError::TooLong(_)) {
                    call.end();
                }
                NoSession::Upstream(error)
            })?;
            let status = response.status();
            if status.is_success() {
                let Some(stream) = is_stream(response.headers()) else {
                    let why =
                        format!("the server answered HTTP {} without a JSON-RPC message", status.as_u16());
                    return Err(said(Refusal::upstream(why)));
                };
                call.reads(Messages::new(response.into_body(), stream));
                let asker = origin.asker(incoming, status);
                return Ok(relay::relay(self, call, asker).await);
            }
            call.end();
            let in_session = session.id.is_some() && !last_try;
            match refused::read(response, own, in_session).await {
                Refused::Lost => {
                    session.lost();
                    self.pool.forget(&session);
                }
                Refused::Answer(status, text) => {
                    let id = &incoming.client.id;
                    return match translate(&text, id, &incoming.method, incoming.asks).map_err(said)? {
                        Translated::Message(body, of_code) => {
                            Ok(reply::json_response(status_of(status, of_code), body))
                        }
                        Translated::Links(links) => {
                            let asker = origin.asker(incoming, status);
                            Ok(reply::json_response(StatusCode::OK, self.links(&asker, &links)))
                        }
                    };
                }
                Refused::AsItCame(head, body) => return Ok(as_it_came(head, body)),
                Refused::Instead(refusal) => return Err(said(refusal)),
            }
        }
        Err(said(Refusal::upstream("the server forgets its sessions at once")))
    }
}
