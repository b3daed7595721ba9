//! Streams: event by event, for as long as they are open, and no longer.

use std::{sync::Arc, time::Duration};

use tokio::io::AsyncReadExt;

use super::{forward, to};
use crate::support::{
    gate::{Gate, Setup},
    raw::Raw,
    server::Server,
    soon,
};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const GET: &str = "GET /mcp HTTP/1.1\r\nhost: x\r\n\r\n";

fn chunk(event: &str) -> String {
    format!("{:x}\r\n{event}\r\n", event.len())
}

#[tokio::test]
async fn an_event_arrives_before_the_next_is_sent() {
    let (go, went) = tokio::sync::mpsc::channel::<()>(1);
    let went = Arc::new(tokio::sync::Mutex::new(went));
    let server = Server::start(move |mut raw, _| {
        let went = Arc::clone(&went);
        async move {
            raw.read_to("\r\n\r\n").await;
            raw.send(HEAD).await;
            for i in 0..5 {
                raw.send(chunk(&format!("data: {i}\n\n"))).await;
                went.lock().await.recv().await;
            }
            raw.send("0\r\n\r\n").await;
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let gate = Gate::start(move |req, peer| forward(Arc::clone(&upstream), req, peer));
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    for i in 0..5 {
        client.read_to(&format!("data: {i}\n\n")).await;
        go.send(()).await.unwrap();
    }
    client.read_to("0\r\n\r\n").await;
}

#[tokio::test]
async fn an_open_stream_outlives_the_idle_limit_and_the_connection_then_idles_out() {
    let server = Server::start(|mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send(HEAD).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        raw.send(chunk("data: late\n\n")).await;
        raw.send("0\r\n\r\n").await;
        raw.rest().await;
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let setup = Setup { header_timeout: Duration::from_millis(100), ..Setup::default() };
    let gate = Gate::with(setup, move |req, peer| forward(Arc::clone(&upstream), req, peer));
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    client.read_to("data: late\n\n").await;
    client.read_to("0\r\n\r\n").await;
    assert_eq!(client.rest().await, "");
}

/// Starts a stream, lets `leave` decide how the client goes, and waits for the upstream's connection to end.
async fn leaving_ends_the_upstream<F>(send_head: bool, leave: F)
where
    F: AsyncFnOnce(Raw),
{
    let (told, ended) = tokio::sync::oneshot::channel::<()>();
    let told = std::sync::Mutex::new(Some(told));
    let server = Server::start(move |mut raw, _| {
        let told = told.lock().unwrap().take().unwrap();
        async move {
            raw.read_to("\r\n\r\n").await;
            if send_head {
                raw.send(HEAD).await;
                raw.send(chunk("data: 0\n\n")).await;
            }
            let mut byte = [0];
            // End of stream or reset: both are the end.
            drop(raw.io.read(&mut byte).await);
            told.send(()).unwrap();
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let gate = Gate::start(move |req, peer| forward(Arc::clone(&upstream), req, peer));
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    if send_head {
        client.read_to("data: 0\n\n").await;
    } else {
        crate::support::until("the call is at the upstream", || server.connections() == 1).await;
    }
    leave(client).await;
    soon("the upstream's connection ends", ended).await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_its_stream_ends_it_upstream() {
    leaving_ends_the_upstream(true, async |client| drop(client)).await;
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_ends_the_call_upstream() {
    leaving_ends_the_upstream(false, async |client| drop(client)).await;
}

#[tokio::test]
async fn a_client_that_resets_ends_its_stream_upstream() {
    leaving_ends_the_upstream(true, async |client| {
        client.io.set_zero_linger().unwrap();
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_end_is_read_no_faster_than_the_client_takes_it() {
    let sent = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = Server::start(move |mut raw, _| {
        let count = Arc::clone(&count);
        async move {
            raw.read_to("\r\n\r\n").await;
            raw.send(HEAD).await;
            let event = chunk(&"x".repeat(64 * 1024));
            while raw.try_send(&event).await.is_ok() {
                count.fetch_add(event.len(), std::sync::atomic::Ordering::SeqCst);
            }
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let gate = Gate::start(move |req, peer| forward(Arc::clone(&upstream), req, peer));
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    client.read_to("\r\n\r\n").await;
    // The kernel's buffers fill; then the upstream must stand still while the client does.
    let mut before = usize::MAX;
    soon("the upstream stands still", async {
        loop {
            let now = sent.load(std::sync::atomic::Ordering::SeqCst);
            if now == before {
                break;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    })
    .await;
    assert!(before < 64 << 20, "{before} bytes were buffered somewhere");
}
