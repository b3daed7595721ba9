//! Whether a connection is idle, slow or busy. Owns the counters that the connection's task reads, the
//! guard that marks a call in flight, and the transport wrapper that counts what was written.
//!
//! Invariant: a call is in flight from the moment the handler has its head until the last byte of its
//! answer was handed to the connection or the answer was dropped, and then exactly once no more.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use hyper::{
    body::{Body, Frame, SizeHint},
    rt::{Read, ReadBufCursor, Write},
};
use tokio::time::Instant;

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    in_flight: AtomicUsize,
    /// Milliseconds from `began` to the end of the last call; 0 before the first.
    idle_since: AtomicU64,
    written: AtomicU64,
    /// Milliseconds from `began` to the first write that found no room; 0 while there is room.
    stuck_since: AtomicU64,
}

impl Activity {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            in_flight: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            written: AtomicU64::new(0),
            stuck_since: AtomicU64::new(0),
        })
    }

    /// Since when no call has been in flight; `None` while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let idle = Duration::from_millis(self.idle_since.load(Ordering::Relaxed));
        (self.in_flight.load(Ordering::Acquire) == 0).then(|| self.began + idle)
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Since when bytes wait that the peer's side has no room for; `None` while it takes them.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        let since = self.stuck_since.load(Ordering::Relaxed);
        (since > 0).then(|| self.began + Duration::from_millis(since))
    }

    /// Milliseconds since the beginning, never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// Takes note of a write: its length, or that there was no room.
    pub(super) fn wrote(&self, result: &Poll<io::Result<usize>>) {
        let stuck = self.stuck_since.load(Ordering::Relaxed) > 0;
        match result {
            Poll::Ready(Ok(n)) => {
                self.written.fetch_add(*n as u64, Ordering::Relaxed);
                if stuck {
                    self.stuck_since.store(0, Ordering::Relaxed);
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending if stuck => {}
            Poll::Pending => self.stuck_since.store(self.now(), Ordering::Relaxed),
        }
    }

    /// Marks a call in flight until the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }
}

/// One call in flight.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.idle_since.store(self.0.now(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Release);
    }
}

/// A response body that keeps its call in flight while it exists.
#[derive(Debug)]
pub(super) struct Tracked<B> {
    body: B,
    _in_flight: InFlight,
}

impl<B> Tracked<B> {
    pub(super) fn new(body: B, in_flight: InFlight) -> Self {
        Self { body, _in_flight: in_flight }
    }
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A transport that counts the bytes written to it, and sees when there is no room for more.
#[derive(Debug)]
pub(super) struct Watched<T> {
    io: T,
    activity: Arc<Activity>,
}

impl<T> Watched<T> {
    pub(super) fn new(io: T, activity: Arc<Activity>) -> Self {
        Self { io, activity }
    }
}

impl<T: Read + Unpin> Read for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: Write + Unpin> Write for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.activity.wrote(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.activity.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
