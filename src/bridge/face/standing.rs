//! The session's GET stream, fed by one listen after the other: a listen that ends is opened again, and after a reload
//! that replaces the face the stream goes on at the new one.
//!
//! Invariant: what a client may have missed between two listens is told, and where the lists are known to be the same,
//! nothing is.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::{mpsc, watch};

use super::{
    Core, KEEP_ALIVE,
    body::{Events, Gone},
    listen::{LISTS, Listening, NoListen, RESOURCES},
    live::Live,
    reply::{change, is_response, list_changed, made_change},
    request::Call,
};
use crate::upstream::BoxFuture;

/// Pause before a listen that ended is opened again; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A listen that stood this long was a good one.
const LONG_LIVED: Duration = Duration::from_secs(30);

/// A stream, and what it needs to open its listen again.
pub(super) struct Standing {
    core: Arc<Core>,
    serving: watch::Receiver<Weak<Core>>,
    call: Arc<Call>,
    live: Arc<Live>,
}

/// Where the changes come from.
enum Source {
    Open(Box<Listening>),
    /// The last one ended; this opens the next.
    Reopening(BoxFuture<'static, Result<Listening, NoListen>>),
}

/// What happens next.
enum Event {
    Swap(Option<Listening>),
    /// Another face serves, or none.
    Moved,
    Message(Vec<u8>),
    Ended,
    Reopened(Result<Listening, NoListen>),
    Quiet,
}

impl Standing {
    pub(super) fn new(core: Arc<Core>, call: Call, live: Arc<Live>) -> Self {
        let mut serving = core.memory.serving();
        // It may have been replaced while the first listen was opened.
        serving.mark_changed();
        Self { core, serving, call: Arc::new(call), live }
    }

    /// Relays until the client leaves, or another stream or the session's end takes over.
    pub(super) async fn relay(
        mut self,
        first: Listening,
        mut swaps: mpsc::Receiver<Listening>,
        events: &Events,
    ) -> Result<(), Gone> {
        let mut pause = PAUSE;
        // The lists that the client knows, or will once it has read the notice; `None` if that is not known.
        let mut told = first.lists_told().map(|t| t.digests);
        // Notices that are on their way of changes that the client has been told of.
        let mut stale = [0; 3];
        let mut source = Source::Open(Box::new(first));
        // The head goes out with the first byte.
        events.keep_alive().await?;
        loop {
            let event = tokio::select! {
                biased;
                new = swaps.recv() => Event::Swap(new),
                _ = self.serving.changed() => Event::Moved,
                event = next(&mut source) => event,
                () = tokio::time::sleep(KEEP_ALIVE) => Event::Quiet,
            };
            match event {
                Event::Swap(None) => return Ok(()),
                Event::Swap(Some(new)) | Event::Reopened(Ok(new)) => {
                    let gap = matches!(source, Source::Reopening(_));
                    let lists = new.lists_told();
                    let missed = self.missed(told, &new, lists.map(|l| l.digests), gap);
                    stale = lists.filter(|_| gap || told.is_some()).map_or([0; 3], |l| l.notices);
                    told = lists.map(|l| l.digests);
                    source = Source::Open(Box::new(new));
                    for notice in missed {
                        events.message(&notice).await?;
                    }
                }
                Event::Moved => {
                    let Some(core) = self.serving.borrow_and_update().upgrade() else { return Ok(()) };
                    if !Arc::ptr_eq(&core, &self.core) {
                        self.core = core;
                        pause = PAUSE;
                        source = Source::Reopening(self.reopen(Duration::ZERO));
                    }
                }
                Event::Quiet => events.keep_alive().await?,
                Event::Message(message) => {
                    let list = list_changed(&message, LISTS.map(|(_, notice)| notice));
                    if let Some(n) = list.filter(|n| stale[*n] > 0) {
                        stale[n] -= 1;
                    } else if let Some(text) = change(&message, |uri| self.live.is_subscribed(uri)) {
                        if let Source::Open(open) = &source
                            && let Some((n, (told, now))) = list.zip(told.as_mut().zip(open.lists_told()))
                        {
                            told[n] = now.digests[n];
                        }
                        events.message(&text).await?;
                    }
                    // A server that was not known when this began may have what the client subscribes to.
                    if list.is_some_and(|n| LISTS[n].0 == RESOURCES) && self.lacks(&source) {
                        source = Source::Reopening(self.reopen(Duration::ZERO));
                    }
                }
                Event::Ended | Event::Reopened(Err(_)) => {
                    if let Source::Open(old) = &source
                        && old.since.elapsed() >= LONG_LIVED
                    {
                        pause = PAUSE;
                    }
                    source = Source::Reopening(self.reopen(pause));
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Whether the session subscribes to more than is listened to.
    fn lacks(&self, source: &Source) -> bool {
        let Source::Open(open) = source else { return false };
        self.live.uris().iter().any(|uri| !open.uris.iter().any(|u| **u == **uri))
    }

    fn reopen(&self, pause: Duration) -> BoxFuture<'static, Result<Listening, NoListen>> {
        let (core, call, live) = (Arc::clone(&self.core), Arc::clone(&self.call), Arc::clone(&self.live));
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            core.listen(&call, &live).await
        })
    }

    /// The notices of what may have changed since the last listen, whose lists the client was `told` of, before those
    /// of `now`; `gap`: it has ended before this one was open.
    fn missed(
        &self,
        told: Option<[u64; 3]>,
        new: &Listening,
        now: Option<[u64; 3]>,
        gap: bool,
    ) -> Vec<String> {
        let is_other = |n: usize| told.zip(now).map_or(gap, |(told, now)| told[n] != now[n]);
        let lists =
            LISTS.iter().enumerate().filter(|(n, (_, notice))| is_other(*n) && new.lists.contains(notice));
        let uris = new.uris.iter().filter(|uri| gap && self.live.is_subscribed(uri));
        let updated = |uri: &String| made_change("notifications/resources/updated", Some(uri));
        lists.map(|(_, (_, notice))| made_change(notice, None)).chain(uris.map(updated)).collect()
    }
}

async fn next(source: &mut Source) -> Event {
    match source {
        Source::Open(listening) => match listening.messages.next().await {
            // The server's answer to the listen is its end in order.
            Ok(Some(message)) if is_response(&message) => Event::Ended,
            Ok(Some(message)) => Event::Message(message),
            Ok(None) | Err(_) => Event::Ended,
        },
        Source::Reopening(opening) => Event::Reopened(opening.await),
    }
}
