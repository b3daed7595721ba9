//! Rewriting a `tools/list` result so that a key sees only its tools.
//!
//! Invariants: what stays is byte for byte; a tool whose name cannot be told for sure is not shown.

use std::ops::Range;

use super::json::{
    self, Raw, Type,
    edit::{self, Splice},
};

/// What a message was to the filter.
#[derive(Debug, PartialEq, Eq)]
pub enum Filtered {
    /// No tool list: it may pass as it is.
    Other,
    /// A tool list, cut.
    List(Vec<u8>),
    /// It cannot be read, so nobody knows what another reader would see in it.
    Unreadable,
}

/// Cuts the tools that `allowed` refuses out of a `tools/list` response and, if `private`, marks the result
/// `cacheScope: "private"`. So it does with each message of a batch.
#[must_use]
pub fn filter_tools(message: &[u8], allowed: impl Fn(&str) -> bool, private: bool) -> Filtered {
    let Ok(root) = json::parse(message) else { return Filtered::Unreadable };
    let mut splices = Vec::new();
    let mut any_list = false;
    let batch = (root.kind() == Type::Array).then(|| root.elements());
    let alone = batch.is_none().then_some(root);
    // A member that comes twice is filtered twice: nobody knows which one the client reads.
    for result in batch.into_iter().flatten().chain(alone).flat_map(|message| all(message, "result")) {
        let mut is_list = false;
        for list in all(result, "tools").filter(|t| t.kind() == Type::Array) {
            is_list = true;
            let cuts = cuts(list, |tool| !name(tool).is_some_and(|n| allowed(&n)));
            splices.extend(cuts.into_iter().map(Splice::cut));
        }
        if private && is_list {
            mark_private(result, &mut splices);
        }
        any_list |= is_list;
    }
    if any_list { Filtered::List(edit::apply(message, splices)) } else { Filtered::Other }
}

/// The values of all members of `object` called `name`.
fn all<'a>(object: Raw<'a>, name: &'static str) -> impl Iterator<Item = Raw<'a>> {
    object.members().filter(move |m| m.name.is_string(name)).map(|m| m.value)
}

/// The tool's name, if it has exactly one.
fn name(tool: Raw<'_>) -> Option<String> {
    let mut names = all(tool, "name");
    let only = names.next()?.as_exact_str()?.into_owned();
    names.next().is_none().then_some(only)
}

fn mark_private(result: Raw<'_>, splices: &mut Vec<Splice>) {
    let before = splices.len();
    splices.extend(all(result, "cacheScope").map(|v| Splice::replace(v.range(), &b"\"private\""[..])));
    if splices.len() == before
        && let Some(last) = result.members().last()
    {
        splices.push(Splice::insert(last.value.end(), &b",\"cacheScope\":\"private\""[..]));
    }
}

/// The ranges to cut so that an array loses the elements that `drop` picks, with one comma each.
fn cuts<'a>(array: Raw<'a>, drop: impl Fn(Raw<'a>) -> bool) -> Vec<Range<usize>> {
    edit::gaps(array.elements().map(|e| (e.range(), drop(e))))
}

#[cfg(test)]
mod tests {
    use super::{Filtered, filter_tools};

    fn filtered(message: &str, allowed: &[&str], private: bool) -> Option<String> {
        match filter_tools(message.as_bytes(), |n| allowed.contains(&n), private) {
            Filtered::List(out) => Some(String::from_utf8(out).unwrap()),
            Filtered::Other | Filtered::Unreadable => None,
        }
    }

    #[test]
    fn only_allowed_tools_stay_and_everything_else_is_untouched() {
        let list = r#"{"id":1.0,"result":{ "tools":[{"name":"a"} , {"x":1e2,"name":"b"},{"n\u0061me":"c"}],"ttlMs":0}}"#;
        let with = |tools| Some(format!(r#"{{"id":1.0,"result":{{ "tools":[{tools}],"ttlMs":0}}}}"#));
        assert_eq!(filtered(list, &["a", "b", "c"], false).as_deref(), Some(list));
        assert_eq!(filtered(list, &["b"], false), with(r#"{"x":1e2,"name":"b"}"#));
        assert_eq!(filtered(list, &["a", "c"], false), with(r#"{"name":"a"},{"n\u0061me":"c"}"#));
        assert_eq!(filtered(list, &["c"], false), with(r#"{"n\u0061me":"c"}"#));
        assert_eq!(filtered(list, &[], false), with(""));
    }

    #[test]
    fn every_message_of_a_batch_is_filtered() {
        let batch = r#"[{"id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}} ,{"id":2,"result":{}}]"#;
        assert_eq!(
            filtered(batch, &["a"], true).unwrap(),
            r#"[{"id":1,"result":{"tools":[{"name":"a"}],"cacheScope":"private"}} ,{"id":2,"result":{}}]"#
        );
        assert_eq!(filtered(r#"[{"id":2,"result":{}}]"#, &[], true), None);
    }

    #[test]
    fn tools_without_one_certain_name_are_hidden() {
        let list = r#"{"result":{"tools":[{},5,{"name":7},{"name":"a","name":"b"},{"name":"a"}]}}"#;
        assert_eq!(filtered(list, &["a", "b"], false).unwrap(), r#"{"result":{"tools":[{"name":"a"}]}}"#);
    }

    #[test]
    fn lists_that_come_twice_are_filtered_twice() {
        let list =
            r#"{"result":{"tools":[{"name":"x"}],"tools":[{"name":"x"}]},"result":{"tools":[{"name":"x"}]}}"#;
        assert!(!filtered(list, &[], false).unwrap().contains('x'));
    }

    #[test]
    fn the_cache_scope_becomes_private() {
        let scope = |s| filtered(s, &[], true).unwrap();
        assert_eq!(scope(r#"{"result":{"tools":[]}}"#), r#"{"result":{"tools":[],"cacheScope":"private"}}"#);
        assert_eq!(
            scope(r#"{"result":{"cacheScope":"public","tools":[]}}"#),
            r#"{"result":{"cacheScope":"private","tools":[]}}"#
        );
    }

    #[test]
    fn other_messages_may_pass_and_unreadable_ones_may_not() {
        let told = |message: &str| filter_tools(message.as_bytes(), |_| false, true);
        for other in [r#"{"error":{"code":1}}"#, r#"{"result":{"tools":{}}}"#, "[]", r#"{"tools":[]}"#] {
            assert_eq!(told(other), Filtered::Other, "{other}");
        }
        let deep = format!(r#"{{"result":{{"tools":[{}{}]}}}}"#, "[".repeat(600), "]".repeat(600));
        for unreadable in ["x", r#"{"result":{"tools":[NaN]}}"#, &deep] {
            assert_eq!(told(unreadable), Filtered::Unreadable, "{unreadable}");
        }
    }
}
