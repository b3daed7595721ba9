//! Label values that come from outside, kept within bounds. Owns how many distinct values a label may
//! take and how long they may be; not which labels there are. Invariant: a stranger cannot make the number
//! of series grow without end, nor push the names of tools that really answered out of the metrics.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use crate::mcp::json::hash::FoldState;

/// What stands for every value beyond the bounds.
pub(super) const OTHER: &str = "other";
/// Distinct values of one label; 200 tools is more than any one host shows to a model.
pub(super) const MAX_VALUES: usize = 200;
/// Bytes of one value; longer ones are `other`, because a cut name could collide with a real one.
const MAX_BYTES: usize = 128;
/// Series of one family.
pub(super) const MAX_SERIES: usize = 2_000;

/// A bounded set of values, each standing for a small number.
#[derive(Debug)]
pub(super) struct Values {
    ids: HashMap<Arc<str>, u16, FoldState>,
    names: Vec<Arc<str>>,
}

impl Values {
    /// Number 0 is the empty value (no such label), number 1 is `other`.
    pub(super) fn new() -> Self {
        let names: Vec<Arc<str>> = vec!["".into(), OTHER.into()];
        let ids = names.iter().zip(0..).map(|(name, id)| (Arc::clone(name), id)).collect();
        Self { ids, names }
    }

    /// The number of `value`. New values take a place while there is one; unproven ones may take only half
    /// of the places, so that junk cannot crowd out what really exists.
    pub(super) fn id(&mut self, value: Option<&str>, proven: bool) -> u16 {
        let value = value.unwrap_or("");
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let room = if proven { MAX_VALUES } else { MAX_VALUES / 2 };
        if value.len() > MAX_BYTES || self.names.len() >= room {
            return 1;
        }
        self.add(value)
    }

    fn add(&mut self, value: &str) -> u16 {
        let id = u16::try_from(self.names.len()).unwrap_or(1);
        let name: Arc<str> = value.into();
        self.names.push(Arc::clone(&name));
        self.ids.insert(name, id);
        id
    }

    /// The value that `id` stands for.
    pub(super) fn name(&self, id: u16) -> Arc<str> {
        Arc::clone(&self.names[usize::from(id)])
    }
}

/// Handles of one family's series by a small key, so that a call looks one up without building label
/// strings. Beyond [`MAX_SERIES`] every new key shares the series of the fallback key.
#[derive(Debug)]
pub(super) struct Series<K, M> {
    handles: HashMap<K, M>,
}

impl<K: Eq + Hash + Copy, M> Series<K, M> {
    pub(super) fn new() -> Self {
        Self { handles: HashMap::new() }
    }

    /// The handle of `key`, made by `make` on first use.
    pub(super) fn get(&mut self, key: K, fallback: K, make: impl FnOnce(K) -> M) -> &M {
        let full = self.handles.len() >= MAX_SERIES;
        let key = if full && !self.handles.contains_key(&key) { fallback } else { key };
        self.handles.entry(key).or_insert_with(|| make(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unproven_names_leave_room_for_proven_ones() {
        let mut values = Values::new();
        for n in 0..1_000 {
            values.id(Some(&format!("junk{n}")), false);
        }
        let real = values.id(Some("files__read"), true);
        assert_eq!(&*values.name(real), "files__read");
        assert_eq!(values.id(Some("files__read"), false), real);
        for n in 0..1_000 {
            values.id(Some(&format!("real{n}")), true);
        }
        assert_eq!(values.names.len(), MAX_VALUES);
        assert_eq!(values.id(Some("late"), true), 1);
    }

    #[test]
    fn absent_is_empty_and_long_is_other() {
        let mut values = Values::new();
        assert_eq!(values.id(None, true), 0);
        assert_eq!(values.id(Some(&"x".repeat(129)), true), 1);
    }

    #[test]
    fn series_beyond_the_bound_share_one() {
        let mut series = Series::new();
        for key in 0..MAX_SERIES * 2 {
            series.get(key, usize::MAX, |k| k);
        }
        assert_eq!(series.handles.len(), MAX_SERIES + 1);
        assert_eq!(*series.get(MAX_SERIES * 3, usize::MAX, |k| k), usize::MAX);
    }
}
