//! The HTTPS client for search engines. Owns the time and the size that an answer may take, and what a status means.
//! The addresses are the operator's own, so they are not checked as those of pages are.
//!
//! Invariant: nothing an engine sends, and no part of its address, gets into an error.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use super::{Failure, FailureKind};
use crate::{config::UpstreamTls, upstream::tls};

/// For one engine's whole answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(4);
/// Largest answer, in bytes.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// How long an engine that asks for fewer calls is left alone if it does not say.
const PAUSE: Duration = Duration::from_secs(10);

/// Cheap to clone: clones share their connections.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Client {
    /// Connects to nothing yet.
    pub(super) fn new() -> Result<Self, String> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(&UpstreamTls::default())?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector);
        Ok(Self { pool })
    }

    /// The body of a 200.
    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<Bytes, Failure> {
        match tokio::time::timeout(TIMEOUT, self.answer(request)).await {
            Ok(answer) => answer,
            Err(_) => {
                let message = format!("no answer within {} seconds", TIMEOUT.as_secs());
                Err(Failure::new(FailureKind::Timeout, message))
            }
        }
    }

    async fn answer(&self, request: Request<Bytes>) -> Result<Bytes, Failure> {
        let unreachable = |error: hyper_util::client::legacy::Error| {
            let what =
                if error.is_connect() { "no connection could be made" } else { "the connection broke off" };
            Failure::new(FailureKind::Unreachable, what)
        };
        let answer = self.pool.request(request.map(Full::new)).await.map_err(unreachable)?;
        if answer.status() != StatusCode::OK {
            return Err(refusal(&answer));
        }
        let body = Limited::new(answer.into_body(), MAX_BODY).collect().await;
        let wrong = || Failure::new(FailureKind::BadAnswer, "the answer broke off, or is over 2 MiB");
        body.map(http_body_util::Collected::to_bytes).map_err(|_| wrong())
    }
}

fn refusal(answer: &Response<Incoming>) -> Failure {
    let status = answer.status();
    let (kind, why) = match status.as_u16() {
        401 | 403 => (FailureKind::Unauthorized, "its key was refused"),
        402 | 432 | 433 => (FailureKind::RateLimited, "the plan of its key is used up"),
        429 => (FailureKind::RateLimited, "it asks for fewer calls"),
        400 | 404 | 405 | 422 => (FailureKind::Refused, "it does not take this query"),
        300..400 => {
            (FailureKind::BadAnswer, "it points elsewhere; its configured url is not that of its API")
        }
        _ => (FailureKind::ServerError, "it failed"),
    };
    let retry_after = (kind == FailureKind::RateLimited).then(|| {
        let given = answer.headers().get(header::RETRY_AFTER).and_then(|v| v.to_str().ok());
        given.and_then(|v| v.trim().parse().ok()).map_or(PAUSE, Duration::from_secs)
    });
    let message = format!("HTTP {}: {why}", status.as_u16());
    Failure { retry_after, status: Some(status.as_u16()), ..Failure::new(kind, message) }
}
