//! Resources that answers have linked to and no list has: who named them. Bounded; the oldest go first. Invariant: a URI
//! that two members have named is nobody's, so that none can catch another's reads.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const MOST: usize = 2_048;

#[derive(Debug, Default)]
pub(super) struct Links(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// `None`: several.
    owners: HashMap<Arc<str>, Option<usize>>,
    order: VecDeque<Arc<str>>,
}

impl Links {
    /// The member `seat` has linked to `uri`.
    pub(super) fn note(&self, uri: &str, seat: usize) {
        let mut known = self.lock();
        if let Some(owner) = known.owners.get_mut(uri) {
            *owner = owner.filter(|o| *o == seat);
            return;
        }
        if known.order.len() >= MOST
            && let Some(oldest) = known.order.pop_front()
        {
            known.owners.remove(&oldest);
        }
        let uri: Arc<str> = uri.into();
        known.owners.insert(Arc::clone(&uri), Some(seat));
        known.order.push_back(uri);
    }

    /// Who alone has linked to it.
    pub(super) fn owner(&self, uri: &str) -> Option<usize> {
        self.lock().owners.get(uri).copied().flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_one_alone_has_named_has_an_owner_and_the_oldest_go() {
        let links = Links::default();
        links.note("a", 1);
        links.note("a", 1);
        assert_eq!(links.owner("a"), Some(1));
        links.note("a", 2);
        assert_eq!(links.owner("a"), None);
        links.note("a", 1);
        assert_eq!(links.owner("a"), None);
        (0..MOST).for_each(|n| links.note(&n.to_string(), 0));
        links.note("a", 2);
        assert_eq!((links.owner("a"), links.owner("0"), links.owner("1")), (Some(2), None, Some(0)));
    }
}
