//! Calls that wait for their client, and what goes wrong meanwhile: through the real gateway, in front of a legacy
//! server that asks in the middle of a call.

use serde_json::{Value, json};

use super::{KEY, ending, key, modern};
use crate::support::{
    asking::Asking,
    process::{Answer, Gateway},
    until,
};

const OTHER_KEY: &str = "sg-the-key-of-bob-0123456789abcdef";
const PARKED: &str = "smartgate_parked_calls{upstream=\"files\"}";

/// Two principals before the asking server.
pub(super) fn two_keys(config: &str) -> String {
    format!("limits.rate = \"none\"\n{config}\n{}{}", key("ada", KEY, ""), key("bob", OTHER_KEY, ""))
}

pub(super) async fn gate_before(asking: &Asking, config: &str) -> Gateway {
    let gate = Gateway::before(&asking.fake.url(), config).await;
    gate.knows("files").await;
    gate
}

/// A call of `ask`, which is told to differ by `n`; a retry has the state and the answers.
pub(super) fn ask(n: usize, retry: Option<(&str, &Value)>) -> String {
    let about = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}});
    let mut params = json!({"name": "ask", "arguments": {"n": n}, "_meta": about});
    if let Some((state, answers)) = retry {
        params["requestState"] = state.into();
        params["inputResponses"] = answers.clone();
    }
    json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).to_string()
}

pub(super) async fn post(gate: &Gateway, key: &str, body: String) -> Answer {
    let request = modern(gate.request(), "tools/call", Some("ask"));
    gate.call(request.header("authorization", format!("Bearer {key}")), body).await
}

/// Makes the call and gives the state that it was answered with.
pub(super) async fn parked(gate: &Gateway, key: &str, n: usize) -> String {
    let answer = post(gate, key, ask(n, None)).await;
    assert_eq!(answer.json()["result"]["resultType"], "input_required", "{}", answer.text());
    answer.json()["result"]["requestState"].as_str().unwrap().to_owned()
}

fn accept() -> Value {
    json!({"1": {"action": "accept", "content": {}}})
}

async fn retry(gate: &Gateway, key: &str, n: usize, state: &str) -> Answer {
    post(gate, key, ask(n, Some((state, &accept())))).await
}

#[track_caller]
fn no_such_state(answer: &Answer, says: &str) {
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (400, &json!(-32602)), "{}", answer.text());
    assert_eq!(answer.reason(), "invalid_params");
    assert_eq!(answer.json()["id"], 7);
    let text = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(text.contains(says), "{text:?} does not say {says:?}");
}

/// An error of the bridge's own.
#[track_caller]
pub(super) fn bridge_refused(answer: &Answer, status: u16, reason: &str) {
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (status, &json!(status)), "{}", answer.text());
    assert_eq!((answer.reason().as_str(), &answer.json()["id"]), (reason, &json!(7)));
    assert!(error["message"].as_str().is_some_and(|m| m.len() > 10), "{}", answer.text());
    assert_eq!(error["data"]["trace_id"].as_str().map(str::len), Some(32), "{}", answer.text());
}

#[tokio::test]
async fn the_retry_goes_on_with_the_same_call() {
    let asking = Asking::start().await;
    let gate = gate_before(&asking, &two_keys("")).await;
    let state = parked(&gate, KEY, 1).await;
    assert_eq!((gate.metric(PARKED).await as u64, asking.open()), (1, 1));
    let answer = retry(&gate, KEY, 1, &state).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "accept", "{}", answer.text());
    assert_eq!((gate.metric(PARKED).await as u64, asking.asked()), (0, 1));
    let records = gate.stop().await;
    assert_eq!(records.iter().map(ending).collect::<Vec<_>>(), [("ok", Some(200), None, None); 2]);
    assert!(records.iter().all(|r| r["bridged"] == true && r["upstream_version"] == "2025-11-25"));
}

#[tokio::test]
async fn a_server_that_was_restarted_meanwhile_is_told_of_and_a_new_call_works() {
    let asking = Asking::start().await;
    let addr = asking.fake.addr;
    let gate = gate_before(&asking, &two_keys("")).await;
    let (one, two) = (parked(&gate, KEY, 1).await, parked(&gate, KEY, 2).await);
    asking.fake.kill().await;
    // It is away, then it is there again and knows nothing.
    let away = retry(&gate, KEY, 1, &one).await;
    bridge_refused(&away, 502, "upstream_protocol");
    let again = Asking::at(addr).await;
    let forgotten = retry(&gate, KEY, 2, &two).await;
    bridge_refused(&forgotten, 502, "upstream_protocol");
    assert!(forgotten.text().contains("is not known"), "{}", forgotten.text());
    assert_eq!((again.asked(), gate.metric(PARKED).await as u64), (0, 0));
    let state = parked(&gate, KEY, 1).await;
    assert_eq!(retry(&gate, KEY, 1, &state).await.json()["result"]["content"][0]["text"], "accept");
    let records = gate.stop().await;
    assert_eq!(ending(&records[2]), ("upstream_failed", Some(502), Some("upstream_protocol"), Some(502)));
    assert_eq!(ending(&records[3]), ("upstream_failed", Some(502), Some("upstream_protocol"), Some(502)));
}

#[tokio::test]
async fn a_client_that_never_comes_back_leaves_nothing() {
    let asking = Asking::start().await;
    let gate = gate_before(&asking, &two_keys("upstreams.files.answer_within = \"300ms\"")).await;
    let state = parked(&gate, KEY, 1).await;
    until("the server is answered", || !asking.answers().is_empty()).await;
    until("the call is taken back", || asking.cancelled() == 1).await;
    assert_eq!(asking.answers()[0].1["result"], json!({"action": "cancel"}));
    assert_eq!((gate.metric(PARKED).await as u64, asking.open()), (0, 0));
    no_such_state(&retry(&gate, KEY, 1, &state).await, "time to answer is over");
    assert_eq!(asking.asked(), 1);
    let records = gate.stop().await;
    assert_eq!(ending(&records[1]), ("rejected", Some(400), Some("invalid_params"), Some(-32602)));
}

#[tokio::test]
async fn of_many_retries_one_is_the_call() {
    let asking = Asking::start().await;
    let gate = gate_before(&asking, &two_keys("")).await;
    let state = parked(&gate, KEY, 1).await;
    let tries = (0..8).map(|_| retry(&gate, KEY, 1, &state));
    let answers = futures_join(tries).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|a| a.status == 200);
    assert_eq!((won.len(), lost.len()), (1, 7));
    lost.iter().for_each(|answer| no_such_state(answer, "used already"));
    no_such_state(&retry(&gate, KEY, 1, &state).await, "used already");
    assert_eq!((asking.answers().len(), asking.asked()), (1, 1));
}

/// Polls all at once, in this task.
async fn futures_join<F: Future<Output = Answer>>(all: impl Iterator<Item = F>) -> Vec<Answer> {
    let mut all: Vec<_> = all.map(|f| (Box::pin(f), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in &mut all {
            if done.is_none()
                && let std::task::Poll::Ready(answer) = future.as_mut().poll(cx)
            {
                *done = Some(answer);
            }
        }
        if all.iter().all(|(_, done)| done.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    all.into_iter().filter_map(|(_, done)| done).collect()
}

#[tokio::test]
async fn a_state_is_of_one_key_and_one_request() {
    let asking = Asking::start().await;
    let gate = gate_before(&asking, &two_keys("")).await;
    let (one, two) = (parked(&gate, KEY, 1).await, parked(&gate, KEY, 2).await);
    no_such_state(&retry(&gate, OTHER_KEY, 1, &one).await, "same key");
    // Those of two calls, swapped.
    no_such_state(&retry(&gate, KEY, 1, &two).await, "another request");
    no_such_state(&retry(&gate, KEY, 2, &one).await, "another request");
    assert_eq!((gate.metric(PARKED).await as u64, asking.answers().len()), (2, 0), "none of that took one");
    for (n, state) in [(1, &one), (2, &two)] {
        assert_eq!(retry(&gate, KEY, n, state).await.status, 200);
    }
    let records = gate.stop().await;
    for record in &records[2..5] {
        assert_eq!(ending(record), ("rejected", Some(400), Some("invalid_params"), Some(-32602)));
    }
    assert_eq!((&records[2]["principal"], &records[3]["principal"]), (&json!("bob"), &json!("ada")));
}

/// `v1.`, then in base64: 4 bytes of the key's id, 24 of the nonce, the sealed text, and 16 that prove it.
#[tokio::test]
async fn an_altered_state_is_refused_wherever_it_was_altered() {
    let asking = Asking::start().await;
    let gate = gate_before(&asking, &two_keys("")).await;
    let state = parked(&gate, KEY, 1).await;
    let last = state.len() - 1;
    let classes = [0, 1, 2, 3, 7, 9, 20, 39, 41, 60, state.len() / 2, last - 22, last - 10, last];
    let mut altered: Vec<String> = classes
        .iter()
        .map(|at| {
            let mut bytes = state.clone().into_bytes();
            bytes[*at] = if bytes[*at] == b'A' { b'B' } else { b'A' };
            String::from_utf8(bytes).unwrap()
        })
        .collect();
    altered.extend([1, 3, 8, 20, 41, state.len() / 2, last - 22, last].map(|end| state[..end].to_owned()));
    altered.extend([
        state[3..].to_owned(),
        format!("{state}A"),
        format!(" {state}"),
        format!("{state}="),
        "x".repeat(200_000),
    ]);
    let (head, tail) = state.split_at(60);
    altered.push(format!("{head}{}", tail.chars().rev().collect::<String>()));
    for text in &altered {
        no_such_state(&retry(&gate, KEY, 1, text).await, "was altered");
    }
    // An empty one is a state too, and is not taken for none.
    no_such_state(&retry(&gate, KEY, 1, "").await, "was altered");
    assert_eq!((gate.metric(PARKED).await as u64, asking.asked()), (1, 1));
    assert_eq!(retry(&gate, KEY, 1, &state).await.status, 200, "the true one is still good");
}

#[tokio::test]
async fn after_a_restart_of_the_gateway_the_client_is_told_so() {
    let asking = Asking::start().await;
    let config =
        two_keys(&format!("sealing.keys = [\"env:SEAL\"]\nupstreams.files.url = \"{}\"", asking.fake.url()));
    let start = async |seal: &'static str| {
        let folder = tempfile::TempDir::new().unwrap();
        let gate = Gateway::try_start(folder, &config, &[("SEAL", seal)]).await;
        gate.knows("files").await;
        gate
    };
    let before = start("the-first-sealing-key-0123456789abcdef").await;
    let state = parked(&before, KEY, 1).await;
    before.stop().await;
    until("the server's stream is closed", || asking.open() == 0).await;
    let same_keys = start("the-first-sealing-key-0123456789abcdef").await;
    no_such_state(&retry(&same_keys, KEY, 1, &state).await, "restarted");
    let other_keys = start("another-sealing-key-0123456789abcdefgh").await;
    no_such_state(&retry(&other_keys, KEY, 1, &state).await, "not one of this gateway");
    assert_eq!(asking.asked(), 1, "nothing was sent twice");
    let state = parked(&same_keys, KEY, 1).await;
    assert_eq!(retry(&same_keys, KEY, 1, &state).await.status, 200);
}
