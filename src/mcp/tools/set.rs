//! The set itself: filled page by page, asked by name.

use std::{collections::HashMap, sync::Arc};

use super::{ListError, Tool};
use crate::mcp::{
    json::{self, Raw, hash::FoldState},
    schema::Schema,
};

/// Tools that one upstream may have.
pub const MAX_TOOLS: usize = 10_000;

/// Bytes that one definition may have; a larger one is known by name only.
pub const MAX_DEFINITION: usize = 1 << 20;

/// Bytes that all definitions together may have; later ones are known by name only.
pub const MAX_TOTAL: usize = 32 << 20;

/// Subschemas that all tools together may have; later tools are known without their schema.
const MAX_SUBSCHEMAS: usize = 250_000;

/// Longer names are not guessed at: no host writes them, and guessing is not linear in the name.
const MAX_GUESSED: usize = 256;

/// What is known of an upstream's tools.
#[derive(Debug, Clone, Default)]
pub struct ToolSet {
    tools: HashMap<Arc<str>, Arc<Tool>, FoldState>,
    /// Names with their separators made equal. `None` where two tools would be the same.
    alike: HashMap<String, Option<Arc<str>>, FoldState>,
    /// Bytes of the definitions read so far.
    read: usize,
    /// Subschemas kept so far.
    subschemas: usize,
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
        list.elements().for_each(|definition| self.add_one(definition));
        Ok(result.get("nextCursor").and_then(|c| c.as_exact_str()).map(|c| c.into_owned()))
    }

    /// Adds one definition; one that cannot be read is passed over.
    pub fn add(&mut self, definition: &str) {
        if let Ok(definition) = json::parse(definition.as_bytes()) {
            self.add_one(definition);
        }
    }

    fn add_one(&mut self, definition: Raw<'_>) {
        self.read = self.read.saturating_add(definition.text().len());
        let full = definition.text().len() <= MAX_DEFINITION && self.read <= MAX_TOTAL;
        if let Some(mut tool) = Tool::read(definition, full) {
            self.subschemas += tool.schema.as_ref().map_or(0, Schema::size);
            tool.schema = tool.schema.filter(|_| self.subschemas <= MAX_SUBSCHEMAS);
            self.insert(tool);
        }
    }

    fn insert(&mut self, tool: Tool) {
        self.share(Arc::new(tool));
    }

    /// Adds a tool that was read before.
    pub fn share(&mut self, tool: Arc<Tool>) {
        if self.tools.len() >= MAX_TOOLS {
            return;
        }
        let name: Arc<str> = Arc::from(tool.name.as_str());
        if self.tools.insert(name.clone(), tool).is_none() {
            self.alike.entry(alike(&name)).and_modify(|one| *one = None).or_insert(Some(name));
        }
    }

    /// The one tool that an unknown `name` can mean: with a host's prefix before it, or spelt with another
    /// separator. `None` if the name is known, or if no tool or more than one fits.
    #[must_use]
    pub fn meant_by(&self, name: &str) -> Option<&Arc<Tool>> {
        if name.len() > MAX_GUESSED || self.contains(name) {
            return None;
        }
        let mut found: Option<&Arc<Tool>> = None;
        for tail in tails(name) {
            if let Some(tool) = self.get(tail) {
                if found.is_some() {
                    return None;
                }
                found = Some(tool);
            }
        }
        let spelt = match self.alike.get(&alike(name)) {
            Some(None) => return None,
            Some(Some(other)) => self.get(other),
            None => None,
        };
        match (found, spelt) {
            (Some(a), Some(b)) if a.name != b.name => None,
            (a, b) => a.or(b),
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

/// What follows each thing that a host puts between its prefix and a tool's name.
fn tails(name: &str) -> impl Iterator<Item = &str> {
    let ends = |i: usize| {
        name.as_bytes()[..i].ends_with(b"__") || matches!(name.as_bytes()[i - 1], b'.' | b':' | b'/' | b'-')
    };
    (1..name.len()).filter(move |i| ends(*i)).map(|i| &name[i..])
}

/// `name` with every separator, doubled or not, written as `_`.
fn alike(name: &str) -> String {
    name.replace("__", "_").replace(['.', ':', '/', '-'], "_")
}
