//! The HTTP upstream in good weather: what it sends, its pool, its protocols, its TLS.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use smartgate::{
    config::{Secret, UpstreamTls},
    server::tls::Acceptor,
    upstream::{Upstream, UpstreamError, http::HttpUpstream},
};

use super::{config, post, read, to};
use crate::support::{
    certs::Ca,
    gate::{Gate, Setup, answer},
    server::Server,
};

/// An upstream that answers every request with 200 and keeps what it was sent.
async fn recording() -> (Server, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&seen);
    let server = Server::start(move |mut raw, _| {
        let seen = Arc::clone(&copy);
        async move {
            loop {
                let head = raw.read_to("\r\n\r\n").await;
                seen.lock().unwrap().push(head);
                raw.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
            }
        }
    })
    .await;
    (server, seen)
}

#[tokio::test]
async fn sends_to_its_own_url_and_host_with_its_headers_and_nothing_of_ours() {
    let (server, seen) = recording().await;
    let mut config = config(&format!("http://{}/deep/mcp?tenant=1", server.addr));
    config.headers.insert("authorization".into(), Secret::new("Bearer ours"));
    let upstream = HttpUpstream::new(&config).unwrap();
    let call = Request::get("http://gate.example/mcp/files")
        .version(http::Version::HTTP_2)
        .header("host", "gate.example")
        .header("authorization", "Bearer theirs")
        .header("transfer-encoding", "chunked")
        .header("x-unknown", "kept")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(read(upstream.call(call).await.unwrap()).await.unwrap(), "{}");
    let head = seen.lock().unwrap()[0].clone();
    let (line, fields) = head.trim_end().split_once("\r\n").unwrap();
    assert_eq!(line, "GET /deep/mcp?tenant=1 HTTP/1.1");
    let mut fields: Vec<&str> = fields.split("\r\n").collect();
    fields.sort_unstable();
    let host = format!("host: {}", server.addr);
    assert_eq!(fields, ["authorization: Bearer ours", host.as_str(), "x-unknown: kept"]);
}

#[tokio::test]
async fn the_body_goes_with_its_own_length() {
    let seen = Arc::new(Mutex::new(String::new()));
    let copy = Arc::clone(&seen);
    let server = Server::start(move |mut raw, _| {
        let seen = Arc::clone(&copy);
        async move {
            let all = raw.read_to("body").await;
            *seen.lock().unwrap() = all;
            raw.send("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    let mut call = post("body");
    call.headers_mut().insert("content-length", "9999".parse().unwrap());
    let answer = to(&format!("http://{}/mcp", server.addr)).call(call).await.unwrap();
    assert_eq!(answer.status(), 202);
    assert!(seen.lock().unwrap().contains("content-length: 4\r\n"));
}

#[tokio::test]
async fn keeps_a_connection_for_the_next_call() {
    let (server, _) = recording().await;
    let upstream = to(&format!("http://{}/mcp", server.addr));
    for _ in 0..5 {
        read(upstream.call(post("")).await.unwrap()).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn status_and_headers_come_back_as_they_are() {
    let server = Server::start(|mut raw, _| async move {
        raw.read_to("\r\n\r\n").await;
        raw.send(
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer realm=\"a\"\r\nmcp-session-id: s\r\n\
             x: 1\r\nx: 2\r\ncontent-length: 3\r\n\r\n-no",
        )
        .await;
    })
    .await;
    let answer = to(&format!("http://{}/mcp", server.addr)).call(post("")).await.unwrap();
    assert_eq!(answer.status(), 401);
    assert_eq!(answer.headers()["www-authenticate"], "Bearer realm=\"a\"");
    assert_eq!(answer.headers()["mcp-session-id"], "s");
    assert_eq!(answer.headers().get_all("x").iter().count(), 2);
    assert_eq!(read(answer).await.unwrap(), "-no");
}

/// A gate under TLS whose handler names the protocol it was reached by.
fn https(ca: &Ca, clients: Option<&Ca>) -> (Gate, String) {
    let (acceptor, _) = Acceptor::load(&ca.listener(clients)).unwrap();
    let setup = Setup { tls: Some(acceptor), ..Setup::default() };
    let gate = Gate::with(setup, |req, _| async move { answer(format!("{:?}", req.version())) });
    let url = format!("https://localhost:{}/mcp", gate.addr.port());
    (gate, url)
}

fn over_tls(url: &str, tls: UpstreamTls) -> HttpUpstream {
    let mut config = config(url);
    config.tls = tls;
    HttpUpstream::new(&config).unwrap()
}

#[tokio::test]
async fn speaks_http2_to_an_upstream_that_offers_it() {
    let ca = Ca::new("private");
    let (_gate, url) = https(&ca, None);
    let upstream = over_tls(&url, ca.upstream(None));
    assert_eq!(read(upstream.call(post("")).await.unwrap()).await.unwrap(), "HTTP/2.0");
}

#[tokio::test]
async fn an_upstream_of_an_unknown_ca_is_no_connection() {
    let ca = Ca::new("private");
    let (_gate, url) = https(&ca, None);
    let refused = over_tls(&url, UpstreamTls::default()).call(post("")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Connect(_)), "{refused}");
    assert!(refused.to_string().to_lowercase().contains("certificate"), "says why: {refused}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_no_connection() {
    let ca = Ca::new("private");
    let (gate, _) = https(&ca, None);
    let url = format!("https://[::ffff:127.0.0.1]:{}/mcp", gate.addr.port());
    let refused = over_tls(&url, ca.upstream(None)).call(post("")).await.unwrap_err();
    assert!(matches!(refused, UpstreamError::Connect(_)), "{refused}");
}

#[tokio::test]
async fn shows_its_client_certificate() {
    let (ca, clients) = (Ca::new("private"), Ca::new("clients"));
    let (_gate, url) = https(&ca, Some(&clients));
    let upstream = over_tls(&url, ca.upstream(Some(&clients)));
    assert_eq!(upstream.call(post("")).await.unwrap().status(), 200);
    assert!(over_tls(&url, ca.upstream(None)).call(post("")).await.is_err());
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_in_time_is_no_connection() {
    let ca = Ca::new("private");
    let mute = Server::start(|mut raw, _| async move { drop(raw.rest().await) }).await;
    let mut config = config(&format!("https://localhost:{}/mcp", mute.addr.port()));
    config.tls = ca.upstream(None);
    config.connect_timeout = Duration::from_millis(100);
    let refused = HttpUpstream::new(&config).unwrap().call(post("")).await.unwrap_err();
    assert!(matches!(&refused, UpstreamError::Connect(_)), "{refused}");
    assert!(refused.to_string().contains("100ms"), "{refused}");
}

#[test]
fn unusable_settings_are_named() {
    let mut headers = config("http://localhost/mcp");
    headers.headers.insert("x-key".into(), Secret::new("line\nbreak"));
    let mut files = config("https://localhost/mcp");
    files.tls = UpstreamTls { ca: Some("/nowhere/ca.crt".into()), ..UpstreamTls::default() };
    let mut half = config("https://localhost/mcp");
    half.tls = UpstreamTls { cert: Some("/nowhere/a.crt".into()), ..UpstreamTls::default() };
    for (config, word) in [(headers, "x-key"), (files, "/nowhere/ca.crt"), (half, "both")] {
        let error = HttpUpstream::new(&config).err().unwrap();
        assert!(error.contains(word), "{error}");
        assert!(!error.contains("break"), "shows the secret: {error}");
    }
}
