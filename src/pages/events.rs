//! Live calls as server-sent events. Owns the stream's form: `call` with a row, `lost` with a number, a comment while
//! nothing happens; an event's id is where to go on after it.
//!
//! Invariant: a stream holds one piece of text at a time. While its reader does not take it, the feed goes on and the
//! oldest calls are lost to this reader, who is told how many.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    answer::{self, Answer},
    door::{Door, Pass},
    filter::Filter,
    window::{Calls, Window},
};

/// Between two signs of life, and between two looks whether the login still holds.
const BEAT: Duration = Duration::from_secs(15);
/// How long a browser waits before it asks again.
const RETRY_MS: u32 = 2_000;
/// Between two pieces: a burst becomes a few large ones.
const GATHER: Duration = Duration::from_millis(100);

/// One stream.
pub(super) struct Events {
    pub(super) window: Arc<Window>,
    pub(super) door: Arc<Door>,
    pub(super) pass: Pass,
    pub(super) filter: Filter,
    /// Where it begins.
    pub(super) next: u64,
    pub(super) stop: CancellationToken,
    /// Its place among the streams.
    pub(super) place: OwnedSemaphorePermit,
}

struct Text(mpsc::Receiver<Bytes>);

impl Body for Text {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

impl Events {
    /// Begins to stream.
    pub(super) fn answer(self) -> Answer {
        let (sender, receiver) = mpsc::channel(1);
        drop(tokio::spawn(self.run(sender)));
        answer::stream(StatusCode::OK, "text/event-stream", Text(receiver).boxed_unsync())
    }

    async fn run(mut self, sender: mpsc::Sender<Bytes>) {
        let _place = &self.place;
        let mut changes = self.window.feed.watch();
        let hello = format!("retry: {RETRY_MS}\n: from {}\n\n", self.next);
        if sender.send(hello.into()).await.is_err() {
            return;
        }
        let mut beat = Instant::now() + BEAT;
        loop {
            changes.mark_unchanged();
            let calls = self.window.since(self.next);
            self.next = calls.next;
            let text = self.text(&calls);
            if !text.is_empty() {
                beat = Instant::now() + BEAT;
                tokio::select! {
                    sent = sender.send(text.into()) => if sent.is_err() { return },
                    () = self.stop.cancelled() => return,
                }
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
                () = self.stop.cancelled() => return,
                () = sleep_until(beat) => {
                    beat = Instant::now() + BEAT;
                    if !self.door.holds(self.pass) || sender.send(Bytes::from_static(b": \n\n")).await.is_err() {
                        return;
                    }
                }
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    fn text(&self, calls: &Calls) -> String {
        let boot = self.window.feed.boot();
        let mut text = String::new();
        if calls.lost > 0 {
            text.push_str(&format!("event: lost\ndata: {}\n\n", calls.lost));
        }
        for call in calls.calls.iter().filter(|call| self.filter.lets(call)) {
            // JSON text has no line breaks, and neither has anything else that a client could send into an event.
            if let Ok(row) = serde_json::to_string(&call.row()) {
                text.push_str(&format!("id: {boot}.{}\nevent: call\ndata: {row}\n\n", call.position + 1));
            }
        }
        text
    }
}

/// Where the reader of an event's id goes on; from the beginning in another boot.
pub(super) fn position(id: &str, boot: &str) -> u64 {
    let of_boot = id.strip_prefix(boot).and_then(|rest| rest.strip_prefix('.'));
    of_boot.and_then(|position| position.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::{audit::Feed, pages::window::tests::line};

    #[test]
    fn an_id_of_another_boot_begins_anew() {
        assert_eq!(position("01B.17", "01B"), 17);
        for id in ["01A.17", "01B", "01B.x", "", "17"] {
            assert_eq!(position(id, "01B"), 0, "{id}");
        }
    }

    async fn stream(
        feed: &Feed,
        stop: &CancellationToken,
    ) -> (crate::server::admin::AdminBody, Arc<Semaphore>) {
        let places = Arc::new(Semaphore::new(1));
        let events = Events {
            window: Arc::new(Window::new(feed.clone())),
            door: Arc::new(Door::new("127.0.0.1:1".parse().unwrap(), None)),
            pass: Pass::Free,
            filter: Filter::default(),
            next: feed.end(),
            stop: stop.clone(),
            place: Arc::clone(&places).acquire_owned().await.unwrap(),
        };
        (events.answer().into_body(), places)
    }

    async fn next(body: &mut crate::server::admin::AdminBody) -> Option<String> {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn who_does_not_read_loses_the_oldest_and_is_told_how_many() {
        let (feed, stop) = (Feed::new("B"), CancellationToken::new());
        let (mut body, places) = stream(&feed, &stop).await;
        assert!(next(&mut body).await.unwrap().starts_with("retry: "));
        feed.push(line(0, "").as_bytes());
        assert!(next(&mut body).await.unwrap().starts_with("id: B.1\nevent: call\ndata: {"));
        // Nobody waits for a reader: all of these are pushed before it gets to read.
        (1..5_000).for_each(|n| feed.push(line(n, "").as_bytes()));
        let mut text = String::new();
        while !text.contains("id: B.5000\n") {
            text.push_str(&next(&mut body).await.unwrap());
        }
        let lost: u64 = text
            .lines()
            .next()
            .filter(|l| *l == "event: lost")
            .map(|_| text.lines().nth(1).unwrap().strip_prefix("data: ").unwrap().parse().unwrap())
            .unwrap();
        assert_eq!(lost + text.matches("event: call").count() as u64, 4_999);
        assert_eq!(places.available_permits(), 0);

        stop.cancel();
        assert_eq!(next(&mut body).await, None, "the end of the process ends it");
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test]
    async fn a_reader_that_leaves_frees_its_place() {
        let feed = Feed::new("B");
        let (body, places) = stream(&feed, &CancellationToken::new()).await;
        drop(body);
        drop(places.acquire().await.unwrap());
    }
}
