//! Requests that two parsers could read differently: the upstream sees one request or none, and never
//! the one that was hidden.

use std::sync::{Arc, Mutex};

use smartgate::server::Refused;
use tokio::io::AsyncReadExt;

use super::{forward, to};
use crate::support::{gate::Gate, raw::Raw, server::Server};

/// What a hidden request would ask for.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";

/// Sends `bytes` through a gate; returns what the client got to the end, what arrived at the upstream,
/// and what the gate counted.
async fn through(bytes: String) -> (String, String, Vec<Refused>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    let server = Server::start(move |mut raw, _| {
        let seen = Arc::clone(&copy);
        async move {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = raw.io.read(&mut buffer).await {
                seen.lock().unwrap().extend_from_slice(&buffer[..n]);
                // One answer for each request line that it can see.
                let starts = String::from_utf8_lossy(&buffer[..n]).matches(" HTTP/1.1\r\n").count();
                for _ in 0..starts {
                    raw.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
                }
            }
        }
    })
    .await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    let gate = Gate::start(move |req, peer| forward(Arc::clone(&upstream), req, peer));
    let mut client = Raw::connect(gate.addr).await;
    client.send(bytes).await;
    let answers = client.rest().await;
    let seen = String::from_utf8_lossy(&seen.lock().unwrap()).into_owned();
    (answers, seen, gate.refused())
}

/// The shape is refused outright.
async fn refused(head: &str, body: &str) {
    let (answers, seen, refused) = through(format!("{head}{body}{HIDDEN}")).await;
    assert!(answers.starts_with("HTTP/1.1 400"), "{head:?}: {answers}");
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{head:?}: {answers}");
    assert_eq!(seen, "", "{head:?} reached the upstream");
    assert_eq!(refused, [Refused::Malformed], "{head:?}");
}

#[tokio::test]
async fn different_content_lengths_are_refused() {
    refused("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\ncontent-length: 4\r\n\r\n", "abcd").await;
}

#[tokio::test]
async fn a_list_of_content_lengths_is_refused() {
    refused("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4, 4\r\n\r\n", "abcd").await;
}

#[tokio::test]
async fn a_content_length_that_is_no_number_is_refused() {
    for length in ["+4", "-1", "0x4", "4 4", "18446744073709551616", ""] {
        refused(&format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n"), "abcd").await;
    }
}

#[tokio::test]
async fn a_transfer_encoding_that_does_not_end_in_chunked_is_refused() {
    for coding in ["xchunked", "chunked, identity", "identity", "chunked;a", "\u{b}chunked"] {
        refused(&format!("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: {coding}\r\n\r\n"), "0\r\n\r\n")
            .await;
    }
}

#[tokio::test]
async fn a_transfer_encoding_in_http_1_0_is_refused() {
    refused("POST / HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_folded_field_is_refused() {
    refused("POST / HTTP/1.1\r\nhost: x\r\nx: a\r\n content-length: 4\r\n\r\n", "").await;
    refused("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding:\r\n chunked\r\n\r\n", "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_space_before_the_colon_is_refused() {
    refused("POST / HTTP/1.1\r\nhost: x\r\ncontent-length : 4\r\n\r\n", "abcd").await;
}

#[tokio::test]
async fn a_bare_carriage_return_or_nul_in_a_field_is_refused() {
    refused("POST / HTTP/1.1\r\nhost: x\r\nx: a\rb: c\r\n\r\n", "").await;
    refused("POST / HTTP/1.1\r\nhost: x\r\nx: a\0b\r\n\r\n", "").await;
}

#[tokio::test]
async fn of_length_and_chunked_the_chunks_count_and_nothing_follows() {
    let head = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n";
    let (answers, seen, _) = through(format!("{head}0\r\n\r\n{HIDDEN}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 1, "{answers}");
    assert_eq!(seen.matches("HTTP/1.1\r\n").count(), 1, "{seen}");
    assert!(!seen.contains("hidden") && !seen.contains("transfer-encoding"), "{seen}");
}

#[tokio::test]
async fn lines_that_end_in_a_bare_line_feed_leave_as_ordinary_ones() {
    let (answers, seen, _) =
        through("POST / HTTP/1.1\nhost: x\ncontent-length: 4\nconnection: close\n\nabcd".into()).await;
    assert!(answers.starts_with("HTTP/1.1 200"), "{answers}");
    assert!(seen.ends_with("\r\n\r\nabcd"), "{seen}");
    assert_eq!(seen.matches('\n').count(), seen.matches("\r\n").count(), "{seen}");
}

#[tokio::test]
async fn a_chunk_size_that_is_no_number_ends_the_call() {
    for size in ["g", "-1", "fffffffffffffffff", "1 1", "\n0"] {
        let head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        let (_, seen, _) = through(format!("{head}{size}\r\na\r\n0\r\n\r\n{HIDDEN}")).await;
        assert_eq!(seen, "", "{size:?}");
    }
}
