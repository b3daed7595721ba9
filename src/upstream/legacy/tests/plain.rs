//! Calls without questions: what the server sees of them, and what the client gets.

use http::Method;
use serde_json::json;

use super::{
    Bench, EVERYTHING,
    fake::{Does, Fake, Streams, empty, error, result, text},
    request, tool,
};
use crate::{
    bridge::hops::Hops,
    upstream::{Upstream, UpstreamError},
};

#[tokio::test]
async fn the_server_sees_a_legacy_client() {
    let bench = Bench::new(|_| Does::AsUsual);
    let mut params = tool();
    params["_meta"] = json!({"progressToken": "p", "vendor/key": 1});
    assert_eq!(bench.ask("tools/call", params).await.0, 200);
    let all = bench.fake.verbs(&Method::POST);
    let methods: Vec<_> = all.iter().map(|seen| seen.method()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(
        all[0].body["params"],
        json!({"protocolVersion": "2025-11-25", "clientInfo": {"name": "client", "version": "9"},
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}})
    );
    assert!(all[0].header("mcp-protocol-version").is_none() && all[0].header("mcp-session-id").is_none());
    for seen in &all[1..] {
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"));
        assert_eq!(seen.header("mcp-session-id"), Some("s1"));
    }
    for seen in &all {
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
        assert_eq!(seen.header("user-agent"), Some("test"));
        for modern in ["mcp-method", "mcp-name", "mcp-param-n"] {
            assert!(seen.header(modern).is_none(), "{modern}");
        }
    }
    let get = &bench.fake.verbs(&Method::GET)[0];
    assert_eq!((get.header("accept"), get.header("mcp-session-id")), (Some("text/event-stream"), Some("s1")));
    let own = all[2].body["id"].clone();
    assert!(own.is_u64());
    assert_eq!(
        all[2].body["params"],
        json!({"name": "t", "arguments": {"n": 1}, "_meta": {"progressToken": own, "vendor/key": 1}})
    );
}

#[tokio::test]
async fn a_server_before_2025_06_18_is_told_no_revision() {
    let bench = Bench::of(Fake { version: "2025-03-26", ..Fake::new(|_| Does::AsUsual) });
    bench.call().await;
    assert!(bench.fake.of("tools/call")[0].header("mcp-protocol-version").is_none());
    assert_eq!(bench.fake.of("tools/call")[0].header("mcp-session-id"), Some("s1"));
}

#[tokio::test]
async fn discover_comes_from_initialize() {
    let bench = Bench::new(|_| Does::AsUsual);
    let (status, answer) = bench.ask("server/discover", json!({})).await;
    assert_eq!((status, &answer["id"]), (200, &json!("c-1")));
    let list = json!({"listChanged": true});
    assert_eq!(
        answer["result"],
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": list, "prompts": list, "logging": {},
                "resources": {"listChanged": true, "subscribe": true}},
            "ttlMs": 0, "cacheScope": "private", "instructions": "be kind",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}})
    );
    bench.call().await;
    assert_eq!(bench.fake.of("initialize").len(), 1, "the session is used for calls");
}

#[tokio::test]
async fn results_and_errors_become_modern() {
    let bench = Bench::new(|seen| match seen.method() {
        "tools/list" => {
            result(seen, json!({"tools": [{"name": "t", "execution": {"taskSupport": "optional"}}]})).into()
        }
        "resources/read" => error(seen, 200, json!({"code": -32002, "message": "none"})).into(),
        "x/unknown" => error(seen, 200, json!({"code": -32601, "message": "what"})).into(),
        "prompts/get" => error(seen, 400, json!({"code": -32602, "message": "bad", "data": 1})).into(),
        _ => Does::AsUsual,
    });
    let (_, list) = bench.ask("tools/list", json!({})).await;
    assert_eq!(
        list["result"],
        json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [{"name": "t"}]})
    );
    assert_eq!(bench.call().await.1["result"], json!({"resultType": "complete"}));
    let (status, read) = bench.ask("resources/read", json!({"uri": "u"})).await;
    assert_eq!((status, &read["error"]["code"], &read["id"]), (200, &json!(-32602), &json!("c-1")));
    let (status, unknown) = bench.ask("x/unknown", json!({})).await;
    assert_eq!((status, &unknown["error"]["code"]), (404, &json!(-32601)));
    let (status, bad) = bench.ask("prompts/get", json!({"name": "p"})).await;
    assert_eq!((status, &bad["error"]), (400, &json!({"code": -32602, "message": "bad", "data": 1})));
}

#[tokio::test]
async fn other_statuses_do_not_say_legacy_to_the_client() {
    let bench = Bench::of(Fake {
        stateless: true,
        ..Fake::new(|seen| match seen.method() {
            "a" => empty(404).into(),
            "b" => empty(405).into(),
            "c" => text(200, "text/html", "<p>").into(),
            "d" => empty(202).into(),
            "e" => {
                let mut denied = text(401, "text/plain", "who?");
                denied.headers_mut().insert("www-authenticate", "Bearer".parse().unwrap());
                denied.into()
            }
            _ => Does::AsUsual,
        })
    });
    for method in ["a", "b", "c", "d"] {
        let (status, answer) = bench.ask(method, json!({})).await;
        assert_eq!(
            (status, &answer["error"]["code"], &answer["id"]),
            (502, &json!(502), &json!("c-1")),
            "{method}"
        );
    }
    let denied = bench.send(request("ada", "{}", json!(1), "e", json!({}))).await;
    assert_eq!(
        (denied.status().as_u16(), &denied.headers()["www-authenticate"]),
        (401, &"Bearer".parse().unwrap())
    );
}

#[tokio::test]
async fn what_the_modern_era_does_not_have_ends_here() {
    let bench = Bench::new(|_| Does::AsUsual);
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/get",
    ] {
        let (status, answer) = bench.ask(method, json!({})).await;
        assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
    let mut notice = request("ada", "{}", json!(1), "x", json!({}));
    *notice.body_mut() =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#.into();
    assert_eq!(bench.send(notice).await.status(), 202);
    let mut get = request("ada", "{}", json!(1), "x", json!({}));
    *get.method_mut() = Method::GET;
    assert_eq!(bench.send(get).await.status(), 405);
    assert!(bench.fake.all().is_empty());
}

#[tokio::test]
async fn batches_of_a_server_are_split() {
    let bench = Bench::of(Fake {
        version: "2025-03-26",
        ..Fake::new(|seen| {
            let id = &seen.body["id"];
            let progress = |n: u8| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": id, "progress": n}});
            let done = json!({"jsonrpc": "2.0", "id": id, "result": {"x": 1}});
            let batch = json!([progress(1), progress(2), done]).to_string();
            match seen.method() {
                "tools/call" => text(200, "text/event-stream", format!("data: {batch}\n\n")).into(),
                "prompts/get" => text(200, "application/json", batch).into(),
                _ => Does::AsUsual,
            }
        })
    });
    for method in ["tools/call", "prompts/get"] {
        let params = json!({"name": "t", "_meta": {"progressToken": 5}});
        let mut reader =
            super::Reader::new(bench.send(request("ada", EVERYTHING, json!(8), method, params)).await);
        for n in 1..=2 {
            assert_eq!(reader.next().await.unwrap()["params"], json!({"progressToken": 5, "progress": n}));
        }
        let done = json!({"jsonrpc": "2.0", "id": 8, "result": {"resultType": "complete", "x": 1}});
        assert_eq!(reader.next().await, Some(done));
        assert_eq!(reader.next().await, None);
    }
}

#[tokio::test]
async fn the_pipeline_learns_what_was_spoken() {
    let bench = Bench::of(Fake { version: "2025-06-18", ..Fake::new(|_| Does::AsUsual) });
    let hops = Hops::default();
    let mut call = request("ada", "{}", json!(1), "tools/call", tool());
    call.extensions_mut().insert(hops.clone());
    bench.send(call).await;
    let seen = hops.seen();
    assert_eq!((seen.bridged, seen.upstream_version.as_deref()), (true, Some("2025-06-18")));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_the_pipelines_to_judge() {
    let bench = Bench::new(|seen| if seen.method() == "tools/call" { Does::Refuse } else { Does::AsUsual });
    let failed = bench.legacy.call(request("ada", "{}", json!(1), "tools/call", tool())).await;
    assert!(matches!(failed, Err(UpstreamError::Connect(_))));
    tokio::task::yield_now().await;
    assert!(bench.fake.of("notifications/cancelled").is_empty(), "nothing ran");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_gone_on_with() {
    let streams = Streams::default();
    let theirs = streams.clone();
    let bench = Bench::new(move |seen| {
        if seen.method() == "tools/call" || seen.header("last-event-id").is_some() {
            return theirs.open(seen).into();
        }
        Does::AsUsual
    });
    let call = bench.call();
    let server = async {
        let (seen, events) = streams.nth(0).await;
        events.raw("id: e-1\ndata:\n\n");
        drop(events);
        streams.end(0);
        let (again, events) = streams.nth(1).await;
        assert_eq!((again.verb, again.headers["last-event-id"].to_str().unwrap()), (Method::GET, "e-1"));
        events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"late": true}}));
    };
    // A first byte without a message may have opened the client's stream already, or not: both are right.
    let (answer, ()) = tokio::join!(
        async {
            let response = bench.send(request("ada", EVERYTHING, json!(1), "tools/call", tool())).await;
            super::last(response).await
        },
        server
    );
    drop(call);
    assert_eq!(answer["result"], json!({"resultType": "complete", "late": true}));
}
