//! Sessions with legacy servers that a client's own session id names, so that another process of the gateway goes on with
//! them. Request extensions: who makes the id collects them ([`Openings`]), and who has it says which there are
//! ([`Named`]).
//!
//! Invariant: what an id can hold is bounded here; a session is named once at most, and never after the id was made.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use serde::{Deserialize, Serialize};

/// A longer session id of a server is left out.
const LONGEST: usize = 512;

/// A session with a server, and what an adapter must know of its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The server's id of it.
    #[serde(rename = "i")]
    pub id: Box<str>,
    /// The revision agreed on.
    #[serde(rename = "v")]
    pub version: Box<str>,
    /// What the server offers, as bits of the adapter.
    #[serde(rename = "o", default)]
    pub offers: u8,
    /// Whose credentials opened it, as a hash, where they were the client's own.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u64>,
}

/// Request extension, shared: the sessions that the client's id names, by server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Named(BTreeMap<Box<str>, Opened>);

/// Request extension: what [`Named`] says of the one server that the request goes to.
#[derive(Debug, Clone)]
pub struct NamedHere(pub Opened);

/// Request extension of `server/discover`: sessions are to be opened for the client, and told here.
#[derive(Debug, Clone)]
pub struct Openings(Arc<Mutex<Collected>>);

/// Request extension: the same for one server.
#[derive(Debug, Clone)]
pub struct Opening {
    server: Arc<str>,
    // Nobody waits for it any more once the client has left.
    to: Weak<Mutex<Collected>>,
}

#[derive(Debug)]
struct Collected {
    sessions: Named,
    /// Bytes of JSON that the id has left.
    room: usize,
    is_closed: bool,
}

impl Named {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one with this server.
    #[must_use]
    pub fn at(&self, server: &str) -> Option<NamedHere> {
        self.0.get(server).cloned().map(NamedHere)
    }
}

impl Openings {
    /// For an id that has room for so many bytes of JSON.
    #[must_use]
    pub fn with_room(room: usize) -> Self {
        Self(Arc::new(Mutex::new(Collected { sessions: Named::default(), room, is_closed: false })))
    }

    /// For one server.
    #[must_use]
    pub fn at(&self, server: &Arc<str>) -> Opening {
        Opening { server: Arc::clone(server), to: Arc::downgrade(&self.0) }
    }

    /// What has come until now. Later ones are not taken.
    #[must_use]
    pub fn close(self) -> Named {
        let mut collected = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        collected.is_closed = true;
        std::mem::take(&mut collected.sessions)
    }
}

impl Opening {
    /// Names the session; whether the id will.
    #[must_use]
    pub fn name(&self, opened: Opened) -> bool {
        let Some(to) = self.to.upgrade().filter(|_| opened.id.len() <= LONGEST) else { return false };
        let bytes = serde_json::to_string(&(&*self.server, &opened)).map_or(usize::MAX, |json| json.len());
        let mut collected = to.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(room) = collected.room.checked_sub(bytes).filter(|_| !collected.is_closed) else {
            return false;
        };
        collected.room = room;
        collected.sessions.0.insert((*self.server).into(), opened);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(id: &str) -> Opened {
        Opened { id: id.into(), version: "2025-11-25".into(), offers: 3, owner: None }
    }

    #[test]
    fn what_came_in_time_is_named_and_survives_its_text() {
        let openings = Openings::with_room(1_000);
        let (files, late) = (openings.at(&"files".into()), openings.at(&"late".into()));
        assert!(files.name(opened("s1")));
        let named = openings.close();
        assert!(!late.name(opened("s2")), "the id is made");
        let text = serde_json::to_string(&named).unwrap();
        assert_eq!(text, r#"{"files":{"i":"s1","v":"2025-11-25","o":3}}"#);
        let again: Named = serde_json::from_str(&text).unwrap();
        assert_eq!(again.at("files").unwrap().0, opened("s1"));
        assert!(again.at("late").is_none() && !again.is_empty());
    }

    #[test]
    fn a_client_that_has_left_gets_no_id() {
        let openings = Openings::with_room(1_000);
        let files = openings.at(&"files".into());
        drop(openings);
        assert!(!files.name(opened("s1")));
    }

    #[test]
    fn all_together_have_a_bound_and_each_has_one() {
        let openings = Openings::with_room(2_000);
        assert!(!openings.at(&"long".into()).name(opened(&"x".repeat(LONGEST + 1))));
        let id = "\"".repeat(300);
        let taken = (0..64).filter(|n| openings.at(&format!("m{n}").into()).name(opened(&id))).count();
        let named = openings.close();
        assert!(taken == 2 || taken == 3, "{taken}");
        assert!(serde_json::to_string(&named).unwrap().len() <= 2_000);
    }
}
