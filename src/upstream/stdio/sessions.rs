//! The sessions of one upstream by their ids: how they begin, are found and end.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    calls::lock,
    hear::Audience,
    host::{Host, result},
    inbox::Inbox,
    mapping,
    session::Session,
};
use crate::{
    mcp::{
        json,
        message::Message,
        version::{is_known, is_modern},
    },
    upstream::{
        UpstreamError,
        shown::{find::new_id, owner::Owner},
    },
};

/// Sessions that are kept. Where there is no room the one that was forgotten longest makes it.
const SESSIONS: usize = 10_000;

impl Host {
    /// Begins a session by a client's `initialize`: its id, if it has begun, and the answer.
    pub(super) async fn open(
        &self,
        text: &Bytes,
        message: &Message<'_>,
        owner: Owner,
    ) -> Result<(Option<String>, Bytes), UpstreamError> {
        let inbox = Arc::new(Inbox::default());
        // A copy: the body's own buffer may be larger by far. A shared child is greeted by the gateway.
        let hello = if self.command.shared { Bytes::new() } else { Bytes::copy_from_slice(text) };
        let session = Session::new(owner, hello, Arc::clone(&inbox));
        let answer = if self.command.shared {
            self.shared_child().await?;
            let (mut answer, id) = (Vec::new(), message.id().unwrap_or("null"));
            let welcome = fit(lock(&self.welcome).clone(), message.requested_version.as_deref());
            for part in [br#"{"jsonrpc":"2.0","id":"#, id.as_bytes(), br#","result":"#, &welcome, b"}"] {
                answer.extend_from_slice(part);
            }
            answer.into()
        } else {
            let peer = self.fresh()?;
            peer.talk_to(Audience::One(inbox));
            let answer = peer.ask(text).await.map_err(|why| {
                self.failed(&peer);
                UpstreamError::Protocol(self.says(&why))
            })?;
            if result(&answer).is_none() {
                return Ok((None, answer));
            }
            lock(&self.pace).reset();
            *session.slot.running.lock().await = Some(peer);
            answer
        };
        let id = new_id().ok_or_else(|| UpstreamError::Connect("no randomness for a session id".into()))?;
        if self.command.shared {
            lock(&self.many).insert(id.clone(), Arc::clone(&session.inbox));
        }
        self.keep(id.clone(), session);
        Ok((Some(id), answer))
    }

    fn keep(&self, id: String, session: Session) {
        let forgotten = {
            let mut sessions = lock(&self.sessions);
            let oldest = if sessions.len() < SESSIONS {
                None
            } else {
                let ages = sessions.iter().filter_map(|(id, s)| Some((s.forgotten()?, id)));
                ages.max().map(|(_, id)| id.clone())
            };
            sessions.insert(id, Arc::new(session));
            oldest
        };
        if let Some(oldest) = forgotten {
            self.close(&oldest);
        }
    }

    /// The session of this id, if it is the caller's.
    pub(super) fn session(&self, id: &str, owner: &Owner) -> Option<Arc<Session>> {
        let session = lock(&self.sessions).get(id).filter(|s| s.owner == *owner).cloned()?;
        session.touch();
        Some(session)
    }

    /// Ends a session.
    pub(super) fn close(&self, id: &str) {
        lock(&self.many).remove(id);
        let session = lock(&self.sessions).remove(id);
        if let Some(session) = session {
            self.unsubscribe(&session);
            session.end();
        }
    }

    /// Tells a shared child what nobody wants to hear of any more.
    fn unsubscribe(&self, session: &Session) {
        let peer = self.shared.running();
        let Some(peer) = peer.filter(|_| self.command.shared) else { return };
        let asked_for = session.inbox.wishes().subscribed().clone();
        for uri in &asked_for {
            if !self.is_wanted(uri) {
                peer.mention("resources/unsubscribe", &serde_json::json!({"uri": uri}));
            }
        }
    }

    /// Whether a session on the shared child wants news of `uri`.
    pub(super) fn is_wanted(&self, uri: &str) -> bool {
        lock(&self.many).values().any(|inbox| inbox.wishes().subscribed().contains(uri))
    }
}

/// The result of `initialize` for a client of an older legacy revision than the shared child was greeted with. Since
/// 2025-03-26 revisions have only added to what a server says unless it is asked, and a client that is told of a
/// revision it does not know leaves.
fn fit(welcome: Bytes, asked: Option<&str>) -> Bytes {
    let Some(asked) = asked.filter(|v| is_known(v) && !is_modern(v)) else { return welcome };
    let Some(spoken) = json::parse(&welcome).ok().and_then(|w| w.get("protocolVersion")) else {
        return welcome;
    };
    let is_older = spoken.as_str().is_some_and(|spoken| asked < &*spoken);
    if is_older { mapping::put(&welcome, spoken, &format!("\"{asked}\"")) } else { welcome }
}
