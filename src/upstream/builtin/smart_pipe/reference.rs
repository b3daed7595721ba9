//! `{"$from": ..., "path": ...}`: a value taken out of what an earlier step gave. The path is a JSON Pointer
//! (RFC 6901) in which `*` means every item of a list; what the items give is one list, as in JMAP's result
//! references (RFC 8620 section 3.7). Pure.

use serde_json::{Map, Value};

/// A reference as written.
#[derive(Debug, PartialEq)]
pub(super) struct Reference<'a> {
    /// A step's id, `input` or `item`.
    pub(super) from: &'a str,
    /// JSON Pointer with `*`; "" is the whole.
    pub(super) path: &'a str,
    /// What stands for a value that is not there.
    pub(super) default: Option<&'a Value>,
}

impl<'a> Reference<'a> {
    /// Reads an object that has `$from`; `None` for any other value.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(value: &'a Value) -> Result<Option<Self>, String> {
        let Some(object) = value.as_object().filter(|o| o.contains_key("$from")) else { return Ok(None) };
        if let Some(other) = object.keys().find(|k| !["$from", "path", "default"].contains(&k.as_str())) {
            return Err(format!("a reference has $from, path and default, not {other:?}"));
        }
        let text = |name: &str, none: &'a str| match object.get(name) {
            None => Ok(none),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(format!("{name} must be a string")),
        };
        let path = text("path", "")?;
        if !path.is_empty() && !path.starts_with('/') {
            return Err(format!("the path {path:?} must begin with /"));
        }
        Ok(Some(Self { from: text("$from", "")?, path, default: object.get("default") }))
    }
}

/// The value at `path`; `None` if there is none. Items that lack what follows a `*` are left out.
pub(super) fn at(value: &Value, path: &str) -> Option<Value> {
    let Some(rest) = path.strip_prefix('/') else { return Some(value.clone()) };
    let (token, rest) = match rest.find('/') {
        Some(end) => (&rest[..end], &rest[end..]),
        None => (rest, ""),
    };
    match value {
        Value::Array(items) if token == "*" => {
            let mut all = Vec::new();
            for found in items.iter().filter_map(|item| at(item, rest)) {
                match found {
                    // A list of lists becomes one list.
                    Value::Array(inner) if !rest.is_empty() => all.extend(inner),
                    other => all.push(other),
                }
            }
            Some(Value::Array(all))
        }
        Value::Array(items) => at(items.get(index(token)?)?, rest),
        Value::Object(members) => at(members.get(&unescape(token))?, rest),
        _ => None,
    }
}

/// Whether a value of this JSON Schema can have something at `path`. What the schema does not tell may be there.
pub(super) fn is_possible(schema: &Value, path: &str) -> bool {
    let Some(rest) = path.strip_prefix('/') else { return true };
    let (token, rest) = match rest.find('/') {
        Some(end) => (&rest[..end], &rest[end..]),
        None => (rest, ""),
    };
    match schema["type"].as_str() {
        Some("array") => {
            (token == "*" || index(token).is_some())
                && schema.get("items").is_none_or(|s| is_possible(s, rest))
        }
        Some("object") => match schema.get("properties").and_then(Value::as_object) {
            Some(known) => known.get(&unescape(token)).is_some_and(|s| is_possible(s, rest)),
            None => true,
        },
        Some(_) => false,
        None => true,
    }
}

/// RFC 6901 section 4: digits without leading zeros.
fn index(token: &str) -> Option<usize> {
    let plain = token.bytes().all(|b| b.is_ascii_digit()) && (token == "0" || !token.starts_with('0'));
    token.parse().ok().filter(|_| plain)
}

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Roughly how many bytes a value takes as JSON.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 4 + weight(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}

/// Calls `visit` for every reference in `value`, at any depth.
pub(super) fn each<'a>(
    value: &'a Value,
    visit: &mut impl FnMut(Reference<'a>) -> Result<(), String>,
) -> Result<(), String> {
    if let Some(reference) = Reference::read(value)? {
        return visit(reference);
    }
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| each(item, visit)),
        Value::Object(members) => members.values().try_for_each(|member| each(member, visit)),
        _ => Ok(()),
    }
}

/// `value` with every reference replaced by what `find` gives; `None` if one gives nothing.
pub(super) fn resolve(value: &Value, find: &impl Fn(&Reference<'_>) -> Option<Value>) -> Option<Value> {
    if let Ok(Some(reference)) = Reference::read(value) {
        return find(&reference).or_else(|| reference.default.cloned());
    }
    Some(match value {
        Value::Array(items) => {
            let mut all = Vec::with_capacity(items.len());
            for item in items {
                match resolve(item, find)? {
                    // In a list, a reference to a list adds its items.
                    Value::Array(inner) if matches!(Reference::read(item), Ok(Some(_))) => all.extend(inner),
                    other => all.push(other),
                }
            }
            Value::Array(all)
        }
        Value::Object(members) => {
            let resolved = members.iter().map(|(name, member)| Some((name.clone(), resolve(member, find)?)));
            Value::Object(resolved.collect::<Option<Map<_, _>>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The document and the pointers of RFC 6901 section 5.
    #[test]
    fn pointers_are_those_of_the_rfc() {
        let document = json!({"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, "k\"l": 6, " ": 7, "m~n": 8});
        for (path, expected) in [
            ("", document.clone()),
            ("/foo", json!(["bar", "baz"])),
            ("/foo/0", json!("bar")),
            ("/", json!(0)),
            ("/a~1b", json!(1)),
            ("/c%d", json!(2)),
            ("/e^f", json!(3)),
            ("/g|h", json!(4)),
            ("/i\\j", json!(5)),
            ("/k\"l", json!(6)),
            ("/ ", json!(7)),
            ("/m~0n", json!(8)),
        ] {
            assert_eq!(at(&document, path), Some(expected), "{path}");
        }
        for absent in ["/foo/2", "/foo/00", "/foo/-", "/nothing", "/foo/0/x"] {
            assert_eq!(at(&document, absent), None, "{absent}");
        }
    }

    #[test]
    fn a_star_maps_over_a_list_and_flattens_once() {
        let found = json!({"results": [{"url": "a", "tags": ["x", "y"]}, {"title": "no url"}, {"url": "b", "tags": ["z"]}]});
        assert_eq!(at(&found, "/results/*/url"), Some(json!(["a", "b"])));
        assert_eq!(at(&found, "/results/*/tags"), Some(json!(["x", "y", "z"])));
        assert_eq!(at(&json!([[1], [2]]), "/*"), Some(json!([[1], [2]])));
        assert_eq!(at(&found, "/*/url"), None);
    }

    #[test]
    fn references_are_strict() {
        assert_eq!(Reference::read(&json!({"from": "x"})), Ok(None));
        assert!(Reference::read(&json!({"$from": "x", "pth": "/a"})).is_err());
        assert!(Reference::read(&json!({"$from": "x", "path": "a"})).is_err());
        let value = json!({"deep": [{"$from": "a", "path": "/b"}], "plain": 1});
        let resolved = resolve(&value, &|r| (r.from == "a").then(|| json!("found")));
        assert_eq!(resolved, Some(json!({"deep": ["found"], "plain": 1})));
        let list = json!([{"$from": "a"}, "x", ["y"], {"$from": "b", "default": []}]);
        let found = |r: &Reference<'_>| (r.from == "a").then(|| json!([1, 2]));
        assert_eq!(resolve(&list, &found), Some(json!([1, 2, "x", ["y"]])));
        assert_eq!(resolve(&value, &|_| None), None);
        assert_eq!(resolve(&json!({"$from": "a", "default": 7}), &|_| None), Some(json!(7)));
    }

    #[test]
    fn schemas_tell_which_paths_can_be() {
        let schema = json!({"type": "object", "properties": {"results": {"type": "array", "items": {"type": "object", "properties": {"url": {"type": "string"}}}}, "any": {}}});
        for good in ["", "/results", "/results/*/url", "/results/0/url", "/any/thing"] {
            assert!(is_possible(&schema, good), "{good}");
        }
        for bad in ["/result", "/results/url", "/results/*/uri", "/results/*/url/x"] {
            assert!(!is_possible(&schema, bad), "{bad}");
        }
    }
}
