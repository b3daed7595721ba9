//! The GET stream and resource subscriptions, from one listen at the server.

use super::*;

const LISTEN: &str = "subscriptions/listen";

pub(super) fn ack(granted: &Value) -> String {
    notice("subscriptions/acknowledged", &json!({"notifications": granted}))
}

/// A notice as a modern server sends it; `$ID` is the subscription's.
fn notice(method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": "ID"});
    let message = json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params});
    message.to_string().replace("\"ID\"", "$ID")
}

fn all(uris: &[&str]) -> Value {
    json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true, "resourceSubscriptions": uris})
}

async fn open(server: &Server, client: &Client) -> (mpsc::UnboundedSender<String>, Messages) {
    let say = server.live(LISTEN);
    say.send(ack(&all(&[]))).unwrap();
    let stream = events(client.open(Method::GET, "").await);
    (say, stream)
}

async fn subscribe(client: &Client, method: &str, uri: &str) -> Value {
    let reply = client.ask(method, &json!({"uri": uri})).await;
    assert_eq!(reply.status, 200);
    reply.body()
}

#[tokio::test]
async fn changes_come_on_the_get_stream() {
    let (server, client) = joined("2025-11-25").await;
    let (say, mut stream) = open(&server, &client).await;
    let asked = &server.seen(LISTEN)[0].body["params"]["notifications"];
    assert_eq!(
        asked,
        &json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
    );
    say.send(notice("resources/updated", &json!({"uri": "not:wanted"}))).unwrap();
    say.send(notice("message", &json!({"level": "info"}))).unwrap();
    say.send(notice("tools/list_changed", &json!({}))).unwrap();
    say.send(notice("prompts/list_changed", &json!({"later": 1}))).unwrap();
    let first = next(&mut stream).await.unwrap();
    assert_eq!(first, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    assert_eq!(next(&mut stream).await.unwrap()["params"], json!({"later": 1}));
    drop(stream);
    server.seen(LISTEN)[0].gone.cancelled().await;
}

#[tokio::test]
async fn a_subscription_is_a_new_listen_with_the_union() {
    let (server, client) = joined("2025-11-25").await;
    let (_first, mut stream) = open(&server, &client).await;
    let mut says = Vec::new();
    for (uri, union) in [("a:1", &["a:1"][..]), ("a:2", &["a:1", "a:2"])] {
        let say = server.live(LISTEN);
        say.send(ack(&all(union))).unwrap();
        let reading = async {
            let reply = subscribe(&client, "resources/subscribe", uri).await;
            assert_eq!(reply, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
            say.send(notice("resources/updated", &json!({"uri": uri}))).unwrap();
        };
        let (updated, ()) = tokio::join!(next(&mut stream), reading);
        assert_eq!(updated.unwrap()["params"], json!({"uri": uri}));
        let seen = server.seen(LISTEN).pop().unwrap();
        assert_eq!(seen.body["params"]["notifications"]["resourceSubscriptions"], json!(union));
        says.push(say);
    }
    let listens = server.seen(LISTEN);
    listens[0].gone.cancelled().await;
    listens[1].gone.cancelled().await;
    assert!(!listens[2].gone.is_cancelled());

    let say = server.live(LISTEN);
    say.send(ack(&all(&["a:2"]))).unwrap();
    let leaving = async {
        assert_eq!(subscribe(&client, "resources/unsubscribe", "a:1").await["result"], json!({}));
        says[1].send(notice("resources/updated", &json!({"uri": "a:1"}))).ok();
        say.send(notice("resources/updated", &json!({"uri": "a:2"}))).unwrap();
    };
    let (updated, ()) = tokio::join!(next(&mut stream), leaving);
    assert_eq!(updated.unwrap()["params"]["uri"], "a:2");
}

#[tokio::test]
async fn a_subscription_that_is_not_granted_is_an_error() {
    let (server, client) = joined("2025-11-25").await;
    let say = server.live(LISTEN);
    say.send(ack(&json!({"toolsListChanged": true}))).unwrap();
    let reply = subscribe(&client, "resources/subscribe", "a:1").await;
    assert_eq!(reply["error"]["code"], -32602);
    server.seen(LISTEN)[0].gone.cancelled().await;
    let no = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#;
    server.say(LISTEN, Said::Raw(404, "application/json", no.into()));
    assert_eq!(subscribe(&client, "resources/subscribe", "a:1").await["error"]["code"], -32602);
    assert_eq!(subscribe(&client, "resources/unsubscribe", "a:1").await["result"], json!({}));
    assert_eq!(client.ask("resources/subscribe", &json!({})).await.body()["error"]["code"], -32602);
    assert_eq!(server.seen(LISTEN).len(), 2);
}

#[tokio::test]
async fn subscriptions_made_before_the_stream_are_part_of_it() {
    let (server, client) = joined("2025-11-25").await;
    let say = server.live(LISTEN);
    say.send(ack(&all(&["a:1"]))).unwrap();
    assert_eq!(subscribe(&client, "resources/subscribe", "a:1").await["result"], json!({}));
    let (say, mut stream) = open(&server, &client).await;
    let asked = server.seen(LISTEN)[1].body["params"]["notifications"]["resourceSubscriptions"].clone();
    assert_eq!(asked, json!(["a:1"]));
    say.send(notice("resources/updated", &json!({"uri": "a:1"}))).unwrap();
    assert_eq!(next(&mut stream).await.unwrap()["params"]["uri"], "a:1");
}

#[tokio::test]
async fn a_server_without_listen_has_no_stream() {
    let (server, client) = joined("2025-11-25").await;
    let no = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#;
    server.say(LISTEN, Said::Raw(404, "application/json", no.into()));
    let reply = Reply::of(client.open(Method::GET, "").await).await;
    assert_eq!((reply.status, reply.headers["allow"].to_str().unwrap()), (405, "POST"));
    server.say(LISTEN, Said::Raw(503, "text/plain", "later".into()));
    assert_eq!(client.open(Method::GET, "").await.status(), 503);
}

#[tokio::test]
async fn a_second_stream_takes_over_and_delete_ends_it() {
    let (server, client) = joined("2025-11-25").await;
    let (_say, mut first) = open(&server, &client).await;
    let (say, mut second) = open(&server, &client).await;
    assert!(next(&mut first).await.is_none());
    say.send(notice("tools/list_changed", &json!({}))).unwrap();
    assert!(next(&mut second).await.is_some());
    client.open(Method::DELETE, "").await;
    assert!(next(&mut second).await.is_none());
    drop(second);
    server.seen(LISTEN)[1].gone.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_listen_that_ends_is_opened_again_and_missed_changes_are_told() {
    let (server, client) = joined("2025-11-25").await;
    let (say, mut stream) = open(&server, &client).await;
    server.say(LISTEN, Said::Unreachable);
    let again = server.live(LISTEN);
    again.send(ack(&json!({"toolsListChanged": true}))).unwrap();
    say.send(r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete"}}"#.into()).unwrap();
    drop(say);
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
    assert_eq!(server.seen(LISTEN).len(), 3);
    again.send(notice("tools/list_changed", &json!({}))).unwrap();
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/tools/list_changed");
}
