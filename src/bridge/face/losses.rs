//! What legacy revisions cannot hold: one function for each loss, all of them listed in docs/bridge.md.
//!
//! Invariant: what a revision can hold passes with its bytes unchanged.

use super::{
    revision::Revision,
    rewrite::{self, Edit, quoted},
};
use crate::mcp::json::{Raw, Type};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Freshness: the legacy era has no `ttlMs` and `cacheScope`.
pub(super) fn cache_hint(name: &str, method: &str) -> bool {
    const CACHEABLE: [&str; 5] =
        ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"];
    matches!(name, "ttlMs" | "cacheScope") && CACHEABLE.contains(&method)
}

/// Keys of `_meta` that mean nothing in the legacy era. An empty rest goes.
pub(super) fn modern_meta(meta: Raw<'_>) -> Edit {
    let is_ours = |name: &str| name == SERVER_INFO || name == SUBSCRIPTION;
    if !meta.members().any(|m| m.name.is_string(SERVER_INFO) || m.name.is_string(SUBSCRIPTION)) {
        return Edit::Keep;
    }
    let rest = rewrite::object(meta, |name, _| if is_ours(name) { Edit::Drop } else { Edit::Keep });
    if rest == "{}" { Edit::Drop } else { Edit::With(rest) }
}

/// Titles and `_meta` of what lists hold, before 2025-06-18.
fn titles_and_meta(name: &str, revision: Revision) -> bool {
    matches!(name, "title" | "_meta") && !revision.has_structure()
}

/// Output schemas: none before 2025-06-18, and since then only those of objects.
fn output_schema(name: &str, schema: Raw<'_>, revision: Revision) -> bool {
    let is_object = || schema.get("type").is_some_and(|t| t.is_string("object"));
    name == "outputSchema" && !(revision.has_structure() && is_object())
}

/// Tasks are not bridged, so no tool may ask for them.
fn task_support(name: &str) -> bool {
    name == "execution"
}

/// A tool, as lists of `revision` hold it.
pub(super) fn tool(tool: Raw<'_>, revision: Revision) -> String {
    rewrite::object(tool, |name, value| {
        let lost =
            task_support(name) || titles_and_meta(name, revision) || output_schema(name, value, revision);
        if lost { Edit::Drop } else { Edit::Keep }
    })
}

/// A prompt, resource, template or piece of contents, as `revision` holds it.
pub(super) fn item(item: Raw<'_>, revision: Revision) -> Edit {
    if revision.has_structure() {
        return Edit::Keep;
    }
    Edit::With(rewrite::object(item, |name, value| match name {
        _ if titles_and_meta(name, revision) => Edit::Drop,
        // Of a prompt.
        "arguments" => Edit::With(rewrite::array(value, |argument| self::item(argument, revision))),
        _ => Edit::Keep,
    }))
}

/// Structured results: none before 2025-06-18, and since then only objects.
pub(super) fn structured(content: Raw<'_>, revision: Revision) -> bool {
    !(revision.has_structure() && content.is_object())
}

/// A block of content, as `revision` holds it.
pub(super) fn block(block: Raw<'_>, revision: Revision) -> Edit {
    let kind = block.get("type").and_then(|t| t.as_str()).unwrap_or_default();
    match &*kind {
        "resource_link" if !revision.has_structure() => Edit::With(link_as_text(block)),
        "audio" if !revision.has_audio() => Edit::With(audio_as_text(block)),
        _ => item(block, revision),
    }
}

/// A link, which says its name and address in words.
fn link_as_text(link: Raw<'_>) -> String {
    let part = |name: &str| link.get(name).and_then(|v| v.as_str()).unwrap_or_default();
    text_block(&format!("{}: {}", part("name"), part("uri")))
}

/// Sound, which leaves a note.
fn audio_as_text(audio: Raw<'_>) -> String {
    let kind = audio.get("mimeType").and_then(|v| v.as_str()).unwrap_or("audio".into());
    text_block(&format!("[{kind} content that this client's protocol version cannot receive]"))
}

/// A block of text.
pub(super) fn text_block(text: &str) -> String {
    format!("{{\"type\":\"text\",\"text\":{}}}", quoted(text))
}

/// Whether content has a block of text.
pub(super) fn has_text(content: Raw<'_>) -> bool {
    content.kind() == Type::Array
        && content.elements().any(|b| b.get("type").is_some_and(|t| t.is_string("text")))
}

/// Capabilities of the server that a client of `revision` can use. Extensions, experiments and tasks are not
/// bridged; completions have been announced since 2025-03-26 only.
pub(super) fn capability(name: &str, revision: Revision) -> bool {
    match name {
        "tools" | "prompts" | "resources" | "logging" => true,
        "completions" => revision >= Revision::V2025_03_26,
        _ => false,
    }
}

/// Members of an `Implementation` that came with 2025-06-18 and later.
pub(super) fn implementation(name: &str, revision: Revision) -> bool {
    match name {
        "name" | "version" => true,
        "title" => revision.has_structure(),
        _ => revision >= Revision::V2025_11_25,
    }
}

/// The mode of an elicitation: until 2025-11-25 there were only forms and no word for it.
pub(super) fn elicitation_mode(name: &str, revision: Revision) -> bool {
    name == "mode" && !revision.has_url_elicitation()
}
