//! Tasks of members that speak the modern tasks extension. A task that is handed out is named by a sealed id that says
//! whose it is and what it is called there, and for whom it was made; it has no end of its own, since how long a task
//! lives is its server's word, which may change.
//!
//! Invariants: an id that does not open, or that names nobody here who has tasks, reaches no server; one task has one
//! id for one principal, however often it is told.

use std::sync::Arc;

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{
    Core,
    index::{Index, Part},
    reply,
    route::Way,
};
use crate::{
    bridge::sealed::Purpose,
    mcp::{
        era::Era,
        json::{Raw, Type},
        message::Message,
    },
    upstream::ResponseBody,
};

/// The extension's name.
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Longest id of a member's, in bytes: sealed and encoded it goes into a header.
pub(super) const MAX_ID: usize = 2 * 1024;
const MISSING_CAPABILITY: i64 = -32021;

/// Whether a request is about one task.
pub(super) fn is_about_task(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

/// Whether the client declared the extension in this request.
pub(super) fn declared(message: &Message<'_>) -> bool {
    let extensions = message.client_capabilities.and_then(|capabilities| capabilities.get("extensions"));
    extensions.and_then(|e| e.get(TASKS)).is_some_and(|tasks| tasks.is_object())
}

/// The refusal of a client that did not.
pub(super) fn undeclared(id: &str) -> Response<ResponseBody> {
    let data = json!({"requiredCapabilities": {"extensions": {TASKS: {}}}});
    let message = "Missing required client capability: declare the tasks extension in this request.";
    reply::error_with(StatusCode::BAD_REQUEST, id, MISSING_CAPABILITY, message, &data)
}

/// The way of a request about one task.
///
/// # Errors
/// What the client is told of an id that leads nowhere.
pub(super) fn way<'m>(
    core: &Core,
    index: &Index,
    message: &'m Message<'_>,
    principal: &str,
) -> Result<Way<'m>, String> {
    let name = message.params.and_then(|p| p.get("taskId")).filter(|t| t.kind() == Type::String);
    let public = name.and_then(|n| n.as_exact_str()).ok_or("params.taskId must be a text")?;
    let (seat, own) = core.open_task(index, principal, &public).ok_or_else(|| {
        let verb = match message.method.as_deref() {
            Some("tasks/update") => "update",
            Some("tasks/cancel") => "cancel",
            _ => "retrieve",
        };
        format!("Failed to {verb} task: Task not found")
    })?;
    Ok(Way { seat, target: own.into(), name, entry: None, state: None })
}

/// What a client's own words for a task are put back for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) own: Arc<str>,
    pub(super) public: Box<str>,
}

impl Asked {
    /// Of a request that went this way.
    pub(super) fn of(way: &Way<'_>, message: &Message<'_>) -> Option<Self> {
        is_about_task(message.method.as_deref()?).then_some(())?;
        Some(Self { own: Arc::clone(&way.target), public: message.task_id.as_deref()?.into() })
    }
}

impl Core {
    /// Whether a member is known to have tasks.
    pub(super) fn has_tasks(&self, index: &Index, seat: usize) -> bool {
        self.members[seat].catalog.era() == Some(Era::Modern) && index.parts[seat].tasks
    }

    /// Whether a member has tasks or could not be asked yet.
    pub(super) fn may_have_tasks(&self, index: &Index, seat: usize) -> bool {
        let unknown = |part: &Part| part.about.capabilities.is_null();
        self.has_tasks(index, seat)
            || (self.members[seat].catalog.era() != Some(Era::Legacy) && unknown(&index.parts[seat]))
    }

    /// The extensions that are shown, if any.
    pub(super) fn extensions(&self, index: &Index) -> Option<Value> {
        (0..self.members.len()).any(|seat| self.has_tasks(index, seat)).then(|| json!({TASKS: {}}))
    }

    /// Whether requests about tasks are served at all.
    pub(super) fn serves_tasks(&self, index: &Index) -> bool {
        (0..self.members.len()).any(|seat| self.may_have_tasks(index, seat))
    }

    /// The public id of a member's task.
    pub(super) fn seal_task(&self, principal: &str, seat: usize, own: &str) -> String {
        self.sealer.seal_name(Purpose::Task, principal, &(&*self.members[seat].name, own))
    }

    /// The member that a public id names, and the id there.
    pub(super) fn open_task(&self, index: &Index, principal: &str, public: &str) -> Option<(usize, String)> {
        let (upstream, own): (String, String) = self.sealer.open(Purpose::Task, principal, public).ok()?;
        let seat = self.members.iter().position(|m| *m.name == *upstream)?;
        self.may_have_tasks(index, seat).then_some((seat, own))
    }

    /// The tasks of a `subscriptions/listen`, by whose they are: each with its id there and the public one.
    pub(super) fn tasks_wanted(
        &self,
        index: &Index,
        principal: &str,
        wanted: Raw<'_>,
        most: usize,
    ) -> Vec<(usize, String, String)> {
        let ids = wanted.get("taskIds").filter(|ids| ids.kind() == Type::Array);
        let ids = ids.into_iter().flat_map(|ids| ids.elements()).filter_map(|id| id.as_exact_str());
        let known = ids.take(most).filter_map(|public| {
            let (seat, own) = self.open_task(index, principal, &public)?;
            Some((seat, own, public.into_owned()))
        });
        known.collect()
    }
}
