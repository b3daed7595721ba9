//! Upstreams that cannot be reached, die at every point of an answer, never end it, or answer something that is
//! not MCP: the client gets an error with its id or a broken body, never a made-up end, and one record tells.

use crate::support::free::free;
use std::time::Duration;

use super::{ending, refused, request, tool};
use crate::support::{
    fake::{Fake, channel, json_reply, sse, status, typed},
    process::{Gateway, next},
    raw::Raw,
    server::Server,
    soon,
};

const BROKEN: (u16, i64, &str) = (502, 502, "upstream_protocol");

/// Reads a whole request; whether it is the gateway's own.
async fn read_request(raw: &mut Raw) -> bool {
    let head = raw.read_to("\r\n\r\n").await.to_ascii_lowercase();
    let length = head.lines().find_map(|l| l.strip_prefix("content-length: "));
    raw.read_exact(length.map_or(0, |l| l.parse().unwrap())).await;
    head.contains("user-agent: smartgate/")
}

/// An upstream that answers every forwarded call with these bytes and goes.
async fn sending(reply: &'static str) -> Server {
    Server::start(move |mut raw, _| async move {
        if read_request(&mut raw).await {
            raw.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        } else {
            raw.send(reply).await;
        }
    })
    .await
}

#[tokio::test]
async fn an_upstream_that_dies_before_it_has_said_anything_of_use_is_a_502() {
    let replies = [
        "",
        "HTTP/1.1 20",
        "HTTP/1.1 200 OK\r\ncontent-ty",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n  \n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n8\r\n{\"jsonrp\r\n",
    ];
    for reply in replies {
        let server = sending(reply).await;
        let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
        let answer = gate.post(tool(1, "add", "{}")).await;
        refused(&answer, BROKEN.0, BROKEN.1, BROKEN.2, Some("1"));
        let records = gate.stop().await;
        assert_eq!(records.len(), 1);
        assert_eq!(
            ending(&records[0]),
            ("upstream_failed", Some(502), Some(BROKEN.2), Some(502)),
            "{reply:?}"
        );
        assert_eq!(records[0]["attempts"], 1, "a call that may have run was repeated: {reply:?}");
    }
}

#[tokio::test]
async fn an_upstream_that_dies_in_the_middle_breaks_the_client_s_body_too() {
    let replies = [
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n24\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{   \r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n10\r\ndata: {\"id\":4}\n\n\r\n",
    ];
    for reply in replies {
        let server = sending(reply).await;
        let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
        let (mut raw, body) = (gate.raw().await, tool(1, "add", "{}"));
        raw.send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        // The head may not have left yet when the body breaks; then nothing does.
        let answer = raw.rest().await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let ends = if head.contains("content-length: 100") {
            body.len() == 100
        } else {
            body.ends_with("0\r\n\r\n")
        };
        assert!(!ends, "a clean end was made up: {answer}");
        let records = gate.stop().await;
        assert_eq!(records.len(), 1);
        assert_eq!(ending(&records[0]), ("upstream_failed", Some(200), Some(BROKEN.2), None), "{reply:?}");
    }
}

#[tokio::test]
async fn calls_that_only_read_are_tried_again() {
    let server = Server::start(|mut raw, _| async move {
        if read_request(&mut raw).await {
            raw.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
        }
    })
    .await;
    let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
    for (nth, (body, attempts)) in [
        (request(1, "tools/list"), 2),
        (request(2, "resources/read"), 2),
        (request(3, "logging/setLevel"), 1),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(gate.post(body).await.status, 502);
        assert_eq!(gate.recorded(nth + 1).await[nth]["attempts"], attempts);
    }
}

#[tokio::test]
async fn an_upstream_that_is_not_there_is_a_502_of_its_own() {
    let url = format!("http://{}/mcp?secret=planted-in-the-url", free());
    let gate = Gateway::before(&url, "").await;
    let answer = gate.post(tool("\"c\"", "add", "{}")).await;
    refused(&answer, 502, 502, "upstream_connect", Some("\"c\""));
    let records = gate.recorded(1).await;
    assert_eq!(ending(&records[0]), ("upstream_failed", Some(502), Some("upstream_connect"), Some(502)));
    // Nothing was sent, so the second try of `retry.attempts = 1` was allowed for a call that changes things.
    assert_eq!(records[0]["attempts"], 2);
    let state = gate
        .ready_until("the upstream to be seen down", |r| r["upstreams"]["files"]["state"] == "unreachable")
        .await;
    assert_eq!(state["ready"], true);
    assert!(!format!("{}{}{state}{:?}", answer.text(), gate.log(), records).contains("planted-in-the-url"));
    assert!(gate.metric("smartgate_upstream_up{upstream=\"files\"}").await.abs() < 0.1);
}

#[tokio::test]
async fn an_upstream_that_does_not_answer_in_time_is_a_504_and_its_request_ends() {
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let fake = Fake::start(move |_| {
        let told = told.clone();
        async move {
            struct End(tokio::sync::mpsc::UnboundedSender<()>);
            impl Drop for End {
                fn drop(&mut self) {
                    self.0.send(()).ok();
                }
            }
            let _end = End(told);
            std::future::pending().await
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "upstreams.files.timeout = \"1s\"").await;
    let answer = gate.post(tool(1, "add", "{}")).await;
    refused(&answer, 504, 504, "upstream_timeout", Some("1"));
    soon("the end of the upstream's request", ended.recv()).await.unwrap();
    let records = gate.stop().await;
    assert_eq!(records.len(), 1);
    assert_eq!(ending(&records[0]), ("upstream_failed", Some(504), Some("upstream_timeout"), Some(504)));
    assert_eq!((records[0]["attempts"].as_u64(), fake.count()), (Some(1), 1));
}

#[tokio::test]
async fn an_answer_that_falls_silent_is_given_up() {
    let first = [
        ("text/event-stream", "data: {\"method\":\"notifications/progress\"}\n\n"),
        ("application/json", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{"),
    ];
    for (kind, piece) in first {
        let fake = Fake::start(move |_| async move {
            let (sender, body) = channel();
            sender.send(piece.into()).await.unwrap();
            tokio::spawn(async move { sender.closed().await });
            let mut reply = sse(body);
            reply.headers_mut().insert("content-type", kind.parse().unwrap());
            reply
        })
        .await;
        let gate = Gateway::before(&fake.url(), "upstreams.files.idle_timeout = \"200ms\"").await;
        let mut answer = gate.open(gate.request(), tool(1, "add", "{}")).await;
        assert!(matches!(next(answer.body_mut()).await, Some(Ok(_))));
        assert!(matches!(next(answer.body_mut()).await, Some(Err(_))), "a clean end was made up");
        let records = gate.stop().await;
        assert_eq!(records.len(), 1);
        assert_eq!(ending(&records[0]), ("upstream_failed", Some(200), Some("upstream_protocol"), None));
    }
}

#[tokio::test]
async fn an_answer_that_falls_silent_before_it_says_anything_is_given_up() {
    // What has to be read before the answer can begin: a JSON body's start, a stream to fold, a list to cut.
    let config = format!(
        "upstreams.files.idle_timeout = \"200ms\"\nupstreams.files.tools = [\"add\"]\n{}",
        super::key("ada", super::KEY, "tools = [\"add\"]")
    );
    for (kind, piece) in [
        ("application/json", ""),
        ("application/json", " "),
        ("application/json", "{\"jsonrpc\":\"2.0\","),
        ("text/event-stream", "data: {\"method\":\"notifications/progress\"}\n\n"),
    ] {
        let fake = Fake::start(move |_| async move {
            let (sender, body) = channel();
            sender.send(piece.into()).await.unwrap();
            tokio::spawn(async move { sender.closed().await });
            let mut reply = sse(body);
            reply.headers_mut().insert("content-type", kind.parse().unwrap());
            reply
        })
        .await;
        let gate = Gateway::before(&fake.url(), &config).await;
        let only_json = http::Request::post("/mcp")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", super::KEY))
            .header("content-type", "application/json")
            .header("accept", "application/json");
        let answer = gate.call(only_json, tool(1, "add", "{}")).await;
        assert!(matches!(answer.status, 502 | 504), "{kind} {piece:?}: {}", answer.text());
        let records = gate.stop().await;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0]["outcome"], "upstream_failed");
    }
}

#[tokio::test]
async fn answers_that_are_not_mcp_are_a_502_with_the_id() {
    let fake = Fake::start(|seen| async move {
        match seen.header("x-reply").unwrap() {
            "html" => typed(200, "text/html", "<html>log in</html>"),
            "empty" => status(200),
            "no-content" => status(204),
            "empty-json" => json_reply(200, ""),
            "blank-json" => json_reply(200, " \n "),
            "garbage" => json_reply(200, "{\"oops"),
            "other-json" => json_reply(200, "{\"status\":\"ok\"}"),
            "array" => json_reply(200, "[]"),
            "text" => json_reply(200, "\"hello\""),
            "request" => json_reply(200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"),
            "accepted" => status(202),
            "plain" => typed(200, "text/plain", "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"),
            "encoded" => {
                let mut reply = json_reply(200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
                reply.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
                reply
            }
            "chunked-other" | "chunked-garbage" => {
                let (sender, body) = channel();
                let piece = if seen.header("x-reply") == Some("chunked-other") {
                    "{\"ok\":true}"
                } else {
                    "{\"ok\":tr"
                };
                sender.send(piece.into()).await.unwrap();
                let mut reply = sse(body);
                reply.headers_mut().insert("content-type", "application/json".parse().unwrap());
                reply
            }
            other => panic!("{other}"),
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let replies = [
        "html",
        "empty",
        "no-content",
        "empty-json",
        "blank-json",
        "garbage",
        "other-json",
        "array",
        "text",
        "request",
        "accepted",
        "plain",
        "encoded",
        "chunked-other",
        "chunked-garbage",
    ];
    for (nth, reply) in replies.iter().enumerate() {
        let answer = gate.call(gate.request().header("x-reply", *reply), tool(7, "add", "{}")).await;
        assert_eq!(answer.status, 502, "{reply}: {}", answer.text());
        refused(&answer, BROKEN.0, BROKEN.1, BROKEN.2, Some("7"));
        let records = gate.recorded(nth + 1).await;
        assert_eq!(
            ending(&records[nth]),
            ("upstream_failed", Some(502), Some(BROKEN.2), Some(502)),
            "{reply}"
        );
    }
    let discover = gate.call(gate.request().header("x-reply", "html"), request(1, "server/discover")).await;
    refused(&discover, 400, -32600, "invalid_request", Some("1"));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for reply in ["html", "no-content", "garbage", "accepted"] {
        let answer = gate.call(gate.request().header("x-reply", reply), note).await;
        assert_eq!((answer.status, answer.text()), (202, ""), "{reply}");
    }
    assert_eq!(gate.stop().await.len(), replies.len() + 5);
}

#[tokio::test]
async fn an_answer_without_end_is_passed_on_and_does_not_grow_the_gateway() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        tokio::spawn(async move {
            let piece = bytes::Bytes::from(format!("data: {}\n", "x".repeat(64 * 1024)));
            // One event that never ends.
            while sender.send(piece.clone()).await.is_ok() {}
        });
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut answer = gate.open(gate.request(), tool(1, "add", "{}")).await;
    let mut read = 0;
    while read < 64 * 1024 * 1024 {
        read += next(answer.body_mut()).await.unwrap().unwrap().len();
    }
    let memory = resident_kib(gate.id());
    assert!(memory < 150 * 1024, "{memory} KiB resident after {read} bytes");
    drop(answer);
    let records = gate.stop().await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["outcome"], "client_closed");
}

#[tokio::test]
async fn a_huge_answer_passes_whole() {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}",
        "y".repeat(32 * 1024 * 1024)
    );
    let theirs = bytes::Bytes::from(body.clone());
    let fake = Fake::start(move |_| {
        let reply = json_reply(200, theirs.clone());
        async move { reply }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let answer = gate.post(tool(1, "add", "{}")).await;
    assert!(answer.body == body.as_bytes());
    let records = gate.stop().await;
    assert_eq!(records[0]["response_bytes"], body.len());
    assert_eq!(records[0]["outcome"], "ok");
}

#[tokio::test]
async fn a_head_without_end_and_a_redirect_away_are_a_502() {
    let server = Server::start(|mut raw, _| async move {
        if read_request(&mut raw).await {
            raw.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            return;
        }
        raw.send("HTTP/1.1 200 OK\r\n").await;
        while raw.try_send("x: 0123456789012345678901234567890123456789\r\n").await.is_ok() {}
    })
    .await;
    let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
    refused(&gate.post(tool(1, "add", "{}")).await, BROKEN.0, BROKEN.1, BROKEN.2, Some("1"));

    let away = sending(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://evil.example/mcp\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let gate = Gateway::before(&format!("http://{}/mcp", away.addr), "").await;
    refused(&gate.post(tool(1, "add", "{}")).await, BROKEN.0, BROKEN.1, BROKEN.2, Some("1"));
}

#[tokio::test]
async fn a_broken_upstream_does_not_hold_up_other_calls() {
    let fake = Fake::start(|seen| async move {
        if seen.json()["params"]["name"] == "hang" {
            return std::future::pending().await;
        }
        crate::support::fake::mcp(&seen)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut hanging = Vec::new();
    for id in 0..50 {
        let request = gate.request().body(http_body_util::Full::new(tool(id, "hang", "{}").into())).unwrap();
        hanging.push(tokio::spawn(crate::support::process::send_to(gate.addr, request)));
    }
    fake.received(50).await;
    for id in 100..120 {
        let answer =
            tokio::time::timeout(Duration::from_secs(20), gate.post(tool(id, "add", "{}"))).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    assert_eq!(gate.recorded(70).await.len(), 70);
}

#[tokio::test]
async fn an_upstream_that_changes_the_protocol_is_a_502() {
    let server =
        sending("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n").await;
    let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
    refused(&gate.post(tool(1, "add", "{}")).await, BROKEN.0, BROKEN.1, BROKEN.2, Some("1"));
    let get = gate
        .call(gate.request().method("GET").header("connection", "upgrade").header("upgrade", "x"), "")
        .await;
    assert_eq!(get.status, 502, "{}", get.text());
}

#[tokio::test]
async fn upstreams_that_close_idle_connections_cost_no_call() {
    let server = Server::start(|mut raw, _| async move {
        // One answer for each connection, whose end nothing announces.
        if read_request(&mut raw).await {
            raw.send("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").await;
        } else {
            raw.send("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}").await;
        }
    })
    .await;
    let gate = Gateway::before(&format!("http://{}/mcp", server.addr), "").await;
    for _ in 0..30 {
        assert_eq!(gate.post(request(1, "ping")).await.status, 200);
        // The end has to reach the gateway; a call that crosses with it is another matter.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Resident memory of a process.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
