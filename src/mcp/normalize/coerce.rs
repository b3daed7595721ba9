//! Rule `schema_coercion` on values: a walk over the arguments beside the tool's input schema.
//!
//! Changes only what the schema refuses as it is and what has one reading (`safe`), and wraps scalars where an
//! array of them is due (`full`). Invariants: one pass over the text; what the walk leaves behind it would leave
//! alone a second time.

use std::borrow::Cow;

use super::{Edit, RULE_COERCION, reading};
use crate::mcp::{
    json::{
        Raw, Type,
        edit::{self, Splice},
        keys::Keys,
        skip, text,
    },
    schema::{Literal, Place, Schema, Types},
};

/// Levels of the arguments that are looked at.
const MAX_LEVELS: usize = 64;

/// One step from a value to a part of it.
enum Step<'a> {
    Name(Cow<'a, str>),
    Index(usize),
}

/// The walk over one text.
pub(super) struct Walk<'a> {
    schema: &'a Schema,
    /// A validated value; offsets count from its start.
    text: &'a str,
    full: bool,
    /// JSON levels open around the text's own value.
    depth: usize,
    path: Vec<Step<'a>>,
    /// Steps to the text's own value.
    prefix: String,
    levels: usize,
    splices: Vec<Splice>,
    edits: &'a mut Vec<Edit>,
}

/// Coerces `arguments`, which must be a validated object; `depth` is the number of levels open around it. The
/// splices are relative to its start.
pub(super) fn arguments(
    text: &str,
    depth: usize,
    schema: &Schema,
    full: bool,
    edits: &mut Vec<Edit>,
) -> Vec<Splice> {
    let start = Start { text, depth, place: schema.root(), prefix: String::new(), levels: 0 };
    run(start, schema, full, edits)
}

/// Where a walk begins.
struct Start<'a> {
    text: &'a str,
    depth: usize,
    place: Place,
    prefix: String,
    levels: usize,
}

fn run(start: Start<'_>, schema: &Schema, full: bool, edits: &mut Vec<Edit>) -> Vec<Splice> {
    let Start { text, depth, place, prefix, levels } = start;
    let (path, splices) = (Vec::new(), Vec::new());
    let mut walk = Walk { schema, text, full, depth, path, prefix, levels, splices, edits };
    walk.value(place, 0);
    walk.splices
}

impl<'a> Walk<'a> {
    /// Looks at the value that starts at `at`; returns where it ends.
    fn value(&mut self, place: Place, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        if place.is_unknown() || self.levels + self.path.len() >= MAX_LEVELS {
            return skip::value(bytes, at);
        }
        match bytes.get(at).map_or(Type::Null, |b| Type::of(*b)) {
            Type::Object => match self.schema.object(place) {
                Some(object) => self.object(object, at),
                None => skip::value(bytes, at),
            },
            Type::Array => match self.schema.array(place) {
                Some(array) => self.array(array, at),
                None => skip::value(bytes, at),
            },
            kind => {
                let end = skip::value(bytes, at);
                self.scalar(place, kind, at, end);
                end
            }
        }
    }

    /// A declared member that comes twice has no one reading, so then nothing in the object is changed.
    fn object(&mut self, object: Place, at: usize) -> usize {
        let (text, bytes) = (self.text, self.text.as_bytes());
        let (splices, edits) = (self.splices.len(), self.edits.len());
        let (mut keys, mut twice) = (Keys::default(), false);
        let mut i = skip::space(bytes, at + 1);
        while bytes.get(i) == Some(&b'"') {
            let name = Raw::new(&text[i..skip::string(bytes, i)], i);
            let colon = skip::space(bytes, name.end());
            let value = skip::space(bytes, colon + 1);
            let decoded = text::decode_lossy(name.text());
            let place = if twice { Place::default() } else { self.schema.member(object, &decoded) };
            if place.is_unknown() {
                i = skip::value(bytes, value);
            } else {
                twice = !keys.insert(&name);
                self.path.push(Step::Name(decoded));
                i = self.value(place, value);
                self.path.pop();
            }
            i = after_comma(bytes, i);
        }
        if twice {
            self.splices.truncate(splices);
            self.edits.truncate(edits);
        }
        i + 1
    }

    fn array(&mut self, array: Place, at: usize) -> usize {
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
        let lexeme = &self.text[at..end];
        let own = match kind {
            Type::Null => Types::NULL,
            Type::Boolean => Types::BOOLEAN,
            Type::String => Types::STRING,
            Type::Number if allowed.meets(Types::FRACTION) => return,
            _ => Types::of_number(lexeme),
        };
        if allowed.meets(own) {
            return;
        }
        let read = kind == Type::String && self.read(place, at..end);
        if !read && self.full && kind != Type::Null && allowed.meets(Types::ARRAY) {
            self.wrap(place, own, kind, at..end);
        }
    }

    /// Replaces text by what it reads as. False if it has no reading that the schema accepts.
    fn read(&mut self, place: Place, range: std::ops::Range<usize>) -> bool {
        let Some(decoded) = text::decode(&self.text[range.clone()]) else { return false };
        let depth = self.depth + self.path.len();
        let Some(reading) = reading::of(&decoded, depth) else { return false };
        if !reading::fits(&reading, self.schema, place) {
            return false;
        }
        let at = self.pointer();
        self.edits.push(Edit { rule: RULE_COERCION, path: at.clone(), from: "string", to: reading.name() });
        let levels = self.levels + self.path.len();
        let start = Start { text: reading.text, depth, place, prefix: at, levels };
        let inner = run(start, self.schema, self.full, self.edits);
        self.splices.push(Splice::replace(range, edit::apply(reading.text.as_bytes(), inner)));
        true
    }

    /// `x` becomes `[x]` where `items` accepts `x`.
    fn wrap(&mut self, place: Place, own: Types, kind: Type, range: std::ops::Range<usize>) {
        let lexeme = &self.text[range.clone()];
        let literal = match kind {
            Type::String => text::decode(lexeme).map(|s| Literal::String(s.into_owned())),
            Type::Boolean => Some(Literal::Boolean(lexeme == "true")),
            _ => Some(Literal::Number(lexeme.to_owned())),
        };
        let (Some(literal), Some(items)) = (literal, self.schema.only_items(place)) else { return };
        let typed = self.schema.allowed(items) != Types::ALL;
        if !typed || !self.schema.accepts(items, own, &literal) {
            return;
        }
        self.edits.push(Edit { rule: RULE_COERCION, path: self.pointer(), from: kind.as_str(), to: "array" });
        self.splices.push(Splice::insert(range.start, &b"["[..]));
        self.splices.push(Splice::insert(range.end, &b"]"[..]));
    }

    /// JSON Pointer (RFC 6901) to where the walk is.
    fn pointer(&self) -> String {
        let mut out = self.prefix.clone();
        for step in &self.path {
            out.push('/');
            match step {
                Step::Name(name) => out.push_str(&escaped(name)),
                Step::Index(n) => out.push_str(&n.to_string()),
            }
        }
        out
    }
}

/// From the end of a member or element to the start of the next, or to the closing bracket.
fn after_comma(bytes: &[u8], end: usize) -> usize {
    let i = skip::space(bytes, end);
    if bytes.get(i) == Some(&b',') { skip::space(bytes, i + 1) } else { i }
}

/// A member name as JSON Pointer writes it.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
