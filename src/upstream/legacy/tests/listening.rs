//! `subscriptions/listen` over GET streams and resource subscriptions.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    Bench, EVERYTHING, Reader,
    fake::{Does, Events, Fake, Streams, empty, until},
    request,
};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A server with GET streams.
fn fake(streams: &Streams) -> Fake {
    let theirs = streams.clone();
    Fake::new(move |seen| if seen.verb == Method::GET { theirs.open(seen).into() } else { Does::AsUsual })
}

fn everything() -> Value {
    json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a"]})
}

async fn listen(bench: &Bench, id: Value, notifications: Value) -> Reader {
    let params = json!({"notifications": notifications});
    Reader::new(bench.send(request("ada", EVERYTHING, id, "subscriptions/listen", params)).await)
}

fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

/// Reads the acknowledgement: what was honoured.
async fn honoured(reader: &mut Reader, id: &Value) -> Value {
    let ack = reader.next().await.unwrap();
    assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(&ack["params"]["_meta"][ID], id);
    ack["params"]["notifications"].clone()
}

async fn methods(reader: &mut Reader, n: usize) -> Vec<String> {
    let mut heard = Vec::new();
    for _ in 0..n {
        let message = reader.next().await.unwrap();
        heard.push(message["method"].as_str().unwrap().trim_start_matches("notifications/").to_owned());
    }
    heard
}

#[tokio::test]
async fn acknowledged_first_and_then_only_what_was_asked_for() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let asked = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    let mut reader = listen(&bench, json!(7), asked.clone()).await;
    assert_eq!(honoured(&mut reader, &json!(7)).await, asked);
    let subscribed = &bench.fake.of("resources/subscribe")[0];
    assert_eq!(subscribed.body["params"], json!({"uri": "file:///a"}));
    let (get, events) = streams.nth(0).await;
    assert_eq!((get.header("accept"), get.header("mcp-session-id")), (Some("text/event-stream"), Some("s1")));
    events.send(&note("prompts/list_changed", json!({})));
    events.send(&note("resources/updated", json!({"uri": "file:///other"})));
    events.send(&note("message", json!({"level": "error", "data": 1})));
    events.send(&note("resources/updated", json!({"uri": "file:///a", "n": 1e2})));
    events.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    let updated = reader.next().await.unwrap();
    assert_eq!(updated["params"], json!({"_meta": {ID: 7}, "uri": "file:///a", "n": 1e2}));
    let changed = reader.next().await.unwrap();
    assert_eq!(changed, note("tools/list_changed", json!({"_meta": {ID: 7}})));
}

#[tokio::test]
async fn what_the_server_does_not_offer_is_not_promised() {
    let streams = Streams::default();
    let capabilities =
        json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": false}});
    let bench = Bench::of(Fake { capabilities, ..fake(&streams) });
    let mut reader = listen(&bench, json!("x"), everything()).await;
    assert_eq!(honoured(&mut reader, &json!("x")).await, json!({"toolsListChanged": true}));
    assert!(bench.fake.of("resources/subscribe").is_empty());
}

#[tokio::test]
async fn where_nothing_can_come_no_stream_is_opened() {
    let streams = Streams::default();
    let bench = Bench::of(Fake { capabilities: json!({"tools": {}}), ..fake(&streams) });
    let mut reader = listen(&bench, json!(1), everything()).await;
    assert_eq!(honoured(&mut reader, &json!(1)).await, json!({}));
    assert!(bench.fake.verbs(&Method::GET).is_empty());
}

#[tokio::test]
async fn without_a_get_stream_nothing_is_promised() {
    let bench = Bench::new(|_| Does::AsUsual);
    let mut reader = listen(&bench, json!(1), everything()).await;
    assert_eq!(honoured(&mut reader, &json!(1)).await, json!({}));
    assert!(bench.fake.of("resources/subscribe").is_empty());
}

#[tokio::test]
async fn a_subscription_that_is_refused_is_not_promised() {
    let streams = Streams::default();
    let theirs = streams.clone();
    let bench = Bench::new(move |seen| match (&seen.verb, seen.method()) {
        (&Method::GET, _) => theirs.open(seen).into(),
        (_, "resources/subscribe") if seen.body["params"]["uri"] == "file:///no" => empty(400).into(),
        _ => Does::AsUsual,
    });
    let mut reader =
        listen(&bench, json!(1), json!({"resourceSubscriptions": ["file:///no", "file:///a"]})).await;
    assert_eq!(honoured(&mut reader, &json!(1)).await, json!({"resourceSubscriptions": ["file:///a"]}));
}

#[tokio::test]
async fn listeners_share_a_stream_and_a_subscription_until_the_last_leaves() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let uris = || json!({"resourceSubscriptions": ["file:///a"]});
    let mut one = listen(&bench, json!("one"), uris()).await;
    let mut two = listen(&bench, json!(2), uris()).await;
    honoured(&mut one, &json!("one")).await;
    honoured(&mut two, &json!(2)).await;
    let (_, events) = streams.nth(0).await;
    events.send(&note("resources/updated", json!({"uri": "file:///a/part"})));
    assert_eq!(one.next().await.unwrap()["params"]["_meta"][ID], "one");
    assert_eq!(two.next().await.unwrap()["params"]["_meta"][ID], 2);
    assert_eq!((bench.fake.of("resources/subscribe").len(), bench.fake.verbs(&Method::GET).len()), (1, 1));
    drop(one);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(bench.fake.of("resources/unsubscribe").is_empty() && !events.is_closed());
    drop(two);
    until("it is taken back", || bench.fake.of("resources/unsubscribe").len() == 1).await;
    until("the stream is dropped", || events.is_closed()).await;
}

#[tokio::test]
async fn news_on_the_stream_of_a_call_reach_the_listener() {
    let (gets, calls) = (Streams::default(), Streams::default());
    let (theirs, of_calls) = (gets.clone(), calls.clone());
    let bench = Bench::new(move |seen| match (&seen.verb, seen.method()) {
        (&Method::GET, _) => theirs.open(seen).into(),
        (_, "tools/call") => of_calls.open(seen).into(),
        _ => Does::AsUsual,
    });
    let mut reader = listen(&bench, json!(1), everything()).await;
    honoured(&mut reader, &json!(1)).await;
    let server = async {
        let (seen, events) = calls.nth(0).await;
        events.send(&note("prompts/list_changed", json!({})));
        events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}));
    };
    let ((status, _), ()) = tokio::join!(bench.call(), server);
    assert_eq!(status, 200);
    assert_eq!(methods(&mut reader, 1).await, ["prompts/list_changed"]);
}

const MISSED: [&str; 4] =
    ["tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"];

/// Waits for the `n`th GET stream, which tells something once the client has heard what it may have missed.
async fn goes_on(reader: &mut Reader, events: &Events) {
    assert_eq!(methods(reader, 4).await, MISSED);
    events.send(&note("tools/list_changed", json!({"n": 1})));
    assert_eq!(reader.next().await.unwrap()["params"], json!({"_meta": {ID: 1}, "n": 1}));
}

#[tokio::test(start_paused = true)]
async fn after_a_broken_stream_everything_may_have_changed() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let mut reader = listen(&bench, json!(1), everything()).await;
    honoured(&mut reader, &json!(1)).await;
    streams.nth(0).await;
    streams.end(0);
    let (_, events) = streams.nth(1).await;
    goes_on(&mut reader, &events).await;
    assert_eq!(bench.fake.of("initialize").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_session_a_new_one_is_listened_in() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let mut reader = listen(&bench, json!(1), everything()).await;
    honoured(&mut reader, &json!(1)).await;
    streams.nth(0).await;
    bench.fake.forget_sessions();
    assert_eq!(bench.call().await.0, 200, "a call finds out");
    let (get, events) = streams.nth(1).await;
    assert_eq!(get.header("mcp-session-id"), Some("s2"));
    goes_on(&mut reader, &events).await;
    assert_eq!(bench.fake.of("resources/subscribe")[1].header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn questions_on_the_get_stream_are_answered_at_once() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let mut reader = listen(&bench, json!(1), json!({"toolsListChanged": true})).await;
    honoured(&mut reader, &json!(1)).await;
    let (_, events) = streams.nth(0).await;
    for (id, method) in [("p", "ping"), ("e", "elicitation/create"), ("r", "roots/list")] {
        events.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}));
    }
    until("all are answered", || bench.fake.responses().len() == 3).await;
    let said = bench.fake.responses();
    assert_eq!(said[0]["result"], json!({}));
    assert_eq!(said[1]["result"], json!({"action": "cancel"}));
    assert_eq!(said[2]["error"]["code"], -32601);
}

#[tokio::test]
async fn a_listener_that_does_not_read_learns_that_it_missed_something() {
    let streams = Streams::default();
    let bench = Bench::of(fake(&streams));
    let mut reader = listen(&bench, json!(1), everything()).await;
    honoured(&mut reader, &json!(1)).await;
    let (_, events) = streams.nth(0).await;
    for n in 0..500 {
        events.send(&note("tools/list_changed", json!({"n": n})));
    }
    let mut heard = 0;
    while reader.next().await.unwrap()["method"] == "notifications/tools/list_changed" {
        heard += 1;
    }
    assert!(heard < 500, "the queue is bounded");
}
