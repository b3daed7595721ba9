//! Several replicas of one HTTP server. Owns the choice between them: the one with the fewest calls in flight, in
//! turn among equals; for a legacy session the one that opened it.
//!
//! Invariant: a call goes to a second replica only if it cannot have run at the first: there was no connection, or the
//! first does not know its session.

mod homes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, Uri};
use serde::Serialize;

use self::homes::{Homes, Session};
use super::{
    BoxFuture, ResponseBody, Upstream, UpstreamError, holding::holding, http::HttpUpstream, refusal::disowned,
};
use crate::{
    breaker::Breaker,
    bridge::hops::Hops,
    config,
    mcp::{era::SESSION_HEADER, headers::METHOD_HEADER},
};

/// Failures to connect, in a row, before a replica is left out.
const FAILURES: u32 = 2;
/// How long it is left out; then one call at a time tries it.
const OUT: Duration = Duration::from_secs(5);

/// See the module.
pub struct Replicas {
    name: Arc<str>,
    replicas: Vec<Replica>,
    turn: AtomicUsize,
    homes: Homes,
}

struct Replica {
    upstream: Arc<HttpUpstream>,
    host: Arc<str>,
    port: u16,
    breaker: Breaker,
    /// Has a clone in every call in flight. Streams of changes, which stay open while nothing happens, are no load.
    busy: Arc<()>,
}

/// How one of them is doing, for `/readyz`.
#[derive(Debug, Clone, Serialize)]
pub struct ReplicaState {
    /// Host and port.
    pub server: String,
    /// `closed`, `open` (left out) or `half_open` (a try is due).
    pub breaker: &'static str,
    /// Calls in flight.
    pub in_flight: usize,
}

impl Replicas {
    /// Prepares the pools; connects to nothing.
    ///
    /// # Errors
    /// As of one server.
    pub fn new(config: &config::Upstream, urls: &[Uri]) -> Result<Self, String> {
        let replica = |url: &Uri| {
            Ok(Replica {
                upstream: Arc::new(HttpUpstream::at_url(config, url)?),
                host: url.host().unwrap_or_default().into(),
                port: port(url),
                breaker: Breaker::new(FAILURES, OUT, config.connect_timeout),
                busy: Arc::default(),
            })
        };
        Ok(Self {
            name: Arc::clone(&config.name),
            replicas: urls.iter().map(replica).collect::<Result<_, String>>()?,
            turn: AtomicUsize::new(0),
            homes: Homes::default(),
        })
    }

    /// How they are doing, in the order of the configuration.
    #[must_use]
    pub fn state(&self) -> Vec<ReplicaState> {
        let state = |r: &Replica| ReplicaState {
            server: format!("{}:{}", r.host, r.port),
            breaker: r.breaker.state(),
            in_flight: r.in_flight(),
        };
        self.replicas.iter().map(state).collect()
    }

    /// All of them, the one to ask first in front. Those that are left out come last, so that they are asked if nobody
    /// else can be.
    fn order(&self, home: Option<usize>) -> Vec<usize> {
        let count = self.replicas.len();
        let turn = self.turn.fetch_add(1, Relaxed);
        let mut tries = home;
        let mut ranked: Vec<_> = (0..count)
            .map(|n| {
                let at = turn.wrapping_add(n) % count;
                let replica = &self.replicas[at];
                let is_out = replica.breaker.rest().is_some();
                // Of several that are due, one is tried by this call.
                let is_tried = is_out && tries.is_none_or(|t| t == at) && replica.breaker.admit().is_ok();
                if is_tried {
                    tries = Some(at);
                }
                ((is_out && !is_tried, home != Some(at), !is_tried, replica.in_flight()), at)
            })
            .collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, at)| at).collect()
    }

    async fn send(&self, call: Request<Bytes>) -> Result<Response<ResponseBody>, UpstreamError> {
        let session = call.headers().get(SESSION_HEADER).map(|id| Session::of(id.as_bytes()));
        let home = session.as_ref().and_then(|s| self.homes.get(s)).filter(|at| *at < self.replicas.len());
        let order = self.order(home);
        let is_stray = session.is_some() && home.is_none();
        let mut last = Err(UpstreamError::Connect("there is no replica".into()));
        for at in order {
            let replica = &self.replicas[at];
            // One that is left out will not know the session any better.
            if last.is_ok() && replica.breaker.rest().is_some() {
                break;
            }
            last = match replica.send(call.clone(), &self.name).await {
                Err(UpstreamError::Connect(e)) if last.is_ok() => {
                    tracing::debug!(upstream = &*self.name, error = %e, "a replica cannot be reached");
                    last
                }
                Err(UpstreamError::Connect(e)) => Err(UpstreamError::Connect(e)),
                Err(error) => return Err(error),
                Ok(answer) => {
                    let (answer, is_disowned) =
                        if is_stray { disowned(answer).await? } else { (answer, false) };
                    if is_disowned {
                        last = Ok(answer);
                        continue;
                    }
                    self.learn(at, session, call.method(), &answer);
                    return Ok(answer);
                }
            };
        }
        last
    }

    /// Remembers where a session lives.
    fn learn(&self, at: usize, asked: Option<Session>, method: &Method, answer: &Response<ResponseBody>) {
        if !answer.status().is_success() {
            return;
        }
        let named = answer.headers().get(SESSION_HEADER).map(|id| Session::of(id.as_bytes()));
        match (named.or(asked), method) {
            (Some(session), &Method::DELETE) => self.homes.forget(&session),
            (Some(session), _) => self.homes.note(session, at),
            (None, _) => {}
        }
    }
}

impl Replica {
    fn in_flight(&self) -> usize {
        Arc::strong_count(&self.busy) - 1
    }

    async fn send(&self, call: Request<Bytes>, name: &str) -> Result<Response<ResponseBody>, UpstreamError> {
        let busy = (!is_stream(&call)).then(|| Arc::clone(&self.busy));
        if let Some(hops) = call.extensions().get::<Hops>() {
            hops.note(|seen| seen.server = Some((Arc::clone(&self.host), self.port)));
        }
        let answer = self.upstream.call(call).await;
        let before = self.breaker.rest();
        match &answer {
            Err(UpstreamError::Connect(error)) => {
                self.breaker.failed(None);
                if before.is_none() && self.breaker.rest().is_some() {
                    let (host, port) = (&*self.host, self.port);
                    tracing::warn!(upstream = name, host, port, %error, "a replica is left out: it cannot be reached");
                }
            }
            Err(_) => {}
            Ok(_) => {
                self.breaker.succeeded();
                if before.is_some() {
                    let (host, port) = (&*self.host, self.port);
                    tracing::info!(upstream = name, host, port, "a replica is back");
                }
            }
        }
        Ok(answer?.map(|inner| holding(inner, busy)))
    }
}

impl Upstream for Replicas {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(self.send(call))
    }

    fn replicas(&self) -> Vec<Arc<dyn Upstream>> {
        self.replicas.iter().map(|r| Arc::clone(&r.upstream) as Arc<dyn Upstream>).collect()
    }
}

fn is_stream(call: &Request<Bytes>) -> bool {
    call.method() == Method::GET
        || call.headers().get(METHOD_HEADER).is_some_and(|m| m == "subscriptions/listen")
}

/// The port of an HTTP URL.
#[must_use]
pub fn port(url: &Uri) -> u16 {
    url.port_u16().unwrap_or(if url.scheme_str() == Some("https") { 443 } else { 80 })
}
