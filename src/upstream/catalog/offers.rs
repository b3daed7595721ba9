//! What an upstream offers, in its own words: every definition keeps its bytes and its place. Owns the four kinds of
//! list; how they are asked for and kept is elsewhere. Invariant: within a list no key comes twice.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kinds of list that a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    Templates,
}

impl Kind {
    /// All of them; the position of each is its number.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists them.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The kind that a method lists.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    /// The member of the result that holds them.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of a definition that names it.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The capability that says that a server has them.
    #[must_use]
    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name, URI or template.
    pub key: Arc<str>,
    /// The JSON object as it came.
    pub raw: Arc<str>,
}

/// One list, whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct List {
    /// In the server's order.
    pub items: Vec<Definition>,
    /// The least `ttlMs` of its pages; `None` where none was given.
    pub ttl: Option<Duration>,
    /// Whether every page said `cacheScope: "public"`.
    pub public: bool,
}

/// What a server says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// `capabilities`
    #[serde(default)]
    pub capabilities: Value,
    /// `instructions`
    #[serde(default)]
    pub instructions: Option<String>,
    /// `serverInfo`
    #[serde(default)]
    pub server_info: Option<Value>,
}

impl About {
    /// Whether it has this kind at all.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.capabilities.get(kind.capability()).is_some_and(Value::is_object)
    }

    /// Whether it declared this flag of a capability.
    #[must_use]
    pub fn declares(&self, capability: &str, flag: &str) -> bool {
        let value = self.capabilities.get(capability).and_then(|c| c.get(flag));
        value.and_then(Value::as_bool).unwrap_or(false)
    }

    /// Whether it declared an extension.
    #[must_use]
    pub fn extension(&self, name: &str) -> bool {
        let extensions = self.capabilities.get("extensions");
        extensions.and_then(|e| e.get(name)).is_some_and(Value::is_object)
    }

    /// Whether it tells of changes of any list.
    #[must_use]
    pub(super) fn announces(&self) -> bool {
        ["tools", "prompts", "resources"].iter().any(|c| self.declares(c, "listChanged"))
    }
}

/// Everything.
#[derive(Debug, Clone, Default)]
pub struct Offers {
    /// What the server says of itself.
    pub about: Arc<About>,
    /// By [`Kind`]'s number.
    pub lists: [Arc<List>; 4],
}

impl Offers {
    /// One of the lists.
    #[must_use]
    pub fn list(&self, kind: Kind) -> &Arc<List> {
        &self.lists[kind as usize]
    }
}
