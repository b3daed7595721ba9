//! Mirrored headers of the modern era: checking them against the body as received, deriving them afresh after
//! an edit (mcp-wire, header mirroring rules).
//!
//! Knows nothing of eras: the caller asks only for modern requests. Invariants: a request whose headers and body
//! tell two stories does not pass; what leaves is canonical, and one copy of each.

#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    era::VERSION_HEADER,
    json::{Raw, Type, number},
    message::Message,
    tools::{HeaderParam, Tool},
};

/// Name of the header that mirrors `method`.
pub const METHOD_HEADER: &str = "mcp-method";

/// Name of the header that mirrors the name, URI or task of a request.
pub const NAME_HEADER: &str = "mcp-name";

/// A mirrored header that does not tell the body's story (-32020).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Text for the client: which header and what is wrong with it.
    pub message: String,
}

fn mismatch<T>(header: &str, what: &str) -> Result<T, Mismatch> {
    Err(Mismatch { message: format!("{} {what}", spelt(header)) })
}

/// The name as the specification writes it.
fn spelt(header: &str) -> Cow<'_, str> {
    match header {
        VERSION_HEADER => "MCP-Protocol-Version".into(),
        METHOD_HEADER => "Mcp-Method".into(),
        NAME_HEADER => "Mcp-Name".into(),
        other => other.strip_prefix("mcp-param-").map_or(other.into(), |p| format!("Mcp-Param-{p}").into()),
    }
}

/// Compares the mirrored headers of a modern request with its body as received. `tool` is the tool that
/// `params.name` calls, if it is known. `Mcp-Param-*` that no schema names pass.
///
/// # Errors
/// [`Mismatch`] for the first header that is missing, different, malformed or there twice.
pub fn check(headers: &HeaderMap, message: &Message<'_>, tool: Option<&Tool>) -> Result<(), Mismatch> {
    verbatim(headers, VERSION_HEADER, message.protocol_version.as_deref())?;
    verbatim(headers, METHOD_HEADER, message.method.as_deref())?;
    check_name(headers, message)?;
    let arguments = message.arguments.filter(Raw::is_object);
    match (tool, message.method.as_deref(), arguments) {
        (Some(tool), Some("tools/call"), Some(arguments)) => {
            tool.header_params.iter().try_for_each(|p| check_param(headers, p, arguments))
        }
        _ => Ok(()),
    }
}

/// The only value of a header; `None` if it is absent.
fn single<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h HeaderValue>, Mismatch> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => mismatch(name, "comes twice"),
        (value, None) => Ok(value),
    }
}

/// A header that is required and never encoded.
fn verbatim(headers: &HeaderMap, name: &str, body: Option<&str>) -> Result<(), Mismatch> {
    match (single(headers, name)?, body) {
        (None, _) => mismatch(name, "is missing"),
        (Some(value), Some(body)) if value.as_bytes() == body.as_bytes() => Ok(()),
        _ => mismatch(name, "differs from the body"),
    }
}

/// What `Mcp-Name` mirrors, and whether it must be there. `None` for methods that it does not belong to.
fn name_source<'m>(message: &'m Message<'_>) -> Option<(Option<&'m str>, bool)> {
    match message.method.as_deref()? {
        "tools/call" | "prompts/get" => Some((message.name.as_deref(), true)),
        "resources/read" => Some((message.uri.as_deref(), true)),
        // The tasks extension asks for it, the transport's own page does not.
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some((message.task_id.as_deref(), false)),
        _ => None,
    }
}

fn check_name(headers: &HeaderMap, message: &Message<'_>) -> Result<(), Mismatch> {
    let found = single(headers, NAME_HEADER)?;
    let Some((body, required)) = name_source(message) else { return Ok(()) };
    match (found, body) {
        (None, Some(_)) if required => mismatch(NAME_HEADER, "is missing"),
        (None, _) => Ok(()),
        (Some(value), body) => {
            let Some(text) = value::decode(value) else { return mismatch(NAME_HEADER, "is malformed") };
            if Some(&*text) == body { Ok(()) } else { mismatch(NAME_HEADER, "differs from the body") }
        }
    }
}

/// The annotated argument, if it is there and not null.
fn argument<'a>(arguments: Raw<'a>, path: &[String]) -> Option<Raw<'a>> {
    let found = path.iter().try_fold(arguments, |value, name| value.get(name))?;
    (found.kind() != Type::Null).then_some(found)
}

fn check_param(headers: &HeaderMap, param: &HeaderParam, arguments: Raw<'_>) -> Result<(), Mismatch> {
    let name = param.header.as_str();
    let found = single(headers, name)?;
    match (found, argument(arguments, &param.path)) {
        (None, None) => Ok(()),
        (None, Some(_)) => mismatch(name, "is missing"),
        (Some(_), None) => mismatch(name, "mirrors an argument that is not there"),
        (Some(value), Some(body)) => {
            let Some(text) = value::decode(value) else { return mismatch(name, "is malformed") };
            let same = match body.kind() {
                Type::String => body.is_string_exactly(&text),
                Type::Number => number::equal(&text, body.text()),
                Type::Boolean => text == body.text(),
                _ => false,
            };
            if same { Ok(()) } else { mismatch(name, "differs from the body") }
        }
    }
}

/// Sets the mirrored headers of a modern request afresh from its repaired body: `MCP-Protocol-Version`,
/// `Mcp-Method`, `Mcp-Name` and the `Mcp-Param-*` that the tool's schema names. What has no source in the body
/// goes; other `Mcp-Param-*` are kept.
pub fn derive(message: &Message<'_>, tool: Option<&Tool>, headers: &mut HeaderMap) {
    set(
        headers,
        &HeaderName::from_static(VERSION_HEADER),
        message.protocol_version.as_deref().and_then(plain),
    );
    set(headers, &HeaderName::from_static(METHOD_HEADER), message.method.as_deref().and_then(plain));
    let name = name_source(message).and_then(|(body, _)| body).and_then(value::encode);
    set(headers, &HeaderName::from_static(NAME_HEADER), name);
    let arguments = message.arguments.filter(Raw::is_object);
    for param in tool.map(|t| &t.header_params[..]).unwrap_or_default() {
        let value = arguments.and_then(|a| argument(a, &param.path)).and_then(mirrored);
        set(headers, &param.header, value);
    }
}

/// `Mcp-Name` for this name or URI; `None` only if it is longer than a header may be.
#[must_use]
pub fn name_value(text: &str) -> Option<HeaderValue> {
    value::encode(text)
}

fn plain(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

/// Exactly one copy, or none.
fn set(headers: &mut HeaderMap, name: &HeaderName, value: Option<HeaderValue>) {
    match value {
        Some(value) => drop(headers.insert(name, value)),
        None => drop(headers.remove(name)),
    }
}

/// An argument as its header says it: text as it is, integers as plain decimals.
fn mirrored(argument: Raw<'_>) -> Option<HeaderValue> {
    match argument.kind() {
        Type::String => value::encode(&argument.as_str()?),
        Type::Number => {
            let digits = number::Decimal::read(argument.text()).and_then(|d| d.to_integer());
            value::encode(&digits.unwrap_or_else(|| argument.text().to_owned()))
        }
        Type::Boolean => value::encode(argument.text()),
        _ => None,
    }
}
