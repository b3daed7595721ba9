//! The shape of a document against the schema: unknown keys, values of a wrong type, words that are no
//! choice, and what a later version has. Everything refused is taken out of the document, so that what is left fits
//! the file as written and the check can go on with it.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{later, problem::Findings};

/// What the schema allows at one place.
enum Shape {
    Table {
        known: BTreeMap<String, Shape>,
        other: Option<Box<Shape>>,
    },
    List(Box<Shape>),
    /// One of them, or a list.
    OneOrMore(Box<Shape>),
    /// Text of this kind.
    Text(String),
    Words(Vec<String>),
    Integer {
        min: i64,
        max: i64,
    },
    Number,
    Boolean,
    DateTime,
    /// Anything that JSON has, too.
    Any,
}

/// Takes everything out of `document` that the schema does not allow, and says so.
pub(super) fn fit(document: &mut Spanned<DeTable<'_>>, schema: &Value, findings: &mut Findings<'_>) {
    let at = document.span().start;
    let Shape::Table { known, other } = compile(schema, schema) else { return };
    fit_table(document.get_mut(), at, &known, other.as_deref(), &Path::Root, findings);
}

/// Where in the document we are.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
}

impl Path<'_> {
    /// `upstreams.files.url`; the entries of a list share the list's name.
    fn name(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(Self::Root, key) => (*key).to_owned(),
            Self::Key(parent, key) => format!("{}.{key}", parent.name()),
        }
    }
}

fn compile(schema: &Value, root: &Value) -> Shape {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        return compile(&root["$defs"][name], root);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        return Shape::Words(words(choices.iter().map(|c| &c["const"])));
    }
    if schema["type"].is_array() {
        return Shape::OneOrMore(Box::new(compile(&schema["items"], root)));
    }
    match schema["type"].as_str() {
        Some("object") => compile_table(schema, root),
        Some("array") => Shape::List(Box::new(compile(&schema["items"], root))),
        Some("integer") => Shape::Integer {
            min: schema["minimum"].as_i64().unwrap_or(0),
            max: schema["maximum"].as_i64().unwrap_or(i64::MAX),
        },
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Boolean,
        Some("string") if schema["format"] == "date-time" => Shape::DateTime,
        None if schema["title"] == "value" => Shape::Any,
        _ => Shape::Text(schema["title"].as_str().unwrap_or("text").to_owned()),
    }
}

fn compile_table(schema: &Value, root: &Value) -> Shape {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let known = properties.map(|(key, inner)| (key.clone(), compile(inner, root))).collect();
    let other = schema.get("additionalProperties").filter(|s| s.is_object());
    Shape::Table { known, other: other.map(|s| Box::new(compile(s, root))) }
}

fn words<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<String> {
    values.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn fit_table(
    table: &mut DeTable<'_>,
    at: usize,
    known: &BTreeMap<String, Shape>,
    other: Option<&Shape>,
    path: &Path<'_>,
    findings: &mut Findings<'_>,
) {
    let mut refused = Vec::new();
    for (key, value) in table.iter_mut() {
        let name: &str = key.get_ref();
        let here = Path::Key(path, name);
        let fits = match known.get(name).or(other) {
            Some(shape) => fit_value(value, shape, &here, findings),
            None => {
                findings.problem(Some(key.span().start), unknown(&here.name(), name, known));
                false
            }
        };
        if !fits {
            refused.push(name.to_owned());
        }
    }
    if !refused.is_empty() {
        findings.maim(at);
        refused.iter().for_each(|key| drop(table.remove(key.as_str())));
    }
}

/// Whether the value may stay.
fn fit_value(
    value: &mut Spanned<DeValue<'_>>,
    shape: &Shape,
    path: &Path<'_>,
    findings: &mut Findings<'_>,
) -> bool {
    let at = value.span().start;
    let wrong = match (value.get_mut(), shape) {
        (found, Shape::Any) if is_json(found) => return true,
        (DeValue::Table(table), Shape::Table { known, other }) => {
            fit_table(table, at, known, other.as_deref(), path, findings);
            return true;
        }
        (DeValue::Array(list), Shape::List(each) | Shape::OneOrMore(each)) => {
            let fits: Vec<bool> = list.iter_mut().map(|item| fit_value(item, each, path, findings)).collect();
            if fits.contains(&false) {
                findings.maim(at);
                let items = std::mem::replace(list, DeArray::new()).into_iter().zip(fits);
                *list = items.filter_map(|(item, fits)| fits.then_some(item)).collect();
            }
            return true;
        }
        (DeValue::String(text), Shape::Words(words)) if !words.iter().any(|w| w == text) => {
            later::word(&path.name(), text).unwrap_or_else(|| no_choice(&path.name(), words))
        }
        (DeValue::Integer(number), Shape::Integer { min, max }) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            if parsed.is_ok_and(|n| (*min..=*max).contains(&n)) {
                return true;
            }
            format!("`{}`: must be a whole number from {min} to {max}", path.name())
        }
        (DeValue::String(_), Shape::Text(_) | Shape::Words(_) | Shape::OneOrMore(_))
        | (DeValue::Integer(_) | DeValue::Float(_), Shape::Number)
        | (DeValue::Boolean(_), Shape::Boolean)
        | (DeValue::Datetime(_), Shape::DateTime) => return true,
        (found, _) => format!("`{}`: must be {}, not {}", path.name(), wanted(shape), kind(found)),
    };
    findings.problem(Some(at), wrong);
    false
}

/// Whether JSON has such a value: dates and numbers without an end are none.
fn is_json(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Datetime(_) => false,
        DeValue::Float(number) => number.as_str().parse().is_ok_and(f64::is_finite),
        DeValue::Array(list) => list.iter().all(|item| is_json(item.get_ref())),
        DeValue::Table(table) => table.iter().all(|(_, item)| is_json(item.get_ref())),
        DeValue::Integer(_) | DeValue::Boolean(_) | DeValue::String(_) => true,
    }
}

fn wanted(shape: &Shape) -> String {
    match shape {
        Shape::Table { .. } => "a table".into(),
        Shape::List(_) => "a list".into(),
        Shape::OneOrMore(each) => format!("{}, or a list of them", wanted(each)),
        Shape::Text(kind) if kind == "text" => "text in quotes".into(),
        Shape::Text(kind) => format!("text in quotes ({kind})"),
        Shape::Words(words) => format!("one of {}, in quotes", words.join(", ")),
        Shape::Integer { .. } => "a whole number".into(),
        Shape::Number => "a number".into(),
        Shape::Boolean => "true or false".into(),
        Shape::Any => "text, a number, true or false, a list or a table".into(),
        Shape::DateTime => "a date and time such as 2027-01-01T00:00:00Z, without quotes".into(),
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The text is not shown: a value in the wrong place may be a secret.
fn no_choice(path: &str, words: &[String]) -> String {
    format!("`{path}`: must be one of {}", words.join(", "))
}

fn unknown(path: &str, key: &str, known: &BTreeMap<String, Shape>) -> String {
    if let Some(later) = later::key(path) {
        return later;
    }
    let near = known.keys().min_by_key(|k| strsim::damerau_levenshtein(k, key));
    let near = near.map(|k| format!("; the nearest known key is `{k}`")).unwrap_or_default();
    format!("unknown key `{path}`{near}")
}
