//! Repairs of what hosts send, as splices into the received bytes. Owns the rules and their order; decides
//! nothing about access. Invariants: bytes that need no repair are not copied; normalising twice equals once.

pub mod schema;

use super::message::{Body, Message, parse};
use super::tools::ToolSet;

/// How far arguments are bent to the tool's input schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coercion {
    /// Not at all.
    Off,
    /// Only values that the schema refuses and that have exactly one reading.
    #[default]
    Safe,
    /// Also wrapping, dropping of plumbing, tool name prefixes and misplaced arguments.
    Full,
}

/// Which repairs are wanted: the mirror of `[normalize]` in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `params` and `cursor`.
    pub params: bool,
    /// `arguments` that are null, a list or text.
    pub arguments: bool,
    /// A tool's name as method.
    pub direct_tool_method: bool,
    /// `tools/call` without `arguments`.
    pub fill_arguments: bool,
    /// Schema coercion.
    pub coercion: Coercion,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            params: true,
            arguments: true,
            direct_tool_method: true,
            fill_arguments: true,
            coercion: Coercion::Safe,
        }
    }
}

/// One repair inside the arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Name of the rule, for example `schema_coercion`.
    pub rule: &'static str,
    /// JSON Pointer (RFC 6901) below `arguments`.
    pub path: String,
    /// JSON type before; `"absent"` where a member was added.
    pub from: &'static str,
    /// JSON type after; `"absent"` where a member was dropped.
    pub to: &'static str,
}

/// What normalising a body came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Normalized {
    /// The repaired body; `None` if the received bytes go on as they are.
    pub body: Option<Vec<u8>>,
    /// Names of the rules that fired, in order.
    pub rules: Vec<&'static str>,
    /// Whether values were thrown away.
    pub lossy: bool,
    /// Repairs inside the arguments.
    pub edits: Vec<Edit>,
}

/// Normalises a body that has not been parsed.
#[must_use]
pub fn normalize(body: &[u8], rules: &Rules, tools: &ToolSet) -> Normalized {
    match parse(body) {
        Ok(Body::Object(message)) => normalize_message(body, &message, rules, tools),
        _ => Normalized::default(),
    }
}

/// Normalises a body that was parsed into `message`.
#[must_use]
pub fn normalize_message(body: &[u8], message: &Message<'_>, rules: &Rules, tools: &ToolSet) -> Normalized {
    let _ = (body, message, rules, tools);
    Normalized::default()
}

/// Whether the message's method is the name of a known tool and no method of MCP.
#[must_use]
pub fn is_direct_tool(message: &Message<'_>, tools: &ToolSet) -> bool {
    message.method.as_deref().is_some_and(|m| tools.contains(m) && !is_mcp_method(m))
}

/// Whether `method` belongs to MCP, in any revision.
#[must_use]
pub fn is_mcp_method(method: &str) -> bool {
    const METHODS: [&str; 25] = [
        "completion/complete",
        "elicitation/create",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "server/discover",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/create",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tools/call",
        "tools/list",
        "tools/search",
    ];
    METHODS.binary_search(&method).is_ok() || method.starts_with("notifications/")
}
