//! A request on its way to a member: what it is called there, ids of our own, fixed parameters. Splices in the body;
//! the mirrored headers say what the body then says.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_LENGTH};

use super::{index::Entry, present::quoted, route::Way, tasks::TASKS};
use crate::mcp::{
    headers::{self, NAME_HEADER},
    json::{
        self as slices, Raw,
        edit::{self, Splice},
    },
    message::{self, Body, Message},
};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The body for the member. `id` is ours, and so is the progress token, if the client gave one. The tasks extension is
/// declared only to who has it (`tasks`).
pub(super) fn body(message: &Message<'_>, way: &Way<'_>, id: u64, tasks: bool) -> Vec<u8> {
    let source = message.envelope;
    let ours = || id.to_string().into_bytes();
    let mut splices = Vec::new();
    splices.extend(message.id_raw.map(|raw| Splice::replace(raw.range(), ours())));
    splices.extend(way.name.map(|raw| Splice::replace(raw.range(), quoted(&way.target))));
    splices.extend(message.progress_token.map(|raw| Splice::replace(raw.range(), ours())));
    if let Some((raw, state)) = &way.state {
        splices.push(Splice::replace(raw.range(), quoted(state)));
    }
    if let Some(capabilities) = message.client_capabilities.filter(|_| !tasks) {
        splices.extend(without_tasks(capabilities));
    }
    if let (Some(entry), Some(params)) = (&way.entry, message.params) {
        fix(entry, params, message.arguments, &mut splices);
    }
    edit::apply(source.document().as_bytes(), splices)
}

/// A client's `_meta` for a member, or the same without the tasks extension.
pub(super) fn meta(meta: &str, tasks: bool) -> String {
    match slices::parse(meta.as_bytes()) {
        Ok(parsed) if !tasks => {
            let splices = parsed.get(CAPABILITIES).into_iter().flat_map(without_tasks);
            let edited = edit::apply(meta.as_bytes(), splices.collect());
            String::from_utf8(edited).unwrap_or_else(|_| "{}".into())
        }
        _ => meta.to_owned(),
    }
}

fn without_tasks(capabilities: Raw<'_>) -> impl Iterator<Item = Splice> {
    let cuts = capabilities.get("extensions").map(|e| edit::cuts(e, |name| name.is_string(TASKS)));
    cuts.into_iter().flatten().map(Splice::cut)
}

/// Fills in the fixed parameters, over whatever the client sent for them.
fn fix(entry: &Entry, params: Raw<'_>, arguments: Option<Raw<'_>>, splices: &mut Vec<Splice>) {
    if entry.fixed.is_empty() {
        return;
    }
    let Some(arguments) = arguments.filter(Raw::is_object) else {
        let members: Vec<String> =
            entry.fixed.iter().map(|(name, value)| format!("{name}:{value}")).collect();
        let all = format!("{{{}}}", members.join(","));
        splices.push(match (arguments, params.members().last()) {
            (Some(wrong), _) => Splice::replace(wrong.range(), all.into_bytes()),
            (None, last) => {
                let comma = if last.is_some() { "," } else { "" };
                let at = last.map_or(params.start() + 1, |l| l.value.end());
                Splice::insert(at, format!("{comma}\"arguments\":{all}").into_bytes())
            }
        });
        return;
    };
    let last = arguments.members().last().map(|m| m.value.end());
    let mut comma = if last.is_some() { "," } else { "" };
    let mut missing = String::new();
    for (name, value) in &entry.fixed {
        let called =
            |raw: &Raw<'_>| crate::mcp::json::text::decode_lossy(name) == raw.as_str().unwrap_or_default();
        let mut there = false;
        for member in arguments.members().filter(|m| called(&m.name)) {
            there = true;
            splices.push(Splice::replace(member.value.range(), value.clone().into_bytes()));
        }
        if !there {
            missing.push_str(&format!("{comma}{name}:{value}"));
            comma = ",";
        }
    }
    if !missing.is_empty() {
        splices.push(Splice::insert(last.unwrap_or(arguments.start() + 1), missing.into_bytes()));
    }
}

/// The headers for the member: those of the client, and the mirrored ones afresh.
pub(super) fn headers(mut headers: HeaderMap, method: &str, way: &Way<'_>, body: &Bytes) -> HeaderMap {
    headers.remove(CONTENT_LENGTH);
    let tool = way.entry.as_ref().and_then(|e| e.tool.as_deref());
    if tool.is_some_and(|tool| !tool.header_params.is_empty())
        && let Ok(Body::Object(edited)) = message::parse(body)
    {
        headers::derive(&edited, tool, &mut headers);
        return headers;
    }
    let name: Option<HeaderValue> = match method {
        "completion/complete" => None,
        _ => headers::name_value(&way.target),
    };
    match name {
        Some(name) => drop(headers.insert(NAME_HEADER, name)),
        None => drop(headers.remove(NAME_HEADER)),
    }
    headers
}
