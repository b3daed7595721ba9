//! Time and size limits on connections and heads.

use std::time::{Duration, Instant};

use smartgate::server::Refused;
use tokio::io::AsyncWriteExt;

use crate::support::{
    gate::{Gate, Setup, answer, echo},
    raw::Raw,
    until,
};

const SHORT: Duration = Duration::from_millis(200);

fn hasty() -> Setup {
    Setup { header_timeout: SHORT, ..Setup::default() }
}

#[tokio::test]
async fn a_client_that_says_nothing_is_cut() {
    let gate = Gate::with(hasty(), echo);
    let mut client = Raw::connect(gate.addr).await;
    assert_eq!(client.rest().await, "");
    assert_eq!(gate.refused(), [Refused::Timeout]);
}

#[tokio::test]
async fn a_head_sent_drop_by_drop_is_cut() {
    let gate = Gate::with(hasty(), echo);
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n").await;
    let (mut read, mut write) = tokio::io::split(client.io);
    let dripping = tokio::spawn(async move {
        while write.write_all(b"a: b\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut rest = Vec::new();
    // A reset counts as an end too.
    drop(crate::support::soon("cut", tokio::io::AsyncReadExt::read_to_end(&mut read, &mut rest)).await);
    assert!(rest.is_empty());
    crate::support::soon("the client notices", dripping).await.unwrap();
    until("counted", || gate.refused() == [Refused::Timeout]).await;
}

#[tokio::test]
async fn half_a_head_after_a_whole_request_is_cut() {
    let gate = Gate::with(hasty(), echo);
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\nGET / HT").await;
    assert_eq!(client.answer().await.status, 200);
    assert!(!client.rest().await.contains("200"));
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_not_counted_as_refused() {
    let gate = Gate::with(hasty(), echo);
    let mut client = Raw::connect(gate.addr).await;
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 200);
    }
    let idle = Instant::now();
    assert_eq!(client.rest().await, "");
    assert!(idle.elapsed() > SHORT / 2, "closed too early");
    assert_eq!(gate.refused(), []);
}

#[tokio::test]
async fn a_call_may_take_longer_than_the_idle_limit() {
    let gate = Gate::with(hasty(), |_, _| async {
        tokio::time::sleep(SHORT * 4).await;
        answer("late")
    });
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.body, b"late");
}

#[tokio::test]
async fn a_slow_reader_gets_all_of_its_answer() {
    let gate = Gate::with(hasty(), |_, _| async { answer(vec![b'x'; 16 << 20]) });
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    client.read_to("\r\n\r\n").await;
    for _ in 0..16 {
        client.read_exact(1 << 20).await;
        tokio::time::sleep(SHORT / 2).await;
    }
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn ten_thousand_header_fields_are_refused() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    let fields: String = (0..10_000).map(|i| format!("x-{i}: y\r\n")).collect();
    // The listener may stop reading before all is sent.
    drop(client.try_send(format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n")).await);
    until("counted", || gate.refused() == [Refused::TooLarge]).await;
    well(&gate).await;
}

#[tokio::test]
async fn a_header_field_of_a_megabyte_is_refused() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    let value = "v".repeat(1 << 20);
    drop(client.try_send(format!("GET / HTTP/1.1\r\nhost: x\r\nx: {value}\r\n\r\n")).await);
    until("counted", || gate.refused() == [Refused::TooLarge]).await;
    well(&gate).await;
}

#[tokio::test]
async fn a_refused_head_is_answered_with_431_where_the_client_still_reads() {
    let gate = Gate::start(echo);
    let mut client = Raw::connect(gate.addr).await;
    let fields: String = (0..200).map(|i| format!("x-{i}: y\r\n")).collect();
    client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n")).await;
    assert_eq!(client.answer().await.status, 431);
    assert_eq!(client.rest().await, "");
}

async fn well(gate: &Gate) {
    let mut client = Raw::connect(gate.addr).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
}
