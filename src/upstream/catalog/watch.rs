//! Keeps the stream on which an upstream tells of changed lists, and turns each change into a nudge. Owns the
//! reopening; the list itself is learned elsewhere. Invariant: at most one open stream for each server.

use std::{
    convert::Infallible,
    future::{Future, pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use http::StatusCode;
use http_body_util::BodyExt;
use tokio::{sync::Notify, time::Instant};

use super::{
    answer::Message,
    link::{Link, Peer},
    probe::probe,
};
use crate::{
    mcp::{era::Era, response::Format, sse::Scanner},
    upstream::{ResponseBody, backoff::Backoff},
};

/// Largest event looked at; a change notification is far smaller.
const MAX_EVENT: usize = 64 * 1024;
/// A stream that lived this long was a good one: the next is opened soon.
const LONG_LIVED: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Watches until dropped, each replica by itself. `open` counts the streams that stand; `wake` is notified for each
/// change, and whenever a stream opens or breaks, because changes may have been missed.
pub(super) async fn watch(
    link: &Link,
    peer: &Peer,
    fixed: Option<&str>,
    wake: &Notify,
    open: &AtomicUsize,
) -> Infallible {
    let each = link.to_each();
    if each.is_empty() {
        // Who reads the lists finds out that the session is gone.
        watch_one(link, peer, wake, open).await;
        wake.notify_one();
        return pending().await;
    }
    let mut each: Vec<_> =
        each.into_iter().map(|link| Box::pin(watch_replica(link, fixed, wake, open))).collect();
    poll_fn(|cx| {
        for replica in &mut each {
            if let Poll::Ready(never) = replica.as_mut().poll(cx) {
                return Poll::Ready(never);
            }
        }
        Poll::Pending
    })
    .await
}

/// Watches one of several, in a session of its own.
async fn watch_replica(
    link: Arc<Link>,
    fixed: Option<&str>,
    wake: &Notify,
    open: &AtomicUsize,
) -> Infallible {
    let mut pause = Backoff::up_to(LONGEST_PAUSE);
    loop {
        if let Ok(peer) = probe(&link, fixed).await {
            let (began, visit) = (Instant::now(), Visit { link: Arc::clone(&link), peer });
            watch_one(&link, &visit.peer, wake, open).await;
            wake.notify_one();
            if began.elapsed() >= LONG_LIVED {
                pause.reset();
            }
        }
        tokio::time::sleep(pause.next()).await;
    }
}

/// A session at one of several, ended when it is dropped.
struct Visit {
    link: Arc<Link>,
    peer: Peer,
}

impl Drop for Visit {
    fn drop(&mut self) {
        let (link, peer) = (Arc::clone(&self.link), self.peer.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(link.delete_session(&peer).await) });
        }
    }
}

/// Watches one server until its session is gone.
async fn watch_one(link: &Link, peer: &Peer, wake: &Notify, open: &AtomicUsize) {
    if peer.era == Era::Modern && !peer.about.announces() {
        return pending().await;
    }
    let mut pause = Backoff::up_to(LONGEST_PAUSE);
    loop {
        match link.open_changes(peer).await {
            Ok(response) if response.status().is_success() && Format::is_sse(response.headers()) => {
                open.fetch_add(1, Relaxed);
                wake.notify_one();
                let opened = Instant::now();
                follow(link, peer, wake, response.into_body()).await;
                open.fetch_sub(1, Relaxed);
                if opened.elapsed() >= LONG_LIVED {
                    pause.reset();
                }
                wake.notify_one();
            }
            Ok(response) if may_pass(response.status()) => {}
            Ok(response) if response.status() == StatusCode::NOT_FOUND && peer.session.is_some() => return,
            Ok(_not_offered) => return pending().await,
            Err(_unreachable) => wake.notify_one(),
        }
        tokio::time::sleep(pause.next()).await;
    }
}

/// Whether a notification tells that a list changed.
fn is_list_changed(method: &str) -> bool {
    let list = method.strip_prefix("notifications/").and_then(|m| m.strip_suffix("/list_changed"));
    list.is_some_and(|list| matches!(list, "tools" | "prompts" | "resources"))
}

/// Whether a refusal is about now and not about the method.
fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}

async fn follow(link: &Link, peer: &Peer, wake: &Notify, mut body: ResponseBody) {
    let mut events = Scanner::new(MAX_EVENT);
    let mut asked = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Some(data) = frame.data_ref() else { continue };
        events.feed(data, |event| {
            let Ok(message) = serde_json::from_slice::<Message>(event.data) else { return };
            match (message.method.as_deref(), message.id) {
                (Some(changed), _) if is_list_changed(changed) => wake.notify_one(),
                (Some(method), Some(id)) => asked.push((method == "ping", id)),
                _ => {}
            }
        });
        for (is_ping, id) in asked.drain(..) {
            let said = if is_ping { link.pong(peer, &id).await } else { link.refuse(peer, &id).await };
            if said.is_err() {
                return;
            }
        }
    }
}
