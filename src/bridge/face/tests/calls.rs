//! Plain calls: what goes on, what comes back, and what the face answers itself.

use super::*;

#[tokio::test]
async fn a_request_goes_on_as_a_modern_one() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", Said::Result(json!({"content": []})));
    let call = r#"{"jsonrpc":"2.0","id":"\u0061-1","method":"tools/call","params":{"name":"t","arguments":{"region":" eu","n":1.0e2},
        "task":{"ttl":5},"requestState":"smuggled","_meta":{"progressToken":"mine","vendor/x":1,
        "io.modelcontextprotocol/related-task":{"taskId":"1"}}}}"#;
    let reply = client.post(call).await;
    assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":"\u0061-1","result":{"content":[]}}"#);
    let seen = server.seen("tools/call").remove(0);
    assert_eq!(seen.header("mcp-method"), Some("tools/call"));
    assert_eq!(seen.header("mcp-name"), Some("t"));
    assert_eq!(seen.header("mcp-param-region"), Some("=?base64?IGV1?="));
    assert_eq!(seen.header("x-custom"), Some("kept"));
    assert_eq!(seen.meta("protocolVersion"), "2026-07-28");
    assert_eq!(seen.meta("clientInfo"), &json!({"name": "cli", "version": "9"}));
    assert_eq!(seen.meta("clientCapabilities")["elicitation"], json!({"form": {}, "url": {}}));
    assert_eq!(seen.body["params"]["_meta"]["vendor/x"], 1);
    assert!(seen.body["params"]["_meta"]["progressToken"].is_number());
    assert!(seen.body["id"].is_number() && seen.text.contains("1.0e2"));
    for gone in ["mine", "a-1", "task", "smuggled", "related"] {
        assert!(!seen.text.contains(gone), "{gone}");
    }
}

#[tokio::test]
async fn what_the_pipeline_records_is_told() {
    let (server, client) = joined("2025-11-25").await;
    server.say("prompts/list", Said::Result(json!({"prompts": []})));
    let request = client.request(Method::POST, r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#);
    let hops = request.extensions().get::<Hops>().unwrap().clone();
    client.face.call(request).await.unwrap();
    let seen = hops.seen();
    assert_eq!((seen.bridged, seen.upstream_version.as_deref()), (true, Some("2026-07-28")));
}

#[tokio::test]
async fn a_result_loses_what_only_the_modern_era_has() {
    let (server, client) = joined("2025-11-25").await;
    server.say(
        "resources/read",
        Said::Raw(
            200,
            "application/json; charset=utf-8",
            r#"{"jsonrpc":"2.0","id":"$ID","result":{ "resultType":"complete","ttlMs":5,
            "contents":[{"uri":"a:b","text":"x","n":1.50}],"cacheScope":"public","later":1e400,
            "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}}"#
                .into(),
        ),
    );
    let reply = client.ask("resources/read", &json!({"uri": "a:b"})).await;
    assert_eq!(
        reply.text,
        r#"{"jsonrpc":"2.0","id":7,"result":{"contents":[{"uri":"a:b","text":"x","n":1.50}],"later":1e400}}"#
    );
    server.say("tools/call", Said::Result(json!({"content": [], "ttlMs": 1, "_meta": {"a/b": 1}})));
    assert_eq!(
        client.call_tool().await.body()["result"],
        json!({"content": [], "ttlMs": 1, "_meta": {"a/b": 1}})
    );
    server.say("tools/call", Said::Result(json!({"resultType": "task", "taskId": "1"})));
    assert_eq!(client.call_tool().await.body()["error"]["code"], 502);
}

#[tokio::test]
async fn the_face_answers_pings_and_keeps_ids_to_the_byte() {
    let (_, client) = joined("2025-06-18").await;
    for id in ["1.0", "123456789012345678901234567890", r#""\u00e9""#] {
        let reply = client.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).await;
        assert_eq!(reply.text, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[tokio::test]
async fn notifications_end_here() {
    let (_, client) = joined("2025-11-25").await;
    for method in ["notifications/initialized", "notifications/roots/list_changed", "notifications/vendor"] {
        let reply = client.post(json!({"jsonrpc": "2.0", "method": method}).to_string()).await;
        assert_eq!((reply.status, reply.text.as_str()), (202, ""));
    }
}

#[tokio::test]
async fn methods_of_other_protocols_are_not_found() {
    let (_, client) = joined("2025-11-25").await;
    for method in ["server/discover", "subscriptions/listen", "tasks/get", "tasks/list"] {
        let reply = client.ask(method, &json!({})).await;
        assert_eq!((reply.status, &reply.body()["error"]["code"]), (200, &json!(-32601)));
    }
}

#[tokio::test]
async fn errors_of_methods_have_status_200_and_codes_of_every_era() {
    let (server, client) = joined("2025-11-25").await;
    for (status, code, legacy) in [
        (404, -32601, -32601),
        (400, -32602, -32602),
        (200, -32602, -32602),
        (400, -32021, -32602),
        (400, -32020, -32603),
        (400, -32022, -32603),
    ] {
        let error = json!({"code": code, "message": "m", "data": {"requiredCapabilities": {"sampling": {}}}});
        let body = format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{error}}}"#);
        server.say("tools/call", Said::Raw(status, "application/json", body));
        let reply = client.call_tool().await;
        assert_eq!((reply.status, &reply.body()["id"]), (200, &json!(7)));
        assert_eq!(reply.body()["error"]["code"], legacy);
        assert_eq!(reply.body()["error"]["data"], error["data"]);
    }
}

#[tokio::test]
async fn a_door_that_refuses_is_heard_as_it_speaks() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", Said::Raw(503, "text/plain", "later".into()));
    let reply = client.call_tool().await;
    assert_eq!((reply.status, reply.text.as_str()), (503, "later"));
    assert_eq!(reply.headers["retry-after"], "7");
    server.say("tools/call", Said::Raw(401, "application/json", r#"{"error":"invalid_token"}"#.into()));
    let reply = client.call_tool().await;
    assert_eq!((reply.status, reply.text.as_str()), (401, r#"{"error":"invalid_token"}"#));
}

#[tokio::test]
async fn a_page_that_is_not_found_is_no_lost_session() {
    let (server, client) = joined("2025-11-25").await;
    for (status, kind) in
        [(404, "text/html"), (200, "text/html"), (405, "text/plain"), (404, "application/json")]
    {
        server.say("tools/call", Said::Raw(status, kind, "{}".into()));
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let error = client.face.call(client.request(Method::POST, call)).await.err();
        assert!(matches!(error, Some(UpstreamError::Protocol(_))), "{status} {kind} {error:?}");
    }
    server.say("tools/call", Said::Unreachable);
    let call = client
        .request(Method::POST, r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#);
    assert!(matches!(client.face.call(call).await.err(), Some(UpstreamError::Connect(_))));
}

#[tokio::test]
async fn progress_and_log_come_on_the_calls_own_stream() {
    let (server, client) = joined("2025-11-25").await;
    let note = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#)
    };
    server.say(
        "tools/call",
        Said::Events(vec![
            note("progress", r#"{"progressToken":$ID,"progress":0.50}"#),
            note("progress", r#"{"progressToken":99999,"progress":1}"#),
            note("message", r#"{"level":"info","data":1}"#),
            note("tools/list_changed", "{}"),
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.into(),
            r#"{"jsonrpc":"2.0","id":99999,"result":{}}"#.into(),
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}"#.into(),
        ]),
    );
    let params = json!({"name": "t", "_meta": {"progressToken": "p"}});
    let reply = client.ask("tools/call", &params).await;
    assert!(reply.text.contains(r#""progressToken":"p","progress":0.50"#));
    let mut stream = Messages::new(body::whole(reply.text));
    let mut methods = Vec::new();
    while let Some(message) = next(&mut stream).await {
        methods.push(message["method"].as_str().map_or_else(|| message["id"].to_string(), str::to_owned));
    }
    assert_eq!(methods, ["notifications/progress", "notifications/message", "7"]);
}

#[tokio::test]
async fn a_client_of_json_alone_gets_the_answer_alone() {
    let (server, mut client) = joined("2025-11-25").await;
    client.accept = "application/json";
    server.say(
        "tools/call",
        Said::Events(vec![
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}"#.into(),
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[]}}"#.into(),
        ]),
    );
    let reply = client.call_tool().await;
    assert_eq!(reply.headers["content-type"], "application/json");
    assert_eq!(reply.body(), json!({"jsonrpc": "2.0", "id": 7, "result": {"content": []}}));
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_an_error_of_the_call() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", Said::Events(Vec::new()));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    let message = next(&mut stream).await.unwrap();
    assert_eq!(message["error"]["data"]["reason"], "upstream_protocol");
    assert_eq!(message["id"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shows_life_keeps_the_clients_line_open() {
    let (server, client) = joined("2025-11-25").await;
    let say = server.live("tools/call");
    tokio::spawn(async move {
        for comment in [true, true, false, false] {
            if comment {
                say.send(": still here\n\n".into()).unwrap();
            }
            tokio::time::sleep(super::super::KEEP_ALIVE).await;
        }
        say.send(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#.into()).unwrap();
    });
    let text = client.call_tool().await.text;
    assert_eq!(text.matches(": keep-alive\n\n").count(), 2, "{text}");
    assert!(text.contains("content"));
}

#[tokio::test]
async fn levels_are_stamped_on_later_requests() {
    let (server, client) = joined("2025-11-25").await;
    for wrong in [json!({"level": "loud"}), json!({})] {
        assert_eq!(client.ask("logging/setLevel", &wrong).await.body()["error"]["code"], -32602);
    }
    server.say("tools/call", Said::Result(json!({"content": []})));
    client.call_tool().await;
    let reply = client.ask("logging/setLevel", &json!({"level": "warning"})).await;
    assert_eq!(reply.text, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
    server.say("tools/call", Said::Result(json!({"content": []})));
    client.call_tool().await;
    let seen = server.seen("tools/call");
    assert_eq!((seen[0].meta("logLevel"), seen[1].meta("logLevel")), (&Value::Null, &json!("warning")));
}

#[tokio::test]
async fn a_cancelled_call_ends_at_the_server_and_gets_no_answer() {
    let (server, client) = joined("2025-11-25").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    for said in [Some(server.live("tools/call")), None] {
        if said.is_none() {
            server.say("tools/call", Said::Never);
        }
        let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}"#;
        let call = client.request(Method::POST, call);
        let hops = call.extensions().get::<Hops>().unwrap().clone();
        let running = tokio::spawn({
            let client = client.clone();
            async move { Reply::of(client.face.call(call).await.unwrap()).await }
        });
        while server.seen("tools/call").len() < if said.is_some() { 1 } else { 2 } {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.post(cancel.to_string()).await.status, 202);
        let reply = running.await.unwrap();
        assert_eq!((reply.status, reply.text.as_str()), (200, ""));
        assert!(hops.seen().cancelled);
        server.seen("tools/call").pop().unwrap().gone.cancelled().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_call() {
    let (server, client) = joined("2025-11-25").await;
    let _say = server.live("tools/call");
    let stream = client.start("tools/call", &json!({"name": "t"})).await;
    drop(stream);
    server.seen("tools/call")[0].gone.cancelled().await;
}

#[tokio::test]
async fn an_id_in_use_is_refused() {
    let (server, client) = joined("2025-11-25").await;
    let _say = server.live("tools/call");
    let stream = client.start("tools/call", &json!({"name": "t"})).await;
    assert_eq!(client.call_tool().await.body()["error"]["code"], -32600);
    drop(stream);
    server.say("tools/call", Said::Result(json!({"content": []})));
    assert_eq!(client.call_tool().await.status, 200);
}

#[tokio::test]
async fn bodies_that_are_no_messages_are_refused() {
    let (_, client) = joined("2025-11-25").await;
    for (body, code) in
        [("{", -32700), ("7", -32600), (r#"{"id":null,"method":"ping"}"#, -32600), ("[]", -32600)]
    {
        let reply = client.post(body).await;
        assert_eq!((reply.status, &reply.body()["error"]["code"]), (400, &json!(code)), "{body}");
    }
}
