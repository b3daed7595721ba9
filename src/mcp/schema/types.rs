//! Sets of JSON Schema types, and the values that `enum` and `const` list.

use std::ops::{BitAnd, BitOr};

use serde_json::Value;

use crate::mcp::json::number;

/// A set of types. Numbers are split into integers and others, so that `number` is both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// No type: nothing is allowed.
    pub const NONE: Self = Self(0);
    /// `null`
    pub const NULL: Self = Self(1);
    /// `boolean`
    pub const BOOLEAN: Self = Self(2);
    /// Numbers without a fraction.
    pub const INTEGER: Self = Self(4);
    /// Numbers with one.
    pub const FRACTION: Self = Self(8);
    /// `number`
    pub const NUMBER: Self = Self(12);
    /// `string`
    pub const STRING: Self = Self(16);
    /// `array`
    pub const ARRAY: Self = Self(32);
    /// `object`
    pub const OBJECT: Self = Self(64);
    /// Anything.
    pub const ALL: Self = Self(127);

    /// Whether the two sets share a type.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The type that JSON Schema calls `name`; everything for names that it does not know.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::ALL,
        }
    }

    /// The type of a number lexeme.
    #[must_use]
    pub fn of_number(lexeme: &str) -> Self {
        if number::is_integer(lexeme) { Self::INTEGER } else { Self::FRACTION }
    }
}

impl Default for Types {
    fn default() -> Self {
        Self::ALL
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A value as `enum` or `const` lists it. Arrays and objects are not compared, so they equal nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Boolean(bool),
    /// A number, by its lexeme.
    Number(String),
    /// A string, decoded.
    String(String),
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A value as it would be after coercion.
#[derive(Debug, Clone, Copy)]
pub enum Probe<'a> {
    /// `true`, `false`
    Boolean(bool),
    /// A number, by its lexeme.
    Number(&'a str),
    /// A string, decoded.
    String(&'a str),
    /// An array or object.
    Container,
}

impl Literal {
    /// The literal that a schema lists.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Boolean(*b),
            Value::Number(n) => Self::Number(n.to_string()),
            Value::String(s) => Self::String(s.clone()),
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    /// Its type.
    #[must_use]
    pub fn types(&self) -> Types {
        match self {
            Self::Null => Types::NULL,
            Self::Boolean(_) => Types::BOOLEAN,
            Self::Number(lexeme) => Types::of_number(lexeme),
            Self::String(_) => Types::STRING,
            Self::Array => Types::ARRAY,
            Self::Object => Types::OBJECT,
        }
    }

    /// Whether this is the probed value. Numbers are compared by worth.
    #[must_use]
    pub fn is(&self, probe: Probe<'_>) -> bool {
        match (self, probe) {
            (Self::Boolean(a), Probe::Boolean(b)) => *a == b,
            (Self::Number(a), Probe::Number(b)) => number::equal(a, b),
            (Self::String(a), Probe::String(b)) => a == b,
            _ => false,
        }
    }
}
