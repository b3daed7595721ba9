//! One JSON-RPC message, read in one pass into slices of the received bytes.
//!
//! Owns what the pipeline needs to know of a message and whether it may go on at all. Repairs nothing.
//! Invariant: every slice is the client's own text, never re-serialised, so `"id":null`, absent and `1.0` stay
//! three different things.

mod outline;
mod read;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::outline::Outline;
use super::json::{self, Raw, Type, edit::Slot, number};

/// What a POSTed body holds.
#[derive(Debug)]
pub enum Body<'a> {
    /// One object.
    Object(Box<Message<'a>>),
    /// An array at the top: a batch.
    Batch,
    /// Any other value at the top.
    Scalar,
}

/// Why a body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseError {
    /// Not JSON, or not UTF-8 (-32700).
    NotJson {
        /// Byte offset of the first byte that does not fit.
        offset: usize,
    },
    /// Nested deeper than [`json::MAX_DEPTH`] levels (-32600).
    TooDeep {
        /// Byte offset of the bracket that is one too many.
        offset: usize,
    },
}

/// A member that came twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// In the message itself.
    Envelope,
    /// In `params`.
    Params,
    /// In `params._meta`.
    Meta,
}

/// The kinds of JSON-RPC message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `method` and `id`.
    Request,
    /// `method` without `id`.
    Notification,
    /// No `method`, but an `id`, a `result` or an `error`.
    Response,
    /// None of these.
    Invalid,
}

/// One JSON object, seen as a JSON-RPC message.
#[derive(Debug, Default)]
pub struct Message<'a> {
    /// `method`, decoded, if it is a string.
    pub method: Option<Cow<'a, str>>,
    /// `method` as it stands, whatever its type.
    pub method_raw: Option<Raw<'a>>,
    /// `jsonrpc` as it stands.
    pub jsonrpc: Option<Raw<'a>>,
    /// `id` as it stands, valid or not. See [`Message::id`].
    pub id_raw: Option<Raw<'a>>,
    /// `params` as it stands.
    pub params: Option<Raw<'a>>,
    /// Whether there is a `result`.
    pub has_result: bool,
    /// Whether there is an `error`.
    pub has_error: bool,
    /// `params.name`, if it is a string.
    pub name: Option<Cow<'a, str>>,
    /// `params.name` as it stands.
    pub name_raw: Option<Raw<'a>>,
    /// `params.uri`, if it is a string.
    pub uri: Option<Cow<'a, str>>,
    /// `params.uri` as it stands.
    pub uri_raw: Option<Raw<'a>>,
    /// `params.taskId`, if it is a string.
    pub task_id: Option<Cow<'a, str>>,
    /// `params.taskId` as it stands.
    pub task_id_raw: Option<Raw<'a>>,
    /// `params.arguments` as it stands.
    pub arguments: Option<Raw<'a>>,
    /// `params.cursor` as it stands.
    pub cursor: Option<Raw<'a>>,
    /// `params.requestState` as it stands.
    pub request_state: Option<Raw<'a>>,
    /// `params.protocolVersion`, if it is a string: what `initialize` asks for.
    pub requested_version: Option<Cow<'a, str>>,
    /// `params._meta` as it stands.
    pub meta: Option<Raw<'a>>,
    /// `io.modelcontextprotocol/protocolVersion` in `_meta`, if it is a string.
    pub protocol_version: Option<Cow<'a, str>>,
    /// Whether `_meta` has that key at all.
    pub has_protocol_version: bool,
    /// `io.modelcontextprotocol/clientCapabilities` in `_meta`, if it is an object.
    pub client_capabilities: Option<Raw<'a>>,
    /// `progressToken` in `_meta` as it stands.
    pub progress_token: Option<Raw<'a>>,
    /// The client's name for itself: from `_meta`, or from `params.clientInfo` of `initialize`.
    pub client_name: Option<Cow<'a, str>>,
    /// The client's version, from the same place.
    pub client_version: Option<Cow<'a, str>>,
    /// `traceparent` in `_meta`.
    pub traceparent: Option<Cow<'a, str>>,
    /// `tracestate` in `_meta`.
    pub tracestate: Option<Cow<'a, str>>,
    /// The first place where a member came twice.
    pub duplicate: Option<Duplicate>,
    /// Whether the envelope has a member that some parsers (Go's among them) take for `method`, `id` or
    /// `params`, because its name differs from that by case only.
    pub has_lookalike: bool,
    /// Whether `params` has such a member for `name` or `arguments`.
    pub has_lookalike_param: bool,
    /// Whether a byte-order mark came first. Offsets of slices count from the first byte after it.
    pub bom: bool,
    /// The object's own text.
    pub envelope: Raw<'a>,
    /// Where the envelope's last member ends: a new one is appended here.
    pub(super) last_end: Option<usize>,
    /// The same for `params`, if that is an object with members.
    pub(super) params_last_end: Option<usize>,
    /// Where members of `params` stand among their neighbours.
    pub(super) slots: Slots,
    /// Whether a text in `params`, beside `_meta`, may read as a number, boolean, array or object.
    pub(super) readable: bool,
    /// The most levels of arrays and objects that are open anywhere; where there are few, less.
    pub(super) deepest: usize,
}

/// Where the members of `params` stand that a repair may take out.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) name: Option<Slot>,
    pub(super) arguments: Option<Slot>,
    pub(super) meta: Option<Slot>,
    pub(super) cursor: Option<Slot>,
}

/// Reads a body. A byte-order mark in front is passed over, as RFC 8259 section 8.1 allows.
///
/// # Errors
/// [`ParseError`] if it is no JSON or nests too deep.
pub fn parse(body: &[u8]) -> Result<Body<'_>, ParseError> {
    read::body(body).map_err(|e| match e.cause {
        json::Cause::Syntax => ParseError::NotJson { offset: e.offset },
        json::Cause::Depth => ParseError::TooDeep { offset: e.offset },
    })
}

impl<'a> Message<'a> {
    /// The JSON text of the id, if it is one that MCP allows: a string, or a number that is an integer by value.
    /// It is the client's own spelling (`1.0` stays `1.0`).
    #[must_use]
    pub fn id(&self) -> Option<&'a str> {
        let id = self.id_raw?;
        let valid = match id.kind() {
            Type::String => true,
            Type::Number => number::is_integer(id.text()),
            _ => false,
        };
        (valid && self.duplicate_id().is_none()).then(|| id.text())
    }

    /// That the id's own member comes twice leaves no id to answer to.
    fn duplicate_id(&self) -> Option<()> {
        (self.duplicate == Some(Duplicate::Envelope)).then_some(())?;
        (self.envelope.members().filter(|m| m.name.is_string("id")).count() > 1).then_some(())
    }

    /// What kind of message this is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match (&self.method_raw, &self.method, &self.id_raw) {
            (Some(_), None, _) => Kind::Invalid,
            (Some(_), Some(_), Some(_)) => Kind::Request,
            (Some(_), Some(_), None) => Kind::Notification,
            (None, _, Some(_)) => Kind::Response,
            (None, _, None) if self.has_result || self.has_error => Kind::Response,
            (None, _, None) => Kind::Invalid,
        }
    }

    /// Whether `jsonrpc` is exactly `"2.0"`.
    #[must_use]
    pub fn is_jsonrpc_2(&self) -> bool {
        self.jsonrpc.is_some_and(|j| j.is_string("2.0"))
    }

    /// Whether `jsonrpc` is there but means another version than 2.0.
    #[must_use]
    pub fn is_wrong_jsonrpc(&self) -> bool {
        self.jsonrpc.is_some_and(|j| !j.is_string("2.0") && !number::equal(j.text(), "2"))
    }

    /// Why this message is refused with 400 / -32600 whatever its method means, or `None` if it may go on.
    /// `is_direct_tool`: its method is the name of a known tool and no MCP method.
    #[must_use]
    pub fn refusal(&self, is_direct_tool: bool) -> Option<&'static str> {
        if let Some(place) = self.duplicate {
            return Some(match place {
                Duplicate::Envelope => "a member of the message comes twice",
                Duplicate::Params => "a member of params comes twice",
                Duplicate::Meta => "a member of params._meta comes twice",
            });
        }
        if self.is_wrong_jsonrpc() {
            return Some("jsonrpc must be \"2.0\"");
        }
        if self.id_raw.is_some() && self.id().is_none() {
            return Some("id must be a string or an integer");
        }
        if self.has_lookalike {
            return Some("a member differs from method, id or params by case only");
        }
        if self.has_lookalike_param && self.method.as_deref() == Some("tools/call") {
            return Some("a member of params differs from name or arguments by case only");
        }
        let is_call = is_direct_tool || self.method.as_deref() == Some("tools/call");
        match self.kind() {
            Kind::Invalid if self.method_raw.is_some() => Some("method must be a string"),
            Kind::Invalid => Some("the message has no method, result or error"),
            Kind::Notification if is_call => Some("a tool call needs an id"),
            _ => None,
        }
    }
}
