//! Who hears what a server says on a session's stream: the call that it belongs to, the client's GET stream, or both
//! in the order that fits.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    Host,
    session::Session,
    stream::{LIMIT, Stream, Told},
};
use crate::{
    mcp::{
        json::Raw,
        message::{self, Body, Kind, Message},
    },
    upstream::shown::outbox::{Outbox, Sent},
};

/// How long the stream is not read because its client does not read.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a session is kept that nobody uses.
const KEPT: Duration = Duration::from_secs(3600);
/// How long calls may go on of an upstream that is retired.
const LAST_CALLS: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(5);
const INTERNAL_ERROR: i64 = -32603;

/// Reads the stream of a session to its end, which is the session's.
pub(super) async fn hear(session: Arc<Session>, mut stream: Stream, host: Weak<Host>, id: String) {
    let retired = host.upgrade().map(|h| h.stop.clone()).unwrap_or_default();
    let mut until = None;
    let why = loop {
        tokio::select! {
            told = stream.next() => match told {
                Some(Told::Message(text)) => session.message(text).await,
                Some(Told::TooLong) => session.too_long(),
                Some(Told::Endpoint(_)) => {}
                None => break "the server's event stream ended",
            },
            () = session.stop.cancelled() => break "the session was ended",
            () = retired.cancelled(), if until.is_none() => until = Some(Instant::now() + LAST_CALLS),
            () = sleep(LOOK) => {}
        }
        if session.idle().is_some_and(|idle| idle >= KEPT) {
            break "nobody used the session";
        }
        if until.is_some_and(|until| Instant::now() >= until || !session.has_calls()) {
            break "the upstream was taken out of the configuration";
        }
    };
    session.end(why);
    if let Some(host) = host.upgrade() {
        host.forget(&id);
    }
}

impl Session {
    async fn message(&self, text: Bytes) {
        let Ok(Body::Object(message)) = message::parse(&text) else { return };
        match message.kind() {
            Kind::Response => {
                if let Some(outbox) = message.id_raw.and_then(|id| self.answered(id)) {
                    outbox.answer(text.clone());
                }
            }
            Kind::Request => self.question(&text, &message).await,
            Kind::Notification => self.notification(&text, &message).await,
            Kind::Invalid => {}
        }
    }

    async fn question(&self, text: &Bytes, message: &Message<'_>) {
        let Some(id) = message.id() else { return };
        if message.method.as_deref() == Some("ping") {
            return self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        }
        let lost = self.to_client([self.newest(), self.mailbox.stream()], text, Some(id)).await;
        for id in lost {
            let error = json!({"code": INTERNAL_ERROR, "message": "no client listens"});
            self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        }
    }

    async fn notification(&self, text: &Bytes, message: &Message<'_>) {
        let method = message.method.as_deref().unwrap_or_default();
        if method == "notifications/progress" {
            let token = message.params.filter(Raw::is_object).and_then(|p| p.get("progressToken"));
            if let Some(outbox) = token.and_then(|token| self.of_token(token)) {
                outbox.event(text.clone(), PATIENCE).await;
            }
            return;
        }
        let (call, get) = (self.newest(), self.mailbox.stream());
        let of_call = matches!(method, "notifications/message" | "notifications/cancelled");
        let order = if of_call { [call, get] } else { [get, call] };
        drop(self.to_client(order, text, None).await);
    }

    /// Puts a message on the first stream that is open, or keeps it for the next. Gives the ids of requests that no
    /// client will see.
    async fn to_client(&self, order: [Option<Outbox>; 2], text: &Bytes, id: Option<&str>) -> Vec<String> {
        for stream in order.into_iter().flatten() {
            match stream.event(text.clone(), PATIENCE).await {
                Sent::Yes => return Vec::new(),
                Sent::Full => return id.map(str::to_owned).into_iter().collect(),
                Sent::Closed => {}
            }
        }
        self.mailbox.hold(text.clone(), id.map(str::to_owned))
    }

    /// Whose it was is known only if one call waits.
    fn too_long(&self) {
        tracing::warn!("a message of a server over HTTP+SSE is too long and was left out");
        if let Some(outbox) = self.only() {
            outbox.fail(&format!("a message of the server is over {} MiB", LIMIT >> 20).into());
        }
    }
}
