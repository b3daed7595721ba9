//! The tools that an upstream is known to have: names, annotations, and schemas compiled for coercion.
//!
//! Invariant: bounded; a tool whose definition cannot be used is still known by name.

use super::json::{self, Raw};
use super::schema::{Schema, header_params};

mod set;
pub use set::{MAX_DEFINITION, MAX_TOOLS, MAX_TOTAL, ToolSet};

/// The JSON types that a mirrored argument may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Any text.
    String,
    /// An integer within 2^53 - 1.
    Integer,
    /// True or false.
    Boolean,
}

/// An argument that a modern client mirrors into a header (`x-mcp-header`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// Member names from the root of `arguments`.
    pub path: Vec<String>,
    /// The header's name in lower case, `mcp-param-` included.
    pub header: http::HeaderName,
    /// The declared type.
    pub kind: ParamType,
}

/// One tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name at the upstream.
    pub name: String,
    /// Its input schema, if one was given that can be read.
    pub schema: Option<Schema>,
    /// `annotations.readOnlyHint`.
    pub read_only: bool,
    /// `annotations.idempotentHint`.
    pub idempotent: bool,
    /// Arguments that are mirrored into headers.
    pub header_params: Vec<HeaderParam>,
    /// False if an `x-mcp-header` breaks the rules: clients must not offer such a tool.
    pub valid: bool,
}

impl Tool {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            schema: None,
            read_only: false,
            idempotent: false,
            header_params: Vec::new(),
            valid: true,
        }
    }

    /// Reads one definition of a `tools/list` result; `None` without a usable name.
    /// `full`: with its schema and annotations.
    fn read(definition: Raw<'_>, full: bool) -> Option<Self> {
        let name = definition.get("name")?.as_exact_str()?;
        let mut tool = Self::named(&name);
        if !full {
            return Some(tool);
        }
        let hints = definition.get("annotations");
        let hint = |key| hints.and_then(|h: Raw<'_>| h.get(key)).is_some_and(|v| v.text() == "true");
        tool.read_only = hint("readOnlyHint");
        tool.idempotent = hint("idempotentHint");
        if let Some(schema) = definition.get("inputSchema") {
            tool.learn(schema);
        }
        Some(tool)
    }

    /// Takes what the input schema tells. One that cannot be read leaves the tool without a schema.
    fn learn(&mut self, schema: Raw<'_>) {
        let Ok(value) = serde_json::from_str(schema.text()) else { return };
        self.schema = Schema::compile(&value);
        let params = header_params(&value);
        self.valid = params.is_some();
        self.header_params = params.unwrap_or_default();
    }
}

/// Why a tools list cannot be used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListError {
    /// Not JSON, or nested too deep.
    NotJson(json::Error),
    /// There is no array `tools`, neither at the top nor in `result`.
    NoTools,
}

#[cfg(test)]
mod tests;
