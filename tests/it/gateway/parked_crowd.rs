//! Ten thousand calls that wait for their clients: bounded for each principal and in all, and everybody else is served.
//!
//! By default a tenth of it runs; `SMARTGATE_FULL_TESTS=1` runs all, and shows the memory that each call takes.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use super::{
    ending, key, modern, modern_tool,
    parked::{ask, bridge_refused, gate_before, post},
};
use crate::support::{asking::Asking, process::Gateway, until};

/// Calls of one principal.
const EACH: usize = 1_000;
/// Clients at once.
const AT_ONCE: usize = 32;
const PARKED: &str = "smartgate_parked_calls{upstream=\"files\"}";

fn secret(principal: usize) -> String {
    format!("sg-the-key-of-number-{principal:02}-0123456789abcdef")
}

/// Parks `EACH` calls of this principal.
async fn fill(gate: &Arc<Gateway>, principal: usize) {
    let mut running = JoinSet::new();
    for worker in 0..AT_ONCE {
        let gate = Arc::clone(gate);
        running.spawn(async move {
            for n in (worker..EACH).step_by(AT_ONCE) {
                let answer = post(&gate, &secret(principal), ask(n, None)).await;
                assert_eq!(answer.json()["result"]["resultType"], "input_required", "{}", answer.text());
            }
        });
    }
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_are_bounded_and_nobody_else_waits() {
    let principals = if std::env::var_os("SMARTGATE_FULL_TESTS").is_some() { 10 } else { 1 };
    let asking = Asking::start().await;
    let keys = (0..=principals).map(|n| key(&format!("k{n}"), &secret(n), "")).collect::<String>();
    let gate = Arc::new(gate_before(&asking, &format!("limits.rate = \"none\"\n{keys}")).await);
    fill(&gate, 0).await;
    // The thousand and first of one principal is refused, and another principal's is not.
    let more = post(&gate, &secret(0), ask(EACH, None)).await;
    bridge_refused(&more, 503, "parked_exhausted");
    assert_eq!(gate.metric(PARKED).await as usize, EACH);
    until("the call that found no place is taken back", || asking.cancelled() == 1).await;
    let before = gate.resident();
    for principal in 1..principals {
        fill(&gate, principal).await;
    }
    let all = principals * EACH;
    assert_eq!((gate.metric(PARKED).await as usize, asking.open()), (all, all));
    let more = post(&gate, &secret(principals), ask(0, None)).await;
    if principals == 10 {
        let each = gate.resident().saturating_sub(before) / (all - EACH) as u64;
        println!("memory for each call that waits: {each} bytes");
        assert!(each < 256 * 1024, "{each}");
        bridge_refused(&more, 503, "parked_exhausted");
    } else {
        assert_eq!(more.json()["result"]["resultType"], "input_required", "{}", more.text());
    }
    // What asks nothing is served, to those who are full as well.
    for principal in [0, principals] {
        let request = modern(gate.request(), "tools/call", Some("add"));
        let request = request.header("authorization", format!("Bearer {}", secret(principal)));
        let answer = gate.call(request, modern_tool(1, "add", "{}")).await;
        assert_eq!(answer.json()["result"]["isError"], json!(false), "{}", answer.text());
    }
    let gate = Arc::into_inner(gate).unwrap();
    let records = gate.stop().await;
    let refused = ("rejected", Some(503), Some("parked_exhausted"), Some(503));
    let full = records.iter().filter(|r| ending(r) == refused).count();
    assert_eq!(full, if principals == 10 { 2 } else { 1 });
    until("the server's streams are closed", || asking.open() == 0).await;
}
