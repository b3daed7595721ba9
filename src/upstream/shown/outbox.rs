//! Messages on their way to one HTTP response: a queue that is bounded in bytes, and the response's body.
//!
//! Invariant: a client that does not read costs at most [`ROOM`] and one answer, and holds up nobody else: what finds
//! no room in time is lost, except answers, of which there is one.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, Sleep, sleep_until, timeout},
};

use crate::{mcp::sse, upstream::BodyError};

/// KiB of messages that wait for a client; each counts as 1 KiB at least.
const ROOM: u32 = 4 * 1024;

/// What waits.
#[derive(Debug)]
pub(in crate::upstream) enum Item {
    /// A notification or a request of the child; it gives its room back when dropped.
    Event(Bytes, OwnedSemaphorePermit),
    /// The response. The last item.
    Answer(Bytes),
    /// There will be none, and why. The last item.
    Failed(Arc<str>),
}

/// How an event fared.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Sent {
    /// It waits or is taken.
    Yes,
    /// There was no room.
    Full,
    /// Nobody reads any more.
    Closed,
}

/// The end that messages go into.
#[derive(Debug, Clone)]
pub(in crate::upstream) struct Outbox {
    items: mpsc::UnboundedSender<Item>,
    room: Arc<Semaphore>,
    /// The reader was waited for in vain; it is not again until it has read.
    stalled: Arc<AtomicBool>,
}

/// The end that they come out of.
pub(in crate::upstream) type Reader = mpsc::UnboundedReceiver<Item>;

/// An empty queue.
pub(in crate::upstream) fn outbox() -> (Outbox, Reader) {
    let (items, reader) = mpsc::unbounded_channel();
    (Outbox { items, room: Arc::new(Semaphore::new(ROOM as usize)), stalled: Arc::default() }, reader)
}

impl Outbox {
    /// Puts a message in. Where there is no room, waits for as long as `patience`.
    pub(in crate::upstream) async fn event(&self, message: Bytes, patience: Duration) -> Sent {
        let size = u32::try_from(message.len() / 1024 + 1).unwrap_or(ROOM).min(ROOM);
        let room = Arc::clone(&self.room);
        let place = match Arc::clone(&room).try_acquire_many_owned(size) {
            Ok(place) => place,
            Err(_) if patience.is_zero() || self.stalled.load(Relaxed) => return self.full(),
            Err(_) => {
                let waited = tokio::select! {
                    waited = timeout(patience, room.acquire_many_owned(size)) => waited,
                    () = self.items.closed() => return Sent::Closed,
                };
                let Ok(Ok(place)) = waited else { return self.full() };
                place
            }
        };
        self.stalled.store(false, Relaxed);
        if self.items.send(Item::Event(message, place)).is_ok() { Sent::Yes } else { Sent::Closed }
    }

    fn full(&self) -> Sent {
        if self.items.is_closed() {
            return Sent::Closed;
        }
        if !self.stalled.swap(true, Relaxed) {
            tracing::warn!("a client does not read its stream: messages of a command to it are lost");
        }
        Sent::Full
    }

    /// Ends the exchange with its response.
    pub(in crate::upstream) fn answer(&self, message: Bytes) {
        // A client that has left needs none.
        drop(self.items.send(Item::Answer(message)));
    }

    /// Ends the exchange without one.
    pub(in crate::upstream) fn fail(&self, why: &Arc<str>) {
        drop(self.items.send(Item::Failed(Arc::clone(why))));
    }

    /// Whether somebody may still read.
    pub(in crate::upstream) fn is_open(&self) -> bool {
        !self.items.is_closed()
    }
}

/// That somebody waits for a call; dropped before it is done, nobody does any more.
pub(in crate::upstream) trait Waits: Send + std::fmt::Debug {
    /// When the gateway gives up; `None` if it does not, or the call is not open any more.
    fn deadline(&self) -> Option<Instant>;

    /// The answer has come, or none will.
    fn done(self: Box<Self>);
}

/// The messages of a queue as an event stream.
#[derive(Debug)]
pub(in crate::upstream) struct Events {
    first: Option<Bytes>,
    reader: Reader,
    waiting: Option<Box<dyn Waits>>,
    failing: Option<Arc<str>>,
    patience: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl Events {
    /// The rest of an exchange whose first message has come.
    pub(in crate::upstream) fn of_call(first: Bytes, reader: Reader, waiting: impl Waits + 'static) -> Self {
        Self { first: Some(first), waiting: Some(Box::new(waiting)), ..Self::open(reader) }
    }

    /// A stream that no call waits for.
    pub(in crate::upstream) fn open(reader: Reader) -> Self {
        Self { first: None, reader, waiting: None, failing: None, patience: None, ended: false }
    }
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let framed = |message: &[u8]| Poll::Ready(Some(Ok(Frame::data(sse::frame(message).into()))));
        if this.ended {
            return Poll::Ready(None);
        }
        if let Some(first) = this.first.take() {
            return framed(&first);
        }
        if let Some(why) = this.failing.take() {
            this.finish();
            return Poll::Ready(Some(Err(why.to_string().into())));
        }
        if this.is_given_up(cx) {
            // Dropped and not done, which cancels the call.
            this.waiting = None;
            return this.fail("nothing more was said of the call in time".into(), cx);
        }
        let Poll::Ready(item) = this.reader.poll_recv(cx) else { return Poll::Pending };
        match item {
            Some(Item::Event(message, _room)) => framed(&message),
            Some(Item::Answer(message)) => {
                this.finish();
                framed(&message)
            }
            Some(Item::Failed(why)) => this.fail(why, cx),
            None => {
                this.finish();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

impl Events {
    /// Whether the call has had its time. What is said of other things on its stream does not count.
    fn is_given_up(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.waiting.as_ref().and_then(|w| w.deadline()) else { return false };
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if patience.deadline() != deadline {
            patience.as_mut().reset(deadline);
        }
        patience.as_mut().poll(cx).is_ready()
    }

    /// An error ends the connection at once; this lets what was sent before reach the client.
    fn fail<T>(&mut self, why: Arc<str>, cx: &mut Context<'_>) -> Poll<T> {
        self.failing = Some(why);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn finish(&mut self) {
        self.ended = true;
        if let Some(waiting) = self.waiting.take() {
            waiting.done();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_waited_for_once() {
        let (outbox, mut reader) = outbox();
        let patience = Duration::from_secs(1);
        let message = || Bytes::from(vec![b'x'; 64 * KIB - 1]);
        for _ in 0..64 {
            assert_eq!(outbox.event(message(), patience).await, Sent::Yes);
        }
        let began = tokio::time::Instant::now();
        assert_eq!(outbox.event(message(), patience).await, Sent::Full);
        for _ in 0..10_000 {
            assert_eq!(outbox.event(message(), patience).await, Sent::Full);
        }
        assert_eq!(began.elapsed(), patience);
        drop(reader.recv().await);
        assert_eq!(outbox.event(message(), patience).await, Sent::Yes);
        outbox.answer("{}".into());
        drop(reader);
        assert_eq!(outbox.event(message(), patience).await, Sent::Closed);
    }

    #[tokio::test]
    async fn a_message_larger_than_the_room_passes_alone() {
        let (outbox, mut reader) = outbox();
        let large = Bytes::from(vec![b'x'; 9 * KIB * KIB]);
        assert_eq!(outbox.event(large, Duration::ZERO).await, Sent::Yes);
        assert_eq!(outbox.event("{}".into(), Duration::ZERO).await, Sent::Full);
        assert!(matches!(reader.recv().await, Some(Item::Event(m, _)) if m.len() == 9 * KIB * KIB));
        assert_eq!(outbox.event("{}".into(), Duration::ZERO).await, Sent::Yes);
    }
}
