//! `x-mcp-header`: which arguments a modern client mirrors into headers (mcp-wire, header mirroring rules).

use std::collections::HashSet;

use http::HeaderName;
use serde_json::{Map, Value};

use crate::mcp::tools::{HeaderParam, ParamType};

const KEYWORD: &str = "x-mcp-header";

/// Annotations that one tool may have: each costs a look through the arguments of every call.
const MAX_PARAMS: usize = 64;

/// Keywords whose value is one schema.
const ONE: [&str; 12] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords whose value is a list of schemas.
const LIST: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Keywords whose value maps names to schemas, `properties` apart.
const MAP: [&str; 4] = ["$defs", "definitions", "patternProperties", "dependentSchemas"];

/// The annotated arguments of an input schema, or `None` if an annotation breaks the rules: it stands where
/// `properties` alone do not lead, its type is none of string, integer and boolean, its name is no header token
/// or comes twice; or if there are more than 64 of them.
#[must_use]
pub fn header_params(schema: &Value) -> Option<Vec<HeaderParam>> {
    let mut work: Vec<(&Value, Option<Vec<String>>)> = vec![(schema, Some(Vec::new()))];
    let (mut params, mut names) = (Vec::new(), HashSet::new());
    while let Some((value, path)) = work.pop() {
        let Value::Object(schema) = value else { continue };
        if let Some(name) = schema.get(KEYWORD) {
            let param = annotated(schema, name, path.clone()?)?;
            if !names.insert(param.header.clone()) || names.len() > MAX_PARAMS {
                return None;
            }
            params.push(param);
        }
        children(schema, path.as_deref(), &mut work);
    }
    params.sort_by(|a, b| a.path.cmp(&b.path));
    Some(params)
}

fn children<'v>(
    schema: &'v Map<String, Value>,
    path: Option<&[String]>,
    work: &mut Vec<(&'v Value, Option<Vec<String>>)>,
) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        let below = |name: &String| path.map(|p| [p, std::slice::from_ref(name)].concat());
        work.extend(properties.iter().map(|(name, value)| (value, below(name))));
    }
    let lists = LIST.iter().filter_map(|k| schema.get(*k)?.as_array()).flatten();
    let old_items = schema.get("items").and_then(Value::as_array).into_iter().flatten();
    let maps = MAP.iter().filter_map(|k| schema.get(*k)?.as_object()).flat_map(|m| m.values());
    let ones = ONE.iter().filter_map(|k| schema.get(*k));
    work.extend(lists.chain(old_items).chain(maps).chain(ones).map(|value| (value, None)));
}

fn annotated(schema: &Map<String, Value>, name: &Value, path: Vec<String>) -> Option<HeaderParam> {
    let name = name.as_str().filter(|n| !n.is_empty() && !path.is_empty())?;
    let header = HeaderName::from_bytes(format!("mcp-param-{name}").as_bytes()).ok()?;
    Some(HeaderParam { path, header, kind: declared(schema.get("type")?)? })
}

/// The one declared type; `null` beside it is fine, because a null argument has no header.
fn declared(kind: &Value) -> Option<ParamType> {
    let name = match kind {
        Value::String(name) => name.as_str(),
        Value::Array(names) => {
            let mut others = names.iter().filter_map(Value::as_str).filter(|n| *n != "null");
            match (others.next(), others.next()) {
                (Some(one), None) => one,
                _ => return None,
            }
        }
        _ => return None,
    };
    match name {
        "string" => Some(ParamType::String),
        "integer" => Some(ParamType::Integer),
        "boolean" => Some(ParamType::Boolean),
        _ => None,
    }
}
