//! What a text can be read as: the faithful readings that `schema_coercion` knows.
//!
//! Invariant: a text has at most one reading, and its lexeme is kept.

use crate::mcp::{
    json::{
        Raw,
        keys::Duplicates,
        number,
        scan::{Scanner, Visit, is_space},
        text,
    },
    schema::{Place, Probe, Schema, Types},
};

/// A text read as another type.
pub(super) struct Reading<'t> {
    /// The JSON that replaces the text.
    pub(super) text: &'t str,
    kind: Kind,
}

/// What a text reads as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Integer,
    /// A number that is not written as an integer; `5.0` too, which is no faithful text of one.
    Number,
    Array,
    Object,
}

impl Reading<'_> {
    /// Whether it is neither array nor object.
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(self.kind, Kind::Array | Kind::Object)
    }

    /// Whether the schema allows the reading at `place`, and no string there.
    pub(super) fn fits(&self, schema: &Schema, place: Place) -> bool {
        if schema.allowed(place).meets(Types::STRING) {
            return false;
        }
        let (kind, probe) = match self.kind {
            Kind::Object => (Types::OBJECT, Probe::Container),
            Kind::Array => (Types::ARRAY, Probe::Container),
            Kind::Boolean => (Types::BOOLEAN, Probe::Boolean(self.text == "true")),
            Kind::Integer => (Types::INTEGER, Probe::Number(self.text)),
            Kind::Number => (Types::FRACTION, Probe::Number(self.text)),
        };
        schema.accepts(place, kind, probe)
    }

    /// The type, as edits name it.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Array => "array",
            Kind::Object => "object",
        }
    }
}

/// The one reading of `text`, if it has one: exactly `true` or `false`, an integer within i64, another finite
/// number, or exactly one array or object without duplicate members. `depth` is the number of JSON levels open
/// around it.
pub(super) fn of(text: &str, depth: usize) -> Option<Reading<'_>> {
    let kind = match text.trim_start_matches(space).as_bytes().first()? {
        b'{' | b'[' => return container(text, depth),
        b't' | b'f' => matches!(text, "true" | "false").then_some(Kind::Boolean),
        _ => number(text),
    };
    kind.map(|kind| Reading { text, kind })
}

fn space(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_space)
}

fn number(text: &str) -> Option<Kind> {
    if number::is_plain_integer(text) {
        return text.parse::<i64>().is_ok().then_some(Kind::Integer);
    }
    let faithful = number::is_number(text) && text.parse::<f64>().is_ok_and(f64::is_finite);
    faithful.then_some(Kind::Number)
}

fn container(text: &str, depth: usize) -> Option<Reading<'_>> {
    let value = json_text(text, depth)?.value;
    let kind = if value.is_object() { Kind::Object } else { Kind::Array };
    Some(Reading { text: value.text(), kind })
}

/// Text that is exactly one JSON value without duplicate members, at any depth.
pub(super) fn json_text(text: &str, depth: usize) -> Option<Json<'_>> {
    let (mut scanner, mut survey) = (Scanner::new(text), Survey::default());
    let value = scanner.visited(depth, &mut survey).ok()?;
    scanner.end().ok()?;
    (!survey.duplicates.found()).then_some(Json { value, readable: survey.readable })
}

/// JSON that was inside a text.
pub(super) struct Json<'t> {
    pub(super) value: Raw<'t>,
    /// Whether text in it may read as something else.
    pub(super) readable: bool,
}

/// What is noticed while such a text is validated.
#[derive(Default)]
struct Survey {
    duplicates: Duplicates,
    readable: bool,
}

impl Visit for Survey {
    #[inline]
    fn name(&mut self, bytes: &[u8], from: usize, to: usize, plain: bool) {
        self.duplicates.name(bytes, from, to, plain);
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], from: usize, to: usize) {
        self.readable = self.readable || text::may_read(bytes, from, to);
    }

    #[inline]
    fn open(&mut self) {
        self.duplicates.open();
    }

    #[inline]
    fn close(&mut self) {
        self.duplicates.close();
    }
}
