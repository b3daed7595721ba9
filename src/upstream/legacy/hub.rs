//! What a session tells outside the streams of calls: lists that changed, resources that were updated, and what is for
//! an open call. Owns who listens, the one GET stream that it comes on, and how many want each resource.
//!
//! Invariants: one GET stream at most, and only while somebody listens, or a call is open that can be asked, or was a
//! moment ago; a listener that does not read costs a bounded queue and then its place, and learns of it, so it can
//! catch up.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use serde_json::json;
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};

use super::{
    elsewhere::{Calls, Heard},
    get::{self, Head},
    session::{Session, spawn},
    wants::Wants,
};
use crate::mcp::message::{self, Body, Message};

/// Notifications that wait for one listener.
const WAITING: usize = 64;
/// How long the head of the GET stream is waited for; a server may hold it back until there is something to say.
const HEAD: Duration = Duration::from_secs(2);
/// The same before a call that can be asked, once in a session.
const SOON: Duration = Duration::from_millis(500);

/// What a listener hears.
#[derive(Debug)]
pub(super) enum News {
    /// A notification, as the server wrote it.
    Told(Bytes),
    /// Some may have been missed.
    Missed,
}

/// See the module.
#[derive(Default)]
pub(super) struct Hub {
    inner: Mutex<Inner>,
    /// Changes of what is subscribed to happen one after another.
    turn: tokio::sync::Mutex<HashMap<String, usize>>,
}

#[derive(Default)]
struct Inner {
    listeners: HashMap<u64, Listener>,
    next: u64,
    reader: Option<Reader>,
    calls: Calls,
    /// The server holds the head of the stream back.
    holds_head: bool,
    closed: bool,
}

struct Listener {
    wants: Wants,
    news: mpsc::Sender<News>,
}

struct Reader {
    task: AbortHandle,
    head: watch::Receiver<Head>,
}

/// A place among the listeners; leaving it takes back what was subscribed to for it.
pub(super) struct Place {
    session: Arc<Session>,
    number: u64,
    subscribed: Vec<String>,
}

impl Hub {
    /// Hands a notification to those who want it.
    pub(super) fn tell(&self, text: &Bytes) {
        let Ok(Body::Object(message)) = message::parse(text) else { return };
        self.inner().listeners.retain(|_, listener| {
            !listener.wants.include(&message) || listener.news.try_send(News::Told(text.clone())).is_ok()
        });
    }

    /// A call begins that can be asked.
    pub(super) fn begin(&self, own: u64) -> Heard {
        self.inner().calls.begin(own)
    }

    /// It has ended.
    pub(super) fn end(&self, own: u64) {
        self.inner().calls.end(own);
    }

    /// Whether several calls are open that can be asked.
    pub(super) fn has_several(&self) -> bool {
        self.inner().calls.are_several()
    }

    /// Hands a message to the open call that it is for. Whether there is one.
    pub(super) fn of_call(&self, text: &Bytes, message: &Message<'_>, one_client: bool) -> bool {
        self.inner().calls.tell(text, message, one_client)
    }

    /// Whether nobody needs the stream any more; then it is for its reader to end.
    pub(super) fn rests(&self) -> bool {
        let mut inner = self.inner();
        let is_needed = inner.is_needed();
        if !is_needed {
            inner.reader = None;
        }
        !is_needed
    }

    /// Listeners were promised what cannot come any more: they are to ask again.
    pub(super) fn dismiss(&self) {
        self.inner().listeners.clear();
    }

    /// Something may have been told while nobody heard it.
    pub(super) fn missed(&self) {
        self.inner().listeners.retain(|_, listener| listener.news.try_send(News::Missed).is_ok());
    }

    /// The session is gone: every listener's news end.
    pub(super) fn close(&self) {
        let mut inner = self.inner();
        inner.closed = true;
        inner.listeners.clear();
        inner.stop_reading();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_needed(&self) -> bool {
        !self.listeners.is_empty() || self.calls.are_recent()
    }

    fn head(&mut self, session: &Arc<Session>) -> watch::Receiver<Head> {
        let reader = self.reader.get_or_insert_with(|| {
            let (tell, head) = watch::channel(Head::Awaited);
            Reader { task: tokio::spawn(get::read(Arc::downgrade(session), tell)).abort_handle(), head }
        });
        reader.head.clone()
    }

    fn stop_reading(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.task.abort();
        }
    }
}

/// Listens in a session: what of `wants` can come, and the news. `None` if the session is gone.
pub(super) async fn join(
    session: &Arc<Session>,
    mut wants: Wants,
) -> Option<(Place, Wants, mpsc::Receiver<News>)> {
    let (news, receiver) = mpsc::channel(WAITING);
    let (mut place, head) = {
        let mut inner = session.hub.inner();
        if inner.closed {
            return None;
        }
        inner.next += 1;
        let number = inner.next;
        inner.listeners.insert(number, Listener { wants: Wants::default(), news });
        // Where nothing can come, no stream is opened.
        let head = (wants != Wants::default()).then(|| inner.head(session));
        (Place { session: Arc::clone(session), number, subscribed: Vec::new() }, head)
    };
    if let Some(head) = head
        && !can_come(head).await
    {
        wants = Wants::default();
    }
    let asked = std::mem::take(&mut wants.uris);
    // Before the server is asked: what it tells at once is heard.
    place.want(|heard| *heard = Wants { uris: asked.clone(), ..wants.clone() });
    for uri in asked {
        if place.subscribe(&uri).await {
            wants.uris.push(uri);
        }
    }
    place.want(|heard| heard.uris.clone_from(&wants.uris));
    (!session.is_lost()).then_some((place, wants, receiver))
}

/// Opens the stream for what is asked there of a call that will begin, and waits a little for it to be there: what
/// comes before that is lost.
pub(super) async fn stand_by(session: &Arc<Session>) {
    let head = {
        let mut inner = session.hub.inner();
        if inner.closed {
            return;
        }
        inner.calls.touch();
        let head = inner.head(session);
        if inner.holds_head {
            return;
        }
        head
    };
    if is_known(head, SOON).await.is_none() {
        session.hub.inner().holds_head = true;
    }
}

async fn can_come(head: watch::Receiver<Head>) -> bool {
    is_known(head, HEAD).await != Some(Head::Refused)
}

async fn is_known(mut head: watch::Receiver<Head>, patience: Duration) -> Option<Head> {
    let known = tokio::time::timeout(patience, head.wait_for(|head| *head != Head::Awaited)).await;
    known.ok()?.ok().map(|head| *head)
}

impl Place {
    fn want(&self, change: impl FnOnce(&mut Wants)) {
        if let Some(listener) = self.session.hub.inner().listeners.get_mut(&self.number) {
            change(&mut listener.wants);
        }
    }

    /// Subscribes to a resource, unless somebody in the session has.
    async fn subscribe(&mut self, uri: &str) -> bool {
        let mut counts = self.session.hub.turn.lock().await;
        let count = counts.get(uri).copied().unwrap_or(0);
        if count == 0 && self.session.ask("resources/subscribe", &json!({"uri": uri})).await.is_none() {
            return false;
        }
        counts.insert(uri.to_owned(), count + 1);
        drop(counts);
        self.subscribed.push(uri.to_owned());
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.session.hub.inner();
        inner.listeners.remove(&self.number);
        if !inner.is_needed() {
            inner.stop_reading();
        }
        drop(inner);
        self.session.touch();
        if self.session.is_lost() || self.subscribed.is_empty() {
            return;
        }
        let (session, uris) = (Arc::clone(&self.session), std::mem::take(&mut self.subscribed));
        spawn(async move {
            let mut counts = session.hub.turn.lock().await;
            for uri in uris {
                let left = counts.get(&uri).map_or(0, |count| count - 1);
                if left > 0 {
                    counts.insert(uri, left);
                } else {
                    counts.remove(&uri);
                    session.ask("resources/unsubscribe", &json!({"uri": uri})).await;
                }
            }
        });
    }
}
