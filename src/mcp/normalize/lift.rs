//! Rule 9, `full`: arguments that were put beside `arguments` instead of into it.
//!
//! Invariant: there is one reading or nothing is moved.

use super::{Edit, RULE_COERCION};
use crate::mcp::{json::Raw, schema::Schema};

/// Members that belong to `params` itself, whatever a tool declares.
const RESERVED: [&str; 6] = ["_meta", "arguments", "inputResponses", "name", "requestState", "task"];

/// Where hosts put the arguments object.
const WRAPPERS: [&str; 2] = ["args", "input"];

/// Arguments found in `params`.
pub(super) struct Lifted<'a> {
    /// The arguments object.
    pub(super) text: String,
    pub(super) edits: Vec<Edit>,
    taken: Vec<Raw<'a>>,
}

impl Lifted<'_> {
    /// Whether the member called `name` was taken.
    pub(super) fn takes(&self, name: &Raw<'_>) -> bool {
        self.taken.binary_search_by_key(&name.start(), Raw::start).is_ok()
    }
}

/// The members of `params` that the schema declares, or the object under `args` or `input`; `None` if there are
/// neither, or both.
pub(super) fn arguments<'a>(params: Raw<'a>, schema: &Schema) -> Option<Lifted<'a>> {
    let (mut declared, mut wrapped) = (Vec::new(), Vec::new());
    for member in params.members() {
        let name = member.name.as_str().unwrap_or_default();
        if RESERVED.contains(&&*name) {
            continue;
        }
        if schema.describes(&name) {
            declared.push(member);
        } else if WRAPPERS.contains(&&*name) && member.value.is_object() {
            wrapped.push(member);
        }
    }
    let edit = |path: String, to: &Raw<'_>| Edit {
        rule: RULE_COERCION,
        path,
        from: "absent",
        to: to.kind().as_str(),
    };
    match (&declared[..], &wrapped[..]) {
        ([], [one]) => {
            let edits = vec![edit(String::new(), &one.value)];
            Some(Lifted { text: one.value.text().to_owned(), edits, taken: vec![one.name] })
        }
        ([_, ..], []) => {
            let member = |m: &crate::mcp::json::Member<'_>| format!("{}:{}", m.name.text(), m.value.text());
            let text = format!("{{{}}}", declared.iter().map(member).collect::<Vec<_>>().join(","));
            let name = |m: &crate::mcp::json::Member<'_>| m.name.as_str().unwrap_or_default().into_owned();
            let edits = declared
                .iter()
                .map(|m| edit(format!("/{}", super::coerce::escaped(&name(m))), &m.value))
                .collect();
            Some(Lifted { text, edits, taken: declared.iter().map(|m| m.name).collect() })
        }
        _ => None,
    }
}
