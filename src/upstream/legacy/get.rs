//! The GET stream of a session: opened while somebody listens, and again after each break.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use tokio::{sync::watch, time::Instant};

use super::{
    losses,
    messages::{Item, Messages, is_stream},
    question,
    session::Session,
};
use crate::{
    mcp::message::{self, Body, Kind},
    upstream::backoff::Backoff,
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

/// Keeps the GET stream until it is refused, the session is gone, or nobody listens.
pub(super) async fn read(session: Arc<Session>, tell: watch::Sender<Head>) {
    let mut pause = Backoff::up_to(LONGEST_PAUSE);
    loop {
        match session.get(None).await {
            Ok(response) if response.status().is_success() && is_stream(response.headers()) == Some(true) => {
                if tell.send_replace(Head::Open) == Head::Open {
                    session.hub.missed();
                }
                let opened = Instant::now();
                follow(&session, Messages::new(response.into_body(), true)).await;
                if opened.elapsed() >= LONG_LIVED {
                    pause.reset();
                }
            }
            Ok(response) if response.status() == StatusCode::NOT_FOUND && session.id.is_some() => {
                return session.lost();
            }
            Ok(response)
                if response.status().is_server_error()
                    && response.status() != StatusCode::NOT_IMPLEMENTED =>
            {
                tell.send_replace(Head::Open);
            }
            Ok(_no_stream) => {
                if tell.send_replace(Head::Refused) == Head::Open {
                    session.hub.dismiss();
                }
                return;
            }
            // Promised all the same: when the server is back, what was missed is made up for.
            Err(_unreachable) => drop(tell.send_replace(Head::Open)),
        }
        tokio::time::sleep(pause.next()).await;
    }
}

async fn follow(session: &Session, mut messages: Messages) {
    while let Ok(Some(item)) = messages.next().await {
        let Item::Message(text) = item else { continue };
        let Ok(Body::Object(message)) = message::parse(&text) else { continue };
        let method = message.method.as_deref().unwrap_or_default();
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) if method == "ping" => session.pong(id).await,
            (Kind::Request, Some(id)) => {
                session.tell(question::verdict(id, losses::unasked(method))).await;
            }
            (Kind::Notification, _) if losses::is_kept_of_get(method) => session.hub.tell(&text),
            _ => {}
        }
    }
}
