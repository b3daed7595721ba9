//! Which tool the odd calls are tried with, and with what arguments. Owns the choice and the smallest arguments that a
//! schema takes.
//!
//! Invariant: a tool that the server annotates as destructive is never chosen, and one that it does not annotate as
//! read-only only if the user names it.

use serde_json::{Map, Value, json};

/// How deep a schema is followed.
const DEPTH: usize = 8;
/// Longest text and list that are made up.
const LONGEST: u64 = 64;

/// The tool of the odd calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// The smallest arguments that its schema takes.
    pub arguments: Value,
    /// A member that is no text, with a value that its schema takes.
    pub typed: Option<(String, Value)>,
}

/// The tool named, or the first that is harmless; one that needs no arguments before one that does. Otherwise why there is
/// none.
pub(super) fn choose(tools: &[Value], wanted: Option<&str>) -> Result<Chosen, String> {
    if let Some(wanted) = wanted {
        let tool = tools.iter().find(|tool| tool["name"] == wanted);
        let tool = tool.ok_or_else(|| format!("the server lists no tool '{wanted}'"))?;
        if is_destructive(tool) {
            return Err(format!("'{wanted}' is annotated destructive"));
        }
        return chosen(tool).ok_or_else(|| format!("no arguments could be made up for '{wanted}'"));
    }
    let harmless = || tools.iter().filter(|t| t["annotations"]["readOnlyHint"] == true && !is_destructive(t));
    if harmless().next().is_none() {
        return Err("no tool is annotated read-only; --tool NAME names one that may be called".to_owned());
    }
    let bare = harmless().filter(|tool| !has_required(tool)).find_map(chosen);
    let none =
        || "no arguments could be made up for the read-only tools; --tool NAME names another".to_owned();
    bare.or_else(|| harmless().find_map(chosen)).ok_or_else(none)
}

fn is_destructive(tool: &Value) -> bool {
    tool["annotations"]["destructiveHint"] == true
}

fn has_required(tool: &Value) -> bool {
    tool["inputSchema"]["required"].as_array().is_some_and(|names| !names.is_empty())
}

fn chosen(tool: &Value) -> Option<Chosen> {
    let schema = &tool["inputSchema"];
    let arguments = smallest(schema, schema, DEPTH).filter(Value::is_object)?;
    let properties = schema["properties"].as_object();
    let typed = properties.into_iter().flatten().find_map(|(name, property)| {
        let value = smallest(property, schema, DEPTH)?;
        let plain = value.is_number() || value.is_boolean();
        plain.then(|| (name.clone(), value))
    });
    Some(Chosen { name: tool["name"].as_str()?.to_owned(), arguments, typed })
}

/// The smallest value that `schema` takes; `None` where that cannot be told from here.
fn smallest(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    if let Some(place) = schema["$ref"].as_str() {
        return smallest(root.pointer(place.strip_prefix('#')?)?, root, depth);
    }
    for known in ["const", "default"] {
        if let Some(value) = schema.get(known) {
            return Some(value.clone());
        }
    }
    if let Some(value) = schema["enum"].get(0).or_else(|| schema["examples"].get(0)) {
        return Some(value.clone());
    }
    if ["allOf", "not", "if", "pattern"].iter().any(|word| schema.get(word).is_some()) {
        return None;
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(choices) = schema[choice].as_array().filter(|_| schema.get("type").is_none()) {
            return choices.iter().find_map(|one| smallest(one, root, depth));
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => object(schema, root, depth),
        None if schema.get("properties").is_some() => object(schema, root, depth),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or(0);
            let items = (0..count.min(LONGEST)).map(|_| smallest(&schema["items"], root, depth));
            items.collect::<Option<Vec<_>>>().map(Value::from)
        }
        Some("string") => text(schema),
        Some("integer" | "number") => number(schema),
        Some("boolean") => Some(json!(false)),
        Some("null") => Some(Value::Null),
        _ => None,
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Option<Value> {
    let mut made = Map::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str()?;
        made.insert(name.to_owned(), smallest(&schema["properties"][name], root, depth)?);
    }
    Some(made.into())
}

fn text(schema: &Value) -> Option<Value> {
    let made = match schema["format"].as_str() {
        None => "a".repeat(usize::try_from(schema["minLength"].as_u64().unwrap_or(1).min(LONGEST)).ok()?),
        Some("uri" | "url") => "http://example.com/".to_owned(),
        Some("date-time") => "2026-01-01T00:00:00Z".to_owned(),
        Some("date") => "2026-01-01".to_owned(),
        Some("email") => "a@example.com".to_owned(),
        Some("uuid") => "00000000-0000-4000-8000-000000000000".to_owned(),
        Some(_) => return None,
    };
    Some(made.into())
}

/// The lowest that is allowed, or 0; where only a highest is given and it is below, that.
fn number(schema: &Value) -> Option<Value> {
    if schema.get("multipleOf").is_some_and(|step| step != 1) {
        return None;
    }
    let bound = |inclusive: &str, exclusive: &str, step: i64| {
        let whole = |name: &str| schema.get(name).map(|v| v.as_i64().ok_or(()));
        match (whole(inclusive), whole(exclusive)) {
            (None, None) => Ok(None),
            (Some(value), None) => value.map(Some),
            (_, Some(value)) => value.map(|v| v.checked_add(step)),
        }
    };
    let (low, high) =
        (bound("minimum", "exclusiveMinimum", 1).ok()?, bound("maximum", "exclusiveMaximum", -1).ok()?);
    let value = low.unwrap_or_else(|| high.unwrap_or(0).min(0));
    (high.is_none_or(|high| value <= high)).then(|| value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, schema: &Value, hints: &Value) -> Value {
        json!({"name": name, "inputSchema": schema, "annotations": hints})
    }

    #[test]
    fn harmless_tools_are_chosen_and_those_without_arguments_first() {
        let (read, bare) = (json!({"readOnlyHint": true}), json!({"type": "object"}));
        let needs = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]});
        let erase = tool("erase", &bare, &json!({"readOnlyHint": true, "destructiveHint": true}));
        let tools = [
            erase.clone(),
            tool("count", &needs, &read),
            tool("look", &bare, &read),
            tool("plain", &bare, &json!({})),
        ];
        assert_eq!(choose(&tools, None).unwrap().name, "look");
        let count = choose(&tools[..2], None).unwrap();
        assert_eq!((count.arguments, count.typed), (json!({"n": 3}), Some(("n".to_owned(), json!(3)))));
        assert_eq!(choose(&tools, Some("plain")).unwrap().name, "plain");
        assert!(choose(&tools, Some("erase")).unwrap_err().contains("destructive"));
        assert!(choose(&tools, Some("none")).unwrap_err().contains("no tool 'none'"));
        assert!(choose(&[erase], None).unwrap_err().contains("--tool NAME"));
    }

    #[test]
    fn the_smallest_arguments_are_valid() {
        for (schema, made) in [
            (json!({"type": "string"}), json!("a")),
            (json!({"type": "string", "minLength": 3}), json!("aaa")),
            (json!({"type": "string", "format": "uri"}), json!("http://example.com/")),
            (json!({"enum": ["b", "c"]}), json!("b")),
            (json!({"type": "integer", "exclusiveMinimum": 4}), json!(5)),
            (json!({"type": "number", "maximum": -2}), json!(-2)),
            (json!({"type": ["boolean", "null"]}), json!(false)),
            (json!({"type": "array", "items": {"type": "null"}, "minItems": 2}), json!([null, null])),
            (json!({"anyOf": [{"pattern": "x"}, {"type": "integer"}]}), json!(0)),
            (json!({"$ref": "#/$defs/n"}), json!(7)),
        ] {
            let root = json!({"type": "object", "required": ["x"], "properties": {"x": schema}, "$defs": {"n": {"const": 7}}});
            assert_eq!(smallest(&root, &root, DEPTH), Some(json!({"x": made})), "{root}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_left_alone() {
        for schema in [
            json!({"type": "string", "pattern": "^x"}),
            json!({"type": "string", "format": "ipv4"}),
            json!({"type": "number", "multipleOf": 0.5}),
            json!({"type": "integer", "minimum": 2, "maximum": 1}),
            json!({"type": "number", "minimum": 0.5}),
            json!({"allOf": []}),
            json!({"$ref": "#"}),
            json!({"$ref": "http://elsewhere/"}),
            json!(true),
        ] {
            let root = json!({"type": "object", "required": ["x"], "properties": {"x": schema}});
            assert_eq!(smallest(&root, &root, DEPTH), None, "{root}");
        }
    }
}
