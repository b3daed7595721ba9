//! Two thousand calls at once, over HTTP/1.1 and HTTP/2: each is answered with its own id and recorded once.

use std::{collections::BTreeMap, sync::Arc};

use http_body_util::{BodyExt, Full};

use super::tool;
use crate::support::{
    fake::{Fake, mcp},
    process::{Gateway, send_to, whole},
    soon,
};

/// Calls over each of the two protocols.
const HALF: usize = 1_000;
/// HTTP/2 connections that the second half shares.
const CONNECTIONS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_answered_and_recorded_once() {
    let gathered = Arc::new(tokio::sync::Semaphore::new(0));
    let theirs = Arc::clone(&gathered);
    let fake = Fake::start(move |seen| {
        let theirs = Arc::clone(&theirs);
        async move {
            // Nobody is answered before all have arrived: they are in flight together.
            let _all = theirs.acquire().await.unwrap();
            mcp(&seen)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "limits.concurrency = 5000").await;
    let mut calls = tokio::task::JoinSet::new();
    for id in 0..HALF {
        let request = gate.request().body(Full::new(tool(id, "add", "{}").into())).unwrap();
        let addr = gate.addr;
        calls.spawn(async move { (id, whole(send_to(addr, request).await).await.json()) });
    }
    for connection in 0..CONNECTIONS {
        let client = gate.http2().await;
        for n in 0..HALF / CONNECTIONS {
            let id = HALF + connection * (HALF / CONNECTIONS) + n;
            let request = gate.request().uri(format!("http://{}/mcp", gate.addr));
            let request = request.body(Full::new(tool(id, "add", "{}").into())).unwrap();
            let mut client = client.clone();
            calls.spawn(async move {
                let answer = soon("an answer", client.send_request(request)).await.unwrap();
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                (id, serde_json::from_slice(&body).unwrap())
            });
        }
    }
    fake.received(2 * HALF).await;
    gathered.add_permits(2 * HALF);
    while let Some(call) = calls.join_next().await {
        let (id, answer) = call.unwrap();
        assert_eq!(answer["id"], id);
        assert!(answer["result"].is_object());
    }
    let mut recorded = BTreeMap::new();
    for record in gate.stop().await {
        assert_eq!(record["outcome"], "ok");
        *recorded.entry(record["request_id"].as_str().unwrap().parse::<usize>().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(recorded.len(), 2 * HALF);
    assert!(recorded.values().all(|n| *n == 1));
    assert_eq!(fake.count(), 2 * HALF);
}
