//! The MCP methods that the built-in upstream answers, in both eras. Owns the choice of method and revision; the
//! tools own their arguments and results. Stateless: no request depends on an earlier one.

use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    context::Context,
    reply::Reply,
    tool::{self, TOOLS},
};
use crate::mcp::{
    era::{Era, MODERN},
    version::{KNOWN, LATEST_LEGACY, is_known, is_modern},
};

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// How long a list may be kept: it changes only with the program.
const TTL_MS: u64 = 3_600_000;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const UNSUPPORTED_VERSION: i64 = -32022;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    params: Value,
}

/// One request, classified.
struct Call<'a> {
    id: &'a RawValue,
    era: Era,
    params: Map<String, Value>,
}

/// Answers one JSON-RPC message. `version` is the `MCP-Protocol-Version` header.
pub(super) async fn answer(version: Option<&HeaderValue>, body: &[u8], context: Context) -> Reply {
    let message: Message<'_> = match serde_json::from_slice(body) {
        Ok(message) if body.trim_ascii_start().starts_with(b"{") => message,
        Err(e) if !e.is_data() => return malformed(PARSE_ERROR, "the body is not JSON"),
        _ => return malformed(INVALID_REQUEST, "the body is not one JSON-RPC message"),
    };
    let (Some(method), Some(id)) = (message.method.as_deref(), message.id) else { return Reply::Accepted };
    let params = match message.params {
        Value::Object(params) => params,
        _ => Map::new(),
    };
    match classify(version, &params) {
        Ok(era) => dispatch(method, Call { id, era, params }, context).await,
        Err(unknown) => unsupported(id, &unknown),
    }
}

fn malformed(code: i64, message: &str) -> Reply {
    Reply::error(StatusCode::BAD_REQUEST, None, code, message, None)
}

/// The era of a request; `Err` is a revision that is not spoken here. A modern request names its revision in
/// `_meta` (2026-07-28, basic); a legacy one may name it in the header.
fn classify(header: Option<&HeaderValue>, params: &Map<String, Value>) -> Result<Era, String> {
    if let Some(version) = params.get("_meta").and_then(|meta| meta.get(VERSION_KEY)) {
        return match version.as_str() {
            Some(MODERN) => Ok(Era::Modern),
            other => Err(other.unwrap_or_default().to_owned()),
        };
    }
    match header.map(|h| h.to_str().unwrap_or_default()) {
        Some(version) if is_modern(version) || !is_known(version) => Err(version.to_owned()),
        _ => Ok(Era::Legacy),
    }
}

fn unsupported(id: &RawValue, requested: &str) -> Reply {
    let data = json!({"supported": KNOWN, "requested": requested});
    let message = "this protocol version is not spoken here; use one of data.supported";
    Reply::error(StatusCode::BAD_REQUEST, Some(id), UNSUPPORTED_VERSION, message, Some(data))
}

async fn dispatch(method: &str, call: Call<'_>, context: Context) -> Reply {
    match (call.era, method) {
        (Era::Legacy, "initialize") => initialize(&call),
        (Era::Legacy, "ping") => Reply::result(call.id, &json!({})),
        (Era::Modern, "server/discover") => discover(&call),
        (_, "tools/list") => list(&call),
        (_, "tools/call") => call_tool(call, context).await,
        _ => not_found(&call, method),
    }
}

fn not_found(call: &Call<'_>, method: &str) -> Reply {
    let status = match call.era {
        Era::Legacy => StatusCode::OK,
        Era::Modern => StatusCode::NOT_FOUND,
    };
    let shown: String = method.chars().take(64).collect();
    Reply::error(status, Some(call.id), METHOD_NOT_FOUND, &format!("no method {shown:?} here"), None)
}

fn invalid_params(id: &RawValue, message: &str) -> Reply {
    Reply::error(StatusCode::OK, Some(id), INVALID_PARAMS, message, None)
}

fn server_info() -> Value {
    json!({"name": "smartgate", "title": "SmartGate tools", "version": env!("CARGO_PKG_VERSION")})
}

fn initialize(call: &Call<'_>) -> Reply {
    let Some(asked) = call.params.get("protocolVersion").and_then(Value::as_str) else {
        return invalid_params(call.id, "initialize needs params.protocolVersion, a string");
    };
    let version = if is_known(asked) && !is_modern(asked) { asked } else { LATEST_LEGACY };
    let result =
        json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server_info()});
    Reply::result(call.id, &result)
}

fn discover(call: &Call<'_>) -> Reply {
    let result = json!({"supportedVersions": KNOWN, "capabilities": {"tools": {}}});
    Reply::result(call.id, &modern(result, true))
}

fn list(call: &Call<'_>) -> Reply {
    if call.params.get("cursor").is_some_and(|c| !c.is_null()) {
        return invalid_params(call.id, "this cursor is not from here: the list has one page");
    }
    let tools: Vec<Value> = TOOLS.iter().map(|tool| tool.listed()).collect();
    let result = json!({"tools": tools});
    match call.era {
        Era::Legacy => Reply::result(call.id, &result),
        Era::Modern => Reply::result(call.id, &modern(result, true)),
    }
}

async fn call_tool(mut call: Call<'_>, context: Context) -> Reply {
    let name = match call.params.get("name") {
        Some(Value::String(name)) => name,
        _ => return invalid_params(call.id, "tools/call needs params.name, a string"),
    };
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
        return invalid_params(call.id, "unknown tool; tools/list names those that are here");
    };
    let arguments = call.params.remove("arguments").unwrap_or_default();
    let (outcome, usage) = tool::run(tool, arguments, context).await;
    let result = tool::as_result(outcome);
    let result = match call.era {
        Era::Legacy => result,
        Era::Modern => modern(result, false),
    };
    Reply::result(call.id, &result).with_usage(usage)
}

/// Adds what a modern result carries (2026-07-28: result type, caching hints, server info).
fn modern(mut result: Value, cacheable: bool) -> Value {
    result["resultType"] = "complete".into();
    if cacheable {
        result["ttlMs"] = TTL_MS.into();
        result["cacheScope"] = "public".into();
    }
    result["_meta"] = json!({ SERVER_INFO_KEY: server_info() });
    result
}
