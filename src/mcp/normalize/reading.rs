//! What a text can be read as: the faithful readings that `schema_coercion` knows.
//!
//! Invariant: a text has at most one reading, and its lexeme is kept.

use crate::mcp::{
    json::{
        Raw, Type,
        keys::any_duplicates,
        number,
        scan::{Scanner, is_space},
    },
    schema::{Literal, Place, Schema, Types},
};

/// A text read as another type.
pub(super) struct Reading<'t> {
    /// The JSON that replaces the text.
    pub(super) text: &'t str,
    kind: Type,
}

impl Reading<'_> {
    /// The type, as edits name it.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Type::Number if number::is_plain_integer(self.text) => "integer",
            kind => kind.as_str(),
        }
    }
}

/// The one reading of `text`, if it has one: exactly `true` or `false`, an integer within i64, another finite
/// number, or exactly one array or object without duplicate members. `depth` is the number of JSON levels open
/// around it.
pub(super) fn of(text: &str, depth: usize) -> Option<Reading<'_>> {
    match text.trim_start_matches(space).as_bytes().first()? {
        b'{' | b'[' => container(text, depth),
        b't' | b'f' => matches!(text, "true" | "false").then_some(Reading { text, kind: Type::Boolean }),
        _ => is_faithful(text).then_some(Reading { text, kind: Type::Number }),
    }
}

fn space(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_space)
}

fn is_faithful(text: &str) -> bool {
    if number::is_plain_integer(text) {
        return text.parse::<i64>().is_ok();
    }
    number::is_number(text) && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn container(text: &str, depth: usize) -> Option<Reading<'_>> {
    let value = json_text(text, depth)?;
    Some(Reading { text: value.text(), kind: value.kind() })
}

/// Text that is exactly one JSON value without duplicate members, at any depth.
pub(super) fn json_text(text: &str, depth: usize) -> Option<Raw<'_>> {
    let mut scanner = Scanner::new(text);
    let value = scanner.value(depth).ok()?;
    scanner.end().ok()?;
    (!any_duplicates(value)).then_some(value)
}

/// Whether the schema allows the reading at `place`, and no string there.
pub(super) fn fits(reading: &Reading<'_>, schema: &Schema, place: Place) -> bool {
    if schema.allowed(place).meets(Types::STRING) {
        return false;
    }
    let (kind, literal) = match reading.kind {
        Type::Object => (Types::OBJECT, Literal::Object),
        Type::Array => (Types::ARRAY, Literal::Array),
        Type::Boolean => (Types::BOOLEAN, Literal::Boolean(reading.text == "true")),
        // `5.0` is an integer by value, but not a faithful text of one.
        _ if number::is_plain_integer(reading.text) => {
            (Types::INTEGER, Literal::Number(reading.text.to_owned()))
        }
        _ => (Types::FRACTION, Literal::Number(reading.text.to_owned())),
    };
    schema.accepts(place, kind, &literal)
}
