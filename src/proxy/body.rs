//! The body of an answer on its way to the client: frames pass as they came, a scanner looks at them, and
//! the audit record closes on the last one.
//!
//! Invariant: whatever way the body ends (last frame, end, error, idle timeout, drain, drop), the guard
//! inside is closed exactly once. A body of exact size is never cut by a drain.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::observe::Observer;
use crate::{
    audit::record::Outcome,
    upstream::{BodyError, ResponseBody},
};

/// What the gateway sends: an answer of its own, an upstream's, or those to a batch.
#[derive(Debug)]
pub enum GatewayBody {
    /// An answer of ours, whole.
    Own(Option<Bytes>),
    /// An upstream's, in passing.
    Passing(Box<PassingBody>),
    /// Those to the messages of a batch, which close their records.
    Joined(ResponseBody),
}

impl GatewayBody {
    /// An answer of ours.
    #[must_use]
    pub fn own(bytes: impl Into<Bytes>) -> Self {
        Self::Own(Some(bytes.into()).filter(|b: &Bytes| !b.is_empty()))
    }
}

/// An upstream's answer: what was read of it already, and the rest.
#[derive(Debug)]
pub struct PassingBody {
    first: Option<Bytes>,
    rest: Option<ResponseBody>,
    observer: Option<Observer>,
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
    force: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl PassingBody {
    /// `idle`: the longest silence between frames, where one applies. `force` ends streams of unknown length.
    #[must_use]
    pub fn new(
        first: Option<Bytes>,
        rest: Option<ResponseBody>,
        observer: Observer,
        idle: Option<Duration>,
        force: &CancellationToken,
    ) -> Self {
        let endless = rest.as_ref().is_some_and(|r| r.size_hint().exact().is_none());
        let mut body = Self {
            first: first.filter(|b| !b.is_empty()),
            idle: rest.as_ref().and(idle).map(|d| (d, Box::pin(tokio::time::sleep(d)))),
            force: endless.then(|| Box::pin(force.clone().cancelled_owned())),
            rest,
            observer: Some(observer),
        };
        body.close_at_end();
        body
    }

    fn ended(&self) -> bool {
        self.first.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn close_at_end(&mut self) {
        if self.ended()
            && let Some(observer) = self.observer.take()
        {
            observer.end();
        }
    }

    fn cut(&mut self, outcome: Outcome, why: &str) {
        self.rest = None;
        if let Some(observer) = self.observer.take() {
            observer.cut(outcome, why);
        }
    }

    fn pass(&mut self, data: &Bytes) {
        if let Some(observer) = &mut self.observer {
            observer.see(data);
        }
        self.close_at_end();
    }

    fn poll_quiet(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(force) = &mut self.force
            && force.as_mut().poll(cx).is_ready()
        {
            self.cut(Outcome::Drained, "the gateway is shutting down");
            return Poll::Ready(None);
        }
        if let Some((limit, sleep)) = &mut self.idle {
            ready!(sleep.as_mut().poll(cx));
            let why = format!("no byte for {} s", limit.as_secs_f64());
            self.cut(Outcome::UpstreamFailed, &why);
            return Poll::Ready(Some(Err(why.into())));
        }
        Poll::Pending
    }
}

impl Drop for PassingBody {
    fn drop(&mut self) {
        if let Some(observer) = self.observer.take() {
            observer.leave();
        }
    }
}

impl Body for PassingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            this.pass(&first);
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(rest) = &mut this.rest else { return Poll::Ready(None) };
        match Pin::new(rest).poll_frame(cx) {
            Poll::Pending => this.poll_quiet(cx),
            Poll::Ready(Some(Ok(frame))) => {
                if let Some((limit, sleep)) = &mut this.idle {
                    sleep.as_mut().reset(Instant::now() + *limit);
                }
                match frame.data_ref() {
                    Some(data) => this.pass(data),
                    None => this.close_at_end(),
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(e))) => {
                this.cut(Outcome::UpstreamFailed, &e.to_string());
                Poll::Ready(Some(Err(e)))
            }
            Poll::Ready(None) => {
                this.rest = None;
                this.close_at_end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended()
    }

    fn size_hint(&self) -> SizeHint {
        let read = self.first.as_ref().map_or(0, |b| b.len() as u64);
        let mut hint = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper + read);
        }
        hint.set_lower(hint.lower() + read);
        hint
    }
}

impl Body for GatewayBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Own(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Self::Passing(body) => Pin::new(&mut **body).poll_frame(cx),
            Self::Joined(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(bytes) => bytes.is_none(),
            Self::Passing(body) => body.is_end_stream(),
            Self::Joined(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Self::Passing(body) => body.size_hint(),
            Self::Joined(body) => body.size_hint(),
        }
    }
}
