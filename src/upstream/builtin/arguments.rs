//! Reads a tool's arguments: lenient with scalars as hosts send them (`"5"` for 5, `null` for absent), strict
//! with everything else. Invariant: a name that was not asked for is an error, which names the nearest one.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::tool::ToolError;

/// The end of a range of whole numbers that has none: as far as the storage can count.
pub(super) const ANY: u64 = i64::MAX as u64;
/// Below it, floating point has every whole number.
const EXACT: f64 = 9e15;

/// The arguments of one call. Each is taken out once; [`Arguments::finish`] refuses what is left over.
pub(super) struct Arguments {
    given: Map<String, Value>,
    asked: Vec<&'static str>,
}

impl Arguments {
    pub(super) fn new(given: Map<String, Value>) -> Self {
        Self { given, asked: Vec::new() }
    }

    /// The value of `name`; `null` counts as absent.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.asked.push(name);
        self.given.remove(name).filter(|value| !value.is_null())
    }

    /// Text with as many characters as `length` allows.
    pub(super) fn text(
        &mut self,
        name: &'static str,
        length: RangeInclusive<usize>,
    ) -> Result<Option<String>, ToolError> {
        let Some(text) = self.string(name)? else { return Ok(None) };
        if fits(&text, *length.end()) && text.chars().take(*length.start()).count() == *length.start() {
            return Ok(Some(text));
        }
        Err(invalid(match length.into_inner() {
            (0, most) => format!("{name} must be at most {most} characters"),
            (least, most) => format!("{name} must be {least} to {most} characters"),
        }))
    }

    /// Text to be worked on, of at most `most` characters; a longer one could be sent in parts.
    pub(super) fn material(&mut self, name: &'static str, most: usize) -> Result<Option<String>, ToolError> {
        match self.string(name)? {
            Some(text) if !fits(&text, most) => {
                let message = format!("{name} must be at most {most} characters; send it in parts");
                Err(ToolError::new("too_large", message).with_details(json!({ "limit": most })))
            }
            text => Ok(text),
        }
    }

    fn string(&mut self, name: &'static str) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(invalid(format!("{name} must be a string"))),
        }
    }

    /// A number, also written as text.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<f64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let number = match &value {
            Value::Number(n) => n.as_f64(),
            Value::String(text) => text.trim().parse().ok().filter(|n: &f64| n.is_finite()),
            _ => None,
        };
        number.map(Some).ok_or_else(|| invalid(format!("{name} must be a number")))
    }

    /// A whole number within `range`, also written as text or as 5.0.
    pub(super) fn whole(
        &mut self,
        name: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let from_float = |f: f64| (f.fract() == 0.0 && (0.0..EXACT).contains(&f)).then_some(f as u64);
        let number = match &value {
            Value::Number(n) => n.as_u64().or_else(|| n.as_f64().and_then(from_float)),
            Value::String(text) => {
                let text = text.trim();
                text.parse().ok().or_else(|| text.parse().ok().and_then(from_float))
            }
            _ => None,
        };
        let wrong = || match range.clone().into_inner() {
            (least, most) if most < ANY => format!("{name} must be a whole number from {least} to {most}"),
            (least, _) => format!("{name} must be a whole number of {least} or more"),
        };
        number.filter(|n| range.contains(n)).map(Some).ok_or_else(|| invalid(wrong()))
    }

    /// A boolean, also written as text.
    pub(super) fn boolean(&mut self, name: &'static str, default: bool) -> Result<bool, ToolError> {
        match self.take(name) {
            None => Ok(default),
            Some(Value::Bool(value)) => Ok(value),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err(invalid(format!("{name} must be true or false"))),
        }
    }

    /// One of `choices`; the first is the default.
    pub(super) fn choice(
        &mut self,
        name: &'static str,
        choices: &[&'static str],
    ) -> Result<&'static str, ToolError> {
        let value = match self.take(name) {
            None => return Ok(choices[0]),
            Some(Value::String(value)) => value,
            Some(_) => String::new(),
        };
        let found = choices.iter().find(|choice| **choice == value);
        found.copied().ok_or_else(|| invalid(format!("{name} must be one of {}", choices.join(", "))))
    }

    /// Call last: an argument that nobody asked for is refused.
    pub(super) fn finish(self) -> Result<(), ToolError> {
        let Some(name) = self.given.keys().next() else { return Ok(()) };
        let shown: String = name.chars().take(64).collect();
        let nearest = self.asked.iter().max_by(|a, b| closeness(a, &shown).total_cmp(&closeness(b, &shown)));
        let hint = match nearest {
            Some(known) if closeness(known, &shown) > 0.7 => format!("did you mean {known:?}?"),
            _ => format!("known are {}", self.asked.join(", ")),
        };
        Err(invalid(format!("there is no argument {shown:?}: {hint}")))
    }
}

fn closeness(known: &str, given: &str) -> f64 {
    strsim::jaro_winkler(known, given)
}

/// Whether `text` has at most `most` characters.
fn fits(text: &str, most: usize) -> bool {
    text.len() <= most || text.chars().nth(most).is_none()
}

/// The error for arguments that the schema refuses.
pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new("invalid_arguments", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: Value) -> Arguments {
        Arguments::new(Map::from_iter([("x".to_owned(), value)]))
    }

    #[test]
    fn whole_numbers_come_in_many_forms_and_fractions_are_refused() {
        for given in [json!(16), json!(16.0), json!("16"), json!(" 16.0 "), json!(1.6e1)] {
            assert_eq!(with(given).whole("x", 16..=20).unwrap(), Some(16));
        }
        assert_eq!(with(Value::Null).whole("x", 1..=2).unwrap(), None);
        assert_eq!(with(json!(u64::MAX)).whole("x", 0..=u64::MAX).unwrap(), Some(u64::MAX));
        for given in [
            json!(16.5),
            json!("16.5"),
            json!(15),
            json!(21),
            json!(-16),
            json!(""),
            json!("NaN"),
            json!([16]),
        ] {
            let error = with(given.clone()).whole("x", 16..=20).unwrap_err();
            assert_eq!(error.message, "x must be a whole number from 16 to 20", "{given}");
        }
        let error = with(json!(0)).whole("x", 1..=ANY).unwrap_err();
        assert_eq!(error.message, "x must be a whole number of 1 or more");
    }

    #[test]
    fn texts_are_measured_in_characters() {
        assert_eq!(with(json!("äöü")).text("x", 1..=3).unwrap().as_deref(), Some("äöü"));
        let message = |given, length| with(given).text("x", length).unwrap_err().message;
        assert_eq!(message(json!("äöüß"), 0..=3), "x must be at most 3 characters");
        assert_eq!(message(json!(""), 1..=3), "x must be 1 to 3 characters");
        assert_eq!(message(json!(5), 0..=3), "x must be a string");
        let error = with(json!("abcd")).material("x", 3).unwrap_err();
        assert_eq!((error.code, error.details), ("too_large", Some(Box::new(json!({"limit": 3})))));
    }
}
