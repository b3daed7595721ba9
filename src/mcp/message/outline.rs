//! Where the parts of a message stand, for whoever gets the same bytes later in the same process and need not read them
//! again. Invariant: it is good for those bytes alone, and for a request that may go on.

use std::ops::Range;

use bytes::Bytes;

use super::{Kind, Message};
use crate::mcp::json::{Raw, scan};

type Place = Option<Range<usize>>;

/// See the module.
#[derive(Debug, Clone)]
pub struct Outline {
    bytes: Bytes,
    envelope: Range<usize>,
    id: Place,
    method: Place,
    params: Place,
    name: Place,
    uri: Place,
    task_id: Place,
    arguments: Place,
    cursor: Place,
    request_state: Place,
    meta: Place,
    client_capabilities: Place,
    progress_token: Place,
}

impl Message<'_> {
    /// Its outline; `bytes` is what it was read from. None of what is no request that may go on.
    #[must_use]
    pub fn outline(&self, bytes: &Bytes) -> Option<Outline> {
        if self.bom || self.kind() != Kind::Request || self.refusal(false).is_some() {
            return None;
        }
        let place = |raw: Option<Raw<'_>>| raw.map(|raw| raw.range());
        Some(Outline {
            bytes: bytes.clone(),
            envelope: self.envelope.range(),
            id: place(self.id_raw),
            method: place(self.method_raw),
            params: place(self.params),
            name: place(self.name_raw),
            uri: place(self.uri_raw),
            task_id: place(self.task_id_raw),
            arguments: place(self.arguments),
            cursor: place(self.cursor),
            request_state: place(self.request_state),
            meta: place(self.meta),
            client_capabilities: place(self.client_capabilities),
            progress_token: place(self.progress_token),
        })
    }
}

impl Outline {
    /// The message, as far as it is outlined, if these are the bytes that it was read from: the same memory, which
    /// nobody can change.
    #[must_use]
    pub fn of<'a>(&self, bytes: &'a Bytes) -> Option<Box<Message<'a>>> {
        if (self.bytes.as_ptr(), self.bytes.len()) != (bytes.as_ptr(), bytes.len()) {
            return None;
        }
        let document = scan::utf8(bytes).ok()?;
        let raw = |place: &Place| place.as_ref().map(|at| Raw::new(document, at.start, at.end));
        let text = |place: &Place| raw(place).and_then(|raw| raw.as_str());
        Some(Box::new(Message {
            envelope: Raw::new(document, self.envelope.start, self.envelope.end),
            id_raw: raw(&self.id),
            method: text(&self.method),
            method_raw: raw(&self.method),
            params: raw(&self.params),
            name: text(&self.name),
            name_raw: raw(&self.name),
            uri: text(&self.uri),
            uri_raw: raw(&self.uri),
            task_id: text(&self.task_id),
            task_id_raw: raw(&self.task_id),
            arguments: raw(&self.arguments),
            cursor: raw(&self.cursor),
            request_state: raw(&self.request_state),
            meta: raw(&self.meta),
            client_capabilities: raw(&self.client_capabilities),
            progress_token: raw(&self.progress_token),
            ..Message::default()
        }))
    }
}
