//! HTTP/1.1: keep-alive, pipelining, and that a fault stays on its own connection.

use crate::support::{
    gate::{Gate, answer, echo},
    raw::Raw,
};

const POST: &str = "POST /mcp HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn keeps_a_connection_for_the_next_request() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    for _ in 0..3 {
        client.send(POST).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"POST /mcp hello".as_slice()));
    }
}

#[tokio::test]
async fn answers_pipelined_requests_in_order() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    let requests: String = (0..20).map(|i| format!("GET /{i} HTTP/1.1\r\nhost: x\r\n\r\n")).collect();
    client.send(requests).await;
    for i in 0..20 {
        assert_eq!(client.answer().await.body, format!("GET /{i} ").into_bytes());
    }
}

#[tokio::test]
async fn reads_a_chunked_body_sent_byte_by_byte() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    let request =
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
    for byte in request.bytes() {
        client.send([byte]).await;
    }
    assert_eq!(client.answer().await.body, b"POST / abcd");
}

#[tokio::test]
async fn closes_after_a_request_that_asks_for_it() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn tells_a_method_that_begins_like_the_http2_preface_from_it() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    for part in ["P", "R", "OPFIND / HTTP/1.1\r\nhost: x\r\n\r\n"] {
        client.send(part).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.answer().await.body, b"PROPFIND / ");
}

#[tokio::test]
async fn a_panicking_handler_costs_only_its_own_connection() {
    let gate = Gate::start(|req, _| async move {
        assert_ne!(req.uri().path(), "/panic", "as the test wants");
        answer("well")
    });
    let mut other = Raw::connect(gate.addr).await;
    other.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(other.answer().await.status, 200);
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET /panic HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.rest().await, "");
    other.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(other.answer().await.body, b"well");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_before_anything_runs() {
    let gate = Gate::start(echo);
    let refused = smartgate::server::bind(gate.addr).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::AddrInUse);
}
