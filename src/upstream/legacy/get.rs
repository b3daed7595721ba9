//! The GET stream of a session: opened while somebody needs it, and again after each break.
//!
//! Invariant: it does not keep the session.

use std::{sync::Weak, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use tokio::{sync::watch, time::Instant};

use super::{
    elsewhere::REST,
    losses,
    messages::{Item, Messages, is_stream},
    question::{self, Verdict},
    session::Session,
    wants::is_news,
};
use crate::{
    mcp::message::{self, Body, Kind},
    upstream::{backoff::Backoff, refusal::disowned},
};

/// A stream that lived this long was a good one: the next is opened soon.
const LONG_LIVED: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What is known of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Awaited,
    Open,
    /// The server has none.
    Refused,
}

/// Keeps the GET stream until it is refused, the session is gone, or nobody needs it.
pub(super) async fn read(weak: Weak<Session>, tell: watch::Sender<Head>) {
    let mut pause = Backoff::up_to(LONGEST_PAUSE);
    loop {
        let Some(get) = weak.upgrade().map(|session| session.get(None)) else { return };
        let (answer, is_disowned) = match get.await {
            Ok(response) => match disowned(response).await {
                Ok((response, is_disowned)) => (Ok(response), is_disowned),
                Err(error) => (Err(error), false),
            },
            Err(error) => (Err(error), false),
        };
        let Some(session) = weak.upgrade() else { return };
        let messages = match answer {
            Ok(response) if response.status().is_success() && is_stream(response.headers()) == Some(true) => {
                session.streams();
                if tell.send_replace(Head::Open) == Head::Open {
                    session.hub.missed();
                }
                Some(Messages::new(response.into_body(), true))
            }
            // A 404 from one that never gave a stream may mean that it has none: whether the session is lost, a call will tell.
            Ok(response)
                if is_disowned
                    && session.id.is_some()
                    && (session.has_streamed() || response.status() != StatusCode::NOT_FOUND) =>
            {
                return session.lost();
            }
            Ok(response)
                if response.status().is_server_error()
                    && response.status() != StatusCode::NOT_IMPLEMENTED =>
            {
                tell.send_replace(Head::Open);
                None
            }
            // The server has not noticed the end of the last one.
            Ok(response) if response.status() == StatusCode::CONFLICT => None,
            Ok(_no_stream) => {
                if tell.send_replace(Head::Refused) == Head::Open {
                    session.hub.dismiss();
                }
                return;
            }
            // Promised all the same: when the server is back, what was missed is made up for.
            Err(_unreachable) => {
                tell.send_replace(Head::Open);
                None
            }
        };
        drop(session);
        if let Some(messages) = messages {
            let opened = Instant::now();
            if follow(&weak, messages).await == Ended::Unneeded {
                return;
            }
            if opened.elapsed() >= LONG_LIVED {
                pause.reset();
            }
        }
        tokio::time::sleep(pause.next()).await;
        if weak.upgrade().is_none_or(|session| session.hub.rests()) {
            return;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Ended {
    Broken,
    Unneeded,
}

async fn follow(weak: &Weak<Session>, mut messages: Messages) -> Ended {
    loop {
        let item = tokio::time::timeout(REST, messages.next()).await;
        let Some(session) = weak.upgrade().filter(|session| !session.hub.rests()) else {
            return Ended::Unneeded;
        };
        match item {
            Ok(Ok(Some(Item::Message(text)))) => heard(&session, &text).await,
            Ok(Ok(Some(Item::Alive))) | Err(_) => {}
            Ok(Ok(None) | Err(_)) => return Ended::Broken,
        }
    }
}

async fn heard(session: &Session, text: &Bytes) {
    let Ok(Body::Object(message)) = message::parse(text) else { return };
    let method = message.method.as_deref().unwrap_or_default();
    match (message.kind(), message.id()) {
        (Kind::Request, Some(id)) if method == "ping" => session.pong(id).await,
        (Kind::Request, Some(id)) => {
            session.keep_apart();
            if !session.hub.of_call(text, &message, session.one_client) {
                let verdict =
                    if session.hub.has_several() { Verdict::Unclear } else { losses::unasked(method) };
                session.tell(question::verdict(id, verdict)).await;
            }
        }
        (Kind::Notification, _) if is_news(method) => session.news(method, text),
        (Kind::Notification, _) if losses::is_of_call(method) => {
            session.hub.of_call(text, &message, session.one_client);
        }
        _ => {}
    }
}
