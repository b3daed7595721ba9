//! The admin listener.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use smartgate::server::{
    self, Drain,
    admin::{AdminState, Part, Readiness, serve_admin},
};

use crate::support::raw::{Answer, Raw};

struct State(Arc<AtomicBool>);

impl AdminState for State {
    fn readiness(&self) -> Readiness {
        let down = Part { state: "down", detail: Some("connection refused".into()) };
        Readiness {
            ready: self.0.load(Ordering::SeqCst),
            state: "serving",
            upstreams: BTreeMap::from([("files".to_owned(), down.into())]),
            collisions: Vec::new(),
            configuration: Part::ok(),
            journal: Part::ok(),
            exporter: Part { state: "off", detail: None },
            selftest: Part::ok(),
        }
    }

    async fn selftest(&self) -> Result<String, String> {
        if self.0.load(Ordering::SeqCst) { Ok("there".into()) } else { Err("lost".into()) }
    }

    fn metrics(&self) -> String {
        "up 1\n".into()
    }

    fn open_metrics(&self) -> String {
        "up 1\n# EOF\n".into()
    }
}

fn start() -> (SocketAddr, Arc<AtomicBool>) {
    let listener = server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let addr = listener.local_addr().unwrap();
    let ready = Arc::new(AtomicBool::new(true));
    tokio::spawn(serve_admin(listener, State(Arc::clone(&ready)), Drain::default()));
    (addr, ready)
}

async fn ask(addr: SocketAddr, line: &str) -> Answer {
    let mut client = Raw::connect(addr).await;
    client.send(format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    client.answer().await
}

#[tokio::test]
async fn is_healthy_while_alive() {
    let (addr, ready) = start();
    ready.store(false, Ordering::SeqCst);
    let answer = ask(addr, "GET /healthz").await;
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"ok".as_slice()));
}

#[tokio::test]
async fn readiness_decides_the_status_and_names_every_part() {
    let (addr, ready) = start();
    let answer = ask(addr, "GET /readyz").await;
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(json["upstreams"]["files"]["detail"], "connection refused");
    for part in ["configuration", "journal", "exporter"] {
        assert!(json[part]["state"].is_string(), "{part}");
    }
    ready.store(false, Ordering::SeqCst);
    assert_eq!(ask(addr, "GET /readyz").await.status, 503);
}

#[tokio::test]
async fn metrics_carry_the_content_type_of_their_format() {
    let (addr, _) = start();
    let answer = ask(addr, "GET /metrics?name=x").await;
    assert_eq!((answer.status, answer.body.as_slice()), (200, b"up 1\n".as_slice()));
    assert!(answer.head.contains("content-type: text/plain; version=0.0.4"));
}

#[tokio::test]
async fn head_has_the_length_and_no_body() {
    let (addr, _) = start();
    let mut client = Raw::connect(addr).await;
    client.send("HEAD /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    let answer = client.rest().await;
    assert!(answer.contains("content-length: 2\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_json() {
    let (addr, _) = start();
    for (line, status) in
        [("GET /", 404), ("GET /activity", 404), ("POST /nothing", 404), ("POST /healthz", 405)]
    {
        let answer = ask(addr, line).await;
        assert_eq!(answer.status, status, "{line}");
        assert!(serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()["error"].is_string());
    }
}

#[tokio::test]
async fn a_self_test_is_for_those_who_mean_it() {
    let (addr, ready) = start();
    let asked =
        "POST /api/selftest HTTP/1.1\r\nhost: x\r\nx-smartgate-selftest: 1\r\ncontent-length: 0\r\n\r\n";
    for (is_well, status, body) in [(true, 200, "there"), (false, 503, "lost")] {
        ready.store(is_well, Ordering::SeqCst);
        let mut client = Raw::connect(addr).await;
        client.send(asked).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.body.as_slice()), (status, body.as_bytes()));
    }
    for line in ["GET /api/selftest", "POST /api/selftest"] {
        assert_eq!(ask(addr, line).await.status, 403, "{line}");
    }
}
