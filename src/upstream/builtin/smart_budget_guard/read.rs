//! The arguments: what is given, within its bounds. What an action needs is asked for by the action.

use std::time::Duration;

use serde_json::Value;

use crate::upstream::builtin::{
    arguments::{ANY, Arguments, invalid},
    tool::ToolError,
};

/// In characters.
pub(super) const MAX_TEXT: usize = 2_000_000;
pub(super) const MAX_MESSAGES: usize = 500;
pub(super) const MAX_NAME: usize = 64;
pub(super) const MAX_KEY: usize = 128;
pub(super) const MAX_TOKENS: u64 = 100_000_000;
pub(super) const MIN_TTL: u64 = 10;
pub(super) const MAX_TTL: u64 = 86_400;
pub(super) const MODEL: &str = "gpt-4o";

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Check,
    Count,
    Record,
    Reserve,
    Commit,
    Release,
    OpenRun,
    CloseRun,
}

impl Action {
    pub(super) const NAMES: [&str; 8] =
        ["check", "count", "record", "reserve", "commit", "release", "open_run", "close_run"];
    const ALL: [Self; 8] = [
        Self::Check,
        Self::Count,
        Self::Record,
        Self::Reserve,
        Self::Commit,
        Self::Release,
        Self::OpenRun,
        Self::CloseRun,
    ];

    pub(super) fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether it changes anything.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Self::Check | Self::Count)
    }
}

/// What to count.
#[derive(Debug)]
pub(super) enum Material {
    Text(String),
    Messages(Vec<Value>),
    Reference(String),
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) action: Action,
    pub(super) material: Option<Material>,
    pub(super) model: String,
    pub(super) tokens: Option<u64>,
    pub(super) completion_tokens: u64,
    pub(super) monthly_limit: Option<u64>,
    pub(super) run: Option<String>,
    pub(super) reservation: Option<String>,
    pub(super) limit_tokens: Option<u64>,
    pub(super) limit_calls: Option<u64>,
    pub(super) ttl: Option<u64>,
    pub(super) idempotency_key: Option<String>,
}

impl Request {
    /// `tokens`, which this action needs.
    pub(super) fn tokens(&self) -> Result<u64, ToolError> {
        self.tokens.ok_or_else(|| self.needs("tokens"))
    }

    pub(super) fn needs(&self, what: &str) -> ToolError {
        invalid(format!("{} needs {what}", self.action.name()))
    }

    /// How long a handle lasts.
    pub(super) fn time(&self, default: u64, most: u64) -> Result<Duration, ToolError> {
        match self.ttl.unwrap_or(default) {
            ttl if ttl <= most => Ok(Duration::from_secs(ttl)),
            _ => Err(invalid(format!("ttl_seconds of {} is at most {most}", self.action.name()))),
        }
    }
}

/// Reads the arguments of a caller of this tenant.
pub(super) fn read(mut arguments: Arguments, tenant: &str) -> Result<Request, ToolError> {
    let Some(given) = arguments.text("action", 0..=MAX_NAME)? else {
        return Err(invalid(format!("action must be one of {}", Action::NAMES.join(", "))));
    };
    let action = Action::ALL.into_iter().find(|a| a.name() == given);
    let action =
        action.ok_or_else(|| invalid(format!("action must be one of {}", Action::NAMES.join(", "))))?;
    let material = [
        arguments.material("text", MAX_TEXT)?.map(Material::Text),
        messages(arguments.take("messages"))?.map(Material::Messages),
        arguments.text("ref", 0..=MAX_NAME)?.map(Material::Reference),
    ];
    let mut material = material.into_iter().flatten();
    let request = Request {
        action,
        material: material.next(),
        model: arguments.text("model", 0..=MAX_NAME)?.unwrap_or_else(|| MODEL.into()),
        tokens: arguments.whole("tokens", 0..=MAX_TOKENS)?,
        completion_tokens: arguments.whole("completion_tokens", 0..=MAX_TOKENS)?.unwrap_or(0),
        monthly_limit: arguments.whole("monthly_limit", 0..=ANY)?,
        run: arguments.text("run", 0..=MAX_NAME)?,
        reservation: arguments.text("reservation", 0..=MAX_NAME)?,
        limit_tokens: arguments.whole("limit_tokens", 1..=ANY)?,
        limit_calls: arguments.whole("limit_calls", 1..=ANY)?,
        ttl: arguments.whole("ttl_seconds", MIN_TTL..=MAX_TTL)?,
        idempotency_key: arguments.text("idempotency_key", 0..=MAX_KEY)?.filter(|key| !key.is_empty()),
    };
    let team = arguments.text("team_id", 0..=MAX_NAME)?.filter(|team| !team.is_empty());
    arguments.finish()?;
    if material.next().is_some() {
        return Err(invalid("give one of text, messages and ref"));
    }
    if team.is_some_and(|team| team != tenant) {
        let message = "this key may see its own budget only; leave team_id out";
        return Err(ToolError::new("scope_denied", message));
    }
    Ok(request)
}

fn messages(value: Option<Value>) -> Result<Option<Vec<Value>>, ToolError> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) if list.len() > MAX_MESSAGES => {
            Err(ToolError::new("too_many_items", format!("at most {MAX_MESSAGES} messages in one call")))
        }
        Some(Value::Array(list)) if list.iter().all(Value::is_object) => Ok(Some(list)),
        Some(_) => Err(invalid("messages must be a list of objects")),
    }
}
