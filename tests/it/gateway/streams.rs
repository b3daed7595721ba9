//! Streams pass as they come: byte for byte, event by event, and a reader that is slow holds up nobody else.

use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{ending, tool};
use crate::support::{
    fake::{Fake, channel, event, mcp, sse},
    process::{Gateway, next, read_to, whole},
    soon, until,
};

#[tokio::test]
async fn an_event_reaches_the_client_before_the_next_is_sent() {
    let slot = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&slot);
    let fake = Fake::start(move |_| {
        let theirs = Arc::clone(&theirs);
        async move {
            let (sender, body) = channel();
            *theirs.lock().unwrap() = Some(sender);
            sse(body)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut answer = gate.open(gate.request(), tool(1, "add", "{}")).await;
    let sender = slot.lock().unwrap().take().unwrap();
    for n in 0..5 {
        // Half an event passes as well: nothing waits for an event's end.
        sender.send(format!("data: {{\"method\":\"notifications/p\",\"n\":{n}").into()).await.unwrap();
        read_to(answer.body_mut(), &format!("\"n\":{n}")).await;
        sender.send("}\n\n".into()).await.unwrap();
        read_to(answer.body_mut(), "}\n\n").await;
    }
    sender.send(event(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).await.unwrap();
    drop(sender);
    read_to(answer.body_mut(), "result").await;
    assert!(next(answer.body_mut()).await.is_none());
    let records = gate.stop().await;
    assert_eq!(records.len(), 1);
    assert_eq!(ending(&records[0]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn json_that_is_known_to_be_an_answer_is_not_held_back() {
    let slot = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&slot);
    let fake = Fake::start(move |_| {
        let theirs = Arc::clone(&theirs);
        async move {
            let (sender, body) = channel();
            sender.send(r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#.into()).await.unwrap();
            *theirs.lock().unwrap() = Some(sender);
            let mut reply = sse(body);
            reply.headers_mut().insert("content-type", "application/json; charset=utf-8".parse().unwrap());
            reply
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut answer = gate.open(gate.request(), tool(1, "add", "{}")).await;
    read_to(answer.body_mut(), "\"content\":[").await;
    assert_eq!(answer.headers()["content-type"], "application/json; charset=utf-8");
    let sender = slot.lock().unwrap().take().unwrap();
    sender.send("]}}".into()).await.unwrap();
    drop(sender);
    assert_eq!(read_to(answer.body_mut(), "]}}").await, "]}}");
    assert!(next(answer.body_mut()).await.is_none());
    assert_eq!(ending(&gate.stop().await[0]), ("ok", Some(200), None, None));
}

/// Everything that the line grammar allows.
const ODD: &str = "\u{feff}: hello\r\n\r\nid: 1\r\ndata:\r\n\r\nretry: 1500\n\nid:2\nevent:message\ndata:{\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/x\",\ndata:  \"n\":1.0e5}\n\n:\r\rfoo: bar\rid: 3\rdata: {\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":{\"big\":123456789012345678901234567890,\"f\":1.50}}\r\r: bye\n\n";

#[tokio::test]
async fn a_stream_s_bytes_are_the_upstream_s() {
    for size in [1, 7, 4096] {
        let fake = Fake::start(move |_| async move {
            let (sender, body) = channel();
            tokio::spawn(async move {
                for piece in ODD.as_bytes().chunks(size) {
                    sender.send(Bytes::copy_from_slice(piece)).await.unwrap();
                }
            });
            sse(body)
        })
        .await;
        let gate = Gateway::before(&fake.url(), "").await;
        let answer = gate.post(tool("1.0", "add", "{}")).await;
        assert_eq!(answer.text(), ODD);
        let get =
            gate.call(gate.request().method("GET").header("last-event-id", "é?/1".as_bytes()), "").await;
        assert_eq!(get.text(), ODD);
        let seen = fake.calls();
        assert_eq!(seen[1].headers["last-event-id"].as_bytes(), "é?/1".as_bytes());
        let records = gate.stop().await;
        assert_eq!(records.len(), 2);
        assert_eq!(ending(&records[0]), ("ok", Some(200), None, None));
        assert_eq!(records[0]["response_bytes"], ODD.len());
    }
}

#[tokio::test]
async fn a_legacy_stream_that_ends_before_its_response_may_be_resumed() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        sender.send("id: 7\ndata:\n\nretry: 10\n\n".into()).await.unwrap();
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    assert_eq!(gate.post(tool(1, "add", "{}")).await.text(), "id: 7\ndata:\n\nretry: 10\n\n");
    assert_eq!(ending(&gate.stop().await[0]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn a_stream_that_ends_without_response_or_event_id_failed() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    assert_eq!(gate.post(tool(1, "add", "{}")).await.status, 200);
    assert_eq!(
        ending(&gate.stop().await[0]),
        ("upstream_failed", Some(200), Some("upstream_protocol"), None)
    );
}

/// A stream as fast as it is read, for calls of "flood".
async fn flooding() -> Fake {
    Fake::start(|seen| async move {
        if seen.json()["params"]["name"] != "flood" {
            return mcp(&seen);
        }
        let (sender, body) = channel();
        tokio::spawn(async move {
            let piece =
                event(&format!("{{\"method\":\"notifications/x\",\"p\":\"{}\"}}", "x".repeat(16 * 1024)));
            while sender.send(piece.clone()).await.is_ok() {}
        });
        sse(body)
    })
    .await
}

#[tokio::test]
async fn a_reader_that_stops_reading_holds_up_no_other_connection() {
    let fake = flooding().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut stuck = Vec::new();
    for id in 0..20 {
        stuck.push(gate.open(gate.request(), tool(id, "flood", "{}")).await);
    }
    for id in 100..130 {
        assert_eq!(gate.post(tool(id, "add", "{}")).await.status, 200);
    }
    drop(stuck);
    assert_eq!(gate.recorded(50).await.len(), 50);
}

#[tokio::test]
async fn a_stream_nobody_reads_holds_up_no_other_stream_of_its_connection() {
    let fake = flooding().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut client = gate.http2().await;
    let mut send = async |id: u32, name: &str| {
        let request = gate.request().uri(format!("http://{}/mcp", gate.addr));
        let request = request.body(http_body_util::Full::new(tool(id, name, "{}").into())).unwrap();
        soon("an answer", client.send_request(request)).await.unwrap()
    };
    // One that is not read. A client's connection window is shared, so more of them would fill that.
    let stuck = send(1, "flood").await;
    for id in 100..130 {
        let answer = whole(send(id, "add").await).await;
        assert_eq!(answer.status, 200);
    }
    drop(stuck);
    assert_eq!(gate.recorded(31).await.len(), 31);
}

#[tokio::test]
async fn a_get_stream_may_be_silent_for_longer_than_any_answer() {
    let slot = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&slot);
    let fake = Fake::start(move |_| {
        let theirs = Arc::clone(&theirs);
        async move {
            let (sender, body) = channel();
            *theirs.lock().unwrap() = Some(sender);
            sse(body)
        }
    })
    .await;
    let config = "upstreams.files.idle_timeout = \"100ms\"\nupstreams.files.timeout = \"100ms\"\nserver.header_timeout = \"100ms\"";
    let gate = Gateway::before(&fake.url(), config).await;
    let mut get = gate.open(gate.request().method("GET"), "").await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let sender = slot.lock().unwrap().take().unwrap();
    sender.send(event("{\"method\":\"late\"}")).await.unwrap();
    read_to(get.body_mut(), "late").await;
    drop(sender);
    assert!(next(get.body_mut()).await.is_none());
    until("one record", || gate.records().len() == 1).await;
    assert_eq!(ending(&gate.records()[0]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn a_reader_that_never_reads_again_gives_its_place_up() {
    let fake = flooding().await;
    let gate =
        Gateway::before(&fake.url(), "limits.concurrency = 1\nserver.header_timeout = \"100ms\"").await;
    let stuck = gate.open(gate.request(), tool(1, "flood", "{}")).await;
    soon("the place", async {
        while gate.post(tool(2, "add", "{}")).await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await;
    // The place is free a moment before the record is on disk.
    let of_the_stuck = || gate.records().into_iter().find(|r| r["request_id"] == "1");
    until("its record", || of_the_stuck().is_some()).await;
    assert_eq!(ending(&of_the_stuck().unwrap()), ("client_closed", Some(200), None, None));
    drop(stuck);
}

#[tokio::test]
async fn a_reader_that_is_only_slow_keeps_its_stream() {
    let fake = flooding().await;
    let gate = Gateway::before(&fake.url(), "server.header_timeout = \"100ms\"").await;
    let mut slow = gate.open(gate.request(), tool(1, "flood", "{}")).await;
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        let mut read = 0;
        while read < 1 << 20 {
            read += next(slow.body_mut()).await.unwrap().unwrap().len();
        }
    }
    assert!(gate.records().is_empty());
}
