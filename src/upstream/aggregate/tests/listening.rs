use std::sync::{Arc, Mutex};

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    fake::{Act, Fake, stream, tool},
    running::{Running, request_of, seat, until},
};
use crate::{
    mcp::sse::Scanner,
    upstream::{ResponseBody, Upstream, aggregate::listen::SUBSCRIPTION},
};

/// A client's open stream.
pub(super) struct Client {
    body: ResponseBody,
    scanner: Scanner,
    messages: std::collections::VecDeque<Value>,
}

impl Client {
    pub(super) async fn open(running: &Running, wanted: Value) -> Self {
        let call = request_of("ada", "\"sub\"", "subscriptions/listen", json!({"notifications": wanted}));
        let response = running.aggregate.call(call).await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), scanner: Scanner::new(1 << 16), messages: Default::default() }
    }

    pub(super) async fn next(&mut self) -> Option<Value> {
        while self.messages.is_empty() {
            let frame = self.body.frame().await?.unwrap().into_data().unwrap();
            self.scanner.feed(&frame, |e| self.messages.push_back(serde_json::from_slice(e.data).unwrap()));
        }
        let message = self.messages.pop_front().unwrap();
        let id = message.pointer("/params/_meta").or_else(|| message.pointer("/result/_meta")).unwrap();
        assert_eq!(id[SUBSCRIPTION], "sub", "{message}");
        Some(message)
    }

    pub(super) async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await.unwrap();
        assert_eq!(message["method"], method, "{message}");
        message["params"].clone()
    }
}

fn with_resources(uri: &str) -> Arc<Fake> {
    Fake::with(json!({"tools": [tool("t")], "resources": [{"uri": uri}]}))
}

fn updated(fake: &Fake, uri: &str) {
    let id =
        fake.all("subscriptions/listen").into_iter().rfind(is_about_resources).unwrap().body["id"].clone();
    fake.tell(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri, "x": 1.5, "_meta": {SUBSCRIPTION: id}}}));
}

fn is_about_resources(seen: &super::fake::Seen) -> bool {
    seen.body["params"]["notifications"].get("resourceSubscriptions").is_some()
}

pub(super) const ACK: &str = "notifications/subscriptions/acknowledged";
const UPDATED: &str = "notifications/resources/updated";

#[tokio::test]
async fn one_acknowledgement_with_the_union_and_then_what_each_server_tells() {
    let (a, b) = (with_resources("x://a"), with_resources("x://b"));
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let mut client =
        Client::open(&running, json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["x://a", "x://b", "y://none"]})).await;
    let ack = client.expect(ACK).await;
    assert_eq!(
        ack["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a", "x://b"]})
    );
    for (fake, uri) in [(&a, "x://a"), (&b, "x://b")] {
        let sent = fake.all("subscriptions/listen").into_iter().rfind(is_about_resources).unwrap();
        assert_eq!(sent.body["params"]["notifications"], json!({"resourceSubscriptions": [uri]}));
        assert!(sent.body["id"].is_u64());
        updated(fake, uri);
        let told = client.expect(UPDATED).await;
        assert_eq!((&told["uri"], &told["x"]), (&json!(uri), &json!(1.5)));
    }
    drop(client);
    // The catalog's own stream stays.
    until("the members' streams end", || {
        a.tell(&json!({"jsonrpc": "2.0", "method": "ping"}));
        a.open_streams() == 1
    })
    .await;
}

#[tokio::test]
async fn a_changed_list_is_told_when_it_can_be_read() {
    let (a, b) = (Fake::tools(&["t"]), Fake::tools(&["t"]));
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let mut client = Client::open(&running, json!({"toolsListChanged": true})).await;
    assert_eq!(client.expect(ACK).await["notifications"], json!({"toolsListChanged": true}));
    a.lists.lock().unwrap()["tools"] = json!([tool("t"), tool("new")]);
    a.tell(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    client.expect("notifications/tools/list_changed").await;
    assert_eq!(running.names("tools/list", "tools", "name").await, ["a__t", "a__new", "b__t"]);
    running.aggregate.retire();
    assert_eq!(client.next().await.unwrap()["result"]["resultType"], "complete");
    assert!(client.next().await.is_none());
}

#[tokio::test]
async fn a_lost_stream_is_opened_again_and_what_may_have_been_missed_is_told() {
    let fake = with_resources("x://a");
    let running = Running::learned(vec![seat("a", &fake)]).await;
    let mut client = Client::open(&running, json!({"resourceSubscriptions": ["x://a"]})).await;
    client.expect(ACK).await;
    fake.end_streams();
    assert_eq!(client.expect(UPDATED).await["uri"], "x://a");
    updated(&fake, "x://a");
    assert_eq!(client.expect(UPDATED).await["x"], 1.5);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_acknowledge_delays_for_a_while_and_is_left_out() {
    let (a, b) = (with_resources("x://a"), with_resources("x://b"));
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let late = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&late);
    b.script(move |seen| {
        (seen.method() == "subscriptions/listen" && is_about_resources(seen)).then(|| {
            let (answer, sender) = stream();
            *theirs.lock().unwrap() = Some((sender, seen.body["id"].clone()));
            Act::Answer(answer)
        })
    });
    let mut client = Client::open(&running, json!({"resourceSubscriptions": ["x://a", "x://b"]})).await;
    let ack = client.expect(ACK).await;
    assert_eq!(ack["notifications"], json!({"resourceSubscriptions": ["x://a"]}));
    // What it says later takes the others' word from nobody.
    let (sender, id) = late.lock().unwrap().take().unwrap();
    let ack = json!({"jsonrpc": "2.0", "method": ACK, "params": {
        "notifications": {"resourceSubscriptions": ["x://b"]}, "_meta": {SUBSCRIPTION: id}}});
    sender.send(format!("data: {ack}\n\n").into()).unwrap();
    for _ in 0..20 {
        updated(&a, "x://a");
        assert_eq!(client.expect(UPDATED).await["uri"], "x://a");
    }
}
