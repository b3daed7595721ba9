//! What a legacy client said of itself at `initialize`, remembered for the later calls of its session:
//! for records and metrics, and for whether its revision has batches; nobody is let in by it. Bounded; the oldest entry
//! leaves first.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

/// Facts of one session.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// `clientInfo.name`.
    pub name: Option<Arc<str>>,
    /// `clientInfo.version`.
    pub version: Option<Arc<str>>,
    /// The negotiated revision.
    pub protocol_version: Option<Arc<str>>,
}

/// A session id's hash, as records show it.
pub(super) type SessionHash = [u8; 16];

/// Hash of a session id: the id itself is a credential and is kept nowhere.
#[must_use]
pub(super) fn hash(id: &[u8]) -> SessionHash {
    let full: [u8; 32] = Sha256::digest(id).into();
    let mut out = [0; 16];
    out.copy_from_slice(&full[..16]);
    out
}

/// The memory of sessions.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    about: HashMap<SessionHash, About>,
    order: VecDeque<SessionHash>,
}

impl Sessions {
    const CAPACITY: usize = 16_384;

    /// What is known of a session.
    #[must_use]
    pub fn get(&self, session: &SessionHash) -> Option<About> {
        self.lock().about.get(session).cloned()
    }

    /// Remembers a session.
    pub fn insert(&self, session: SessionHash, about: About) {
        let mut inner = self.lock();
        if inner.about.insert(session, about).is_none() {
            inner.order.push_back(session);
        }
        if inner.order.len() > Self::CAPACITY
            && let Some(oldest) = inner.order.pop_front()
        {
            inner.about.remove(&oldest);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_session_is_forgotten_first() {
        let sessions = Sessions::default();
        for i in 0..=Sessions::CAPACITY {
            sessions.insert(hash(&i.to_le_bytes()), About::default());
        }
        assert!(sessions.get(&hash(&0usize.to_le_bytes())).is_none());
        assert!(sessions.get(&hash(&1usize.to_le_bytes())).is_some());
    }
}
