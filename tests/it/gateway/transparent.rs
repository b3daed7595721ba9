//! In front of one upstream nothing else changes: what a client and a server say to each other arrives as it
//! was said, in both directions.

use super::{KEY, ending, key, request, tool};
use crate::support::{
    fake::{Fake, json_reply, mcp, status, typed},
    process::Gateway,
};

#[tokio::test]
async fn a_request_that_needs_no_repair_arrives_byte_for_byte() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let bodies = [
        r#"{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"add","arguments":{"n":1e2,"big":123456789012345678901234567890,"f":1.50,"neg":-0}}}"#,
        "  {\n\t\"method\" : \"tools\\/call\", \"x-unknown\":[1,{\"a\":null}],\r\n \"params\":{\"_meta\":{\"progressToken\":1.0,\"vendor\":{\"b\":\"\\u00e9\"}},\"arguments\":{},\"name\":\"add\",\"more\":true},\"id\":\"\\u0031\",\"jsonrpc\":\"2.0\"}\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"vendor/method","params":{"cursor":""}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/vendor","params":{"x":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"s-1","result":{"roots":[]}}"#,
        r#"{"jsonrpc":"2.0","id":"s-1","error":{"code":-1,"message":"no"}}"#,
    ];
    for body in bodies {
        gate.post(body).await;
        assert_eq!(fake.calls().last().unwrap().text(), body);
    }
    let records = gate.stop().await;
    assert!(records.iter().all(|r| r["normalized"].as_array().unwrap().is_empty()), "{records:?}");
}

#[tokio::test]
async fn headers_pass_except_those_that_end_at_this_hop() {
    let fake = Fake::start(|seen| async move {
        let mut reply = mcp(&seen);
        let headers = reply.headers_mut();
        for (name, value) in [
            ("x-vendor", "a"),
            ("x-vendor", "b"),
            ("set-cookie", "one=1"),
            ("set-cookie", "two=2"),
            ("etag", "\"v1\""),
            ("cache-control", "no-store"),
            ("mcp-session-id", "s-1"),
            ("mcp-protocol-version", "2025-11-25"),
            ("server", "theirs"),
            ("keep-alive", "timeout=5"),
            ("connection", "x-hop"),
            ("x-hop", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        reply
    })
    .await;
    let config = format!("upstreams.files.headers = {{ x-configured = \"yes\" }}\n{}", key("ada", KEY, ""));
    let gate = Gateway::before(&fake.url(), &config).await;
    let builder = gate
        .request()
        .header("authorization", format!("Bearer {KEY}"))
        .header("x-custom", "1")
        .header("x-custom", "2")
        .header("cookie", "c=1")
        .header("mcp-session-id", "legacy-session")
        .header("mcp-protocol-version", "2025-06-18")
        .header("mcp-param-region", "eu")
        .header("user-agent", "host/1")
        .header("accept-language", "de")
        .header("origin", "http://localhost:3000")
        .header("keep-alive", "timeout=9")
        .header("te", "trailers")
        .header("connection", "keep-alive, x-drop")
        .header("x-drop", "1")
        .header("x-configured", "no")
        .header("proxy-authorization", "Basic c2VjcmV0")
        .header("accept-encoding", "gzip");
    let answer = gate.call(builder, tool(1, "add", "{}")).await;
    let seen = fake.only();
    let all = |name: &str| -> Vec<&str> {
        seen.headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect()
    };
    for (name, values) in [
        ("x-custom", vec!["1", "2"]),
        ("cookie", vec!["c=1"]),
        ("mcp-session-id", vec!["legacy-session"]),
        ("mcp-protocol-version", vec!["2025-06-18"]),
        ("mcp-param-region", vec!["eu"]),
        ("user-agent", vec!["host/1"]),
        ("accept-language", vec!["de"]),
        ("x-configured", vec!["yes"]),
        ("accept", vec!["application/json, text/event-stream"]),
        ("content-type", vec!["application/json"]),
    ] {
        assert_eq!(all(name), values, "{name}");
    }
    for gone in
        ["authorization", "origin", "keep-alive", "te", "x-drop", "proxy-authorization", "accept-encoding"]
    {
        assert!(all(gone).is_empty(), "{gone} was forwarded");
    }
    assert_eq!(all("host"), [fake.addr.to_string()]);
    let back = |name: &str| -> Vec<&str> {
        answer.headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect()
    };
    for (name, values) in [
        ("x-vendor", vec!["a", "b"]),
        ("set-cookie", vec!["one=1", "two=2"]),
        ("etag", vec!["\"v1\""]),
        ("cache-control", vec!["no-store"]),
        ("mcp-session-id", vec!["s-1"]),
        ("mcp-protocol-version", vec!["2025-11-25"]),
        ("server", vec!["theirs"]),
    ] {
        assert_eq!(back(name), values, "{name}");
    }
    assert!(back("x-hop").is_empty() && back("keep-alive").is_empty());
}

#[tokio::test]
async fn a_notification_s_answer_keeps_its_headers() {
    let fake = Fake::start(|_| async move {
        let mut reply = status(200);
        reply.headers_mut().insert("mcp-session-id", "s-2".parse().unwrap());
        reply.headers_mut().insert("x-vendor", "a".parse().unwrap());
        reply.headers_mut().insert("content-type", "text/plain".parse().unwrap());
        reply
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let answer = gate.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!((answer.status, answer.text()), (202, ""));
    assert_eq!((answer.header("mcp-session-id"), answer.header("x-vendor")), (Some("s-2"), Some("a")));
    assert_eq!(answer.header("content-type"), None);
}

#[tokio::test]
async fn statuses_and_their_bodies_are_the_upstream_s() {
    let fake = Fake::start(|seen| async move {
        let mut reply = match seen.header("x-status").unwrap() {
            "404" => json_reply(
                404,
                r#"{"jsonrpc":"2.0","id":"","error":{"code":-32001,"message":"Session not found"}}"#,
            ),
            "405" => status(405),
            "401" => typed(401, "text/html", "<html>"),
            "429" => json_reply(429, r#"{"slow":"down"}"#),
            "500" => typed(500, "text/plain", "oops"),
            "503" => status(503),
            other => panic!("{other}"),
        };
        reply
            .headers_mut()
            .insert("www-authenticate", "Bearer resource_metadata=\"http://x/y\"".parse().unwrap());
        reply.headers_mut().insert("retry-after", "7".parse().unwrap());
        reply
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let cases = [
        ("404", "application/json", "Session not found", ("rpc_error", Some(404), None, Some(-32001))),
        ("405", "", "", ("rpc_error", Some(405), None, None)),
        ("401", "text/html", "<html>", ("rpc_error", Some(401), None, None)),
        ("429", "application/json", "down", ("rpc_error", Some(429), None, None)),
        ("500", "text/plain", "oops", ("upstream_failed", Some(500), None, None)),
        ("503", "", "", ("upstream_failed", Some(503), None, None)),
    ];
    for (nth, (code, kind, text, told)) in cases.into_iter().enumerate() {
        let answer = gate.call(gate.request().header("x-status", code), request(1, "ping")).await;
        assert_eq!(answer.status.to_string(), code);
        assert_eq!(answer.header("content-type").unwrap_or_default(), kind);
        assert!(answer.text().contains(text));
        assert_eq!(answer.header("retry-after"), Some("7"));
        assert!(answer.header("www-authenticate").is_some());
        assert_eq!(ending(&gate.recorded(nth + 1).await[nth]), told, "{code}");
    }
}

#[tokio::test]
async fn answers_keep_their_bytes() {
    let body = "\n{ \"id\" : 1.0, \"result\":{\"n\":1.0e2,\"big\":98765432109876543210,\"t\":\"\\u00e9\\/\"} ,\"jsonrpc\":\"2.0\" }\r\n";
    let fake = Fake::start(move |_| async move { json_reply(200, body) }).await;
    let gate = Gateway::before(&fake.url(), "").await;
    let answer = gate.post(tool(1, "add", "{}")).await;
    assert_eq!(answer.text(), body);
    assert_eq!(answer.header("content-length"), Some(body.len().to_string().as_str()));
}

#[tokio::test]
async fn a_tool_list_for_everybody_is_relayed_as_it_is() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"cacheScope":"public","tools":[ {"name":"a"} ],"nextCursor":"x"}}"#;
    let fake = Fake::start(move |_| async move { json_reply(200, body) }).await;
    let gate = Gateway::before(&fake.url(), &key("ada", KEY, "")).await;
    let builder = gate.request().header("authorization", format!("Bearer {KEY}")).header("x-script", "1");
    assert_eq!(gate.call(builder, request(1, "tools/list")).await.text(), body);
}

#[tokio::test]
async fn queries_and_paths_arrive() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    for (asked, arrives) in [
        ("/mcp", "/mcp"),
        ("/mcp/", "/mcp"),
        ("/mcp/files", "/mcp"),
        ("/mcp/files/", "/mcp"),
        ("/mcp?a=1&b=%20%2F&a=2", "/mcp?a=1&b=%20%2F&a=2"),
        ("/mcp/files?x", "/mcp?x"),
        ("/mcp/?", "/mcp?"),
    ] {
        assert_eq!(gate.call(gate.request().uri(asked), request(1, "ping")).await.status, 200, "{asked}");
        let seen = fake.calls().last().unwrap().uri.to_string();
        assert_eq!(seen.trim_end_matches('?'), arrives.trim_end_matches('?'), "{asked}");
    }
    let gate = Gateway::before(&format!("{}?own=1", fake.url()), "").await;
    for (asked, arrives) in [("/mcp", "/mcp?own=1"), ("/mcp?a=1", "/mcp?own=1&a=1")] {
        gate.call(gate.request().uri(asked), request(1, "ping")).await;
        assert_eq!(fake.calls().last().unwrap().uri, arrives);
    }
    gate.call(gate.request().method("DELETE").uri("/mcp?a=1"), "").await;
    assert_eq!(fake.calls().last().unwrap().uri, "/mcp?own=1&a=1");
}

#[tokio::test]
async fn pass_through_relays_credentials_challenges_and_oauth_documents() {
    let fake = Fake::start(|seen| async move {
        if seen.uri.path().contains("/.well-known/") {
            return json_reply(200, format!("{{\"path\":\"{}\"}}", seen.uri));
        }
        if seen.header("authorization").is_none() {
            let mut reply = status(401);
            let challenge = "Bearer resource_metadata=\"http://h/.well-known/oauth-protected-resource/mcp\"";
            reply.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
            return reply;
        }
        mcp(&seen)
    })
    .await;
    let url = format!("http://{}/api/v1", fake.addr);
    let gate = Gateway::before(&url, "auth.mode = \"passthrough\"").await;
    let challenged = gate.post(request(1, "ping")).await;
    assert_eq!(challenged.status, 401);
    assert!(challenged.header("www-authenticate").unwrap().contains("resource_metadata"));
    let known = gate.call(gate.request().header("authorization", "Bearer theirs"), request(1, "ping")).await;
    assert_eq!(known.status, 200);
    assert_eq!(fake.calls()[1].header("authorization"), Some("Bearer theirs"));
    for (asked, arrives) in [
        ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource"),
        ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/api/v1"),
        ("/.well-known/oauth-protected-resource/mcp/files", "/.well-known/oauth-protected-resource/api/v1"),
        ("/.well-known/oauth-authorization-server?x=1", "/.well-known/oauth-authorization-server?x=1"),
        ("/.well-known/openid-configuration", "/.well-known/openid-configuration"),
        ("/mcp/.well-known/openid-configuration", "/api/v1/.well-known/openid-configuration"),
    ] {
        let answer = gate.call(gate.request().method("GET").uri(asked), "").await;
        assert_eq!((answer.status, answer.json()["path"].as_str().unwrap()), (200, arrives), "{asked}");
    }
    let other = gate.call(gate.request().method("GET").uri("/.well-known/security.txt"), "").await;
    super::refused(&other, 404, 404, "no_route", None);
    let records = gate.stop().await;
    assert_eq!(records.len(), 9);
    assert!(records.iter().all(|r| r["principal"].is_null()));
}

#[tokio::test]
async fn a_modern_session_id_is_not_forwarded_and_a_legacy_one_is() {
    let fake = Fake::speaking(crate::support::fake::Speaks::Both, |seen| async move { mcp(&seen) }).await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let modern = super::modern(gate.request(), "tools/call", Some("add")).header("mcp-session-id", "s");
    assert_eq!(gate.call(modern, super::modern_tool(1, "add", "{}")).await.status, 200);
    gate.call(gate.request().header("mcp-session-id", "s"), request(1, "ping")).await;
    let seen = fake.calls();
    assert_eq!((seen[0].header("mcp-session-id"), seen[1].header("mcp-session-id")), (None, Some("s")));
    assert_eq!(seen[0].header("mcp-method"), Some("tools/call"));
    assert_eq!(seen[0].header("mcp-name"), Some("add"));
}

#[tokio::test]
async fn bytes_beyond_ascii_in_headers_pass() {
    let fake = Fake::start(|seen| async move {
        let mut reply = mcp(&seen);
        reply.headers_mut().insert("x-back", http::HeaderValue::from_bytes(b"a\xff\xc3\xbc").unwrap());
        reply
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let odd = http::HeaderValue::from_bytes(b"\xc3\xbc\xfe").unwrap();
    let answer = gate.call(gate.request().header("x-there", odd.clone()), request(1, "ping")).await;
    assert_eq!(answer.headers["x-back"].as_bytes(), b"a\xff\xc3\xbc");
    assert_eq!(fake.only().headers["x-there"], odd);
}

#[tokio::test]
async fn connections_to_the_upstream_are_used_again() {
    let fake = Fake::start(|seen| async move {
        if seen.json().get("id").is_some() {
            return mcp(&seen);
        }
        // As Node answers: empty, and chunked all the same.
        let (_, body) = crate::support::fake::channel();
        let mut reply = crate::support::fake::sse(body);
        *reply.status_mut() = http::StatusCode::ACCEPTED;
        reply.headers_mut().remove("content-type");
        reply
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let before = fake.connections();
    for id in 0..30 {
        assert_eq!(gate.post(request(id, "ping")).await.status, 200);
        assert_eq!(gate.post(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await.status, 202);
    }
    let more = fake.connections() - before;
    assert!(more <= 3, "{more} connections for 60 calls one after the other");
}
