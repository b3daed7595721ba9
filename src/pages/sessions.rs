//! Who has logged in. Owns the tokens of cookies. Invariant: only hashes of tokens are kept, and no more than a bound.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sha2::{Digest, Sha256};

/// How long a login holds.
pub(super) const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Most logins at once; one more ends the oldest.
const MOST: usize = 64;
/// Random bytes of a token.
const TOKEN: usize = 32;

type Hash = [u8; 32];

/// A login, by the hash of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session(Hash);

/// All logins.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Hash, Instant>>);

impl Sessions {
    /// Opens a login; its token. `None` if the system has no randomness.
    pub(super) fn open(&self, now: Instant) -> Option<String> {
        let mut bytes = [0; TOKEN];
        getrandom::fill(&mut bytes).ok()?;
        let token = hex::encode(bytes);
        let mut open = self.lock();
        open.retain(|_, opened| now.saturating_duration_since(*opened) < LIFE);
        if open.len() >= MOST
            && let Some(oldest) = open.iter().min_by_key(|(_, opened)| **opened).map(|(hash, _)| *hash)
        {
            open.remove(&oldest);
        }
        open.insert(hash(&token), now);
        Some(token)
    }

    /// The login of a token. Looked up by hash, so its time tells nothing of other tokens.
    pub(super) fn find(&self, token: &str, now: Instant) -> Option<Session> {
        let session = Session(hash(token));
        self.holds(session, now).then_some(session)
    }

    /// Whether a login still holds.
    pub(super) fn holds(&self, session: Session, now: Instant) -> bool {
        let open = self.lock();
        open.get(&session.0).is_some_and(|opened| now.saturating_duration_since(*opened) < LIFE)
    }

    /// Ends a login.
    pub(super) fn close(&self, session: Session) {
        self.lock().remove(&session.0);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Hash, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_ends_by_time_or_by_hand() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = sessions.open(now).unwrap();
        let session = sessions.find(&token, now).unwrap();
        assert!(sessions.find("0", now).is_none() && sessions.find("", now).is_none());
        assert!(sessions.holds(session, now + LIFE - Duration::from_secs(1)));
        assert!(!sessions.holds(session, now + LIFE));
        sessions.close(session);
        assert!(sessions.find(&token, now).is_none());
    }

    #[test]
    fn there_are_never_too_many() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.open(now).unwrap();
        let rest: Vec<_> =
            (1..=MOST).map(|n| sessions.open(now + Duration::from_secs(n as u64)).unwrap()).collect();
        let later = now + Duration::from_secs(MOST as u64);
        assert!(sessions.find(&first, later).is_none());
        assert!(rest.iter().all(|token| sessions.find(token, later).is_some()));
    }
}
