//! Which replica a legacy session lives at. Bounded: the session noted first is forgotten first, and then found again
//! by asking. Invariant: no session id is kept, only its hash.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};

/// Sessions that are remembered.
const CAPACITY: usize = 65_536;

/// A session id's hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Session([u8; 16]);

impl Session {
    pub(super) fn of(id: &[u8]) -> Self {
        let whole: [u8; 32] = Sha256::digest(id).into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Homes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    homes: HashMap<Session, usize>,
    order: VecDeque<Session>,
}

impl Homes {
    pub(super) fn get(&self, session: &Session) -> Option<usize> {
        self.lock().homes.get(session).copied()
    }

    pub(super) fn note(&self, session: Session, at: usize) {
        let mut known = self.lock();
        if known.homes.insert(session, at).is_none() {
            known.order.push_back(session);
        }
        if known.order.len() > CAPACITY
            && let Some(first) = known.order.pop_front()
        {
            known.homes.remove(&first);
        }
    }

    pub(super) fn forget(&self, session: &Session) {
        self.lock().homes.remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_forgotten_when_there_are_too_many() {
        let homes = Homes::default();
        let session = |n: usize| Session::of(&n.to_le_bytes());
        (0..=CAPACITY).for_each(|n| homes.note(session(n), n % 3));
        assert_eq!((homes.get(&session(0)), homes.get(&session(1))), (None, Some(1)));
        homes.forget(&session(1));
        assert_eq!(homes.get(&session(1)), None);
    }
}
