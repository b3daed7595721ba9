//! How much of the gateway one server may take up by talking. What it says costs processor time here, and a server that
//! says gigabytes would have all of it. Owns the rate beyond which it is read slower; bytes wait at the server then.
//!
//! Invariants: nothing is lost or reordered. A server that says no more than [`RATE`] is never slowed, and neither is
//! an answer of less than [`FREE`].

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{BodyError, ResponseBody};

/// Bytes of an answer that pass at once, whatever else its server says.
const FREE: u64 = 4 * 1024 * 1024;
/// A message costs more than its bytes: each line counts as so many more.
const LINE: u64 = 256;
/// Bytes a second of one server, beyond what is free.
const RATE: u64 = 8 * 1024 * 1024;
/// What was not used for so long may be used at once.
const SAVED: Duration = Duration::from_millis(500);
/// Shorter pauses are not worth a timer.
const SHORTEST: Duration = Duration::from_millis(2);

/// The pace of one server, for all that it says.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Instant>);

impl Default for Pace {
    fn default() -> Self {
        Self(Mutex::new(Instant::now()))
    }
}

impl Pace {
    /// Counts a line that was read; until when nothing more should be.
    pub(super) fn take_line(&self, bytes: u64) -> Option<Instant> {
        self.take(bytes + LINE)
    }

    /// The same of what passes in other pieces.
    fn take(&self, bytes: u64) -> Option<Instant> {
        let now = Instant::now();
        let mut paid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.checked_sub(SAVED).map_or(*paid, |earliest| earliest.max(*paid));
        *paid = since + Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / RATE);
        (*paid > now + SHORTEST).then_some(*paid)
    }
}

/// A body at its server's pace.
pub(super) struct Paced {
    inner: ResponseBody,
    pace: Arc<Pace>,
    free: u64,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(super) fn new(inner: ResponseBody, pace: Arc<Pace>) -> Self {
        Self { inner, pace, free: FREE, pause: None }
    }
}

impl Body for Paced {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|f| f.as_ref().ok()).and_then(Frame::data_ref) {
            let lines = memchr::memchr_iter(b'\n', data).count() as u64;
            let weight = data.len() as u64 + LINE * lines;
            let beyond = weight.saturating_sub(self.free);
            self.free = self.free.saturating_sub(weight);
            if beyond > 0 {
                self.pause = self.pace.take(beyond).map(|until| Box::pin(sleep_until(until)));
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    const FRAME: usize = 64 * 1024;

    /// A body of so many frames, each of which can be had at once.
    struct Frames(usize);

    impl Body for Frames {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            let left = self.0.checked_sub(1);
            self.0 = left.unwrap_or_default();
            Poll::Ready(left.map(|_| Ok(Frame::data(Bytes::from_static(&[b'x'; FRAME])))))
        }
    }

    fn frames(count: usize) -> ResponseBody {
        Frames(count).boxed_unsync()
    }

    async fn drained(body: ResponseBody, pace: &Arc<Pace>) -> (u64, Duration) {
        let begun = Instant::now();
        let body = Paced::new(body, Arc::clone(pace)).collect().await.expect("the frames are no errors");
        (body.to_bytes().len() as u64, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_free_is_not_slowed() {
        let pace = Arc::default();
        for _ in 0..10 {
            let count = FREE as usize / FRAME;
            assert_eq!(drained(frames(count), &pace).await, (FREE, Duration::ZERO));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_has_its_rate_however_many_streams_it_has() {
        let pace = Arc::<Pace>::default();
        let count = (FREE + 4 * RATE) as usize / FRAME;
        let both = tokio::join!(drained(frames(count), &pace), drained(frames(count), &pace));
        assert_eq!((both.0.0, both.1.0), (FREE + 4 * RATE, FREE + 4 * RATE));
        let slower = both.0.1.max(both.1.1);
        assert!((Duration::from_secs(7)..Duration::from_secs(9)).contains(&slower), "{slower:?}");
        let other = Arc::default();
        assert_eq!(drained(frames(10), &other).await.1, Duration::ZERO, "another server is not slowed");
    }

    #[tokio::test(start_paused = true)]
    async fn small_messages_weigh_more_than_their_bytes() {
        let pace = Pace::default();
        let (lines, begun) = (RATE / LINE * 2, Instant::now());
        let until = (0..lines).filter_map(|_| pace.take_line(1)).max().expect("too many for two seconds");
        assert!(until - begun > Duration::from_millis(1_400), "{:?}", until - begun);
    }
}
