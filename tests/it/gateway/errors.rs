//! The contract's table of the gateway's own answers, row by row: status, code, reason, the id's own bytes,
//! headers, and one record that says the same. A refusal reaches no upstream.

use serde_json::json;

use super::{KEY, META, ending, key, modern, modern_tool, refused, request, tool};
use crate::support::{
    fake::{Fake, channel, event, sse},
    process::{Answer, Gateway},
    raw::Raw,
};

/// Status, code and reason.
type Row = (u16, i64, &'static str);

/// Checks the answer, and that its record says the same.
async fn recorded(gate: &Gateway, nth: usize, answer: &Answer, row: Row, id: Option<&str>) {
    let (status, code, reason) = row;
    refused(answer, status, code, reason, id);
    let records = gate.recorded(nth + 1).await;
    let record = &records[nth];
    let outcome = if status >= 500 && status != 503 { "upstream_failed" } else { "rejected" };
    assert_eq!(ending(record), (outcome, Some(u64::from(status)), Some(reason), Some(code)));
    assert_eq!(record["request_id"].as_str(), id);
    assert_eq!(record["trace_id"], answer.json()["error"]["data"]["trace_id"]);
    assert_eq!(record["response_bytes"], answer.body.len());
    if outcome == "rejected" {
        assert_eq!(record["attempts"], 0);
    }
}

#[tokio::test]
async fn bodies_that_are_no_request_are_refused_with_their_id_where_there_is_one() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let parse = (400, -32700, "parse_error");
    let invalid = (400, -32600, "invalid_request");
    let cases: &[(&str, Row, Option<&str>)] = &[
        ("", parse, None),
        ("{", parse, None),
        ("not json", parse, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#, parse, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#, parse, None),
        ("[]", invalid, None),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, invalid, None),
        ("3", invalid, None),
        ("\"x\"", invalid, None),
        ("null", invalid, None),
        ("{}", invalid, None),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"ping"}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":1}}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":1}}}"#, invalid, Some("1")),
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"add","arguments":{}}}"#, invalid, None),
        (r#"{"jsonrpc":"2.0","method":"add","params":{}}"#, invalid, None),
    ];
    for (nth, (body, row, id)) in cases.iter().enumerate() {
        let answer = gate.post(*body).await;
        recorded(&gate, nth, &answer, *row, *id).await;
    }
    assert_eq!(gate.stop().await.len(), cases.len());
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn an_id_comes_back_in_its_own_bytes() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "limits.rate = \"1/h\"").await;
    assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    let ids = [
        "1.0",
        "-0",
        "1e2",
        "100000000000000000000000000000000000001",
        "\"ü\"",
        "\"\\u00fc\\n\\/\"",
        "\"\"",
        "\"\u{1F600}\"",
    ];
    for (nth, id) in ids.iter().enumerate() {
        let answer = gate.post(request(id, "ping")).await;
        recorded(&gate, nth + 1, &answer, (429, 429, "rate_limited"), Some(id)).await;
    }
}

#[tokio::test]
async fn modern_requests_are_held_to_their_headers_and_meta() {
    let fake = Fake::speaking(crate::support::fake::Speaks::Modern, |seen| async move {
        crate::support::fake::mcp(&seen)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let mismatch = (400, -32020, "header_mismatch");
    let call = || modern_tool(5, "add", "{}");
    let cases = [
        (modern(gate.request(), "tools/list", Some("add")), call(), mismatch),
        (modern(gate.request(), "TOOLS/CALL", Some("add")), call(), mismatch),
        (modern(gate.request(), "tools/call", Some("fail")), call(), mismatch),
        (modern(gate.request(), "tools/call", None), call(), mismatch),
        (modern(gate.request(), "tools/call", Some("add")).header("mcp-name", "add"), call(), mismatch),
        (
            modern(gate.request(), "tools/call", Some("add")).header("mcp-protocol-version", "2026-07-28"),
            call(),
            mismatch,
        ),
        (gate.request().header("mcp-method", "tools/call").header("mcp-name", "add"), call(), mismatch),
        (
            gate.request().header("mcp-protocol-version", "2025-11-25"),
            call(),
            mismatch,
        ),
        (
            modern(gate.request(), "tools/call", Some("add")),
            tool(5, "add", "{}"),
            (400, -32602, "invalid_params"),
        ),
        (
            modern(gate.request(), "ping", None),
            r#"{"jsonrpc":"2.0","id":5,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#.into(),
            (400, -32602, "invalid_params"),
        ),
        (
            gate.request().header("mcp-protocol-version", "2027-01-01").header("mcp-method", "ping"),
            format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{{META}}}}}"#)
                .replace("2026-07-28", "2027-01-01"),
            (400, -32022, "unsupported_version"),
        ),
    ];
    let n = cases.len();
    for (nth, (request, body, row)) in cases.into_iter().enumerate() {
        let answer = gate.call(request, body).await;
        recorded(&gate, nth, &answer, row, Some("5")).await;
        if row.1 == -32022 {
            let data = &answer.json()["error"]["data"];
            assert_eq!(data["supported"], json!(["2026-07-28"]));
            assert_eq!(data["requested"], "2027-01-01");
        }
    }
    let good = gate.call(modern(gate.request(), "tools/call", Some("add")), call()).await;
    assert_eq!(good.status, 200);
    assert_eq!(gate.stop().await.len(), n + 1);
    assert_eq!(fake.count(), 1);
}

#[tokio::test]
async fn callers_that_are_not_known_or_not_allowed_are_refused() {
    let fake = Fake::plain().await;
    let config = key("ada", KEY, "tools = [\"*\", \"!files__delete_*\"]")
        + &key("old", "sg-an-expired-key-0123456789", "expires = 2020-01-01T00:00:00Z");
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    let with = |value: &str| gate.request().header("authorization", value);
    let unauthenticated = (401, 401, "unauthenticated");
    let cases = [
        (gate.request(), unauthenticated, "Bearer realm=\"smartgate\""),
        (with("Bearer sg-nobody"), unauthenticated, "invalid_token"),
        (with("Basic YTpi"), unauthenticated, "Bearer realm"),
        (with("Bearer "), unauthenticated, "Bearer realm"),
        (with("Bearer sg-an-expired-key-0123456789"), unauthenticated, "invalid_token"),
        (
            with(&format!("Bearer {KEY}")).header("authorization", "Bearer sg-other"),
            unauthenticated,
            "Bearer realm",
        ),
    ];
    let n = cases.len();
    for (nth, (builder, row, challenge)) in cases.into_iter().enumerate() {
        let answer = gate.call(builder, request(1, "ping")).await;
        // Refused before the body is read, so there is no id.
        recorded(&gate, nth, &answer, row, None).await;
        let found = answer.header("www-authenticate").unwrap();
        assert!(found.contains(challenge), "{found}");
    }
    let answer = gate.post_as(KEY, tool("\"x\"", "files__delete_all", "{}")).await;
    recorded(&gate, n, &answer, (403, 403, "forbidden"), Some("\"x\"")).await;
    let record = gate.records().remove(n);
    assert_eq!((&record["principal"], &record["tool"]), (&json!("ada"), &json!("files__delete_all")));
    assert_eq!(gate.stop().await.len(), n + 1);
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn foreign_places_paths_and_methods_are_refused() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let plain = |host: &str| {
        http::Request::post("/mcp").header("host", host).header("content-type", "application/json")
    };
    let forbidden = (403, 403, "forbidden_origin");
    let no_route = (404, 404, "no_route");
    let cases = [
        (gate.request().header("origin", "https://evil.example"), forbidden),
        (gate.request().header("origin", "null"), forbidden),
        (
            gate.request().header("origin", "http://localhost").header("origin", "https://evil.example"),
            forbidden,
        ),
        (plain("evil.example"), forbidden),
        (plain("127.0.0.1.evil.example"), forbidden),
        (plain("localhost").header("host", "evil.example"), forbidden),
        (gate.request().uri("http://evil.example/mcp"), forbidden),
        (gate.request().uri("/"), no_route),
        (gate.request().uri("/mcpx"), no_route),
        (gate.request().uri("/mcp/nobody"), no_route),
        (gate.request().uri("/mcp/files/more"), no_route),
        (gate.request().uri("/.well-known/oauth-protected-resource/mcp"), no_route),
        (gate.request().method("GET").uri("/.well-known/oauth-authorization-server"), no_route),
        (gate.request().method("GET").uri("/.well-known/openid-configuration"), no_route),
        (gate.request().method("PUT"), (405, 405, "method_not_allowed")),
        (gate.request().method("PATCH"), (405, 405, "method_not_allowed")),
        (gate.request().method("BREW"), (405, 405, "method_not_allowed")),
    ];
    let n = cases.len();
    for (nth, (builder, row)) in cases.into_iter().enumerate() {
        let answer = gate.call(builder, request(1, "ping")).await;
        recorded(&gate, nth, &answer, row, None).await;
        if row.0 == 405 {
            assert_eq!(answer.header("allow"), Some("POST, GET, DELETE, OPTIONS"));
        }
    }
    let head = gate.call(gate.request().method("HEAD"), "").await;
    assert_eq!((head.status, head.body.len()), (405, 0));
    assert_eq!(gate.stop().await.len(), n + 1);
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn a_preflight_is_refused_for_what_is_wrong_with_it() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let options = || gate.request().method("OPTIONS");
    refused(&gate.call(options().uri("/nothing"), "").await, 404, 404, "no_route", None);
    let evil = gate.call(options().header("origin", "https://evil.example"), "").await;
    refused(&evil, 403, 403, "forbidden_origin", None);
    assert_eq!(evil.header("access-control-allow-origin"), None);
    assert_eq!(gate.stop().await.len(), 0);
}

#[tokio::test]
async fn bodies_that_are_too_large_too_slow_or_of_another_type_are_refused() {
    let fake = Fake::plain().await;
    let config = "server.max_body = \"1KiB\"\nserver.body_timeout = \"300ms\"";
    let gate = Gateway::before(&fake.url(), config).await;
    let too_large = (413, 413, "body_too_large");
    let other_type = (415, 415, "unsupported_media_type");
    let long = request(1, &"x".repeat(1024));
    let typed =
        |kind: &str| http::Request::post("/mcp").header("host", "localhost").header("content-type", kind);
    let answer = gate.post(long.clone()).await;
    recorded(&gate, 0, &answer, too_large, None).await;

    let mut raw = gate.raw().await;
    raw.send(chunked_head()).await;
    for _ in 0..40 {
        // It may be refused before all of it is sent.
        drop(raw.try_send(format!("40\r\n{}\r\n", "x".repeat(64))).await);
    }
    recorded(&gate, 1, &read(&mut raw).await, too_large, None).await;

    let kinds = [
        typed("text/plain"),
        typed("application/x-www-form-urlencoded"),
        typed("application/json; charset=utf-16"),
        typed("application/json").header("content-encoding", "gzip"),
        typed("application/json").header("content-type", "text/plain"),
        http::Request::post("/mcp").header("host", "localhost").header("origin", "http://localhost"),
    ];
    let n = kinds.len();
    for (nth, builder) in kinds.into_iter().enumerate() {
        let answer = gate.call(builder, request(1, "ping")).await;
        recorded(&gate, nth + 2, &answer, other_type, None).await;
    }

    let mut raw = gate.raw().await;
    raw.send(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"json",
    )
    .await;
    recorded(&gate, n + 2, &read(&mut raw).await, (408, 408, "request_timeout"), None).await;
    // Exactly the limit is not over it.
    let exact = format!("{}{}", request(1, "ping"), " ".repeat(1024 - request(1, "ping").len()));
    assert_eq!(gate.post(exact).await.status, 200);
    assert_eq!(gate.stop().await.len(), n + 4);
    assert_eq!(fake.count(), 1);
}

#[tokio::test]
async fn a_server_that_asks_a_client_that_takes_only_json_ends_the_call() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        sender.send(event(r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage"}"#)).await.unwrap();
        tokio::spawn(async move { sender.closed().await });
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let builder = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json");
    let answer = gate.call(builder, tool(4, "add", "{}")).await;
    refused(&answer, 406, 406, "not_acceptable", Some("4"));
    let records = gate.stop().await;
    assert_eq!(records.len(), 1);
    assert_eq!(ending(&records[0]), ("upstream_failed", Some(406), Some("not_acceptable"), Some(406)));
}

fn chunked_head() -> &'static str {
    "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
}

/// The answer on a raw connection.
async fn read(raw: &mut Raw) -> Answer {
    let found = raw.answer().await;
    let mut headers = http::HeaderMap::new();
    for line in found.head.lines().skip(1).filter_map(|l| l.split_once(": ")) {
        headers.append(http::HeaderName::from_bytes(line.0.as_bytes()).unwrap(), line.1.parse().unwrap());
    }
    Answer { status: found.status, headers, body: found.body.into() }
}
