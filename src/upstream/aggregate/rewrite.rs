//! An answer on its way back: the client's id and progress token put in again, `requestState` and ids of tasks sealed,
//! resource links noted. Works on the bytes as they pass, JSON or events; nothing else is touched or held back.
//!
//! Invariant: how the answer is cut into chunks makes no difference, and memory is bounded by [`MAX_STATE`].

mod lines;

use std::borrow::Cow;

use self::lines::{Lines, What};
use super::{present::quoted, tasks::MAX_ID};
use crate::mcp::json::{
    Type,
    push::{Push, Sink},
    text,
};

/// Longest `requestState`, in bytes: sealed and encoded it must still be opened again.
const MAX_STATE: usize = 32 * 1024;
/// The same for the id of a task.
const MAX_TASK: usize = MAX_ID;
/// Longest URI that is noted.
const MAX_URI: usize = 2 * 1024;
/// Longest member name that is looked at; all that mean something are shorter.
const MAX_NAME: usize = 64;
/// Levels at which names mean something.
const LEVELS: usize = 7;

/// What is put in.
pub(super) trait Wants: Send {
    /// The client's id, as JSON.
    fn id(&self) -> &[u8];
    /// The client's progress token, as JSON, if it gave one.
    fn progress_token(&self) -> Option<&[u8]>;
    /// Seals a member's `requestState`.
    fn seal(&self, state: &str) -> String;
    /// Whether the member has tasks.
    fn has_tasks(&self) -> bool;
    /// The public id of a member's task.
    fn task(&self, own: &str) -> String;
    /// A resource was linked to.
    fn linked(&self, uri: &str);
}

/// A value that is longer than what is carried, and which.
#[derive(Debug)]
pub(super) struct TooLong(pub(super) &'static str);

/// Rewrites one answer.
pub(super) struct Rewriter<W> {
    wants: W,
    push: Push,
    watch: Watch,
    lines: Option<Lines>,
}

impl<W: Wants> Rewriter<W> {
    pub(super) fn new(wants: W, events: bool) -> Self {
        let (push, watch) = Default::default();
        Self { wants, push, watch, lines: events.then(Lines::default) }
    }

    /// Reads on; what may go out is appended to `out`.
    pub(super) fn feed(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), TooLong> {
        let Some(mut lines) = self.lines.take() else { return self.json(chunk, out) };
        let mut rest = chunk;
        while !rest.is_empty() {
            let (n, what) = lines.next(rest);
            match what {
                What::Data => self.json(&rest[..n], out)?,
                What::Frame => out.extend_from_slice(&rest[..n]),
                What::EventEnd => {
                    out.extend_from_slice(&rest[..n]);
                    (self.push, self.watch) = Default::default();
                }
            }
            rest = &rest[n..];
        }
        self.lines = Some(lines);
        Ok(())
    }

    fn json(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> Result<(), TooLong> {
        let Self { wants, push, watch, .. } = self;
        let mut walk = Walk { wants, watch, out, chunk, copied: 0 };
        push.feed(chunk, &mut walk);
        let copied = walk.copied;
        watch.keep(chunk, chunk.len());
        if watch.hold.is_none() || push.is_bad() {
            out.extend_from_slice(chunk.get(copied..).unwrap_or_default());
        }
        match watch.too_long() {
            Some(Place::TaskId) => Err(TooLong("the server's id of a task is longer than 2 KiB")),
            Some(_) => Err(TooLong("the server's requestState is longer than 32 KiB")),
            None => Ok(()),
        }
    }
}

/// Where in a message something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    Other,
    Id,
    Params,
    ProgressToken,
    Result,
    RequestState,
    TaskId,
    /// The result of the call that became a task.
    Outcome,
    /// `content` or `contents`
    Content,
    Resource,
    Uri,
}

/// What is known of the message so far.
#[derive(Debug, Default)]
struct Watch {
    path: [Place; LEVELS],
    /// What is being replaced.
    hold: Option<Place>,
    /// At which depth.
    depth: usize,
    /// Part of the input that is wanted, and where it starts in this chunk.
    token: Vec<u8>,
    from: Option<usize>,
    limit: usize,
    /// Of what a value ended that was longer than its limit.
    over: Option<Place>,
}

impl Watch {
    fn start(&mut self, at: usize, limit: usize) {
        self.token.clear();
        (self.from, self.limit) = (Some(at), limit);
    }

    /// Takes what belongs to this chunk.
    fn keep(&mut self, chunk: &[u8], to: usize) {
        if let Some(from) = &mut self.from {
            let bytes = chunk.get(std::mem::take(from)..to).unwrap_or_default();
            let room = (self.limit + 1).saturating_sub(self.token.len());
            self.token.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The token has ended; whether it was wanted.
    fn end(&mut self, chunk: &[u8], at: usize) -> bool {
        self.keep(chunk, at);
        self.from.take().is_some()
    }

    /// The text of the token that has ended, if it was short enough.
    fn text(&self) -> Option<Cow<'_, str>> {
        let token = std::str::from_utf8(&self.token).ok()?;
        (self.token.len() <= self.limit).then(|| text::decode_lossy(token))
    }

    /// What is longer than its limit, whether it has ended or not.
    fn too_long(&self) -> Option<Place> {
        let sealed = |place: &Place| matches!(place, Place::RequestState | Place::TaskId);
        self.over.or_else(|| self.hold.filter(sealed).filter(|_| self.token.len() > self.limit))
    }

    fn place(&self, depth: usize, name: &str) -> Place {
        let above = |levels: usize| depth.checked_sub(levels).map_or(Place::Other, |at| self.path[at]);
        match (depth, above(1), name) {
            (1, _, "id") => Place::Id,
            (1, _, "params") => Place::Params,
            (1, _, "result") => Place::Result,
            (2, Place::Params, "progressToken") => Place::ProgressToken,
            (2, Place::Result, "requestState") => Place::RequestState,
            (2, Place::Result | Place::Params, "taskId") => Place::TaskId,
            (2, Place::Result | Place::Params, "result") => Place::Outcome,
            (2, Place::Result, "content" | "contents") => Place::Content,
            (3, Place::Outcome, "content") => Place::Content,
            (4 | 5, _, "uri") if above(2) == Place::Content => Place::Uri,
            (4 | 5, _, "resource") if above(2) == Place::Content => Place::Resource,
            (5 | 6, Place::Resource, "uri") => Place::Uri,
            _ => Place::Other,
        }
    }
}

struct Walk<'w, W> {
    wants: &'w W,
    watch: &'w mut Watch,
    out: &'w mut Vec<u8>,
    chunk: &'w [u8],
    /// How far the chunk has gone out, or been dropped.
    copied: usize,
}

impl<W: Wants> Sink for Walk<'_, W> {
    fn name_start(&mut self, depth: usize, at: usize) {
        if depth < LEVELS && self.watch.hold.is_none() {
            self.watch.start(at, MAX_NAME);
        }
    }

    fn name_end(&mut self, depth: usize, chunk: &[u8], at: usize) {
        if depth < LEVELS && self.watch.hold.is_none() {
            let name = self.watch.end(chunk, at).then(|| self.watch.text()).flatten();
            let place = self.watch.place(depth, name.as_deref().unwrap_or_default());
            self.watch.path[depth] = place;
        }
    }

    fn value_start(&mut self, depth: usize, kind: Type, at: usize) {
        let Some(place) = self.watch.path.get(depth).copied().filter(|_| self.watch.hold.is_none()) else {
            return;
        };
        let held = match place {
            Place::Id => true,
            Place::ProgressToken => self.wants.progress_token().is_some(),
            Place::RequestState => kind == Type::String,
            Place::TaskId => kind == Type::String && self.wants.has_tasks(),
            _ => false,
        };
        if held {
            self.out.extend_from_slice(self.chunk.get(self.copied..at).unwrap_or_default());
            self.copied = at;
            (self.watch.hold, self.watch.depth) = (Some(place), depth);
        }
        match place {
            Place::RequestState if held => self.watch.start(at, MAX_STATE),
            Place::TaskId if held => self.watch.start(at, MAX_TASK),
            Place::Uri if kind == Type::String => self.watch.start(at, MAX_URI),
            _ => {}
        }
    }

    fn value_end(&mut self, depth: usize, chunk: &[u8], at: usize) {
        let Some(place) = self.watch.path.get(depth).copied() else { return };
        if self.watch.hold.is_some() && self.watch.depth != depth {
            return;
        }
        match self.watch.hold.take() {
            Some(Place::Id) => self.out.extend_from_slice(self.wants.id()),
            Some(Place::ProgressToken) => {
                self.out.extend_from_slice(self.wants.progress_token().unwrap_or(b"null"));
            }
            Some(held @ (Place::RequestState | Place::TaskId)) => {
                let value =
                    self.watch.end(chunk, at).then(|| self.watch.text().map(Cow::into_owned)).flatten();
                if self.watch.token.len() > self.watch.limit {
                    self.watch.over = Some(held);
                }
                let value = value.unwrap_or_default();
                let sealed = match held {
                    Place::TaskId => self.wants.task(&value),
                    _ => self.wants.seal(&value),
                };
                self.out.extend_from_slice(&quoted(&sealed));
            }
            _ => {
                if place == Place::Uri
                    && self.watch.end(chunk, at)
                    && let Some(uri) = self.watch.text()
                {
                    self.wants.linked(&uri);
                }
                self.watch.path[depth] = Place::Other;
                return;
            }
        }
        self.copied = at;
        self.watch.path[depth] = Place::Other;
    }
}

#[cfg(test)]
mod tests;
