//! A member at work: how many calls it may have, how long each may take, and when it is left alone. Owns its failures;
//! whatever one member does, nobody waits for it but its own callers.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Member;
use crate::{
    breaker::Breaker,
    upstream::{ResponseBody, UpstreamError},
};

/// Failures in a row before a member is left alone.
const FAILURES: u32 = 5;
/// How long it is left alone.
const OPEN: Duration = Duration::from_secs(10);
/// When to try again while all places are taken.
const BUSY: Duration = Duration::from_secs(1);

pub(super) struct Seat {
    pub(super) member: Member,
    pub(super) breaker: Breaker,
    places: Arc<Semaphore>,
}

impl Seat {
    pub(super) fn new(member: Member) -> Self {
        Self {
            breaker: Breaker::new(FAILURES, OPEN, member.timeout.min(OPEN)),
            places: Arc::new(Semaphore::new(member.show.concurrency.min(Semaphore::MAX_PERMITS))),
            member,
        }
    }

    /// Calls in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.member.show.concurrency.saturating_sub(self.places.available_permits())
    }

    /// A place for one call, kept until its answer has ended.
    ///
    /// # Errors
    /// It is left alone, or all places are taken.
    pub(super) fn admit(&self) -> Result<OwnedSemaphorePermit, UpstreamError> {
        let name = &self.member.name;
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| UpstreamError::Unavailable {
            why: format!(
                "The upstream {name} has all {} places for calls taken",
                self.member.show.concurrency
            ),
            retry_after: BUSY,
        })?;
        self.breaker.admit().map_err(|retry_after| UpstreamError::Unavailable {
            why: format!("The upstream {name} is left alone because it kept failing"),
            retry_after,
        })?;
        Ok(place)
    }

    /// Sends a call and waits for the response head.
    ///
    /// # Errors
    /// As the member's own, or no head in time.
    pub(super) async fn send(&self, call: Request<Bytes>) -> Result<Response<ResponseBody>, UpstreamError> {
        let limit = self.member.timeout;
        let answer = tokio::time::timeout(limit, self.member.upstream.call(call)).await;
        let answer = answer.unwrap_or(Err(UpstreamError::Timeout(limit)));
        match &answer {
            Ok(response) if !is_outage(response.status()) => self.breaker.succeeded(),
            Err(UpstreamError::Unavailable { .. } | UpstreamError::Redirect(_)) => {}
            _ => self.failed(),
        }
        answer
    }

    fn failed(&self) {
        let before = self.breaker.rest();
        self.breaker.failed(None);
        if before.is_none() && self.breaker.rest().is_some() {
            tracing::warn!(
                upstream = &*self.member.name,
                pause_s = OPEN.as_secs(),
                "the upstream kept failing and is left alone; others are not affected"
            );
        }
    }
}

/// Statuses of a server that is not there.
fn is_outage(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}
