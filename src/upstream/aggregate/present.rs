//! A tool's definition as clients see it: public name, other description, hidden parameters taken out. Splices; what
//! is not touched keeps its bytes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    config::Rename,
    mcp::json::{
        self as slices, Raw,
        edit::{self, Splice},
    },
};

/// A JSON string.
pub(super) fn quoted(text: &str) -> Vec<u8> {
    Value::from(text).to_string().into_bytes()
}

/// The definition with `public` for its name. A member that comes twice is changed twice: nobody knows which one a
/// client reads.
pub(super) fn named(definition: &str, public: &str) -> String {
    let Ok(root) = slices::parse(definition.as_bytes()) else { return definition.to_owned() };
    let names = all(root, "name").map(|v| Splice::replace(v.range(), quoted(public)));
    finish(definition, names.collect())
}

/// A tool, presented.
pub(super) fn tool(
    definition: &str,
    public: &str,
    rename: Option<&Rename>,
    fixed: Option<&BTreeMap<String, Value>>,
) -> String {
    let Ok(root) = slices::parse(definition.as_bytes()) else { return definition.to_owned() };
    let mut splices: Vec<Splice> =
        all(root, "name").map(|v| Splice::replace(v.range(), quoted(public))).collect();
    if let Some(description) = rename.and_then(|r| r.description.as_deref()) {
        describe(root, description, &mut splices);
    }
    if let Some(fixed) = fixed {
        for schema in all(root, "inputSchema") {
            hide(schema, fixed, &mut splices);
        }
    }
    finish(definition, splices)
}

fn describe(root: Raw<'_>, description: &str, splices: &mut Vec<Splice>) {
    let before = splices.len();
    splices.extend(all(root, "description").map(|v| Splice::replace(v.range(), quoted(description))));
    if let (true, Some(last)) = (splices.len() == before, root.members().last()) {
        let member = [&b",\"description\":"[..], &quoted(description)].concat();
        splices.push(Splice::insert(last.value.end(), member));
    }
}

/// Takes parameters out of `properties` and `required`.
fn hide(schema: Raw<'_>, fixed: &BTreeMap<String, Value>, splices: &mut Vec<Splice>) {
    let hidden = |name: &Raw<'_>| name.as_str().is_some_and(|n| fixed.contains_key(&*n));
    for properties in all(schema, "properties") {
        splices.extend(edit::cuts(properties, hidden).into_iter().map(Splice::cut));
    }
    for required in all(schema, "required") {
        let gaps = edit::gaps(required.elements().map(|e| (e.range(), hidden(&e))));
        splices.extend(gaps.into_iter().map(Splice::cut));
    }
}

fn all<'a>(object: Raw<'a>, name: &'static str) -> impl Iterator<Item = Raw<'a>> {
    object.members().filter(move |m| m.name.is_string(name)).map(|m| m.value)
}

fn finish(definition: &str, splices: Vec<Splice>) -> String {
    let bytes = edit::apply(definition.as_bytes(), splices);
    String::from_utf8(bytes).unwrap_or_else(|_| definition.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_descriptions_and_hidden_parameters_change_and_nothing_else() {
        let fixed = BTreeMap::from([("limit".to_owned(), json!(10))]);
        let rename = Rename { name: None, description: Some("D \"q\"".into()) };
        let definition = r#"{ "name":"a", "x":1e2,"inputSchema":{"type":"object","properties":{"q":{"type":"string"},"limit":{"type":"integer"}},"required":["limit" ,"q"]}}"#;
        let shown = tool(definition, "f__a", Some(&rename), Some(&fixed));
        let expected = r#"{ "name":"f__a", "x":1e2,"inputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]},"description":"D \"q\""}"#;
        assert_eq!(shown, expected);
        assert_eq!(named(r#"{"name":"a","name":"b"}"#, "p"), r#"{"name":"p","name":"p"}"#);
    }
}
