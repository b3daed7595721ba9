//! HTTP/2 with prior knowledge: many calls on one connection, resets, and floods.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::support::{
    gate::{Gate, Setup, answer, echo},
    soon, until,
};

pub(super) async fn connect(addr: std::net::SocketAddr) -> SendRequest<Full<Bytes>> {
    let io = TcpStream::connect(addr).await.unwrap();
    let (send, connection) = handshake(TokioExecutor::new(), TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    send
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://gate{path}")).body(Full::default()).unwrap()
}

#[tokio::test]
async fn serves_many_calls_at_once_on_one_connection() {
    let gate = Gate::start(|req, peer| async move {
        assert_eq!(req.version(), Version::HTTP_2);
        echo(req, peer).await
    });
    let client = connect(gate.addr).await;
    let calls: Vec<_> = (0..50)
        .map(|i| {
            let mut client = client.clone();
            tokio::spawn(async move { client.send_request(get(&format!("/{i}"))).await.unwrap() })
        })
        .collect();
    for (i, call) in calls.into_iter().enumerate() {
        let body = soon("answer", call).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), format!("GET /{i} "));
    }
}

#[tokio::test]
async fn a_reset_stream_drops_its_call_and_no_other() {
    let running = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&running);
    let gate = Gate::start(move |req, _| {
        let count = Arc::clone(&count);
        async move {
            if req.uri().path() == "/wait" {
                count.fetch_add(1, Ordering::SeqCst);
                let _leave = Leave(count);
                std::future::pending::<()>().await;
            }
            answer("well")
        }
    });
    let mut client = connect(gate.addr).await;
    let waiting = tokio::spawn(client.send_request(get("/wait")));
    until("the call runs", || running.load(Ordering::SeqCst) == 1).await;
    waiting.abort();
    until("the call is dropped", || running.load(Ordering::SeqCst) == 0).await;
    assert_eq!(soon("answer", client.send_request(get("/"))).await.unwrap().status(), 200);
}

struct Leave(Arc<AtomicUsize>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_flood_of_resets_ends_in_the_end_of_its_connection() {
    let gate = Gate::start(|_, _| async {
        std::future::pending::<()>().await;
        answer("never")
    });
    let mut client = connect(gate.addr).await;
    let mut sent = 0;
    for _ in 0..100_000 {
        if client.ready().await.is_err() {
            break;
        }
        let call = client.send_request(get("/"));
        // Polled once, so that its head is sent, then reset by dropping it.
        tokio::select! {
            biased;
            _ = call => {}
            () = tokio::task::yield_now() => {}
        }
        sent += 1;
    }
    assert!(sent < 100_000, "nobody stopped the flood");
    let mut other = connect(gate.addr).await;
    let call = other.send_request(get("/"));
    tokio::select! {
        refused = call => panic!("the listener suffers: {refused:?}"),
        () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let setup = Setup { header_timeout: std::time::Duration::from_millis(100), ..Setup::default() };
    let gate = Gate::with(setup, echo);
    let mut client = connect(gate.addr).await;
    assert_eq!(client.send_request(get("/")).await.unwrap().status(), 200);
    soon("close", async {
        while !client.is_closed() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}
