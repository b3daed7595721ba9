//! Reads a tool's arguments: lenient with scalars as hosts send them (`"5"` for 5, `null` for absent), strict
//! with everything else. Invariant: a name that was not asked for is an error, which names the nearest one.

use serde_json::{Map, Value};

use super::tool::ToolError;

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

    /// Text of at most `most` characters.
    pub(super) fn text(&mut self, name: &'static str, most: usize) -> Result<Option<String>, ToolError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= most || text.chars().count() <= most => Ok(Some(text)),
            Some(Value::String(_)) => Err(invalid(format!("{name} must be at most {most} characters"))),
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

    /// A whole number within bounds, also written as text.
    pub(super) fn whole(
        &mut self,
        name: &'static str,
        (least, most): (u32, u32),
    ) -> Result<Option<u32>, ToolError> {
        let Some(number) = self.number(name)? else { return Ok(None) };
        if number.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(&number) {
            return Ok(Some(number as u32));
        }
        Err(invalid(format!("{name} must be a whole number between {least} and {most}")))
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

/// The error for arguments that the schema refuses.
pub(super) fn invalid(message: impl Into<String>) -> ToolError {
    ToolError::new("invalid_arguments", message)
}
