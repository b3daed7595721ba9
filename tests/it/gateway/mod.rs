//! The whole gateway: the real program before servers inside the test process, held to the contract from
//! outside by its answers, its journal and its admin pages.

mod audited;
mod bad_input;
mod batches;
mod bridge;
mod broken_upstreams;
mod budgets;
mod capture;
mod catalog;
mod completeness;
mod completeness_faults;
mod crowd;
mod drain;
mod era_change;
mod errors;
mod evidence;
mod http_sse;
mod journal;
mod keys;
mod leaving;
mod limits;
mod media;
mod metrics;
mod named_sessions;
mod pages;
mod parked;
mod parked_crowd;
mod pipes;
mod planted;
mod reload;
mod reload_sessions;
mod remembered;
mod repairs;
mod replay;
mod replicas;
mod routes;
mod seats;
mod secrets;
mod shared_sessions;
mod stdio;
mod stdio_faults;
mod stdio_life;
mod streams;
mod tasks;
mod trace;
mod transparent;
mod walls;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::process::Answer;

/// Secret of the key that most tests call with.
const KEY: &str = "sg-the-key-of-ada-0123456789abcdef";

/// A `[[keys]]` table.
fn key(name: &str, secret: &str, more: &str) -> String {
    format!("\n[[keys]]\nname = \"{name}\"\nsha256 = \"{}\"\n{more}\n", sha256(secret))
}

fn sha256(text: impl AsRef<[u8]>) -> String {
    Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect()
}

/// A `tools/call`.
pub(crate) fn tool(id: impl std::fmt::Display, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments}}}}}"#
    )
}

fn request(id: impl std::fmt::Display, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)
}

/// The `_meta` that every modern request has.
const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"modern-host","version":"9"}}"#;

/// A modern `tools/call`.
fn modern_tool(id: impl std::fmt::Display, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},{META}}}}}"#
    )
}

/// The headers of a modern request.
fn modern(request: http::request::Builder, method: &str, name: Option<&str>) -> http::request::Builder {
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", name),
        None => request,
    }
}

/// What a record says of how a call ended: outcome, status, reason and code.
fn ending(record: &Value) -> (&str, Option<u64>, Option<&str>, Option<i64>) {
    (
        record["outcome"].as_str().unwrap(),
        record["status"].as_u64(),
        record["error"]["reason"].as_str(),
        record["error"]["code"].as_i64(),
    )
}

/// Checks an answer of the gateway's own against one row of the contract's table: shape, id bytes, code,
/// reason, and a trace id.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: i64, reason: &str, id: Option<&str>) {
    let text = answer.text();
    assert_eq!(answer.status, status, "{text}");
    assert_eq!(answer.header("content-type"), Some("application/json"), "{text}");
    let start = match id {
        Some(id) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},"),
        None => format!("{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},"),
    };
    assert!(text.starts_with(&start), "{text} does not start with {start}");
    let body = answer.json();
    let error = &body["error"];
    assert_eq!(error["data"]["reason"], reason, "{text}");
    assert!(error["message"].as_str().is_some_and(|m| m.len() > 10), "{text}");
    let trace = error["data"]["trace_id"].as_str().unwrap_or_default();
    assert!(trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit()), "{text}");
}
