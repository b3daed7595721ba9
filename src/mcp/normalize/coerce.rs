//! Rule `schema_coercion` on values: a walk over the arguments beside the tool's input schema.
//!
//! Changes only what the schema refuses as it is and what has one reading (`safe`), and wraps scalars where an
//! array of them is due and drops plumbing (`full`). Invariants: one pass over the text; what the walk leaves
//! behind it would leave alone a second time.

use std::{borrow::Cow, ops::Range};

use super::{Edit, MAX_EDITS, RULE_COERCION, reading};
use crate::mcp::{
    json::{
        Raw, Type,
        edit::{self, Slot, Splice},
        hash::FoldState,
        keys::Keys,
        skip, text,
    },
    schema::{Place, Probe, Schema, Types},
};

/// Levels of the arguments that are looked at.
const MAX_LEVELS: usize = 64;

/// Members that hosts leave in the arguments for themselves.
const PLUMBING: [&str; 5] = ["action", "chatInput", "sessionId", "tool", "toolCallId"];

/// The arguments of a call.
pub(super) struct Arguments<'a> {
    /// The object.
    pub(super) object: Raw<'a>,
    /// Where names start of members that stand in the object but are no arguments.
    pub(super) except: &'a [usize],
    /// JSON levels that will be open around the arguments.
    pub(super) depth: usize,
}

/// What is to be done.
#[derive(Default)]
pub(super) struct Changes {
    /// At places of the object's document.
    pub(super) splices: Vec<Splice>,
    pub(super) edits: Vec<Edit>,
    /// Members of the object to cut out.
    pub(super) drops: Vec<Slot>,
}

/// Coerces the arguments of a call.
pub(super) fn arguments(arguments: &Arguments<'_>, schema: &Schema, full: bool) -> Changes {
    let Arguments { object, except, depth } = *arguments;
    let start =
        Start { text: object.document(), depth, place: schema.root(), prefix: String::new(), levels: 0 };
    let mut walk = Walk::new(start, schema, full, Changes::default());
    walk.root(object.start(), except);
    walk.changes
}

/// Where a walk begins.
struct Start<'a> {
    text: &'a str,
    depth: usize,
    place: Place,
    prefix: String,
    levels: usize,
}

/// One step from a value to a part of it.
enum Step<'a> {
    Name(Cow<'a, str>),
    Index(usize),
}

/// The walk over one document.
struct Walk<'a> {
    schema: &'a Schema,
    text: &'a str,
    full: bool,
    /// JSON levels open around the value where the walk began.
    depth: usize,
    place: Place,
    path: Vec<Step<'a>>,
    /// Steps to the value where the walk began, as a JSON Pointer, and how many they are.
    prefix: String,
    levels: usize,
    changes: Changes,
    state: FoldState,
}

/// A member as the walk meets it.
struct Met<'a> {
    name: Cow<'a, str>,
    /// Where the name and the value start.
    start: usize,
    value: usize,
}

impl<'a> Walk<'a> {
    fn new(start: Start<'a>, schema: &'a Schema, full: bool, changes: Changes) -> Self {
        let Start { text, depth, place, prefix, levels } = start;
        Self {
            schema,
            text,
            full,
            depth,
            place,
            path: Vec::new(),
            prefix,
            levels,
            changes,
            state: FoldState::default(),
        }
    }

    /// The arguments object itself.
    fn root(&mut self, at: usize, except: &[usize]) {
        let object = self.schema.object(self.place);
        if object.is_none() && !self.full {
            return;
        }
        let mut drops = Drops::default();
        self.members(object.unwrap_or_default(), at, |walk, met, before| {
            drops.index += 1;
            if except.contains(&met.start) {
                return false;
            }
            let drop = walk.full && drops.wants(&met.name, walk.schema);
            if drop {
                drops.note(met, before, walk.text.as_bytes());
            }
            !drop
        });
        let room = MAX_EDITS.saturating_sub(self.changes.edits.len());
        self.changes.edits.extend(drops.edits.into_iter().take(room));
        self.changes.drops = drops.slots;
    }

    /// Looks at the value that starts at `at`; returns where it ends.
    fn value(&mut self, place: Place, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        if place.is_unknown() || self.levels + self.path.len() >= MAX_LEVELS {
            return skip::value(bytes, at);
        }
        match bytes.get(at).map_or(Type::Null, |b| Type::of(*b)) {
            Type::Object => match self.schema.object(place) {
                Some(object) => self.members(object, at, |_, _, _| true),
                None => skip::value(bytes, at),
            },
            Type::Array => match self.schema.array(place) {
                Some(array) => self.elements(array, at),
                None => skip::value(bytes, at),
            },
            kind => {
                let end = skip::value(bytes, at);
                self.scalar(place, kind, at, end);
                end
            }
        }
    }

    /// The members of the object at `at` that `wanted` lets through, which is also told where the member before
    /// ends. An object with a member that comes twice has no one reading: then nothing in it is changed.
    fn members(
        &mut self,
        object: Place,
        at: usize,
        mut wanted: impl FnMut(&Self, &Met<'a>, usize) -> bool,
    ) -> usize {
        let bytes = self.text.as_bytes();
        let (splices, edits) = (self.changes.splices.len(), self.changes.edits.len());
        let mut keys = Keys::default();
        let (mut before, mut i) = (at + 1, skip::space(bytes, at + 1));
        while bytes.get(i) == Some(&b'"') {
            let met = self.meet(i);
            keys.add(self.state, met.name.as_bytes());
            let wanted = wanted(self, &met, before);
            let end = self.member(object, met, wanted);
            (before, i) = (end, after_comma(bytes, end));
        }
        if self.changes.splices.len() > splices && keys.may_repeat() {
            self.changes.splices.truncate(splices);
            self.changes.edits.truncate(edits);
        }
        i + 1
    }

    /// Looks at a member; returns where its value ends.
    fn member(&mut self, object: Place, met: Met<'a>, wanted: bool) -> usize {
        let bytes = self.text.as_bytes();
        let end = match bytes.get(met.value).map_or(Type::Null, |b| Type::of(*b)) {
            Type::Array | Type::Object => None,
            kind => {
                let end = skip::value(bytes, met.value);
                // Only such text can change, unless scalars may be wrapped.
                let may_change = self.full || (kind == Type::String && text::may_read(bytes, met.value, end));
                if !may_change {
                    return end;
                }
                Some((kind, end))
            }
        };
        let place = if wanted { self.schema.member(object, &met.name) } else { Place::default() };
        if place.is_unknown() {
            return end.map_or_else(|| skip::value(bytes, met.value), |(_, end)| end);
        }
        self.path.push(Step::Name(met.name));
        let end = match end {
            Some((kind, end)) => {
                self.scalar(place, kind, met.value, end);
                end
            }
            None => self.value(place, met.value),
        };
        self.path.pop();
        end
    }

    /// The member whose name starts at `at`.
    fn meet(&self, at: usize) -> Met<'a> {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let end = text::plain_end(bytes, at + 1);
        let (name, close) = if bytes.get(end) == Some(&b'"') {
            (Cow::Borrowed(text.get(at + 1..end).unwrap_or_default()), end + 1)
        } else {
            let close = skip::string(bytes, at);
            (text::decode_lossy(text.get(at..close).unwrap_or_default()), close)
        };
        let colon = skip::space(bytes, close);
        Met { name, start: at, value: skip::space(bytes, colon + 1) }
    }

    fn elements(&mut self, array: Place, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut i = skip::space(bytes, at + 1);
        let (mut index, mut same) = (0, None);
        while bytes.get(i).is_some_and(|b| *b != b']') {
            let place = same.unwrap_or_else(|| {
                let (place, last) = self.schema.element(array, index);
                same = last.then_some(place);
                place
            });
            self.path.push(Step::Index(index));
            i = after_comma(bytes, self.value(place, i));
            self.path.pop();
            index += 1;
        }
        i + 1
    }

    fn scalar(&mut self, place: Place, kind: Type, at: usize, end: usize) {
        let allowed = self.schema.allowed(place);
        let own = match kind {
            Type::Null => Types::NULL,
            Type::Boolean => Types::BOOLEAN,
            Type::String => Types::STRING,
            _ if allowed.meets(Types::FRACTION) => return,
            _ => Types::of_number(&self.text[at..end]),
        };
        if allowed.meets(own) {
            return;
        }
        let read = kind == Type::String
            && text::may_read(self.text.as_bytes(), at, end)
            && self.read(place, at..end);
        if !read && self.full && kind != Type::Null && allowed.meets(Types::ARRAY) {
            self.wrap(place, own, kind, at..end);
        }
    }

    /// Replaces text by what it reads as. False if it has no reading that the schema accepts.
    fn read(&mut self, place: Place, range: Range<usize>) -> bool {
        let Some(decoded) = text::decode(&self.text[range.clone()]) else { return false };
        let depth = self.depth + self.path.len();
        let Some(reading) = reading::of(&decoded, depth) else { return false };
        if !reading.fits(self.schema, place) {
            return false;
        }
        self.list("string", reading.name());
        if reading.is_scalar() {
            // A scalar's text has no escapes unless somebody took pains to put them in.
            self.changes.splices.push(match &decoded {
                Cow::Borrowed(_) => Splice::copy(range.clone(), range.start + 1..range.end - 1),
                Cow::Owned(text) => Splice::replace(range, text.clone().into_bytes()),
            });
            return true;
        }
        let levels = self.levels + self.path.len();
        let outer = std::mem::take(&mut self.changes.splices);
        let start = Start { text: reading.text, depth, place, prefix: self.pointer(), levels };
        let mut inner = Walk::new(start, self.schema, self.full, std::mem::take(&mut self.changes));
        inner.value(place, 0);
        let text = edit::apply(reading.text.as_bytes(), std::mem::replace(&mut inner.changes.splices, outer));
        self.changes = inner.changes;
        self.changes.splices.push(Splice::replace(range, text));
        true
    }

    /// `x` becomes `[x]` where `items` accepts `x`.
    fn wrap(&mut self, place: Place, own: Types, kind: Type, range: Range<usize>) {
        let lexeme = &self.text[range.clone()];
        let decoded = if kind == Type::String { text::decode(lexeme) } else { Some(lexeme.into()) };
        let (Some(decoded), Some(items)) = (decoded, self.schema.only_items(place)) else { return };
        let probe = match kind {
            Type::String => Probe::String(&decoded),
            Type::Boolean => Probe::Boolean(lexeme == "true"),
            _ => Probe::Number(lexeme),
        };
        let typed = self.schema.allowed(items) != Types::ALL;
        if !typed || !self.schema.accepts(items, own, probe) {
            return;
        }
        self.list(kind.as_str(), "array");
        self.changes.splices.push(Splice::insert(range.start, &b"["[..]));
        self.changes.splices.push(Splice::insert(range.end, &b"]"[..]));
    }

    /// Lists a change of the value where the walk is.
    fn list(&mut self, from: &'static str, to: &'static str) {
        if self.changes.edits.len() < MAX_EDITS {
            let path = self.pointer();
            self.changes.edits.push(Edit { rule: RULE_COERCION, path, from, to });
        }
    }

    /// JSON Pointer (RFC 6901) to where the walk is.
    fn pointer(&self) -> String {
        let mut out = String::with_capacity(self.prefix.len() + 12 * self.path.len());
        out.push_str(&self.prefix);
        for step in &self.path {
            out.push('/');
            match step {
                Step::Name(name) => out.push_str(&escaped(name)),
                Step::Index(n) => out.push_str(itoa::Buffer::new().format(*n)),
            }
        }
        out
    }
}

/// The plumbing members that leave the arguments.
#[derive(Default)]
struct Drops {
    /// Whether the schema declares each of [`PLUMBING`], once asked.
    declared: [Option<bool>; PLUMBING.len()],
    slots: Vec<Slot>,
    /// Members met so far.
    index: usize,
    edits: Vec<Edit>,
}

impl Drops {
    /// Whether an argument is plumbing that the tool does not declare.
    fn wants(&mut self, name: &str, schema: &Schema) -> bool {
        let Some(which) = PLUMBING.iter().position(|p| *p == name) else { return false };
        !*self.declared[which].get_or_insert_with(|| schema.declares(name))
    }

    fn note(&mut self, met: &Met<'_>, before: usize, bytes: &[u8]) {
        let end = skip::value(bytes, met.value);
        let next = after_comma(bytes, end);
        let after = if bytes.get(next) == Some(&b'"') { next } else { end };
        self.slots.push(Slot { index: self.index - 1, before, start: met.start, end, after });
        if self.edits.len() < MAX_EDITS {
            let from = bytes.get(met.value).map_or("null", |b| Type::of(*b).as_str());
            self.edits.push(Edit { rule: RULE_COERCION, path: format!("/{}", met.name), from, to: "absent" });
        }
    }
}

/// From the end of a member or element to the start of the next, or to the closing bracket.
#[inline]
fn after_comma(bytes: &[u8], end: usize) -> usize {
    let i = skip::space(bytes, end);
    if bytes.get(i) == Some(&b',') { skip::space(bytes, i + 1) } else { i }
}

/// A member name as JSON Pointer writes it.
pub(super) fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}
