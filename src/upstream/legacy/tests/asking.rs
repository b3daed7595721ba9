//! Questions of the server in the middle of a call: the call waits, the client answers by a retry, and the same call
//! goes on.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    Bench, EVERYTHING, Reader,
    fake::{Does, Events, Fake, Seen, Streams, until},
    request, tool, whole,
};
use crate::{
    bridge::{parked, sealed::Sealer},
    upstream::legacy::{Legacy, Settings},
};

pub(super) struct Asking {
    pub(super) bench: Bench,
    pub(super) streams: Streams,
}

fn fake(streams: &Streams) -> Fake {
    let theirs = streams.clone();
    Fake::new(move |seen| match seen.method() {
        "tools/call" | "tools/list" => theirs.open(seen).into(),
        _ => Does::AsUsual,
    })
}

pub(super) fn question(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(super) fn elicitation(id: impl Into<Value>) -> Value {
    question(id, "elicitation/create", json!({"message": "sure?", "requestedSchema": {"type": "object"}}))
}

pub(super) fn retry(state: &Value, answers: Value) -> Value {
    let mut params = tool();
    params["requestState"] = state.clone();
    params["inputResponses"] = answers;
    params
}

fn accept() -> Value {
    json!({"action": "accept", "content": {"ok": true}})
}

impl Asking {
    pub(super) fn new() -> Self {
        let streams = Streams::default();
        Self { bench: Bench::of(fake(&streams)), streams }
    }

    /// Calls the tool; the server asks these on the `n`th stream.
    async fn asked(&self, n: usize, questions: &[Value]) -> (Value, Seen, Events) {
        let server = async {
            let (seen, events) = self.streams.nth(n).await;
            questions.iter().for_each(|question| events.send(question));
            (seen, events)
        };
        let ((status, answer), (seen, events)) = tokio::join!(self.bench.call(), server);
        assert_eq!((status, &answer["result"]["resultType"]), (200, &json!("input_required")), "{answer}");
        (answer["result"].clone(), seen, events)
    }

    async fn retry(&self, who: &str, params: Value) -> (u16, Value) {
        whole(self.bench.send(request(who, EVERYTHING, json!("c-2"), "tools/call", params)).await).await
    }
}

pub(super) fn done(seen: &Seen, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result})
}

#[tokio::test]
async fn the_retry_continues_the_same_call() {
    let asking = Asking::new();
    let (asked, seen, events) = asking.asked(0, &[elicitation("srv-7")]).await;
    assert_eq!(
        asked["inputRequests"],
        json!({"1": {"method": "elicitation/create",
            "params": {"message": "sure?", "requestedSchema": {"type": "object"}}}})
    );
    assert!(!asked.to_string().contains("srv-7"));
    assert_eq!(asking.bench.legacy.parked(), 1);
    let server = async {
        until("the answer is posted", || !asking.bench.fake.responses().is_empty()).await;
        events.send(&done(&seen, json!({"content": []})));
    };
    let retried = retry(&asked["requestState"], json!({"1": accept()}));
    let ((status, answer), ()) = tokio::join!(asking.retry("ada", retried), server);
    assert_eq!((status, &answer["id"]), (200, &json!("c-2")));
    assert_eq!(answer["result"], json!({"resultType": "complete", "content": []}));
    let posted = asking.bench.fake.responses();
    assert_eq!(posted, [json!({"jsonrpc": "2.0", "id": "srv-7", "result": accept()})]);
    assert_eq!(asking.bench.fake.of("tools/call").len(), 1, "it ran once");
    assert_eq!(asking.bench.legacy.parked(), 0);
}

#[tokio::test]
async fn several_questions_come_together_and_missing_answers_are_asked_for_again() {
    let asking = Asking::new();
    let sampling = question(
        2,
        "sampling/createMessage",
        json!({"messages": [], "maxTokens": 5, "_meta": {"progressToken": 1}}),
    );
    let roots = json!({"jsonrpc": "2.0", "id": 3, "method": "roots/list"});
    let (asked, seen, events) = asking.asked(0, &[elicitation(1), sampling, roots]).await;
    assert_eq!(
        asked["inputRequests"]["2"],
        json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}})
    );
    assert_eq!(asked["inputRequests"]["3"], json!({"method": "roots/list"}));
    let some = retry(&asked["requestState"], json!({"1": accept(), "3": {"roots": []}, "x": {}}));
    let (_, again) = asking.retry("ada", some).await;
    assert_eq!(again["result"]["resultType"], "input_required");
    assert_eq!(again["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["2"]);
    let answered: Vec<_> = asking.bench.fake.responses().iter().map(|r| r["id"].clone()).collect();
    assert_eq!(answered, [1, 3]);
    events.send(&done(&seen, json!({})));
    let rest = retry(&again["result"]["requestState"], json!({"2": {"role": "assistant"}}));
    assert_eq!(asking.retry("ada", rest).await.1["result"], json!({"resultType": "complete"}));
}

#[tokio::test]
async fn what_was_said_before_the_question_came_on_the_stream() {
    let asking = Asking::new();
    let server = async {
        let (seen, events) = asking.streams.nth(0).await;
        let token = &seen.body["params"]["_meta"]["progressToken"];
        let progress = |n: u8| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}});
        events.send(&progress(1));
        events.send(&elicitation(1));
        (progress(2), seen.clone(), events)
    };
    let with_token = |token: &str, mut params: Value| {
        params["_meta"] = json!({"progressToken": token});
        request("ada", EVERYTHING, json!(token), "tools/call", params)
    };
    let (response, (progress, seen, events)) =
        tokio::join!(asking.bench.send(with_token("one", tool())), server);
    let mut reader = Reader::new(response);
    assert_eq!(reader.next().await.unwrap()["params"]["progressToken"], "one");
    let asked = reader.next().await.unwrap();
    assert_eq!((&asked["id"], reader.next().await), (&json!("one"), None));
    events.send(&progress);
    events.send(&done(&seen, json!({})));
    let again = retry(&asked["result"]["requestState"], json!({"1": accept()}));
    let mut reader = Reader::new(asking.bench.send(with_token("two", again)).await);
    assert_eq!(reader.next().await.unwrap()["params"], json!({"progressToken": "two", "progress": 2}));
    assert_eq!(reader.next().await.unwrap()["id"], "two");
}

#[tokio::test]
async fn a_state_is_good_once_for_its_key_and_its_request() {
    let asking = Asking::new();
    let (asked, seen, events) = asking.asked(0, &[elicitation(1)]).await;
    let state = &asked["requestState"];
    let good = || retry(state, json!({"1": accept()}));
    let refused = |(status, answer): (u16, Value), says: &str| {
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(says), "{answer}");
    };
    refused(asking.retry("bob", good()).await, "same key");
    let mut altered = state.as_str().unwrap().to_owned();
    altered.replace_range(40..41, if &altered[40..41] == "A" { "B" } else { "A" });
    refused(asking.retry("ada", retry(&altered.into(), json!({"1": accept()}))).await, "altered");
    let mut other = good();
    other["arguments"]["n"] = 2.into();
    refused(asking.retry("ada", other).await, "another request");
    refused(asking.retry("ada", retry(state, json!({"1": true}))).await, "inputResponses");
    assert_eq!(asking.bench.legacy.parked(), 1, "none of that took it");
    events.send(&done(&seen, json!({})));
    // In parallel: one of them is the call, the other is told.
    let (one, two) = tokio::join!(asking.retry("ada", good()), asking.retry("ada", good()));
    let (won, lost) = if one.0 == 200 { (one, two) } else { (two, one) };
    assert_eq!(won.1["result"]["resultType"], "complete");
    refused(lost, "used already");
    refused(asking.retry("ada", good()).await, "used already");
    assert_eq!(asking.bench.fake.responses().len(), 1);
}

/// 2026-07-28 wants missing answers asked for again, and an error for a state alone that is not good.
#[tokio::test]
async fn answers_without_a_state_are_a_new_call_that_asks_again() {
    let asking = Asking::new();
    let mut params = retry(&json!(""), json!({"wrong": accept()}));
    params.as_object_mut().unwrap().remove("requestState");
    let server = async {
        let (seen, events) = asking.streams.nth(0).await;
        events.send(&elicitation(1));
        (seen, events)
    };
    let ((status, answer), (seen, _events)) = tokio::join!(asking.retry("ada", params), server);
    assert_eq!((status, &answer["result"]["resultType"]), (200, &json!("input_required")), "{answer}");
    assert!(seen.body["params"].get("inputResponses").is_none(), "{}", seen.body);
    assert!(asking.bench.fake.responses().is_empty(), "nobody has answered the question");
}

#[tokio::test]
async fn after_a_restart_the_client_is_told_so() {
    let streams = Streams::default();
    let fake = Arc::new(fake(&streams));
    let sealer = Arc::new(Sealer::new([&b"kept"[..]]));
    let start = || Bench {
        legacy: Arc::new(Legacy::new(fake.clone(), sealer.clone(), Settings::default())),
        fake: fake.clone(),
    };
    let before = Asking { bench: start(), streams };
    let (asked, ..) = before.asked(0, &[elicitation(1)]).await;
    let after = Asking { bench: start(), streams: before.streams.clone() };
    let (status, answer) = after.retry("ada", retry(&asked["requestState"], json!({"1": accept()}))).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32602)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("restarted"), "{answer}");
}

#[tokio::test]
async fn a_server_that_is_gone_meanwhile_is_named_as_the_reason() {
    let asking = Asking::new();
    let (asked, ..) = asking.asked(0, &[elicitation(1)]).await;
    asking.bench.fake.forget_sessions();
    let (status, answer) = asking.retry("ada", retry(&asked["requestState"], json!({"1": accept()}))).await;
    assert_eq!((status, &answer["error"]["code"]), (502, &json!(502)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("not known"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_answers_is_answered_for() {
    let asking = Asking::new();
    let roots = json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"});
    let (asked, seen, events) = asking.asked(0, &[elicitation("e"), roots]).await;
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(asking.bench.legacy.parked(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(asking.bench.legacy.parked(), 0);
    until("the server knows", || !asking.bench.fake.of("notifications/cancelled").is_empty()).await;
    let said = asking.bench.fake.responses();
    assert_eq!(said[0], json!({"jsonrpc": "2.0", "id": "e", "result": {"action": "cancel"}}));
    assert_eq!((&said[1]["id"], &said[1]["error"]["code"]), (&json!("r"), &json!(-32603)));
    let cancelled = &asking.bench.fake.of("notifications/cancelled")[0];
    assert_eq!(cancelled.body["params"]["requestId"], seen.body["id"]);
    assert!(events.is_closed(), "the stream is dropped");
    let (_, answer) = asking.retry("ada", retry(&asked["requestState"], json!({}))).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn nobody_has_more_calls_waiting_than_there_is_room_for() {
    let streams = Streams::default();
    let parked = parked::Limits { each: 2, ..parked::Limits::default() };
    let bench = Bench::with(fake(&streams), Settings { parked, ..Settings::default() });
    let asking = Asking { bench, streams };
    for n in 0..2 {
        asking.asked(n, &[elicitation(1)]).await;
    }
    let server = async { asking.streams.nth(2).await.1.send(&elicitation("third")) };
    let ((status, answer), ()) = tokio::join!(asking.bench.call(), server);
    assert_eq!((status, &answer["error"]["data"]["reason"]), (503, &json!("parked_exhausted")));
    until("the server knows", || !asking.bench.fake.of("notifications/cancelled").is_empty()).await;
    assert_eq!(asking.bench.fake.responses()[0]["id"], "third");
}
