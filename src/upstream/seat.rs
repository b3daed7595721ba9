//! An upstream at work: how many calls it may have, how long each may take to its response head, and when it is left
//! alone. Owns its places and its failures, whichever way its calls come.
//!
//! Invariant: whatever one upstream does, nobody waits for it but its own callers; a place is kept until the answer has
//! ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use tokio::time::{Instant, timeout_at};

use super::{BoxFuture, ResponseBody, Upstream, UpstreamError, holding::holding};
use crate::breaker::Breaker;

/// Failures in a row before an upstream is left alone.
const FAILURES: u32 = 5;
/// How long it is left alone.
const OPEN: Duration = Duration::from_secs(10);
/// When to try again while all places are taken.
const BUSY: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub struct Seat {
    name: Arc<str>,
    breaker: Breaker,
    places: AtomicUsize,
    taken: AtomicUsize,
    /// To the response head; `None` for who keeps time itself.
    timeout: Option<Duration>,
}

impl Seat {
    /// For an upstream that may have so many calls in flight.
    #[must_use]
    pub fn new(name: Arc<str>, places: usize, timeout: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            name,
            breaker: Breaker::new(FAILURES, OPEN, timeout.unwrap_or(OPEN).min(OPEN)),
            places: places.into(),
            taken: 0.into(),
            timeout,
        })
    }

    /// From now on so many; calls that have a place keep it.
    pub fn resize(&self, places: usize) {
        self.places.store(places, Relaxed);
    }

    /// Calls in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// `closed`, `open` (left alone) or `half_open` (a try is due).
    #[must_use]
    pub fn breaker(&self) -> &'static str {
        self.breaker.state()
    }

    /// Sends a call by this way to the upstream and waits for the response head.
    ///
    /// # Errors
    /// [`UpstreamError::Unavailable`]: it is left alone, or all places are taken; else as the upstream's own, or no head
    /// in time.
    pub fn call<'a>(
        self: &'a Arc<Self>,
        way: &'a Arc<dyn Upstream>,
        call: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, UpstreamError>> + Send + 'a {
        let until = self.timeout.and_then(|limit| Instant::now().checked_add(limit));
        async move {
            let place = self.admit()?;
            let answer = self.in_time(until, way.call(call)).await;
            self.judge(&answer);
            Ok(answer?.map(|inner| holding(inner, place)))
        }
    }

    /// Sends what is no call: it needs no place and says nothing of the upstream, but has no more time.
    ///
    /// # Errors
    /// As the upstream's own, or no head in time.
    pub async fn pass(
        &self,
        way: &Arc<dyn Upstream>,
        request: Request<Bytes>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let until = self.timeout.and_then(|limit| Instant::now().checked_add(limit));
        self.in_time(until, way.call(request)).await
    }

    async fn in_time(
        &self,
        until: Option<Instant>,
        answer: impl Future<Output = Result<Response<ResponseBody>, UpstreamError>>,
    ) -> Result<Response<ResponseBody>, UpstreamError> {
        let timeout = |_| Err(UpstreamError::Timeout(self.timeout.unwrap_or_default()));
        match until {
            Some(until) => timeout_at(until, answer).await.unwrap_or_else(timeout),
            None => answer.await,
        }
    }

    fn admit(self: &Arc<Self>) -> Result<Place, UpstreamError> {
        let (name, places) = (&self.name, self.places.load(Relaxed));
        let one_more = |taken| (taken < places).then_some(taken + 1);
        self.taken.fetch_update(Relaxed, Relaxed, one_more).map_err(|_| UpstreamError::Unavailable {
            why: format!("The upstream {name} has all {places} places for calls taken"),
            retry_after: BUSY,
        })?;
        let place = Place(Arc::clone(self));
        self.breaker.admit().map_err(|retry_after| UpstreamError::Unavailable {
            why: format!("The upstream {name} is left alone because it kept failing"),
            retry_after,
        })?;
        Ok(place)
    }

    fn judge(&self, answer: &Result<Response<ResponseBody>, UpstreamError>) {
        match answer {
            Ok(response) if !is_outage(response) => self.breaker.succeeded(),
            // It is there and has told its caller when to come back.
            Ok(response) if response.headers().contains_key(RETRY_AFTER) => {}
            Err(UpstreamError::Unavailable { .. } | UpstreamError::Redirect(_)) => {}
            _ => self.failed(),
        }
    }

    fn failed(&self) {
        let before = self.breaker.rest();
        self.breaker.failed(None);
        if before.is_none() && self.breaker.rest().is_some() {
            tracing::warn!(
                upstream = &*self.name,
                pause_s = OPEN.as_secs(),
                "the upstream kept failing and is left alone; others are not affected"
            );
        }
    }
}

/// Statuses of a server that is not there.
fn is_outage(response: &Response<ResponseBody>) -> bool {
    matches!(
        response.status(),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// A way to an upstream on which everything is a call.
pub struct Seated {
    /// The way.
    pub way: Arc<dyn Upstream>,
    /// The upstream's, whatever the way.
    pub seat: Arc<Seat>,
}

impl Upstream for Seated {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(self.seat.call(&self.way, call))
    }
}

struct Place(Arc<Seat>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}
