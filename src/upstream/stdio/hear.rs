//! Who hears what a child says: the call that it belongs to, the session, all sessions, or nobody.
//!
//! Invariant: nothing that belongs to one session reaches another, and when the child ends every call that waits is told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    calls::{Core, lock},
    child::Listener,
    framing::{self, Long},
    inbox::Inbox,
    mapping,
};
use crate::{
    mcp::message::{Kind, Message},
    upstream::shown::outbox::{Outbox, Sent},
};

/// How long a child is not listened to because its client does not read.
const PATIENCE: Duration = Duration::from_secs(1);

const METHOD_NOT_FOUND: i64 = -32601;
const INTERNAL_ERROR: i64 = -32603;

/// The sessions that share a child.
pub(super) type Many = Arc<Mutex<HashMap<String, Arc<Inbox>>>>;

/// Whom a child talks to.
#[derive(Debug)]
pub(super) enum Audience {
    /// One session: everything is for it.
    One(Arc<Inbox>),
    /// Several: nothing can be asked of them, and they hear only what is for all.
    Many(Many),
    /// Self-contained calls.
    Calls,
}

impl Core {
    async fn message(&self, text: &Bytes, message: &Message<'_>) {
        match message.kind() {
            Kind::Response => self.response(text, message),
            Kind::Request => self.question(text.clone(), message).await,
            Kind::Notification => self.notification(text.clone(), message).await,
            Kind::Invalid => self.stray(text),
        }
    }

    fn response(&self, text: &[u8], message: &Message<'_>) {
        let own = message.id_raw.and_then(mapping::own);
        let call = own.and_then(|own| {
            let mut state = self.state();
            state.used = Instant::now();
            state.calls.remove(&own)
        });
        // A late answer to a cancelled call, or to nothing.
        let Some(call) = call else { return };
        self.answered.store(true, Relaxed);
        if let Some(outbox) = call.outbox {
            outbox.answer(mapping::response(text, message, &call.id));
        }
    }

    /// The message for the stream of the call that it belongs to: progress, or news of a subscription.
    fn of_call(&self, text: &[u8], message: &Message<'_>) -> Option<(Option<Outbox>, Bytes)> {
        let token = mapping::param(message, "progressToken");
        let progress = token.filter(|_| message.method.as_deref() == Some("notifications/progress"));
        let place = progress.or_else(|| mapping::subscription(message))?;
        let mut state = self.state();
        let call = mapping::own(place).and_then(|own| state.calls.get_mut(&own));
        let Some(call) = call else { return Some((None, Bytes::new())) };
        call.heard = Some(Instant::now());
        let theirs = if progress.is_some() { call.token.as_ref() } else { Some(&call.id) };
        let outbox = call.outbox.clone().filter(|_| theirs.is_some());
        Some((outbox, theirs.map_or_else(Bytes::new, |id| mapping::put(text, place, id))))
    }

    async fn notification(&self, mut text: Bytes, message: &Message<'_>) {
        if let Some((outbox, text)) = self.of_call(&text, message) {
            if let Some(outbox) = outbox {
                outbox.event(text, self.patience()).await;
            }
            return;
        }
        let method = message.method.as_deref().unwrap_or_default();
        if let Some(taken_back) =
            mapping::param(message, "requestId").filter(|_| method == "notifications/cancelled")
        {
            let own = self.state().questions.take_back(taken_back.text());
            let Some(own) = own else { return };
            text = mapping::put(&text, taken_back, &own.to_string());
        }
        match self.audience.get() {
            Some(Audience::One(inbox)) => {
                let of_call = matches!(method, "notifications/message" | "notifications/cancelled");
                self.to_client(inbox, text, None, of_call).await;
            }
            Some(Audience::Many(sessions)) => {
                let all: Vec<_> = lock(sessions).values().cloned().collect();
                for inbox in all {
                    let updated = method == "notifications/resources/updated";
                    let for_it = match message.uri.as_deref().filter(|_| updated) {
                        Some(uri) => inbox.wishes().wants(uri),
                        None => method.ends_with("/list_changed"),
                    };
                    if for_it {
                        inbox.tell(text.clone()).await;
                    }
                }
            }
            // A log line names no call, and other news but these nobody's here.
            Some(Audience::Calls) if method == "notifications/message" => {
                let only = self.state().only_logging();
                if let Some(outbox) = only {
                    outbox.event(text, self.patience()).await;
                }
            }
            Some(Audience::Calls) | None => {}
        }
    }

    async fn question(&self, text: Bytes, message: &Message<'_>) {
        let Some(id) = message.id() else { return self.stray(&text) };
        if message.method.as_deref() == Some("ping") {
            return self.order(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        let Some(Audience::One(inbox)) = self.audience.get() else {
            return self.refuse(id, METHOD_NOT_FOUND, "this process is shared: no client can be asked");
        };
        let own = self.state().questions.open(id, inbox.questions());
        let (Some(own), Some(place)) = (own, message.id_raw) else {
            return self.refuse(id, INTERNAL_ERROR, "too many questions are open");
        };
        self.to_client(inbox, mapping::put(&text, place, &own.to_string()), Some(own), true).await;
    }

    /// Puts a message on the stream of the newest call or on the GET stream, whichever is there, in the order that
    /// fits it, or keeps it. Questions that no client will see are refused.
    async fn to_client(&self, inbox: &Inbox, text: Bytes, id: Option<u64>, call_first: bool) {
        let of_call = {
            let mut state = self.state();
            state.newest().and_then(|call| {
                // Somebody may have to think about a question.
                call.heard = id.as_ref().map(|_| Instant::now()).or(call.heard);
                call.outbox.clone()
            })
        };
        let (call, get) = (of_call, inbox.stream());
        for stream in if call_first { [call, get] } else { [get, call] }.into_iter().flatten() {
            match stream.event(text.clone(), PATIENCE).await {
                Sent::Yes => return,
                Sent::Full => return id.into_iter().for_each(|own| self.unheard(own)),
                Sent::Closed => {}
            }
        }
        inbox.hold(text, id).into_iter().for_each(|own| self.unheard(own));
    }

    /// Refuses the question with this id of ours, unless it was an earlier child's.
    fn unheard(&self, own: u64) {
        let theirs = self.state().questions.close(own);
        if let Some(theirs) = theirs {
            self.refuse(&theirs, INTERNAL_ERROR, "no client listens");
        }
    }

    /// Only the client that does not read may be held up by it.
    fn patience(&self) -> Duration {
        if matches!(self.audience.get(), Some(Audience::One(_))) { PATIENCE } else { Duration::ZERO }
    }

    fn stray(&self, line: &[u8]) {
        lock(&self.noise).stray(line);
    }
}

impl Listener for Core {
    async fn line(&self, line: Bytes) {
        let text = mapping::text(&line);
        for text in mapping::batch(&text).unwrap_or_else(|| vec![text]) {
            match mapping::read(&text) {
                Some(message) => self.message(&text, &message).await,
                None => self.stray(&text),
            }
        }
    }

    fn long(&self, line: &Long) {
        let limit = framing::MAX_LINE >> 20;
        let why: Arc<str> = format!("wrote a line of {} bytes, the limit is {limit} MiB", line.length).into();
        tracing::warn!(bytes = line.length, "a line of a command's output is too long and was left out");
        let only = || {
            let state = self.state();
            let mut calls = state.calls.keys();
            calls.next().filter(|_| calls.next().is_none()).copied()
        };
        if let Some(own) = line.id().or_else(only) {
            self.fail(own, &why);
        }
    }

    fn ended(&self, why: &str) {
        let why: Arc<str> = why.into();
        let calls = {
            let mut state = self.state();
            if state.ended.is_some() {
                return;
            }
            state.ended = Some((Arc::clone(&why), Instant::now()));
            std::mem::take(&mut state.calls)
        };
        calls.into_values().filter_map(|c| c.outbox).for_each(|outbox| outbox.fail(&why));
    }
}
