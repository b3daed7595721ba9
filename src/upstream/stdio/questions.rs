//! Questions of one child that wait for a client's answer, under ids of the gateway's own.
//!
//! Invariant: a session sees no id twice, whatever its children call their questions, and an answer reaches only the
//! child that has asked.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Questions of a child that are open.
const OPEN: usize = 1024;

/// Numbers the questions that one session is asked, by all its children.
#[derive(Debug, Default)]
pub(super) struct Numbers(AtomicU64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Questions(BTreeMap<u64, String>);

impl Questions {
    /// Takes note of a question that the child calls `theirs` (JSON text); its own id, if there is room.
    pub(super) fn open(&mut self, theirs: &str, numbers: &Numbers) -> Option<u64> {
        if self.0.len() >= OPEN {
            return None;
        }
        let own = numbers.0.fetch_add(1, Relaxed) + 1;
        self.0.insert(own, theirs.to_owned());
        Some(own)
    }

    /// Ends the question with this id of ours; what the child calls it.
    pub(super) fn close(&mut self, own: u64) -> Option<String> {
        self.0.remove(&own)
    }

    /// Ends the question that the child calls `theirs`; its own id.
    pub(super) fn take_back(&mut self, theirs: &str) -> Option<u64> {
        let own = self.0.iter().find(|(_, id)| *id == theirs).map(|(own, _)| *own)?;
        self.0.remove(&own);
        Some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_children_of_a_session_ask_under_different_ids() {
        let numbers = Numbers::default();
        let (mut before, mut after) = (Questions::default(), Questions::default());
        let one = before.open("1", &numbers).unwrap();
        let two = after.open("1", &numbers).unwrap();
        assert_ne!(one, two);
        assert_eq!(after.close(one), None, "the answer to the first is not the second's");
        assert_eq!(after.close(two).as_deref(), Some("1"));
        assert_eq!((before.take_back("\"1\""), before.take_back("1")), (None, Some(one)));
        assert_eq!(before.close(one), None);
    }

    #[test]
    fn there_is_a_bound() {
        let (numbers, mut questions) = (Numbers::default(), Questions::default());
        assert!((0..OPEN).all(|n| questions.open(&n.to_string(), &numbers).is_some()));
        assert_eq!(questions.open("x", &numbers), None);
    }
}
