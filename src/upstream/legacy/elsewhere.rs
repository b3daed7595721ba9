//! What a server says of a call outside that call's own stream, on the session's GET stream. Owns which calls are open
//! that can be asked.
//!
//! Invariant: what names its call goes there; a question or a log message is the only open call's, and of several
//! nobody's, since they may be of different clients that use one key; the newest's if they are all of one client.

use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use tokio::{sync::mpsc, time::Instant};

use super::{answer::same_id, losses, question};
use crate::mcp::{
    json::Raw,
    message::{self, Body, Kind, Message},
};

/// How long the stream stays for the next call. An idle session has none: it costs a connection.
pub(super) const REST: Duration = Duration::from_secs(5);
/// Messages from there that wait for one call.
const WAITING: usize = 64;

/// The open calls of a session.
#[derive(Default)]
pub(super) struct Calls {
    open: HashMap<u64, mpsc::Sender<Bytes>>,
    /// When one was open for the last time.
    last: Option<Instant>,
}

/// A call's end of it. Dropping it loses questions; see [`Heard::unread`].
pub(super) struct Heard {
    messages: mpsc::Receiver<Bytes>,
    first: Option<Bytes>,
}

impl Calls {
    /// A call begins, by its id.
    pub(super) fn begin(&mut self, own: u64) -> Heard {
        let (heard, messages) = mpsc::channel(WAITING);
        self.open.insert(own, heard);
        Heard { messages, first: None }
    }

    /// It has ended.
    pub(super) fn end(&mut self, own: u64) {
        if self.open.remove(&own).is_some() {
            self.touch();
        }
        if self.open.is_empty() {
            self.open.shrink_to_fit();
        }
    }

    /// One will begin.
    pub(super) fn touch(&mut self) {
        self.last = Some(Instant::now());
    }

    /// Whether one is open, or was a moment ago.
    pub(super) fn are_recent(&self) -> bool {
        !self.open.is_empty() || self.last.is_some_and(|last| last.elapsed() < REST)
    }

    /// Whether nothing tells which of them a question is for.
    pub(super) fn are_several(&self) -> bool {
        self.open.len() > 1
    }

    /// Hands a message to the call that it is for. Whether there is one, and it has room.
    pub(super) fn tell(&self, text: &Bytes, message: &Message<'_>, one_client: bool) -> bool {
        let give = |call: &mpsc::Sender<Bytes>| call.try_send(text.clone()).is_ok();
        let param = |name: &str| message.params.filter(Raw::is_object).and_then(|p| p.get(name));
        match message.method.as_deref().unwrap_or_default() {
            "notifications/progress" => {
                let token = param("progressToken");
                self.open.iter().find(|(own, _)| same_id(token, **own)).is_some_and(|(_, call)| give(call))
            }
            // A question may have been another call's when it was asked.
            "notifications/cancelled" => self.open.values().filter(|call| give(call)).count() > 0,
            _ => {
                let newest = self.open.iter().max_by_key(|(own, _)| **own);
                newest.filter(|_| one_client || self.open.len() == 1).is_some_and(|(_, call)| give(call))
            }
        }
    }
}

impl Heard {
    /// Waits until there is something.
    pub(super) async fn wait(&mut self) {
        while self.first.is_none() {
            match self.messages.recv().await {
                Some(message) => self.first = Some(message),
                None => std::future::pending().await,
            }
        }
    }

    /// What comes next, while it is heard.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.messages.recv().await,
        }
    }

    /// What the server gets for questions that nobody will look at any more.
    pub(super) fn unread(mut self) -> Vec<Bytes> {
        self.messages.close();
        let mut verdicts = Vec::new();
        while let Some(text) = self.first.take().or_else(|| self.messages.try_recv().ok()) {
            let Ok(Body::Object(message)) = message::parse(&text) else { continue };
            if let (Kind::Request, Some(id), Some(method)) = (message.kind(), message.id(), &message.method) {
                verdicts.push(question::verdict(id, losses::unasked(method)));
            }
        }
        verdicts
    }
}
