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

use super::{activity::Activity, doorbell::Doorbell};

/// Between telling an idle peer that we close, and closing.
const LINGER: Duration = Duration::from_secs(1);
/// A peer that takes nothing of its answer for this many times the limit of an idle connection is given up.
/// The kernel lets us write again only when a third of its buffer was read, which may be a megabyte, so one
/// that is only slow seems to take nothing for a while.
const STUCK: u32 = 6;
/// What counts as something on a closing connection, in bytes; HTTP/2's own signs of life are less.
const SLOWEST: u64 = 1024;

/// A connection of either protocol.
pub(super) trait Connection: Future<Output = hyper::Result<()>> {
    /// Whether answers may wait for the peer without the socket being full (HTTP/2's windows).
    const WINDOWS: bool;

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
        doorbell: Doorbell,
        #[pin]
        clock: Sleep,
        #[pin]
        draining: WaitForCancellationFutureOwned,
        told: bool,
        closing: Option<Closing>,
        limit: Duration,
        activity: Arc<Activity>,
    }
}

/// How a closing connection gets on.
#[derive(Debug, Clone, Copy)]
struct Closing {
    /// When it last took something.
    moved: Instant,
    /// Bytes written until then.
    written: u64,
}

/// What the clock says.
#[derive(Debug, PartialEq, Eq)]
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
        Self {
            connection,
            doorbell: Doorbell::new(),
            clock,
            draining,
            told: false,
            closing: None,
            limit,
            activity,
        }
    }
}

/// Decides for a connection that may be idle.
fn tick(activity: &Activity, closing: &mut Option<Closing>, limit: Duration, windows: bool) -> Tick {
    let (now, patience) = (Instant::now(), limit * STUCK);
    let Some(since) = activity.idle_since() else {
        return match activity.stuck_since().map(|since| since + patience) {
            Some(until) if until <= now => Tick::GiveUp,
            Some(until) => Tick::Wait(until.min(now + limit)),
            None => Tick::Wait(now + limit),
        };
    };
    let Some(closing) = closing else {
        if since + limit > now {
            return Tick::Wait(since + limit);
        }
        *closing = Some(Closing { moved: now, written: activity.written() });
        return Tick::Close;
    };
    if activity.written() - closing.written >= SLOWEST {
        *closing = Closing { moved: now, written: activity.written() };
    }
    let unread = windows || activity.stuck_since().is_some();
    if unread && closing.moved + patience > now { Tick::Wait(now + LINGER) } else { Tick::Cut }
}

impl<C: Connection> Future for Drive<C> {
    type Output = End;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let mut this = self.project();
        loop {
            let polled = this.doorbell.answer(cx.waker(), |cx| this.connection.as_mut().poll(cx));
            if let Poll::Ready(ended) = polled {
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
            let next = match tick(this.activity, this.closing, *this.limit, C::WINDOWS) {
                Tick::Cut => return Poll::Ready(End::Cut),
                Tick::GiveUp => return Poll::Ready(End::Stuck),
                Tick::Wait(until) => until,
                Tick::Close => {
                    *this.told = true;
                    this.connection.as_mut().finish();
                    Instant::now() + LINGER
                }
            };
            this.clock.as_mut().reset(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Lets `limit` pass, so that the connection is told to close.
    async fn closing(activity: &Activity) -> Option<Closing> {
        let mut closing = None;
        advance(LIMIT).await;
        assert_eq!(tick(activity, &mut closing, LIMIT, false), Tick::Close);
        closing
    }

    #[tokio::test(start_paused = true)]
    async fn waits_exactly_as_long_as_the_connection_may_be_idle() {
        let activity = Activity::new();
        advance(LIMIT / 2).await;
        drop(activity.begin());
        let ended = Instant::now();
        advance(LIMIT / 2).await;
        assert_eq!(tick(&activity, &mut None, LIMIT, false), Tick::Wait(ended + LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn never_closes_while_a_call_is_in_flight() {
        let activity = Activity::new();
        let _call = activity.begin();
        advance(LIMIT * 100).await;
        assert!(matches!(tick(&activity, &mut None, LIMIT, false), Tick::Wait(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_request_is_cut_soon_after_closing() {
        let activity = Activity::new();
        let mut closing = closing(&activity).await;
        advance(LINGER).await;
        assert_eq!(tick(&activity, &mut closing, LIMIT, false), Tick::Cut);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_rest_is_cut_only_when_nothing_was_read_for_long() {
        for windows in [false, true] {
            let activity = Activity::new();
            let mut closing = closing(&activity).await;
            activity.wrote(&Poll::Pending);
            for _ in 0..3 {
                advance(LIMIT * STUCK - LINGER).await;
                activity.wrote(&Poll::Ready(Ok(4096)));
                activity.wrote(&Poll::Pending);
                assert!(matches!(tick(&activity, &mut closing, LIMIT, windows), Tick::Wait(_)));
            }
            advance(LIMIT * STUCK - LINGER).await;
            assert!(matches!(tick(&activity, &mut closing, LIMIT, windows), Tick::Wait(_)));
            advance(LINGER).await;
            assert_eq!(tick(&activity, &mut closing, LIMIT, windows), Tick::Cut);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_answer_nobody_reads_is_given_up() {
        let activity = Activity::new();
        let _call = activity.begin();
        advance(LIMIT).await;
        activity.wrote(&Poll::Pending);
        advance(LIMIT * STUCK - LINGER).await;
        assert_eq!(tick(&activity, &mut None, LIMIT, false), Tick::Wait(Instant::now() + LINGER));
        advance(LINGER).await;
        assert_eq!(tick(&activity, &mut None, LIMIT, false), Tick::GiveUp);
    }
}
