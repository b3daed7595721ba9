//! The lists and `server/discover`, from what the catalogs know: no member is asked. Owns pages and their cursors.

use std::time::Duration;

use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Core, index::Index, reply};
use crate::{
    bridge::sealed::Purpose,
    mcp::{
        era::MODERN,
        json::{Raw, Type},
        message::Message,
    },
    upstream::{ResponseBody, catalog::Kind},
};

/// Most entries of a page.
pub(super) const PAGE: usize = 1_000;
/// Bytes at which a page ends, whatever it has.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Longest name or URI in a cursor, in bytes.
const LONGEST: usize = 4 * 1024;
/// How long a client may take from page to page.
const CURSOR_LIFETIME: Duration = Duration::from_secs(3_600);

/// Where a page begins.
#[derive(Debug, Serialize, Deserialize)]
struct Cursor {
    list: Kind,
    /// How many entries came before.
    at: usize,
    /// The last of them: if the list has changed, what follows it is meant.
    after: String,
    /// The scope of the pages before, which all pages share.
    private: bool,
}

/// Answers one of the lists.
pub(super) fn list(
    core: &Core,
    kind: Kind,
    id: &str,
    message: &Message<'_>,
    principal: &str,
) -> Response<ResponseBody> {
    let index = core.index();
    let entries = &index.lists[kind as usize];
    let cursor =
        match message.cursor.filter(|c| c.kind() != Type::Null).map(|c| read(core, kind, c, principal)) {
            None => None,
            Some(Some(cursor)) => Some(cursor),
            Some(None) => {
                return reply::invalid(
                    id,
                    "This cursor is not one of this list, or too old. List again without it.",
                );
            }
        };
    let from = cursor.as_ref().map_or(0, |cursor| {
        let last = |at: usize| at.checked_sub(1).and_then(|at| entries.get(at));
        match last(cursor.at) {
            Some(last) if *last.public == cursor.after => cursor.at,
            _ => {
                let place = entries.iter().position(|e| *e.public == cursor.after);
                place.map_or(cursor.at.min(entries.len()), |place| place + 1)
            }
        }
    });
    let (ttl_ms, private) = core.hints(&index, kind);
    let private = private || cursor.is_some_and(|c| c.private);
    let mut out = format!("{{\"resultType\":\"complete\",\"{}\":[", kind.member());
    let mut to = from;
    for entry in entries.iter().skip(from).take(PAGE) {
        if to > from {
            if out.len() + entry.definition.len() > PAGE_BYTES {
                break;
            }
            out.push(',');
        }
        out.push_str(&entry.definition);
        to += 1;
    }
    out.push(']');
    if let Some(last) = to.checked_sub(1).filter(|_| to < entries.len()) {
        let next = Cursor { list: kind, at: to, after: remembered(&entries[last].public), private };
        let sealed = core.sealer.seal(Purpose::Cursor, principal, CURSOR_LIFETIME, &next);
        out.push_str(",\"nextCursor\":\"");
        out.push_str(&sealed);
        out.push('"');
    }
    let scope = if private { "private" } else { "public" };
    out.push_str(&format!(
        ",\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\",\"_meta\":{}}}",
        reply::SERVER_INFO
    ));
    reply::result(id, out.as_bytes())
}

/// A cursor has to stay short; where it cannot say what it follows, its number of entries counts.
fn remembered(public: &str) -> String {
    if public.len() <= LONGEST { public.to_owned() } else { String::new() }
}

fn read(core: &Core, kind: Kind, cursor: Raw<'_>, principal: &str) -> Option<Cursor> {
    let text = cursor.as_exact_str()?;
    let cursor: Cursor = core.sealer.open(Purpose::Cursor, principal, &text).ok()?;
    (cursor.list == kind).then_some(cursor)
}

/// Answers `server/discover`.
pub(super) fn discover(core: &Core, id: &str) -> Response<ResponseBody> {
    let index = core.index();
    let hints = Kind::ALL.map(|kind| core.hints(&index, kind));
    let mut result = json!({
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": capabilities(core, &index),
        "ttlMs": hints.iter().map(|(ttl, _)| *ttl).min().unwrap_or(0),
        "cacheScope": if hints.iter().any(|(_, private)| *private) { "private" } else { "public" },
        "_meta": reply::meta(),
    });
    if let Some(instructions) = instructions(core, &index) {
        result["instructions"] = instructions.into();
    }
    reply::result(id, result.to_string().as_bytes())
}

/// The union. Of extensions only that of tasks is passed on: nothing here bridges others, nor experimental ones.
fn capabilities(core: &Core, index: &Index) -> Value {
    let mut union = Map::new();
    for part in &index.parts {
        for capability in ["tools", "prompts", "resources", "completions", "logging"] {
            let Some(Value::Object(flags)) = part.about.capabilities.get(capability) else { continue };
            let all = union.entry(capability).or_insert_with(|| json!({}));
            let known = |flag: &&String| matches!(flag.as_str(), "listChanged" | "subscribe");
            for flag in flags.keys().filter(known).filter(|f| flags[*f] == true) {
                all[flag] = true.into();
            }
        }
    }
    if let Some(extensions) = core.extensions(index) {
        union.insert("extensions".into(), extensions);
    }
    Value::Object(union)
}

/// Those of the members under their names; only where there are several, or something to say.
fn instructions(core: &Core, index: &Index) -> Option<String> {
    let mut out = String::new();
    let several = core.members.len() > 1;
    if several {
        let names: Vec<_> = core.members.iter().map(|m| m.shown_name(&core.separator)).collect();
        out = format!("Several servers answer here as one: {}.", names.join(", "));
    }
    for (member, part) in core.members.iter().zip(&index.parts) {
        let Some(text) = part.about.instructions.as_deref().filter(|t| !t.trim().is_empty()) else {
            continue;
        };
        if several {
            out.push_str("\n\n## ");
            out.push_str(&member.name);
            out.push_str("\n\n");
        }
        out.push_str(text.trim());
    }
    (!out.is_empty()).then_some(out)
}

impl Core {
    /// `ttlMs` of a merged list and whether it is private. What a member has not confirmed may change at any time.
    fn hints(&self, index: &Index, kind: Kind) -> (u64, bool) {
        let (mut ttl, mut private) = (None::<u64>, false);
        for (member, part) in self.members.iter().zip(&index.parts) {
            let Some(age) = member.catalog.age() else { return (0, true) };
            if !part.about.has(kind) {
                continue;
            }
            let left = part.ttl[kind as usize].unwrap_or_default().saturating_sub(age);
            let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            ttl = Some(ttl.map_or(left, |ttl| ttl.min(left)));
            private |= !part.public[kind as usize];
        }
        (ttl.unwrap_or(0), private || ttl.is_none())
    }
}
