//! What one client session hears beside the answers to its calls: its GET stream, a little that waits for one, and
//! what it asked to hear.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use bytes::Bytes;

use super::{calls::lock, questions::Numbers, wishes::Wishes};
use crate::upstream::shown::{
    mailbox::Mailbox,
    outbox::{Outbox, Reader, Sent},
};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    mailbox: Mailbox<u64>,
    wishes: Mutex<Wishes>,
    questions: Numbers,
}

impl Inbox {
    /// Opens the GET stream, with what waits for it. One that is open ends: its client has come back.
    pub(super) async fn open(&self) -> Reader {
        self.mailbox.open().await
    }

    /// The GET stream, while somebody reads it.
    pub(super) fn stream(&self) -> Option<Outbox> {
        self.mailbox.stream()
    }

    /// Keeps a message for the next stream; gives the ids of requests that had to make room.
    pub(super) fn hold(&self, message: Bytes, id: Option<u64>) -> Vec<u64> {
        self.mailbox.hold(message, id)
    }

    /// Tells a client that hears broadcasts; what does not fit is lost.
    pub(super) async fn tell(&self, message: Bytes) {
        if let Some(stream) = self.stream() {
            let sent = stream.event(message, Duration::ZERO).await;
            tracing::trace!(taken = sent == Sent::Yes, "notification");
        }
    }

    /// Ends the stream for good.
    pub(super) fn close(&self) {
        self.mailbox.close();
    }

    /// The ids of what its client is asked.
    pub(super) fn questions(&self) -> &Numbers {
        &self.questions
    }

    pub(super) fn wishes(&self) -> MutexGuard<'_, Wishes> {
        lock(&self.wishes)
    }

    /// Whether somebody listens for news that were asked for.
    pub(super) fn expects_news(&self) -> bool {
        self.stream().is_some() && !self.wishes().subscribed().is_empty()
    }
}
