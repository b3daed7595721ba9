//! The built-in upstream, called as the pipeline calls it.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{Builtin, Usage, tool::TOOLS};
use crate::{
    config,
    policy::budget::Ledger,
    store::Store,
    upstream::{Caller, Upstream},
};

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    usage: Option<Usage>,
    text: String,
    body: Value,
}

/// Calls tools for one tenant of a store that others may share.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) store: Store,
    builtin: Arc<Builtin>,
    caller: Caller,
}

impl Client {
    pub(super) fn new() -> Self {
        let store = Store::open(None, 64 << 20).expect("memory");
        let ledger = Arc::new(Ledger::open(store.clone()).expect("an empty one"));
        let builtin = Arc::new(Builtin::new(&config::Smart::default(), store.clone(), ledger));
        Self { store, builtin, caller: Caller::default() }
    }

    pub(super) fn of_tenant(&self, tenant: &str) -> Self {
        Self { caller: Caller { tenant: tenant.into(), ..self.caller.clone() }, ..self.clone() }
    }

    pub(super) fn with_memory<const N: usize>(&self, scopes: [config::MemoryScope; N]) -> Self {
        Self { caller: Caller { memory: Arc::new(scopes), ..self.caller.clone() }, ..self.clone() }
    }

    /// The body of the answer.
    pub(super) async fn answer(&self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let mut request =
            post(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string());
        request.extensions_mut().insert(self.caller.clone());
        let body = self.builtin.call(request).await.expect("never fails").into_body();
        let body = body.collect().await.expect("a whole body").to_bytes();
        String::from_utf8(body.to_vec()).expect("UTF-8")
    }

    /// The structured result, or the error of a tool that fails.
    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let body = self.answer(tool, arguments).await;
        let mut result = serde_json::from_str::<Value>(&body).expect("JSON")["result"].take();
        if result["isError"] == false {
            return Ok(result["structuredContent"].take());
        }
        let text = result["content"][0]["text"].as_str().expect("a text block");
        Err(serde_json::from_str::<Value>(text).expect("JSON")["error"].take())
    }
}

async fn send(request: Request<Bytes>) -> Answer {
    let store = Store::open(None, 64 << 20).expect("memory");
    let ledger = Ledger::open(store.clone()).expect("an empty one");
    let builtin = Builtin::new(&config::Smart::default(), store, ledger.into());
    let (head, body) = builtin.call(request).await.expect("never fails").into_parts();
    let text =
        String::from_utf8(body.collect().await.expect("a whole body").to_bytes().to_vec()).expect("UTF-8");
    let body = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect("JSON") };
    Answer { status: head.status, headers: head.headers, usage: head.extensions.get().copied(), text, body }
}

fn post(body: &str) -> Request<Bytes> {
    Request::post("/mcp")
        .header("content-type", "application/json")
        .body(body.to_owned().into())
        .expect("valid")
}

async fn legacy(method: &str, params: Value) -> Answer {
    send(post(&json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string())).await
}

async fn modern_as(version: &str, method: &str, mut params: Value) -> Answer {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}});
    send(post(&json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params}).to_string())).await
}

async fn modern(method: &str, params: Value) -> Answer {
    modern_as("2026-07-28", method, params).await
}

async fn dedup(arguments: Value) -> Answer {
    legacy("tools/call", json!({"name": "smart_dedup", "arguments": arguments})).await
}

/// The structured result of a call that succeeds.
async fn deduped(arguments: Value) -> Value {
    let mut answer = dedup(arguments).await;
    assert_eq!(answer.body["result"]["isError"], false, "{}", answer.text);
    answer.body["result"]["structuredContent"].take()
}

/// The error of a call that fails as a tool.
async fn refused(arguments: Value) -> Value {
    let answer = dedup(arguments).await;
    let result = &answer.body["result"];
    assert_eq!((answer.status, &result["isError"]), (StatusCode::OK, &json!(true)), "{}", answer.text);
    assert!(result.get("structuredContent").is_none());
    assert_eq!(answer.usage, None);
    let text = result["content"][0]["text"].as_str().expect("a text block");
    serde_json::from_str::<Value>(text).expect("JSON")["error"].take()
}

#[tokio::test]
async fn initialize_echoes_every_legacy_revision_and_offers_the_latest_for_others() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = legacy("initialize", json!({"protocolVersion": version, "capabilities": {}})).await;
        assert_eq!(answer.body["result"]["protocolVersion"], version);
        assert_eq!(answer.body["result"]["serverInfo"]["name"], "smartgate");
        assert!(!answer.headers.contains_key("mcp-session-id"));
    }
    for version in ["2026-07-28", "1999-01-01", ""] {
        let answer = legacy("initialize", json!({"protocolVersion": version})).await;
        assert_eq!(answer.body["result"]["protocolVersion"], "2025-11-25");
    }
    assert_eq!(legacy("initialize", json!({})).await.body["error"]["code"], -32602);
}

#[tokio::test]
async fn discover_names_what_a_modern_client_needs() {
    let answer = modern("server/discover", json!({})).await;
    let result = &answer.body["result"];
    assert_eq!((answer.status, &answer.body["id"]), (StatusCode::OK, &json!("a")));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["supportedVersions"][0], "2026-07-28");
    assert!(result["capabilities"]["tools"].is_object());
    assert!(result["ttlMs"].is_u64() && result["cacheScope"].is_string());
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "smartgate");
}

#[tokio::test]
async fn lists_the_table_in_both_eras() {
    let old = legacy("tools/list", json!({})).await;
    let new = modern("tools/list", json!({})).await;
    let names: Vec<_> = TOOLS.iter().map(|tool| json!(tool.name)).collect();
    let listed = |answer: &Answer| {
        let tools = answer.body["result"]["tools"].as_array().expect("tools").clone();
        tools.into_iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((listed(&old), listed(&new)), (names.clone(), names));
    assert!(old.body["result"].get("resultType").is_none());
    assert!(new.body["result"]["ttlMs"].is_u64() && new.body["result"]["cacheScope"].is_string());
    let hints = &old.body["result"]["tools"][0]["annotations"];
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        assert!(hints[hint].is_boolean(), "{hint}");
    }
    assert_eq!(legacy("tools/list", json!({"cursor": "x"})).await.body["error"]["code"], -32602);
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_without_a_body() {
    for body in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    ] {
        let answer = send(post(body)).await;
        assert_eq!((answer.status, answer.text.as_str()), (StatusCode::ACCEPTED, ""), "{body}");
    }
}

#[tokio::test]
async fn an_unknown_method_is_404_to_modern_clients_only() {
    let (old, new) = (legacy("prompts/list", json!({})).await, modern("prompts/list", json!({})).await);
    assert_eq!((old.status, &old.body["error"]["code"]), (StatusCode::OK, &json!(-32601)));
    assert_eq!((new.status, &new.body["error"]["code"]), (StatusCode::NOT_FOUND, &json!(-32601)));
    assert_eq!(modern("ping", json!({})).await.status, StatusCode::NOT_FOUND);
    assert_eq!(legacy("ping", json!({})).await.body["result"], json!({}));
    assert_eq!(legacy("server/discover", json!({})).await.body["error"]["code"], -32601);
}

#[tokio::test]
async fn an_unsupported_version_is_told_which_are_supported() {
    let answer = modern_as("2027-01-01", "tools/list", json!({})).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32022)));
    assert_eq!(answer.body["error"]["data"]["requested"], "2027-01-01");
    assert_eq!(answer.body["error"]["data"]["supported"][0], "2026-07-28");

    let mut request = post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    request.headers_mut().insert("mcp-protocol-version", "2023-01-01".parse().expect("valid"));
    assert_eq!(send(request).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn unknown_tools_and_malformed_calls_are_protocol_errors() {
    for params in [json!({"name": "nope", "arguments": {}}), json!({"arguments": {}}), json!({"name": 5})] {
        let answer = legacy("tools/call", params).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::OK, &json!(-32602)));
    }
    assert_eq!(send(post("{")).await.body["error"]["code"], -32700);
    assert_eq!(send(post("[]")).await.body["error"]["code"], -32600);
}

#[tokio::test]
async fn get_and_delete_are_not_offered() {
    for method in [Method::GET, Method::DELETE] {
        let request = Request::builder().method(method).uri("/mcp").body(Bytes::new()).expect("valid");
        let answer = send(request).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers["allow"], "POST");
    }
}

#[tokio::test]
async fn the_id_comes_back_as_it_was_written() {
    for id in ["1.0", "12345678901234567890", r#""\u00e9""#] {
        let answer = send(post(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#))).await;
        assert!(answer.text.contains(&format!(r#""id":{id},"#)), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_result_is_structured_and_the_same_as_text_and_carries_its_usage() {
    let answer =
        modern("tools/call", json!({"name": "smart_dedup", "arguments": {"texts": ["One.", "one", "two"]}}))
            .await;
    let result = &answer.body["result"];
    let structured = &result["structuredContent"];
    let text: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(&text, structured);
    assert_eq!(result["resultType"], "complete");
    assert_eq!(structured["kept"], json!([0, 2]));
    assert_eq!(structured["texts"], json!(["One.", "two"]));
    assert_eq!(
        structured["removed"],
        json!([{"index": 1, "duplicate_of": 0, "similarity": 1.0, "kind": "exact"}])
    );
    assert_eq!((&structured["groups"], &structured["method_used"]), (&json!(1), &json!("lexical")));

    let usage = &structured["usage"];
    let extension = answer.usage.expect("a usage extension");
    assert_eq!(
        (&usage["tokens_in"], &usage["tokens_out"]),
        (&json!(extension.tokens_in), &json!(extension.tokens_out))
    );
    assert_eq!(extension.tokens_in, 4, "One/. one two");
    assert_eq!((&usage["tokens_saved"], &usage["savings_basis"]), (&json!(0), &json!("inline")));
    assert_eq!(usage["tokens_reduced"], json!(extension.tokens_in.saturating_sub(extension.tokens_out)));
}

#[tokio::test]
async fn indices_alone_cost_less() {
    let result = deduped(json!({"texts": ["a b c", "a b c"], "return": "indices"})).await;
    assert!(result.get("texts").is_none());
    assert_eq!(result["kept"], json!([0]));
}

#[tokio::test]
async fn scalars_are_read_leniently_and_other_arguments_strictly() {
    let texts = json!(["the same words here", "The same words here!"]);
    let result =
        deduped(json!({"texts": texts, "threshold": "0.9", "contained": "false", "keep": null})).await;
    assert_eq!(result["kept"], json!([0]));
    for (arguments, says) in [
        (json!({}), "texts must be"),
        (json!([]), "texts must be"),
        (json!({"texts": []}), "at least one"),
        (json!({"texts": ["a", 5]}), "texts[1]"),
        (json!({"texts": "a"}), "texts must be"),
        (json!({"texts": ["a"], "threshold": 1.5}), "between"),
        (json!({"texts": ["a"], "threshold": "NaN"}), "a number"),
        (json!({"texts": ["a"], "keep": "last"}), "first, longest"),
        (json!({"texts": ["a"], "treshold": 0.5}), "did you mean \"threshold\""),
        (json!("texts"), "an object"),
    ] {
        let error = refused(arguments.clone()).await;
        assert_eq!((&error["code"], &error["retryable"]), (&json!("invalid_arguments"), &json!(false)));
        assert!(error["message"].as_str().is_some_and(|m| m.contains(says)), "{arguments}: {error}");
    }
}

#[tokio::test]
async fn limits_have_errors_of_their_own() {
    let many: Vec<String> = (0..501).map(|n| n.to_string()).collect();
    let paragraphs = "x y\n\n".repeat(5_001);
    for (arguments, code) in [
        (json!({"texts": many}), "too_many_items"),
        (json!({"texts": ["x".repeat(100_001)]}), "too_large"),
        (json!({"texts": vec!["é".repeat(60_000); 20]}), "too_large"),
        (json!({"texts": [paragraphs], "granularity": "paragraph"}), "too_many_items"),
        (json!({"texts": ["a"], "method": "semantic"}), "semantic_unavailable"),
        (json!({"texts": ["a", "cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X"]}), "ref_not_found"),
    ] {
        assert_eq!(refused(arguments).await["code"], code);
    }
    assert_eq!(deduped(json!({"texts": ["cx_short", "é".repeat(100_000)]})).await["kept"], json!([0, 1]));
}

#[tokio::test]
async fn a_low_threshold_is_clamped_with_a_warning() {
    let result = deduped(json!({"texts": ["a b c d e f", "z y x"], "threshold": 0.0})).await;
    assert_eq!(result["kept"], json!([0, 1]));
    assert!(result["warnings"][0].as_str().is_some_and(|w| w.starts_with("threshold_clamped")));
}

#[tokio::test]
async fn texts_over_the_result_limit_are_left_out_with_a_warning() {
    let texts: Vec<String> = (0..9).map(|n| format!("{n} ").repeat(40_000)).collect();
    let result = deduped(json!({"texts": texts})).await;
    assert!(result.get("texts").is_none());
    assert_eq!(result["kept"].as_array().map(Vec::len), Some(9));
    assert!(result["warnings"][0].as_str().is_some_and(|w| w.starts_with("texts_omitted")));
}

#[tokio::test]
async fn results_fit_the_output_schema() {
    for arguments in [
        json!({"texts": ["a b c", "a b c"]}),
        json!({"texts": ["a b c\n\nd", "a b c"], "granularity": "paragraph", "return": "indices"}),
    ] {
        let result = deduped(arguments).await;
        let schema = (super::smart_dedup::TOOL.output)();
        let known = schema["properties"].as_object().expect("properties");
        assert!(result.as_object().expect("an object").keys().all(|key| known.contains_key(key)), "{result}");
        for required in schema["required"].as_array().expect("required") {
            assert!(result.get(required.as_str().expect("a name")).is_some(), "{required}");
        }
    }
}
