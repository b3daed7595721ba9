//! The set itself: filled page by page, asked by name.

use std::{collections::HashMap, sync::Arc};

use super::{ListError, Tool};
use crate::mcp::json::{self, Raw, hash::FoldState};

/// Tools that one upstream may have.
pub const MAX_TOOLS: usize = 10_000;

/// Bytes that one definition may have; a larger one is known by name only.
pub const MAX_DEFINITION: usize = 1 << 20;

/// What is known of an upstream's tools.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    tools: HashMap<Arc<str>, Arc<Tool>, FoldState>,
}

impl ToolSet {
    /// A set of bare names.
    #[must_use]
    pub fn from_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> Self {
        let mut set = Self::default();
        for name in names {
            set.insert(Tool::named(name.as_ref()));
        }
        set
    }

    /// Reads a `tools/list` result, `{"tools":[...]}` alone or a whole response message.
    ///
    /// # Errors
    /// [`ListError`] if there is no such list. A single definition that cannot be read is passed over.
    pub fn from_list_result(json: &[u8]) -> Result<Self, ListError> {
        let mut set = Self::default();
        set.extend(json)?;
        Ok(set)
    }

    /// Adds one more page. Tools beyond [`MAX_TOOLS`] are left out. Returns the page's `nextCursor`, if any.
    ///
    /// # Errors
    /// As [`ToolSet::from_list_result`].
    pub fn extend(&mut self, json: &[u8]) -> Result<Option<String>, ListError> {
        let root = json::parse(json).map_err(ListError::NotJson)?;
        let result = root.get("result").filter(Raw::is_object).unwrap_or(root);
        let list = result.get("tools").filter(|t| t.kind() == json::Type::Array).ok_or(ListError::NoTools)?;
        for tool in list.elements().filter_map(Tool::read) {
            self.insert(tool);
        }
        Ok(result.get("nextCursor").and_then(|c| c.as_exact_str()).map(|c| c.into_owned()))
    }

    fn insert(&mut self, tool: Tool) {
        if self.tools.len() < MAX_TOOLS {
            self.tools.insert(Arc::from(tool.name.as_str()), Arc::new(tool));
        }
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Whether there is a tool of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.tools.contains_key(name)
    }

    /// The tools, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    /// How many tools there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}
