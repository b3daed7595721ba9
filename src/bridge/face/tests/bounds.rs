//! What is remembered of clients: bounded for a principal and in all, counted, and given back.

use super::*;
use crate::bridge::face::{Limit, Remembered};

const LISTEN: &str = "subscriptions/listen";

fn limits(each: usize, all: usize) -> Limits {
    let limit = Limit { each, all };
    Limits { sessions: limit, questions: limit, subscriptions: limit }
}

/// Clients of one face.
struct Clients {
    server: Arc<Server>,
    face: Arc<Face>,
}

impl Clients {
    fn new(limits: Limits) -> Self {
        let server = Arc::new(Server::default());
        let face = face_with(&server, Settings { limits, ..settings() });
        Self { server, face }
    }

    async fn join(&self, principal: &'static str) -> Client {
        let accept = "application/json, text/event-stream";
        let face = Arc::clone(&self.face);
        let mut client = Client { face, session: None, principal, accept, version: None };
        client.initialize("2025-11-25", &json!({"elicitation": {}})).await;
        client
    }

    /// A call that waits for its client.
    async fn asked(&self, client: &Client) -> (Value, Messages) {
        let form =
            json!({"f": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": {}}}});
        self.server
            .say("tools/call", Said::Result(json!({"resultType": "input_required", "inputRequests": form})));
        let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
        (next(&mut stream).await.unwrap(), stream)
    }

    async fn subscribe(&self, client: &Client, uri: &str) -> Value {
        let say = self.server.live(LISTEN);
        let granted = json!({"resourceSubscriptions": ["r:1", "r:2", "r:3"]});
        say.send(changes::ack(&granted)).unwrap();
        client.ask("resources/subscribe", &json!({"uri": uri})).await.body()
    }

    fn counts(&self) -> [usize; 3] {
        let Remembered { sessions, questions, subscriptions } = self.face.remembers();
        [sessions, questions, subscriptions]
    }
}

#[track_caller]
fn full(message: &Value, wall: &str, limit: Option<usize>) {
    assert_eq!(
        (&message["error"]["code"], &message["error"]["data"]["wall"]),
        (&json!(429), &json!(wall)),
        "{message}"
    );
    assert_eq!(message["error"]["data"]["limit"].as_u64(), limit.map(|l| l as u64), "{message}");
    assert_eq!(message["error"]["data"]["reason"], "rate_limited");
}

#[tokio::test]
async fn questions_are_bounded_and_given_back() {
    let clients = Clients::new(Limits { sessions: Limit { each: 9, all: 9 }, ..limits(2, 3) });
    let ask = async |principal| clients.asked(&clients.join(principal).await).await;
    let (_, one) = ask("ada").await;
    let (_, two) = ask("ada").await;
    full(&ask("ada").await.0, "questions", Some(2));
    let (question, three) = ask("bob").await;
    assert_eq!(question["method"], "elicitation/create");
    full(&ask("bob").await.0, "questions", None);
    assert_eq!(clients.counts()[1], 3);
    drop(one);
    let (question, four) = ask("bob").await;
    assert_eq!(question["method"], "elicitation/create");
    drop((two, three, four));
    assert_eq!(clients.counts()[1], 0);
}

#[tokio::test]
async fn subscriptions_are_bounded_and_end_with_the_session() {
    let clients = Clients::new(limits(2, 3));
    let (ada, too, bob) = (clients.join("ada").await, clients.join("ada").await, clients.join("bob").await);
    assert_eq!(clients.subscribe(&ada, "r:1").await["result"], json!({}));
    assert_eq!(clients.subscribe(&too, "r:1").await["result"], json!({}));
    assert_eq!(clients.subscribe(&too, "r:1").await["result"], json!({}), "a second time it takes no place");
    full(&ada.ask("resources/subscribe", &json!({"uri": "r:2"})).await.body(), "subscriptions", Some(2));
    assert_eq!(clients.subscribe(&bob, "r:1").await["result"], json!({}));
    full(&bob.ask("resources/subscribe", &json!({"uri": "r:3"})).await.body(), "subscriptions", None);
    assert_eq!(clients.counts(), [3, 0, 3]);
    ada.open(Method::DELETE, "").await;
    assert_eq!(clients.counts(), [2, 0, 2]);
    ada.ask("resources/unsubscribe", &json!({"uri": "r:1"})).await;
    assert_eq!(clients.subscribe(&bob, "r:2").await["result"], json!({}));
    let say = clients.server.live(LISTEN);
    drop(say);
    bob.ask("resources/unsubscribe", &json!({"uri": "r:2"})).await;
    assert_eq!(clients.counts()[2], 2);
}

#[tokio::test]
async fn a_principal_forgets_its_own_quiet_sessions_and_nobody_elses() {
    let clients = Clients::new(limits(2, 9));
    let bob = clients.join("bob").await;
    bob.ask("logging/setLevel", &json!({"level": "info"})).await;
    let mut joined = Vec::new();
    for _ in 0..4 {
        let ada = clients.join("ada").await;
        assert_eq!(ada.ask("logging/setLevel", &json!({"level": "info"})).await.body()["result"], json!({}));
        joined.push(ada);
    }
    assert_eq!(clients.counts()[0], 3, "two of ada, one of bob");
    // With calls under way in all of them there is none to forget.
    let (_, _one) = clients.asked(&joined[0]).await;
    let (_, _two) = clients.asked(&joined[1]).await;
    let refused = joined[2].ask("logging/setLevel", &json!({"level": "info"})).await;
    assert_eq!(refused.status, 429);
    full(&refused.body(), "sessions", Some(2));
    assert_eq!(bob.ask("logging/setLevel", &json!({"level": "debug"})).await.body()["result"], json!({}));
}
