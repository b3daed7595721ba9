//! What the server says on a call's answer, as the client is to hear it.
//!
//! Invariant: only the response to our own request becomes the client's answer; numbers and unknown members keep
//! their text.

use super::{
    losses,
    refusal::Refusal,
    request::Call,
    revision::Revision,
    rewrite::{self, Edit, quoted},
};
use crate::mcp::{
    json::{self, Raw, Type, number},
    method,
    tools::ToolSet,
};

/// One message of the server.
#[derive(Debug)]
pub(super) enum Heard {
    /// For the client, before the answer.
    Note(String),
    /// The client's answer.
    Answer(String),
    /// The server needs something first.
    Asked(Asked),
    /// Nothing for the client.
    Nothing,
}

/// An `input_required` result.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) requests: Vec<Ask>,
    /// `requestState` as it came.
    pub(super) state: Option<String>,
}

/// One of its requests.
#[derive(Debug)]
pub(super) struct Ask {
    /// Its key, as it stands.
    pub(super) key: String,
    pub(super) method: String,
    /// Its parameters as they came.
    pub(super) params: Option<String>,
}

/// Reads a message of the answer to the request `number` that was made of `call`.
pub(super) fn hear(message: &[u8], number: u64, call: &Call) -> Heard {
    let Ok(message) = json::parse(message) else { return Heard::Nothing };
    if let Some(method) = message.get("method").and_then(|m| m.as_str()) {
        let is_request = message.get("id").is_some();
        return if is_request { Heard::Nothing } else { note(message, &method, number, call) };
    }
    let ours = message.get("id").is_none_or(|id| is_ours(id, number));
    let there = |name: &str| message.get(name).filter(|v| v.kind() != Type::Null);
    match (there("result"), there("error")) {
        _ if !ours => Heard::Nothing,
        (None, Some(error)) if error.is_object() => Heard::Answer(error_response(error, call)),
        (Some(result), None) if result.is_object() => outcome(result, call),
        _ => Heard::Nothing,
    }
}

/// Servers have been seen to answer `1` as `"1"` and without an id where they refuse early.
fn is_ours(id: Raw<'_>, number: u64) -> bool {
    let text = number.to_string();
    match id.kind() {
        Type::Number => number::equal(id.text(), &text),
        Type::String => id.is_string(&text),
        kind => kind == Type::Null,
    }
}

fn outcome(result: Raw<'_>, call: &Call) -> Heard {
    let kind = result.get("resultType");
    match kind.and_then(|k| k.as_str()).as_deref() {
        None if kind.is_none() => Heard::Answer(response(call, &self::result(result, call))),
        Some("complete") => Heard::Answer(response(call, &self::result(result, call))),
        Some("input_required") => Heard::Asked(asked(result)),
        _ => {
            let refusal = Refusal::upstream_protocol("a result of a type that is not known");
            Heard::Answer(refusal.message(Some(&call.id), call))
        }
    }
}

fn response(call: &Call, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", call.id)
}

fn asked(result: Raw<'_>) -> Asked {
    let requests = result.get("inputRequests").map(|r| r.members()).into_iter().flatten();
    let ask = |member: json::Member<'_>| Ask {
        key: member.name.text().to_owned(),
        method: member.value.get("method").and_then(|m| m.as_str()).unwrap_or_default().into_owned(),
        params: member.value.get("params").map(|p| p.text().to_owned()),
    };
    Asked {
        requests: requests.map(ask).collect(),
        state: result.get("requestState").map(|s| s.text().to_owned()),
    }
}

/// A complete result as the client's revision has it.
fn result(result: Raw<'_>, call: &Call) -> String {
    let (method, revision) = (call.method.as_str(), call.session.revision);
    let bad = (method == "tools/list").then(|| broken_tools(result)).flatten();
    let each = |value: Raw<'_>, edit: fn(Raw<'_>, Revision) -> Edit| {
        Edit::With(rewrite::array(value, |element| edit(element, revision)))
    };
    let orphan = (method == "tools/call").then(|| orphan(result, revision)).flatten();
    let edit = |name: &str, value: Raw<'_>| match (name, method) {
        ("resultType", _) => Edit::Drop,
        ("_meta", _) => losses::modern_meta(value),
        _ if losses::cache_hint(name, method) => Edit::Drop,
        ("tools", "tools/list") => {
            Edit::With(rewrite::array(value, |tool| listed(tool, revision, bad.as_ref())))
        }
        ("prompts", "prompts/list")
        | ("resources", "resources/list")
        | ("resourceTemplates", "resources/templates/list")
        | ("contents", "resources/read")
            if !revision.has_structure() =>
        {
            each(value, losses::item)
        }
        ("structuredContent", "tools/call") if losses::structured(value, revision) => Edit::Drop,
        ("content", "tools/call") if orphan.is_some() => Edit::Drop,
        ("content", "tools/call") if !revision.has_structure() => each(value, losses::block),
        ("messages", "prompts/get") if !revision.has_structure() => each(value, prompt_message),
        _ => Edit::Keep,
    };
    rewrite::object_and(result, edit, orphan.as_deref().unwrap_or_default())
}

/// Content that takes over what a structured result said, where that must go and no text repeats it.
fn orphan(result: Raw<'_>, revision: Revision) -> Option<String> {
    let structured = result.get("structuredContent").filter(|s| losses::structured(*s, revision))?;
    let content = result.get("content");
    if content.is_some_and(losses::has_text) {
        return None;
    }
    let mut blocks: Vec<String> = content
        .map(|c| c.elements())
        .into_iter()
        .flatten()
        .map(|b| match losses::block(b, revision) {
            Edit::With(new) => new,
            _ => b.text().to_owned(),
        })
        .collect();
    blocks.push(losses::text_block(structured.text()));
    Some(format!("\"content\":[{}]", blocks.join(",")))
}

fn prompt_message(message: Raw<'_>, revision: Revision) -> Edit {
    Edit::With(rewrite::object(message, |name, value| match name {
        "content" => losses::block(value, revision),
        _ => Edit::Keep,
    }))
}

/// The tools whose mirrored headers break the rules: clients must not offer them (26, streamable HTTP), and here
/// the face is the client.
fn broken_tools(list: Raw<'_>) -> Option<ToolSet> {
    memchr::memmem::find(list.bytes(), b"x-mcp-header")?;
    ToolSet::from_list_result(list.bytes()).ok()
}

fn listed(tool: Raw<'_>, revision: Revision, known: Option<&ToolSet>) -> Edit {
    let name = tool.get("name").and_then(|n| n.as_str()).unwrap_or_default();
    match known.and_then(|k| k.get(&name)) {
        Some(read) if !read.valid => Edit::Drop,
        _ => Edit::With(losses::tool(tool, revision)),
    }
}

/// An error; codes that only the modern era has become those that every client knows, with `data` as it is.
fn error_response(error: Raw<'_>, call: &Call) -> String {
    let code = error.get("code").map(|c| c.text()).unwrap_or("-32603");
    let legacy = match code.trim_matches('"') {
        // The client could not know that this was needed.
        "-32021" => "-32602",
        // What the face itself sent was refused.
        "-32020" | "-32022" => "-32603",
        other => other,
    };
    let said = error.get("message").is_some();
    let error = rewrite::object_and(
        error,
        |name, _| match name {
            "code" if legacy != code => Edit::With(legacy.to_owned()),
            _ => Edit::Keep,
        },
        if said { "" } else { "\"message\":\"\"" },
    );
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":{error}}}", call.id)
}

/// A notification on a call's own stream. Those that belong on others are dropped.
fn note(message: Raw<'_>, method: &str, number: u64, call: &Call) -> Heard {
    match method {
        "notifications/progress" => progress(message, number, call),
        "notifications/message" => Heard::Note(message.text().to_owned()),
        _ if method::known(method).is_some() => Heard::Nothing,
        _ => Heard::Note(message.text().to_owned()),
    }
}

/// Progress carries the client's token again.
fn progress(message: Raw<'_>, number: u64, call: &Call) -> Heard {
    let Some(token) = &call.token else { return Heard::Nothing };
    let theirs = message.get("params").and_then(|p| p.get("progressToken"));
    if !theirs.is_some_and(|t| is_ours(t, number)) {
        return Heard::Nothing;
    }
    let with_token = |params: Raw<'_>| {
        rewrite::object(params, |name, _| match name {
            "progressToken" => Edit::With(token.clone()),
            _ => Edit::Keep,
        })
    };
    Heard::Note(rewrite::object(message, |name, value| match name {
        "params" => Edit::With(with_token(value)),
        _ => Edit::Keep,
    }))
}

/// A change notice as the client's GET stream carries it; `None` for what does not belong there.
/// `wants` says whether the session asked for updates of a resource.
pub(super) fn change(message: &[u8], wants: impl Fn(&str) -> bool) -> Option<String> {
    let message = json::parse(message).ok()?;
    let method = message.get("method")?.as_str()?;
    match &*method {
        "notifications/tools/list_changed"
        | "notifications/prompts/list_changed"
        | "notifications/resources/list_changed" => {}
        "notifications/resources/updated" => {
            let uri = message.get("params")?.get("uri")?.as_str()?;
            wants(&uri).then_some(())?;
        }
        _ => return None,
    }
    let params = |params: Raw<'_>| {
        rewrite::object(params, |name, value| match name {
            "_meta" => losses::modern_meta(value),
            _ => Edit::Keep,
        })
    };
    Some(rewrite::object(message, |name, value| match (name, value) {
        ("params", value) => match params(value) {
            empty if empty == "{}" => Edit::Drop,
            rest => Edit::With(rest),
        },
        _ => Edit::Keep,
    }))
}

/// The kind of list that a notice is about.
pub(super) fn list_changed(message: &[u8], notices: impl IntoIterator<Item = &'static str>) -> Option<usize> {
    let method = json::parse(message).ok()?.get("method")?;
    notices.into_iter().position(|notice| method.is_string(notice))
}

/// Whether it answers a request.
pub(super) fn is_response(message: &[u8]) -> bool {
    let is =
        |m: Raw<'_>| m.get("method").is_none() && (m.get("result").is_some() || m.get("error").is_some());
    json::parse(message).is_ok_and(is)
}

/// A change notice of the gateway's own.
pub(super) fn made_change(method: &str, uri: Option<&str>) -> String {
    let params = uri.map(|u| format!(",\"params\":{{\"uri\":{}}}", quoted(u))).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{params}}}")
}
