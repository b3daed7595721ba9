//! Places that are counted, for each owner and in all.
//!
//! Invariant: never more than the limits; a place is given back when it is dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// For one owner.
    pub each: usize,
    /// For all together.
    pub all: usize,
}

/// See the module.
#[derive(Debug)]
pub(in crate::bridge::face) struct Places {
    limit: Limit,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    each: HashMap<Arc<str>, usize>,
}

/// One place, while it lives.
#[derive(Debug)]
pub(in crate::bridge::face) struct Place {
    places: Arc<Places>,
    owner: Arc<str>,
}

/// There is none left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bridge::face) enum Full {
    /// For this owner, who may have so many.
    Owner(usize),
    /// For anybody.
    All,
}

impl Places {
    pub(in crate::bridge::face) fn new(limit: Limit) -> Arc<Self> {
        Arc::new(Self { limit, taken: Mutex::default() })
    }

    /// Takes one.
    ///
    /// # Errors
    /// There is none, and for whom.
    pub(in crate::bridge::face) fn take(self: &Arc<Self>, owner: &Arc<str>) -> Result<Place, Full> {
        let mut taken = self.taken();
        let of_owner = taken.each.get(owner).copied().unwrap_or(0);
        if of_owner >= self.limit.each {
            return Err(Full::Owner(self.limit.each));
        }
        if taken.all >= self.limit.all {
            return Err(Full::All);
        }
        taken.all += 1;
        taken.each.insert(Arc::clone(owner), of_owner + 1);
        Ok(Place { places: Arc::clone(self), owner: Arc::clone(owner) })
    }

    /// How many are taken.
    pub(in crate::bridge::face) fn len(&self) -> usize {
        self.taken().all
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.all -= 1;
        if let Some(count) = taken.each.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                taken.each.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_and_not_all_together_take_more_than_there_are() {
        let places = Places::new(Limit { each: 2, all: 3 });
        let (ada, bob) = (Arc::from("ada"), Arc::from("bob"));
        let one = places.take(&ada).unwrap();
        let _two = places.take(&ada).unwrap();
        assert_eq!(places.take(&ada).unwrap_err(), Full::Owner(2));
        let _three = places.take(&bob).unwrap();
        assert_eq!(places.take(&bob).unwrap_err(), Full::All);
        drop(one);
        assert_eq!(places.len(), 2);
        let _four = places.take(&bob).unwrap();
        assert_eq!(places.len(), 3);
    }

    #[test]
    fn nothing_is_kept_of_owners_who_have_none() {
        let places = Places::new(Limit { each: 1, all: 9 });
        for n in 0..100 {
            drop(places.take(&Arc::from(n.to_string())).unwrap());
        }
        assert!(places.taken().each.is_empty() && places.len() == 0);
    }
}
