//! What a call asks of the memory: arguments, their limits, and what the key may reach.

use serde_json::Value;

use super::super::{
    arguments::{ANY, Arguments, invalid},
    tool::ToolError,
};
use crate::config::MemoryScope;

pub(super) const ACTIONS: [&str; 5] = ["store", "recall", "get", "list", "forget"];
pub(super) const DEFAULT_NAMESPACE: &str = "default";
pub(super) const MAX_KEY: usize = 200;
/// In characters.
pub(super) const MAX_CONTENT: usize = 32_768;
pub(super) const MAX_TAGS: usize = 16;
pub(super) const MAX_SOURCE: usize = 2_048;
pub(super) const MAX_QUERY: usize = 1_000;
pub(super) const MAX_CURSOR: usize = 128;
pub(super) const TTL: (u64, u64) = (60, 31_536_000);
pub(super) const LIMIT: (u64, u64, u64) = (1, 50, 10);
pub(super) const TOKENS: (u64, u64, u64) = (64, 20_000, 1_500);

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) action: &'static str,
    pub(super) namespace: Option<String>,
    pub(super) key: Option<String>,
    pub(super) content: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) tags: Option<Vec<String>>,
    pub(super) source: Option<String>,
    pub(super) ttl_seconds: Option<u64>,
    pub(super) if_version: Option<i64>,
    pub(super) query: Option<String>,
    pub(super) limit: Option<usize>,
    pub(super) max_tokens: u64,
    pub(super) cursor: Option<String>,
}

impl Request {
    pub(super) fn read(mut arguments: Arguments) -> Result<Self, ToolError> {
        let action = match arguments.take("action") {
            Some(Value::String(given)) => ACTIONS.iter().find(|action| **action == given),
            _ => None,
        };
        let action =
            action.ok_or_else(|| invalid(format!("action must be one of {}", ACTIONS.join(", "))))?;
        let request = Self {
            action,
            namespace: arguments.text("namespace", 1..=64)?,
            key: arguments.text("key", 1..=MAX_KEY)?,
            content: arguments.text("content", 1..=MAX_CONTENT)?,
            reference: arguments.text("ref", 1..=64)?,
            tags: tags(arguments.take("tags"))?,
            source: arguments.text("source", 1..=MAX_SOURCE)?,
            ttl_seconds: arguments.whole("ttl_seconds", TTL.0..=TTL.1)?,
            if_version: arguments.whole("if_version", 0..=ANY)?.map(|version| version as i64),
            query: arguments.text("query", 1..=MAX_QUERY)?,
            limit: arguments.whole("limit", LIMIT.0..=LIMIT.1)?.map(|limit| limit as usize),
            max_tokens: arguments.whole("max_tokens", TOKENS.0..=TOKENS.1)?.unwrap_or(TOKENS.2),
            cursor: arguments.text("cursor", 1..=MAX_CURSOR)?,
        };
        arguments.finish()?;
        if request.namespace.as_deref().is_some_and(|namespace| !is_name(namespace)) {
            return Err(invalid("namespace must be 1 to 64 letters, digits, or . _ : -"));
        }
        Ok(request)
    }

    /// The namespace that the call is about, if the key may reach it. A key that has only one needs not name it.
    pub(super) fn namespace(&self, scopes: &[MemoryScope]) -> Result<String, ToolError> {
        let write = matches!(self.action, "store" | "forget");
        let reaches = |name: &str| {
            let covers = |scope: &&MemoryScope| scope.namespace.as_deref().is_none_or(|one| one == name);
            scopes.iter().filter(covers).any(|scope| scope.write || !write)
        };
        let name = match (&self.namespace, scopes) {
            (Some(name), _) => name.as_str(),
            (None, [MemoryScope { namespace: Some(only), .. }]) => only,
            (None, _) => DEFAULT_NAMESPACE,
        };
        if reaches(name) {
            return Ok(name.to_owned());
        }
        let what = if write { "change" } else { "read" };
        let message = format!("this key may not {what} the memory's namespace {name:?}; use one that it may");
        Err(ToolError::new("scope_denied", message))
    }
}

fn tags(value: Option<Value>) -> Result<Option<Vec<String>>, ToolError> {
    let wrong =
        || invalid("tags must be a list of at most 16 different names of letters, digits, or . _ : -");
    let items = match value {
        None => return Ok(None),
        Some(Value::Array(items)) if items.len() <= MAX_TAGS => items,
        Some(_) => return Err(wrong()),
    };
    let mut tags: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::String(tag) if is_name(&tag) => tags.push(tag),
            _ => return Err(wrong()),
        }
    }
    tags.sort();
    tags.dedup();
    Ok(Some(tags))
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}
