//! SIGTERM: not ready, no new connections, calls in flight finish; when the grace is over, waiting calls are
//! told so and streams end cleanly. Every one of them is recorded.

use super::{ending, refused, tool};
use crate::support::{
    fake::{Fake, channel, event, mcp, sse},
    process::{Gateway, next, read_to, send_to, whole},
    raw::Raw,
    soon,
};

/// "hang" never answers, "stream" streams one event, "flood" streams without end, "slow" takes its time.
async fn fake() -> Fake {
    Fake::start(|seen| async move {
        let called = seen.json()["params"]["name"].as_str().map(str::to_owned);
        let called = if seen.method == http::Method::GET { Some("stream".into()) } else { called };
        match called.as_deref() {
            Some("hang") => std::future::pending().await,
            Some("slow") => {
                tokio::time::sleep(std::time::Duration::from_millis(400)).await;
                mcp(&seen)
            }
            Some(kind @ ("stream" | "flood")) => {
                let (sender, body) = channel();
                let flood = kind == "flood";
                sender.send(event("{\"method\":\"notifications/progress\"}")).await.unwrap();
                tokio::spawn(async move {
                    let piece = event(&"x".repeat(1000));
                    while flood && sender.send(piece.clone()).await.is_ok() {}
                    sender.closed().await;
                });
                sse(body)
            }
            _ => mcp(&seen),
        }
    })
    .await
}

#[tokio::test]
async fn waiting_calls_are_told_and_streams_end_cleanly() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"1h\"").await;
    let hang = gate.request().body(http_body_util::Full::new(tool("\"w\"", "hang", "{}").into())).unwrap();
    let waiting = tokio::spawn(send_to(gate.addr, hang));
    let mut stream = gate.open(gate.request(), tool(1, "stream", "{}")).await;
    read_to(stream.body_mut(), "progress").await;
    let mut raw = Raw::connect(gate.addr).await;
    raw.send("GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n").await;
    let mut chunked = gate.raw().await;
    let body = tool(2, "stream", "{}");
    chunked
        .send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
    chunked.read_to("progress").await;
    fake.received(4).await;
    gate.signal("TERM");
    gate.logged("draining").await;
    soon("the listener's end", async {
        while tokio::net::TcpStream::connect(gate.addr).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let page = gate.page("/readyz").await;
    assert_eq!((page.status, &page.json()["state"]), (503, &"draining".into()));
    // The end of the grace, asked for.
    gate.signal("TERM");
    let told = whole(soon("the waiting call", waiting).await.unwrap()).await;
    refused(&told, 503, 503, "draining", Some("\"w\""));
    assert_eq!(told.header("retry-after"), Some("1"));
    assert!(next(stream.body_mut()).await.is_none(), "the stream did not end cleanly");
    assert!(chunked.rest().await.ends_with("0\r\n\r\n"));
    assert!(gate.exit().await.success());
    gate.verify();
    let mut records = gate.records();
    assert_eq!(records.len(), 4);
    records.sort_by_key(|r| r["status"].as_u64());
    for record in &records[..3] {
        assert_eq!(ending(record), ("drained", Some(200), Some("draining"), None));
    }
    assert_eq!(ending(&records[3]), ("drained", Some(503), Some("draining"), Some(503)));
}

#[tokio::test]
async fn a_stream_that_is_never_silent_ends_cleanly_too() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"100ms\"").await;
    let mut stream = gate.open(gate.request(), tool(1, "flood", "{}")).await;
    gate.signal("TERM");
    let end = loop {
        match next(stream.body_mut()).await {
            Some(Ok(_)) => {}
            other => break other,
        }
    };
    assert!(end.is_none(), "{end:?}");
    assert!(gate.exit().await.success());
    assert_eq!(ending(&gate.records()[0]), ("drained", Some(200), Some("draining"), None));
}

#[tokio::test]
async fn calls_that_finish_within_the_grace_are_answered() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "").await;
    let slow = gate.request().body(http_body_util::Full::new(tool(1, "slow", "{}").into())).unwrap();
    let waiting = tokio::spawn(send_to(gate.addr, slow));
    fake.received(1).await;
    gate.signal("TERM");
    let answer = whole(soon("the slow call", waiting).await.unwrap()).await;
    assert_eq!(answer.status, 200);
    assert!(gate.exit().await.success());
    let records = gate.records();
    assert_eq!(records.len(), 1);
    assert_eq!(ending(&records[0]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"1h\"").await;
    let hang = gate.request().body(http_body_util::Full::new(tool(1, "hang", "{}").into())).unwrap();
    let waiting = tokio::spawn(send_to(gate.addr, hang));
    fake.received(1).await;
    gate.signal("INT");
    gate.logged("draining").await;
    gate.signal("TERM");
    refused(&whole(waiting.await.unwrap()).await, 503, 503, "draining", Some("1"));
    assert!(gate.exit().await.success());
    assert_eq!(gate.records().len(), 1);
}

#[tokio::test]
async fn a_reader_that_has_stopped_reading_does_not_keep_it_alive() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"200ms\"").await;
    let stuck = gate.open(gate.request(), tool(1, "flood", "{}")).await;
    gate.signal("TERM");
    assert!(gate.exit().await.success());
    assert_eq!(gate.records().len(), 1);
    assert_eq!(gate.records()[0]["outcome"], "drained");
    drop(stuck);
}

#[tokio::test]
async fn a_body_that_is_still_coming_is_told_too() {
    let fake = fake().await;
    let mut gate = Gateway::before(&fake.url(), "server.drain = \"200ms\"").await;
    let mut raw = gate.raw().await;
    raw.send("POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{").await;
    gate.in_flight(1).await;
    gate.signal("TERM");
    let answer = raw.answer().await;
    assert_eq!(answer.status, 503);
    assert!(gate.exit().await.success());
    assert_eq!(ending(&gate.records()[0]), ("drained", Some(503), Some("draining"), Some(503)));
    assert_eq!(fake.count(), 0);
}
