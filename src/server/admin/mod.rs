//! The admin listener: health, readiness, metrics, and the way to the pages. Owns paths and content types; what is
//! ready, what is measured and what the pages show comes through [`AdminState`].
//!
//! Invariant: probes and metrics wait for nothing and ask for no key, so they are answered while all else is stuck.

use std::{collections::BTreeMap, convert::Infallible, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use serde::Serialize;
use tokio::net::TcpListener;

use super::{Drain, Handler, Options, Peer, serve};
use crate::{
    metrics::{CONTENT_TYPE, OPEN_CONTENT_TYPE},
    upstream::{aggregate::Collision, replicas::ReplicaState},
};

/// Time for the head of a request from a probe or scraper, and to keep its connection idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);

/// What the admin listener shows.
pub trait AdminState: Send + Sync + 'static {
    /// The state of every part that calls depend on.
    fn readiness(&self) -> Readiness;
    /// Sends a record the way of every record: the name of its line and what became of it, or what went wrong.
    fn selftest(&self) -> impl Future<Output = Result<String, String>> + Send;
    /// All metrics, in the format that [`CONTENT_TYPE`] names.
    fn metrics(&self) -> String;
    /// The same in the format that [`OPEN_CONTENT_TYPE`] names, with exemplars.
    fn open_metrics(&self) -> String;
    /// Answers on every other path; in a process without pages, that there is nothing.
    fn page(&self, _req: Request<Incoming>, _peer: Peer) -> impl Future<Output = Response<AdminBody>> + Send {
        async { error(StatusCode::NOT_FOUND, "no_route") }
    }
}

/// The body of an answer, whole or a stream of events.
pub type AdminBody = UnsyncBoxBody<Bytes, Infallible>;

/// Whether calls can be served, and what each part says about it.
#[derive(Debug, Clone, Serialize)]
pub struct Readiness {
    /// Decides between 200 and 503.
    pub ready: bool,
    /// Of the process: `starting`, `serving` or `draining`.
    pub state: &'static str,
    /// Of each upstream, by name.
    pub upstreams: BTreeMap<String, UpstreamPart>,
    /// Names that more than one upstream would have, which are shown of none; not all, if there are very many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collisions: Vec<Collision>,
    /// Of the configuration: a broken file is shown here while the old one serves.
    pub configuration: Part,
    /// Of the journal.
    pub journal: Part,
    /// Of the span exporter.
    pub exporter: Part,
    /// What the last self-test of the two showed.
    pub selftest: Part,
}

/// One part of [`Readiness`].
#[derive(Debug, Clone, Serialize)]
pub struct Part {
    /// One word.
    pub state: &'static str,
    /// Why, for people; never a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// An upstream among the parts.
#[derive(Debug, Clone, Serialize)]
pub struct UpstreamPart {
    /// As of any part.
    #[serde(flatten)]
    pub part: Part,
    /// `closed` while it is called, `open` while it is left alone, `half_open` while it is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<&'static str>,
    /// Calls that it has, whichever endpoint they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<usize>,
    /// Of each replica, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replicas: Vec<ReplicaState>,
}

impl From<Part> for UpstreamPart {
    fn from(part: Part) -> Self {
        Self { part, breaker: None, in_flight: None, replicas: Vec::new() }
    }
}

impl Part {
    /// A part in good order.
    #[must_use]
    pub fn ok() -> Self {
        Self { state: "ok", detail: None }
    }
}

/// Serves the admin pages until `drain` is done.
pub async fn serve_admin<S: AdminState>(listener: TcpListener, state: S, drain: Drain) {
    let options = Options { header_timeout: HEADER_TIMEOUT, tls: None, on_refused: Arc::new(|_| {}) };
    serve(listener, options, Arc::new(Pages(state)), drain).await;
}

/// Asks for a self-test with this header: no page of another site can send it without asking first.
pub const SELFTEST: &str = "x-smartgate-selftest";

/// Its path.
pub const SELFTEST_PATH: &str = "/api/selftest";

struct Pages<S>(S);

impl<S: AdminState> Handler for Pages<S> {
    type Body = AdminBody;

    async fn handle(&self, req: Request<Incoming>, peer: Peer) -> Response<AdminBody> {
        let state = &self.0;
        // hyper leaves the body of an answer to HEAD out and its length in.
        let reads = req.method() == Method::GET || req.method() == Method::HEAD;
        match req.uri().path() {
            "/healthz" | "/readyz" | "/metrics" if !reads => {
                let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed");
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
                answer
            }
            "/healthz" => text(StatusCode::OK, "text/plain; charset=utf-8", "ok".into()),
            "/readyz" => ready(&state.readiness()),
            "/metrics" if takes_open(req.headers()) => {
                text(StatusCode::OK, OPEN_CONTENT_TYPE, state.open_metrics().into())
            }
            "/metrics" => text(StatusCode::OK, CONTENT_TYPE, state.metrics().into()),
            SELFTEST_PATH => selftest(state, &req, peer).await,
            _ => state.page(req, peer).await,
        }
    }
}

/// Prometheus names the format first that it likes best, and OpenMetrics only if it can read it.
fn takes_open(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|kind| kind.trim().starts_with("application/openmetrics-text"))
}

async fn selftest<S: AdminState>(state: &S, req: &Request<Incoming>, peer: Peer) -> Response<AdminBody> {
    // No browser has business here, whichever page and name it came by.
    let by_browser =
        req.headers().contains_key(header::ORIGIN) || req.headers().contains_key("sec-fetch-site");
    let may = req.method() == Method::POST && req.headers().contains_key(SELFTEST) && !by_browser;
    if !may || !peer.addr.ip().to_canonical().is_loopback() {
        return error(StatusCode::FORBIDDEN, "forbidden");
    }
    let (status, what) = match state.selftest().await {
        Ok(what) => (StatusCode::OK, what),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    text(status, "text/plain; charset=utf-8", what.into())
}

fn ready(readiness: &Readiness) -> Response<AdminBody> {
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_vec(readiness) {
        Ok(json) => text(status, "application/json", json.into()),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

fn error(status: StatusCode, reason: &'static str) -> Response<AdminBody> {
    text(status, "application/json", format!(r#"{{"error":"{reason}"}}"#).into())
}

fn text(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<AdminBody> {
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// A body that is there whole.
#[must_use]
pub fn whole(body: Bytes) -> AdminBody {
    Full::new(body).boxed_unsync()
}
