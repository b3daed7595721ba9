//! TLS of the listener: protocols, client certificates, reload.

use std::{fs, sync::Arc, time::Duration};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use smartgate::{
    config::ServerTls,
    server::{Refused, tls::Acceptor},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::{
    certs::{Ca, swap},
    gate::{Gate, Setup, answer, echo},
    raw::Raw,
    soon, until,
};

fn gate(files: &ServerTls) -> Gate {
    let (acceptor, _) = Acceptor::load(files).unwrap();
    Gate::with(Setup { tls: Some(acceptor), ..Setup::default() }, echo)
}

async fn dial(gate: &Gate, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(gate.addr).await?;
    TlsConnector::from(config).connect(ServerName::try_from("localhost").unwrap(), tcp).await
}

#[tokio::test]
async fn serves_http1_under_tls() {
    let ca = Ca::new("ca");
    let gate = gate(&ca.listener(None));
    let mut client = Raw::over(dial(&gate, ca.client(None, &[])).await.unwrap());
    client.send("GET /x HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.body, b"GET /x ");
}

#[tokio::test]
async fn the_handler_is_told_that_the_connection_is_under_tls() {
    let ca = Ca::new("ca");
    let (acceptor, _) = Acceptor::load(&ca.listener(None)).unwrap();
    let setup = Setup { tls: Some(acceptor), ..Setup::default() };
    let gate = Gate::with(setup, |_, peer| async move { answer(peer.tls.to_string()) });
    let mut client = Raw::over(dial(&gate, ca.client(None, &[])).await.unwrap());
    client.send("GET /x HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.body, b"true");
}

#[tokio::test]
async fn negotiates_the_protocol_that_the_client_offers_first_of_ours() {
    let ca = Ca::new("ca");
    let gate = gate(&ca.listener(None));
    for (offered, chosen) in
        [(&["h2", "http/1.1"][..], Some(&b"h2"[..])), (&["http/1.1"], Some(b"http/1.1")), (&[], None)]
    {
        let stream = dial(&gate, ca.client(None, offered)).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), chosen);
    }
}

#[tokio::test]
async fn serves_http2_under_tls() {
    let ca = Ca::new("ca");
    let gate = gate(&ca.listener(None));
    let io = dial(&gate, ca.client(None, &["h2"])).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(io);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut client, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let call = http::Request::get("https://localhost/x").body(http_body_util::Empty::<bytes::Bytes>::new());
    assert_eq!(client.send_request(call.unwrap()).await.unwrap().status(), 200);
}

/// Whether a client with `config` gets an answer. In TLS 1.3 the client learns of a refused certificate
/// only when it reads.
async fn is_served(gate: &Gate, config: Arc<ClientConfig>) -> bool {
    let Ok(stream) = dial(gate, config).await else { return false };
    let mut client = Raw::over(stream);
    if client.try_send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.is_err() {
        return false;
    }
    client.rest().await.starts_with("HTTP/1.1 200")
}

#[tokio::test]
async fn asks_for_a_client_certificate_where_a_ca_is_set() {
    let (ca, clients, strangers) = (Ca::new("ca"), Ca::new("clients"), Ca::new("strangers"));
    let gate = gate(&ca.listener(Some(&clients)));
    assert!(is_served(&gate, ca.client(Some(&clients), &[])).await);
    assert!(!is_served(&gate, ca.client(None, &[])).await);
    assert!(!is_served(&gate, ca.client(Some(&strangers), &[])).await);
    until("counted", || gate.refused() == [Refused::Tls, Refused::Tls]).await;
}

#[tokio::test]
async fn what_is_not_tls_is_refused_and_counted() {
    let ca = Ca::new("ca");
    let gate = gate(&ca.listener(None));
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(!client.rest().await.contains("HTTP"));
    until("counted", || gate.refused() == [Refused::Tls]).await;
}

#[tokio::test]
async fn a_handshake_that_does_not_come_delays_nobody_and_is_cut() {
    let ca = Ca::new("ca");
    let (acceptor, _) = Acceptor::load(&ca.listener(None)).unwrap();
    let setup = Setup { tls: Some(acceptor), header_timeout: Duration::from_millis(500) };
    let gate = Gate::with(setup, echo);
    let mut mute = Raw::connect(gate.addr).await;
    assert!(is_served(&gate, ca.client(None, &[])).await);
    assert_eq!(mute.rest().await, "");
    assert_eq!(gate.refused(), [Refused::Tls]);
}

#[tokio::test]
async fn follows_a_symlink_swap_and_keeps_the_old_pair_when_the_new_is_broken() {
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let root = tempfile::tempdir().unwrap();
    let (cert, key) = first.issue("one");
    swap(root.path(), "v1", &[("tls.crt", &cert), ("tls.key", &key)]);
    let file = |name: &str| root.path().join("..data").join(name);
    let files = ServerTls { cert: file("tls.crt"), key: file("tls.key"), client_ca: None };
    let (acceptor, mut reloader) = Acceptor::load(&files).unwrap();
    let gate = Gate::with(Setup { tls: Some(acceptor), ..Setup::default() }, echo);
    let mut open = Raw::over(dial(&gate, first.client(None, &[])).await.unwrap());
    assert!(!reloader.look(), "nothing changed");

    let (cert, key) = second.issue("two");
    swap(root.path(), "v2", &[("tls.crt", &cert), ("tls.key", &key)]);
    assert!(reloader.look());
    assert!(is_served(&gate, second.client(None, &[])).await);
    assert!(!is_served(&gate, first.client(None, &[])).await);

    let (other, _) = second.issue("three");
    for (version, cert, key) in
        [("v3", other.as_str(), key.as_str()), ("v4", "nonsense", &key), ("v5", &cert, "")]
    {
        swap(root.path(), version, &[("tls.crt", cert), ("tls.key", key)]);
        assert!(!reloader.look(), "{version}");
        assert!(is_served(&gate, second.client(None, &[])).await, "{version}");
    }
    fs::remove_file(root.path().join("..data")).unwrap();
    assert!(!reloader.look());
    assert!(is_served(&gate, second.client(None, &[])).await);

    open.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(open.answer().await.status, 200, "connections outlive the certificate they began with");
}

#[tokio::test]
async fn the_running_reloader_sees_a_change() {
    let (first, second) = (Ca::new("first"), Ca::new("second"));
    let files = first.listener(None);
    let (acceptor, reloader) = Acceptor::load(&files).unwrap();
    let gate = Gate::with(Setup { tls: Some(acceptor), ..Setup::default() }, echo);
    tokio::spawn(reloader.run());
    let (cert, key) = second.issue("two");
    fs::write(&files.key, key).unwrap();
    fs::write(&files.cert, cert).unwrap();
    soon("the new certificate", async {
        while !is_served(&gate, second.client(None, &[])).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[test]
fn says_which_file_is_at_fault_and_shows_none_of_it() {
    let ca = Ca::new("ca");
    let good = ca.listener(None);
    fs::write(ca.path("bad.key"), "-----BEGIN PRIVATE KEY-----\nSECRETSECRET\n-----END PRIVATE KEY-----")
        .unwrap();
    let missing = ServerTls { cert: ca.path("no.crt"), ..good.clone() };
    let broken = ServerTls { key: ca.path("bad.key"), ..good.clone() };
    let swapped = ServerTls { cert: good.key.clone(), ..good };
    for (files, name) in [(missing, "no.crt"), (broken, "bad.key"), (swapped, "server.key")] {
        let error = Acceptor::load(&files).err().unwrap();
        assert!(error.contains(name), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }
}
