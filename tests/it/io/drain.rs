//! The two stages of the end.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use smartgate::{server::Drain, upstream::BodyError};
use tokio::{net::TcpStream, sync::Notify};

use crate::support::{
    gate::{Gate, answer, echo},
    raw::Raw,
    soon, until,
};

const GET: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn stops_accepting_and_closes_idle_connections_at_once() {
    let gate = Gate::start(echo);
    let (mut used, mut fresh) = (Raw::connect(gate.addr).await, Raw::connect(gate.addr).await);
    used.send(GET).await;
    assert_eq!(used.answer().await.status, 200);
    let mut h2 = super::http2::connect(gate.addr).await;
    h2.ready().await.unwrap();
    gate.drain.graceful.cancel();
    soon("the end", gate.served).await.unwrap();
    assert_eq!((used.rest().await, fresh.rest().await), (String::new(), String::new()));
    until("http/2 closes", || h2.is_closed()).await;
    assert!(TcpStream::connect(gate.addr).await.is_err());
}

#[tokio::test]
async fn a_call_in_flight_ends_in_peace_and_its_connection_with_it() {
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (a, b) = (Arc::clone(&started), Arc::clone(&finish));
    let gate = Gate::start(move |_, _| {
        let (started, finish) = (Arc::clone(&a), Arc::clone(&b));
        async move {
            started.notify_one();
            finish.notified().await;
            answer("done")
        }
    });
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    soon("start", started.notified()).await;
    gate.drain.graceful.cancel();
    until("the listener is closed", || std::net::TcpStream::connect(gate.addr).is_err()).await;
    finish.notify_one();
    let answer = client.answer().await;
    assert_eq!(answer.body, b"done");
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
    assert_eq!(client.rest().await, "");
    soon("the end", gate.served).await.unwrap();
}

#[tokio::test]
async fn a_handler_that_watches_the_force_token_still_gets_its_last_words_out() {
    let drain = Arc::new(std::sync::OnceLock::<Drain>::new());
    let theirs = Arc::clone(&drain);
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let gate = Gate::start(move |_, _| {
        let (drain, count) = (Arc::clone(&theirs), Arc::clone(&count));
        async move {
            count.fetch_add(1, Ordering::SeqCst);
            drain.wait().force.cancelled().await;
            answer("drained")
        }
    });
    drain.set(gate.drain.clone()).unwrap();
    let mut client = Raw::connect(gate.addr).await;
    client.send(GET).await;
    until("the call runs", || running.load(Ordering::SeqCst) == 1).await;
    soon("drain", gate.drain.run(Duration::ZERO, std::future::pending())).await;
    assert_eq!(client.answer().await.body, b"drained");
    soon("the end", gate.served).await.unwrap();
}

/// Counts itself while it exists.
struct Here(Arc<AtomicUsize>);

impl Here {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn force_reaches_a_handler_that_hangs_and_a_reader_that_stopped_reading_in_both_protocols() {
    let here = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&here);
    let gate = Gate::start(move |req, _| {
        let here = Here::new(&count);
        async move {
            if req.uri().path() == "/hang" {
                std::future::pending::<()>().await;
            }
            http::Response::new(Endless(here).boxed_unsync())
        }
    });
    let mut clients = Vec::new();
    for path in ["/hang", "/endless"] {
        let mut client = Raw::connect(gate.addr).await;
        client.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        clients.push(client);
    }
    let mut h2 = super::http2::connect(gate.addr).await;
    let mut calls = Vec::new();
    for path in ["/hang", "/endless"] {
        let call = http::Request::get(format!("http://x{path}")).body(Default::default()).unwrap();
        calls.push(tokio::spawn(h2.send_request(call)));
    }
    until("all run", || here.load(Ordering::SeqCst) == 4).await;
    soon("drain", gate.drain.run(Duration::ZERO, std::future::pending())).await;
    soon("the end", gate.served).await.unwrap();
    assert_eq!(here.load(Ordering::SeqCst), 0, "something outlived the listener");
}

/// A body that never ends and is always ready.
struct Endless(#[expect(dead_code, reason = "held for its drop")] Here);

impl Body for Endless {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 64 * 1024])))))
    }
}
