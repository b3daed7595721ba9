//! Upstreams that refuse, die, talk nonsense, or close idle connections at the wrong moment. A request of
//! which a byte was sent is never sent twice.

use crate::support::free::free;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use smartgate::upstream::{Upstream, UpstreamError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{post, read, to};
use crate::support::{server::Server, soon};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// The error of one call to an upstream that reads the request and then does `script`.
async fn failing(reply: &'static str) -> (UpstreamError, usize) {
    let server = Server::start(move |mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send(reply).await;
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let error = soon("the call", upstream.call(post(""))).await.unwrap_err();
    (error, server.connections())
}

#[tokio::test]
async fn a_closed_port_is_no_connection() {
    let refused = to(&format!("http://{}/mcp", free())).call(post("")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Connect(_)), "{refused}");
}

#[tokio::test]
async fn a_name_that_nobody_has_is_no_connection() {
    let refused = to("http://nobody.invalid/mcp").call(post("")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Connect(_)), "{refused}");
}

#[tokio::test]
async fn an_end_before_or_in_the_head_is_a_broken_call_sent_once() {
    for reply in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-le"] {
        let (error, connections) = failing(reply).await;
        assert!(matches!(error, UpstreamError::Protocol(_)), "{reply:?}: {error}");
        assert_eq!(connections, 1, "{reply:?} was sent again");
    }
}

#[tokio::test]
async fn what_is_not_http_is_a_broken_call() {
    let heads = [
        "SSH-2.0-OpenSSH_9.6\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        "\0\0\0\0\0\0\0\0\0\0\0\0",
    ];
    for head in heads {
        let (error, _) = failing(head).await;
        assert!(matches!(error, UpstreamError::Protocol(_)), "{head:?}: {error}");
    }
}

#[tokio::test]
async fn a_head_without_bound_is_a_broken_call() {
    let server = Server::start(|mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send("HTTP/1.1 200 OK\r\n").await;
        while raw.try_send("x: 0123456789012345678901234567890123456789\r\n").await.is_ok() {}
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let error = soon("the call", upstream.call(post(""))).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Protocol(_)), "{error}");
}

#[tokio::test]
async fn an_end_within_the_body_is_an_error_of_the_body() {
    let bodies = [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ];
    for body in bodies {
        let server = Server::start(move |mut raw, _| async move {
            raw.read_to("\r\n\r\n").await;
            raw.send(body).await;
        })
        .await;
        let answer = to(&format!("http://{}/mcp", server.addr)).call(post("")).await.unwrap();
        assert!(soon("the body", read(answer)).await.is_err(), "{body:?}");
    }
}

#[tokio::test]
async fn a_connection_that_the_upstream_closed_while_idle_is_not_used() {
    let server = Server::start(|mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send(OK).await;
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    for i in 1..=20 {
        assert_eq!(read(upstream.call(post("")).await.unwrap()).await.unwrap(), "{}");
        assert_eq!(server.connections(), i);
        // Until the end of the connection has been seen; a call before that may break, see below.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// However the closing of an idle connection and the next call meet, each call arrives at most once, and
/// one that fails is reported as sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_meets_the_closing_of_its_connection_arrives_at_most_once() {
    let arrived = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&arrived);
    let server = Server::start(move |mut raw, n| {
        let count = Arc::clone(&count);
        async move {
            raw.read_to("\r\n\r\n").await;
            count.fetch_add(1, Ordering::SeqCst);
            raw.send(OK).await;
            // Close idle at all kinds of moments.
            tokio::time::sleep(Duration::from_micros((n as u64 % 40) * 25)).await;
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let (mut answered, mut broken) = (0, 0);
    for i in 0..400 {
        match upstream.call(post("")).await {
            Ok(answer) => {
                read(answer).await.unwrap();
                answered += 1;
            }
            Err(UpstreamError::Protocol(_)) => broken += 1,
            Err(other) => panic!("{other}"),
        }
        tokio::time::sleep(Duration::from_micros((i % 17) * 50)).await;
    }
    let arrived = arrived.load(Ordering::SeqCst);
    assert!(arrived <= answered + broken && arrived >= answered, "{arrived} {answered} {broken}");
    assert!(answered > 0, "no call came through");
}

#[tokio::test]
async fn a_call_that_a_reused_connection_began_to_read_is_not_sent_again() {
    let bodies = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&bodies);
    let server = Server::start(move |mut raw, _| {
        let count = Arc::clone(&count);
        async move {
            raw.read_to("\r\n\r\n").await;
            raw.send(OK).await;
            let mut byte = [0];
            if raw.io.read(&mut byte).await.is_ok_and(|n| n == 1) {
                count.fetch_add(1, Ordering::SeqCst);
                raw.io.shutdown().await.unwrap();
            }
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    read(upstream.call(post("")).await.unwrap()).await.unwrap();
    let body: Bytes = vec![b'x'; 4 << 20].into();
    let call = Request::post("http://client.example/").body(body).unwrap();
    let error = soon("the call", upstream.call(call)).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Protocol(_)), "{error}");
    assert_eq!((bodies.load(Ordering::SeqCst), server.connections()), (1, 1));
}

#[tokio::test]
async fn an_answer_before_the_body_is_read_is_still_an_answer() {
    let server = Server::start(|mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send("HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
        raw.rest().await;
    })
    .await;
    let call = Request::post("http://client.example/").body(vec![b'x'; 1 << 20].into()).unwrap();
    let answer = soon("the call", to(&format!("http://{}/mcp", server.addr)).call(call)).await.unwrap();
    assert_eq!(answer.status(), 413);
}

#[tokio::test]
async fn dropping_the_call_or_the_body_closes_the_connection_at_once() {
    let server = Server::start(|mut raw, n| async move {
        raw.read_to("\r\n\r\n").await;
        if n % 2 == 1 {
            raw.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n").await;
        }
        drop(raw.rest().await);
        ENDED.fetch_add(1, Ordering::SeqCst);
    })
    .await;
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let calling = Arc::clone(&upstream);
    let call = tokio::spawn(async move { drop(calling.call(post("")).await) });
    crate::support::until("the call is there", || server.connections() == 1).await;
    call.abort();
    crate::support::until("the connection ends", || ENDED.load(Ordering::SeqCst) == 1).await;
    let answer = upstream.call(post("")).await.unwrap();
    drop(answer);
    crate::support::until("the connection ends", || ENDED.load(Ordering::SeqCst) == 2).await;
}
