//! Which member a request is for, and what it is called there. One look-up in the index; nobody is asked.

use std::sync::Arc;

use http::Response;

use super::{
    Core,
    answer::State,
    index::{Entry, Index},
    reply, tasks,
};
use crate::{
    bridge::sealed::Purpose,
    mcp::{
        json::{Raw, Type},
        message::Message,
    },
    upstream::{ResponseBody, catalog::Kind},
};

/// Where a request goes.
pub(super) struct Way<'m> {
    pub(super) seat: usize,
    /// The name, URI or id of a task there.
    pub(super) target: Arc<str>,
    /// The name as it stands, where it must be replaced.
    pub(super) name: Option<Raw<'m>>,
    /// What it names, if that is in a list.
    pub(super) entry: Option<Arc<Entry>>,
    /// `requestState` as it stands, and the member's own.
    pub(super) state: Option<(Raw<'m>, String)>,
}

/// Finds the way of a request of one of the routed methods.
///
/// # Errors
/// The answer to the client, if there is none.
pub(super) fn find<'m>(
    core: &Core,
    index: &Index,
    id: &str,
    message: &'m Message<'_>,
    principal: &str,
) -> Result<Way<'m>, Box<Response<ResponseBody>>> {
    let refuse = |why: &str| Err(Box::new(reply::invalid(id, why)));
    let method = message.method.as_deref().unwrap_or_default();
    let way = match method {
        "tools/call" => named(core, index, Kind::Tools, message.name_raw),
        "prompts/get" => named(core, index, Kind::Prompts, message.name_raw),
        "resources/read" => match message.uri.as_deref() {
            Some(uri) => resource(core, index, uri),
            None => Err("params.uri must be a text".into()),
        },
        about_task if tasks::is_about_task(about_task) => tasks::way(core, index, message, principal),
        _ => completion(core, index, message),
    };
    let mut way = match way {
        Ok(way) => way,
        Err(why) => return refuse(&why),
    };
    if let Some(state) = message.request_state.filter(|s| s.kind() != Type::Null) {
        let sealed = state.as_exact_str().unwrap_or_default();
        let opened = core.sealer.open::<State>(Purpose::RequestState, principal, &sealed);
        let ours = |s: &State| {
            *s.upstream == *core.members[way.seat].name && s.method == method && *s.target == *way.target
        };
        match opened {
            Ok(opened) if ours(&opened) => way.state = Some((state, opened.state)),
            _ => {
                return refuse(
                    "This requestState is not one of this call, or too old. Call again without it.",
                );
            }
        }
    }
    Ok(way)
}

fn to<'m>(entry: &Arc<Entry>, name: Option<Raw<'m>>) -> Way<'m> {
    let name = name.filter(|_| entry.own != entry.public);
    Way {
        seat: entry.seat,
        target: Arc::clone(&entry.own),
        name,
        entry: Some(Arc::clone(entry)),
        state: None,
    }
}

fn named<'m>(core: &Core, index: &Index, kind: Kind, name: Option<Raw<'m>>) -> Result<Way<'m>, String> {
    let public = name.and_then(|n| n.as_exact_str()).ok_or("params.name must be a text")?;
    match index.get(kind, &public) {
        Some(entry) => Ok(to(entry, name)),
        None => Err(unknown(core, index, kind, &public)),
    }
}

fn unknown(core: &Core, index: &Index, kind: Kind, public: &str) -> String {
    let what = match kind {
        Kind::Tools => "tool",
        Kind::Prompts => "prompt",
        Kind::Resources | Kind::Templates => "resource",
    };
    let shown: String = public.chars().take(128).collect();
    if let Some(collision) = index.collision(kind, public) {
        let upstreams = collision.upstreams.join(" and ");
        return format!(
            "{shown} is the name of a {what} of {upstreams}; none is shown. Give them different prefixes, or rename one."
        );
    }
    if core.members.iter().any(|m| m.catalog.age().is_none()) {
        return format!(
            "Unknown {what}: {shown}. Not every server could be asked what it has; list again later."
        );
    }
    format!("Unknown {what}: {shown}. List again to see what there is.")
}

/// The one who lists the URI, else whose template fits best, else who has linked to it, else the only one who has
/// resources at all.
pub(super) fn resource<'m>(core: &Core, index: &Index, uri: &str) -> Result<Way<'m>, String> {
    if let Some(entry) = index.get(Kind::Resources, uri) {
        return Ok(to(entry, None));
    }
    if index.collision(Kind::Resources, uri).is_some() {
        return Err(unknown(core, index, Kind::Resources, uri));
    }
    let at = |seat: usize| Way { seat, target: uri.into(), name: None, entry: None, state: None };
    let shown_of = |mut seats: Vec<usize>| {
        seats.retain(|seat| core.members[*seat].show.has_resource(uri));
        seats
    };
    match shown_of(index.fitting(uri))[..] {
        [seat] => return Ok(at(seat)),
        [] => {}
        _ => {
            return Err(format!(
                "More than one server has a template for {uri}. Read it at one server's own path."
            ));
        }
    }
    if let Some(seat) = core.links.owner(uri).filter(|seat| core.members[*seat].show.has_resource(uri)) {
        return Ok(at(seat));
    }
    match index.with_capability("resources")[..] {
        [seat] if core.members[seat].show.has_resource(uri) => Ok(at(seat)),
        _ => Err(unknown(core, index, Kind::Resources, uri)),
    }
}

fn completion<'m>(core: &Core, index: &Index, message: &'m Message<'_>) -> Result<Way<'m>, String> {
    let reference = message.params.and_then(|p| p.get("ref")).ok_or("params.ref is missing")?;
    let text = |key| reference.get(key).and_then(|v: Raw<'_>| v.as_exact_str());
    match text("type").as_deref() {
        Some("ref/prompt") => named(core, index, Kind::Prompts, reference.get("name")),
        Some("ref/resource") => {
            let uri = text("uri").ok_or("params.ref.uri must be a text")?;
            match index.get(Kind::Templates, &uri) {
                Some(entry) => Ok(to(entry, None)),
                None => resource(core, index, &uri),
            }
        }
        _ => Err("params.ref.type must be ref/prompt or ref/resource".into()),
    }
}
