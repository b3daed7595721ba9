//! The tools that an upstream is known to have: names, annotations, and schemas compiled for coercion.
//!
//! Invariant: bounded; a tool whose definition cannot be used is still known by name.

use super::json::{self, Raw};
use super::normalize::schema::Schema;

mod set;
pub use set::{MAX_DEFINITION, MAX_TOOLS, ToolSet};

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
    pub(super) fn named(name: &str) -> Self {
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
    pub(super) fn read(definition: Raw<'_>) -> Option<Self> {
        let name = definition.get("name")?.as_exact_str()?;
        let mut tool = Self::named(&name);
        let hints = definition.get("annotations");
        let hint = |key| hints.and_then(|h: Raw<'_>| h.get(key)).is_some_and(|v| v.text() == "true");
        tool.read_only = hint("readOnlyHint");
        tool.idempotent = hint("idempotentHint");
        Some(tool)
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
