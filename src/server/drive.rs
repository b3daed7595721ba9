//! The clock of a connection: polls it to its end, tells it to finish when the server drains or when it
//! was idle too long, and gives up on one that does not then finish. Written as a plain future rather
//! than an `async fn`, whose state would hold the connection twice; ten thousand streams hold it once.
//!
//! Invariant: a connection with a call in flight is only ever told to finish, never cut, unless its peer has
//! left bytes of an answer unread for so long that the call only keeps others from their place.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::activity::Activity;

/// Between telling an idle peer that we close, and closing.
const LINGER: Duration = Duration::from_secs(1);
/// A peer that reads the rest of its answer is left alone while it takes this many bytes within
/// [`LINGER`]; HTTP/2's own signs of life are fewer.
const SLOWEST: u64 = 1024;

/// An answer that is left unread for this many times the limit of an idle connection is given up.
const STUCK: u32 = 6;

/// A connection of either protocol.
pub(super) trait Connection: Future<Output = hyper::Result<()>> {
    /// Ends the connection after the calls in flight.
    fn finish(self: Pin<&mut Self>);
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// By itself, or in the way that it was told to.
    Ended(hyper::Result<()>),
    /// It had half a request or unread bytes of an answer, and nothing moved.
    Cut,
    /// It was given up with calls in flight, because their answers were not read.
    Stuck,
}

pin_project! {
    /// Resolves when the connection has ended.
    pub(super) struct Drive<C> {
        #[pin]
        connection: C,
        #[pin]
        clock: Sleep,
        #[pin]
        draining: WaitForCancellationFutureOwned,
        told: bool,
        // Bytes written when the connection was last looked at, once it is closing.
        closing: Option<u64>,
        limit: Duration,
        activity: Arc<Activity>,
    }
}

/// What the clock says.
enum Tick {
    Wait(Instant),
    Close,
    Cut,
    GiveUp,
}

impl<C: Connection> Drive<C> {
    /// Drives `connection`, allowing it `limit` without a call in flight.
    pub(super) fn new(
        connection: C,
        activity: Arc<Activity>,
        limit: Duration,
        graceful: CancellationToken,
    ) -> Self {
        let (clock, draining) = (sleep(limit), graceful.cancelled_owned());
        Self { connection, clock, draining, told: false, closing: None, limit, activity }
    }
}

/// Decides for a connection that may be idle; `closing` as in [`Drive`].
fn tick(activity: &Activity, closing: Option<u64>, limit: Duration) -> Tick {
    let now = Instant::now();
    let Some(since) = activity.idle_since() else {
        let stuck_until = activity.stuck_since().map(|since| since + limit * STUCK);
        return match stuck_until {
            Some(until) if until <= now => Tick::GiveUp,
            Some(until) => Tick::Wait(until.min(now + limit)),
            None => Tick::Wait(now + limit),
        };
    };
    match closing {
        None if since + limit > now => Tick::Wait(since + limit),
        None => Tick::Close,
        Some(before) if activity.written() - before < SLOWEST => Tick::Cut,
        Some(_) => Tick::Wait(now + LINGER),
    }
}

impl<C: Connection> Future for Drive<C> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let mut this = self.project();
        loop {
            if let Poll::Ready(ended) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(End::Ended(ended));
            }
            if !*this.told && this.draining.as_mut().poll(cx).is_ready() {
                *this.told = true;
                this.connection.as_mut().finish();
                continue;
            }
            if this.clock.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let next = match tick(this.activity, *this.closing, *this.limit) {
                Tick::Cut => return Poll::Ready(End::Cut),
                Tick::GiveUp => return Poll::Ready(End::Stuck),
                Tick::Wait(until) => until,
                Tick::Close => {
                    *this.told = true;
                    this.connection.as_mut().finish();
                    *this.closing = Some(0);
                    Instant::now() + LINGER
                }
            };
            *this.closing = this.closing.map(|_| this.activity.written());
            this.clock.as_mut().reset(next);
        }
    }
}
