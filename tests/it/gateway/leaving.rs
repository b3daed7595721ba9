//! Clients that leave: while they send, while they wait, in mid-stream, in both eras. The upstream's request
//! ends at once, nothing is said to the upstream in their name, and one record tells of it.

use std::sync::{Arc, Mutex};

use http::request::Builder;
use tokio::sync::{mpsc, oneshot};

use super::{ending, modern, modern_tool, request, tool};
use crate::support::{
    fake::{Fake, Speaks, channel, event, sse},
    process::{Gateway, next, read_to},
    soon, until,
};

/// Tells, when it is dropped, that the upstream's side of a call has ended.
struct Told(Option<oneshot::Sender<()>>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.take().map(|t| t.send(()).ok());
    }
}

/// Both ways to say the same: builder and body.
fn eras(gate: &Gateway) -> [(Builder, String, Speaks); 2] {
    [
        (gate.request(), tool(1, "add", "{}"), Speaks::Legacy),
        (modern(gate.request(), "tools/call", Some("add")), modern_tool(1, "add", "{}"), Speaks::Modern),
    ]
}

#[tokio::test]
async fn while_the_body_is_sent() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let heads =
        ["content-length: 100\r\n\r\n{\"jsonrpc\":", "transfer-encoding: chunked\r\n\r\n5\r\n{\"jso\r\n"];
    for (nth, rest) in heads.iter().enumerate() {
        let mut raw = gate.raw().await;
        raw.send(format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{rest}"
        ))
        .await;
        gate.in_flight(1).await;
        drop(raw);
        let records = gate.recorded(nth + 1).await;
        assert_eq!(ending(&records[nth]), ("client_closed", None, None, None));
    }
    assert_eq!(gate.stop().await.len(), heads.len());
    assert_eq!(fake.count(), 0);
}

#[tokio::test]
async fn while_waiting_for_the_head() {
    for era in [0, 1] {
        let (told, mut ended) = mpsc::unbounded_channel::<()>();
        let speaks = [Speaks::Legacy, Speaks::Modern][era];
        let fake = Fake::speaking(speaks, move |_| {
            let told = told.clone();
            async move {
                let (sender, receiver) = oneshot::channel();
                tokio::spawn(async move {
                    drop(receiver.await);
                    told.send(()).unwrap();
                });
                let _told = Told(Some(sender));
                std::future::pending().await
            }
        })
        .await;
        let gate = Gateway::before(&fake.url(), "").await;
        gate.knows("files").await;
        let (builder, body, _) = eras(&gate).into_iter().nth(era).unwrap();
        let waiting = tokio::spawn({
            let request = builder.body(http_body_util::Full::new(body.into())).unwrap();
            let addr = gate.addr;
            async move { crate::support::process::send_to(addr, request).await }
        });
        fake.received(1).await;
        waiting.abort();
        soon("the end of the upstream's request", ended.recv()).await.unwrap();
        let records = gate.recorded(1).await;
        assert_eq!(ending(&records[0]), ("client_closed", None, None, None));
        assert_eq!(records[0]["attempts"], 1);
        assert_eq!(gate.stop().await.len(), 1);
        assert_eq!(fake.count(), 1, "a cancel was invented");
    }
}

#[tokio::test]
async fn in_mid_stream() {
    for era in [0, 1] {
        let (senders, mut streams) = mpsc::unbounded_channel();
        let speaks = [Speaks::Legacy, Speaks::Modern][era];
        let fake = Fake::speaking(speaks, move |_| {
            let senders = senders.clone();
            async move {
                let (sender, body) = channel();
                sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
                senders.send(sender).unwrap();
                sse(body)
            }
        })
        .await;
        let gate = Gateway::before(&fake.url(), "").await;
        gate.knows("files").await;
        let (builder, body, _) = eras(&gate).into_iter().nth(era).unwrap();
        let mut answer = gate.open(builder, body).await;
        read_to(answer.body_mut(), "progress").await;
        assert!((gate.metric("smartgate_open_streams").await - 1.0).abs() < 0.1);
        let stream = streams.recv().await.unwrap();
        drop(answer);
        soon("the end of the upstream's stream", stream.closed()).await;
        let records = gate.recorded(1).await;
        assert_eq!(ending(&records[0]), ("client_closed", Some(200), None, None));
        assert!(records[0]["response_bytes"].as_u64().unwrap() > 10);
        assert!(gate.metric("smartgate_open_streams").await.abs() < 0.1);
        assert_eq!(gate.stop().await.len(), 1);
        assert_eq!(fake.count(), 1, "a cancel was invented");
    }
}

#[tokio::test]
async fn over_http2_by_resetting_one_stream_of_several() {
    let (senders, mut streams) = mpsc::unbounded_channel();
    let fake = Fake::start(move |_| {
        let senders = senders.clone();
        async move {
            let (sender, body) = channel();
            sender.send(event(r#"{"method":"notifications/progress"}"#)).await.unwrap();
            senders.send(sender).unwrap();
            sse(body)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let mut client = gate.http2().await;
    let mut open = async |id: u32| {
        let request = gate.request().uri(format!("http://{}/mcp", gate.addr));
        let request = request.body(http_body_util::Full::new(tool(id, "add", "{}").into())).unwrap();
        let mut answer = soon("an answer", client.send_request(request)).await.unwrap();
        read_to(answer.body_mut(), "progress").await;
        answer
    };
    let first = open(1).await;
    let first_stream = streams.recv().await.unwrap();
    let mut second = open(2).await;
    let second_stream = streams.recv().await.unwrap();
    drop(first);
    soon("the end of the first stream", first_stream.closed()).await;
    second_stream.send(event(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#)).await.unwrap();
    drop(second_stream);
    read_to(second.body_mut(), "result").await;
    assert!(next(second.body_mut()).await.is_none());
    let mut records = gate.recorded(2).await;
    records.sort_by_key(|r| r["request_id"].to_string());
    assert_eq!(ending(&records[0]), ("client_closed", Some(200), None, None));
    assert_eq!(ending(&records[1]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn a_get_stream_and_a_listen_stream_end_upstream_too() {
    let open = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&open);
    let fake = Fake::speaking(Speaks::Both, move |_| {
        let theirs = Arc::clone(&theirs);
        async move {
            let (sender, body) = channel();
            sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#)).await.unwrap();
            theirs.lock().unwrap().push(sender);
            sse(body)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.knows("files").await;
    let mut get = gate.open(gate.request().method("GET"), "").await;
    read_to(get.body_mut(), "notifications/x").await;
    let listen = request(1, "subscriptions/listen").replace("{}", &format!("{{{}}}", super::META));
    let mut listen = gate.open(modern(gate.request(), "subscriptions/listen", None), listen).await;
    read_to(listen.body_mut(), "notifications/x").await;
    let streams = open.lock().unwrap().clone();
    assert!((gate.metric("smartgate_open_streams").await - 2.0).abs() < 0.1);
    drop((get, listen));
    until("both streams end", || streams.iter().all(mpsc::Sender::is_closed)).await;
    let records = gate.recorded(2).await;
    assert!(records.iter().all(|r| ending(r) == ("client_closed", Some(200), None, None)), "{records:?}");
    gate.stop().await;
    assert_eq!(fake.count(), 2);
}

/// The Python SDK hangs up as soon as the stream has brought its response.
#[tokio::test]
async fn after_the_response_the_call_counts_as_answered() {
    for era in [0, 1] {
        let (senders, mut streams) = mpsc::unbounded_channel();
        let speaks = [Speaks::Legacy, Speaks::Modern][era];
        let fake = Fake::speaking(speaks, move |_| {
            let senders = senders.clone();
            async move {
                let (sender, body) = channel();
                sender.send(event(r#"{"jsonrpc":"2.0","id":1,"result":{"done":1}}"#)).await.unwrap();
                senders.send(sender).unwrap();
                sse(body)
            }
        })
        .await;
        let gate = Gateway::before(&fake.url(), "").await;
        gate.knows("files").await;
        let (builder, body, _) = eras(&gate).into_iter().nth(era).unwrap();
        let mut answer = gate.open(builder, body).await;
        read_to(answer.body_mut(), "done").await;
        let stream = streams.recv().await.unwrap();
        drop(answer);
        soon("the end of the upstream's stream", stream.closed()).await;
        let records = gate.recorded(1).await;
        assert_eq!(ending(&records[0]), ("ok", Some(200), None, None));
        assert!(records[0]["result"]["sha256"].is_string());
        assert_eq!(gate.stop().await.len(), 1);
    }
}

#[tokio::test]
async fn over_http2_while_the_body_is_sent() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let io = tokio::net::TcpStream::connect(gate.addr).await.unwrap();
    let (mut client, connection) = hyper::client::conn::http2::handshake(
        hyper_util::rt::TokioExecutor::new(),
        hyper_util::rt::TokioIo::new(io),
    )
    .await
    .unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let (sender, body) = channel();
    sender.send("{\"jsonrpc\"".into()).await.unwrap();
    let request = gate.request().uri(format!("http://{}/mcp", gate.addr)).body(body).unwrap();
    let call = tokio::spawn(client.send_request(request));
    gate.in_flight(1).await;
    // Dropping the call resets its stream.
    call.abort();
    drop(sender);
    let records = gate.recorded(1).await;
    assert_eq!(ending(&records[0]).0, "client_closed");
    assert_eq!(gate.stop().await.len(), 1);
    assert_eq!(fake.count(), 0);
}
