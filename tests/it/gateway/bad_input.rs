//! Bodies, heads and senders that nobody should send. The process stays alive, answers what can be answered,
//! and no other call waits.

use super::{refused, request, tool};
use crate::support::{
    fake::{Fake, mcp},
    process::Gateway,
};

#[tokio::test]
async fn bodies_of_every_bad_shape_are_refused_or_forwarded_and_nothing_breaks() {
    let fake = Fake::plain().await;
    let mut gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let whole = tool(1, "add", "{\"n\":\"\\u00e9\\ud83d\\ude00\",\"l\":[1,{\"a\":null}]}");
    let whole = whole.as_bytes();
    let mut sent = 0;
    for cut in (0..whole.len()).step_by(3) {
        assert_eq!(gate.post(whole[..cut].to_vec()).await.status, 400, "cut at {cut}");
        sent += 1;
    }
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let inside = |value: String| tool(1, "add", &value).into_bytes();
    let refused_bodies: Vec<Vec<u8>> = vec![
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        "[".repeat(100_000).into_bytes(),
        "{\"a\":".repeat(100_000).into_bytes(),
        inside(deep("[", "]")),
        inside(deep("{\"a\":", "}")),
        inside("\"\u{0}\"".into()),
        [&whole[..20], b"\xff\xfe", &whole[20..]].concat(),
        b"\xff\xfe{\0}\0".to_vec(),
        b"\0".to_vec(),
        [whole, b"\0"].concat(),
        [b"\xef\xbb\xbf\xef\xbb\xbf", whole].concat(),
        b"\xef\xbb\xbf".to_vec(),
        b"\xed\xa0\x80".to_vec(),
        vec![b' '; 100_000],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":{\"x\":1e}}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":01,\"method\":\"a\"}".to_vec(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\x\"}".to_vec(),
        b"{'jsonrpc':'2.0'}".to_vec(),
        b"NaN".to_vec(),
    ];
    for body in refused_bodies {
        let answer = gate.post(body.clone()).await;
        assert_eq!(answer.status, 400, "{:?}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        assert!(matches!(answer.reason().as_str(), "parse_error" | "invalid_request"));
        sent += 1;
    }
    assert_eq!(fake.count(), 0);
    let long = "m".repeat(1 << 20);
    let many = (0..50_000).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
    let forwarded: Vec<String> = vec![
        request(1, &long),
        tool(1, &long, "{}"),
        tool(format!("\"{long}\""), "add", "{}"),
        tool(1, "add", &format!("{{{many}}}")),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",{many}}}"),
        format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"_meta\":{{{many}}}}}}}"),
        tool(1, "add", &format!("{{\"s\":\"{}\"}}", "\\u0000".repeat(100_000))),
        tool("9".repeat(300), "add", "{}"),
        format!("\u{feff}{}", request(1, "ping")),
    ];
    for body in forwarded {
        let answer = gate.post(body.clone()).await;
        assert_eq!(answer.status, 200, "{}: {}", &body[..80], &answer.text()[..100.min(answer.text().len())]);
        sent += 1;
    }
    assert!(gate.is_alive());
    let records = gate.stop().await;
    assert_eq!(records.len(), sent);
    assert!(records.iter().all(|r| r["method"].as_str().unwrap_or_default().len() <= 512));
}

#[tokio::test]
async fn heads_that_are_bombs_are_refused_and_others_go_on() {
    let fake = Fake::plain().await;
    let mut gate = Gateway::before(&fake.url(), "").await;
    let many: String = (0..5_000).map(|n| format!("x-{n}: 1\r\n")).collect();
    for bomb in [
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)),
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
        format!("POST /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(1 << 20)),
        format!("{} /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n", "A".repeat(1 << 20)),
        "\0\0\0\0\0\0\0\0\r\n\r\n".into(),
        "GET / HTTP/9.9\r\n\r\n".into(),
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n".into(),
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\n x: folded\r\n\r\n".into(),
    ] {
        let mut raw = gate.raw().await;
        drop(raw.try_send(&bomb).await);
        let answer = raw.rest().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert_eq!(gate.post(request(1, "ping")).await.status, 200);
    }
    assert!(gate.is_alive());
}

/// Requests that two parsers may cut in two places. Each is followed by what a careless gateway would take for
/// a second request, or hide in the first.
#[tokio::test]
async fn what_could_be_smuggled_is_not() {
    let fake = Fake::plain().await;
    let config =
        format!("server.header_timeout = \"500ms\"\n{}", super::key("ada", super::KEY, "tools = [\"add\"]"));
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    let hidden = tool(66, "files__delete_all", "{}");
    let inner =
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{hidden}", hidden.len());
    let body = request(1, "ping");
    let auth = format!("authorization: Bearer {}\r\n", super::KEY);
    let shapes = [
        format!("content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{inner}", body.len()),
        format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{inner}"),
        format!(
            "content-length: {}\r\ncontent-length: {}\r\n\r\n{body}{inner}",
            body.len(),
            body.len() + inner.len()
        ),
        format!("content-length: +{}\r\n\r\n{body}{inner}", body.len()),
        format!("content-length: {}, {}\r\n\r\n{body}{inner}", body.len(), body.len()),
        format!("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("transfer-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}{inner}", body.len()),
        format!("transfer-encoding : chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{inner}"),
        format!("transfer-encoding: chunked\r\n\r\n5;x\n{inner}"),
        format!("transfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n{inner}"),
        format!("transfer-encoding: chunked\r\n\r\n0x5\r\n{inner}"),
        format!("x: y\ncontent-length: 0\r\n\r\n{inner}"),
        format!("x: y\rcontent-length: 0\r\n\r\n{inner}"),
    ];
    for shape in shapes {
        let mut raw = gate.raw().await;
        drop(raw.try_send(format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{auth}{shape}")).await);
        // What comes after is a request without a key at most.
        let answer = raw.rest().await;
        assert!(!answer.contains("\"id\":66,\"result\""), "{shape}: {answer}");
    }
    for seen in fake.calls() {
        assert!(!seen.text().contains("files__delete_all"), "{seen:?}");
        assert_eq!(seen.headers.get_all("content-length").iter().count(), 1, "{seen:?}");
        assert!(seen.header("transfer-encoding").is_none(), "{seen:?}");
    }
}

#[tokio::test]
async fn a_slow_sender_holds_up_nobody() {
    let fake = Fake::start(|seen| async move { mcp(&seen) }).await;
    let gate =
        Gateway::before(&fake.url(), "server.body_timeout = \"1s\"\nserver.header_timeout = \"1s\"").await;
    let mut slow = Vec::new();
    for n in 0..50 {
        let mut raw = gate.raw().await;
        let part = if n % 2 == 0 {
            "POST /mcp HTTP/1.1\r\nho"
        } else {
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{"
        };
        raw.send(part).await;
        slow.push(raw);
    }
    for id in 0..50 {
        assert_eq!(gate.post(request(id, "ping")).await.status, 200);
    }
    for (n, mut raw) in slow.into_iter().enumerate() {
        let answer = raw.rest().await;
        if n % 2 == 1 {
            assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
            assert!(answer.contains("request_timeout"));
        }
    }
    assert_eq!(gate.stop().await.len(), 75);
}

#[tokio::test]
async fn expect_continue_is_answered_before_the_body_is_sent_and_refused_without_it() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "server.max_body = \"1KiB\"").await;
    let body = request(1, "ping");
    let head = |more: &str, length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n{more}content-length: {length}\r\n\r\n"
        )
    };
    let mut raw = gate.raw().await;
    raw.send(head("", body.len())).await;
    assert!(raw.read_to("\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    raw.send(&body).await;
    assert_eq!(raw.answer().await.status, 200);
    assert!(fake.only().header("expect").is_none());
    for (more, length, status) in [
        ("origin: https://evil.example\r\n", 10, 403),
        ("content-type: text/plain\r\n", 10, 415),
        ("", 4096, 413),
    ] {
        let mut raw = gate.raw().await;
        raw.send(head(more, length)).await;
        assert_eq!(raw.answer().await.status, status, "{more}");
    }
}

#[tokio::test]
async fn an_error_to_a_client_that_is_still_sending_is_read_by_it() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "server.max_body = \"64KiB\"").await;
    // Twice the limit: within what is read and thrown away.
    for body in ["x".repeat(100 * 1024), "x".repeat(65 * 1024)] {
        refused(&gate.post(body).await, 413, 413, "body_too_large", None);
    }
}

#[tokio::test]
async fn a_body_whose_framing_breaks_is_answered_with_json() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    for (nth, rest) in
        ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}xx\r\n", "fffffffffffffffff\r\n"].into_iter().enumerate()
    {
        let mut raw = gate.raw().await;
        raw.send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n{rest}"
        ))
        .await;
        let answer = raw.answer().await;
        assert_eq!(answer.status, 400);
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body["error"]["data"]["reason"], "invalid_request");
        let record = gate.recorded(nth + 1).await.remove(nth);
        assert_eq!(super::ending(&record), ("rejected", Some(400), Some("invalid_request"), Some(-32600)));
    }
    assert_eq!(fake.count(), 0);
}
