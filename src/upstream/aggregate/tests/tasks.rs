use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::{
    fake::{Act, Fake, stream, task},
    listening::{ACK, Client},
    running::{Running, request, request_of, seat},
};
use crate::{
    bridge::{hops::Hops, sealed::Sealer},
    mcp::sse,
    upstream::{Upstream, UpstreamError, aggregate::listen::SUBSCRIPTION, catalog::Catalog},
};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Two with equal ids, and one without tasks.
async fn three() -> (Running, [Arc<Fake>; 3]) {
    let fakes = [Fake::with_tasks(), Fake::with_tasks(), Fake::tools(&["short"])];
    let [a, b, c] = &fakes;
    (Running::learned(vec![seat("a", a), seat("b", b), seat("c", c)]).await, fakes)
}

async fn started(running: &Running, tool: &str) -> String {
    let answer = running.ask("tools/call", json!({"name": tool})).await;
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

/// The request of a client that does not declare the extension.
fn undeclared(method: &str, params: Value) -> Request<Bytes> {
    let (head, body) = request(method, params).into_parts();
    let body = String::from_utf8(body.to_vec()).unwrap().replace(&format!("\"{EXTENSION}\":{{}},"), "");
    assert!(!body.contains(EXTENSION));
    Request::from_parts(head, body.into())
}

fn declared(seen: &super::fake::Seen) -> bool {
    seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"]
        .get(EXTENSION)
        .is_some()
}

#[tokio::test]
async fn equal_ids_of_two_servers_are_two_tasks_and_each_is_asked_where_it_is() {
    let (running, [a, b, c]) = three().await;
    let found = running.ask("server/discover", json!({})).await;
    assert_eq!(found["result"]["capabilities"]["extensions"], json!({EXTENSION: {}}));
    let (first, second) = (started(&running, "a__long").await, started(&running, "b__long").await);
    assert_ne!(first, second);
    assert_eq!(first, started(&running, "a__long").await, "one task has one id");
    for (id, own, other) in [(&first, &a, &b), (&second, &b, &a)] {
        let before = other.all("tasks/get").len();
        let call = request("tasks/get", json!({"taskId": id}));
        let hops = call.extensions().get::<Hops>().unwrap().clone();
        let (_, told) = running.send(call).await.unwrap();
        assert_eq!((&told["result"]["taskId"], &told["id"]), (&json!(id), &json!("client-1")));
        assert_eq!(told["result"]["status"], "completed");
        if Arc::ptr_eq(own, &a) {
            // The outcome of a task links to resources as that of a call does.
            running.ask("resources/read", json!({"uri": "x://linked"})).await;
            assert_eq!(a.last("resources/read").body["params"]["uri"], "x://linked");
        }
        assert_eq!(hops.seen().upstream.as_deref(), Some(if Arc::ptr_eq(own, &a) { "a" } else { "b" }));
        for (method, more) in
            [("tasks/update", json!({"x": {"action": "accept"}})), ("tasks/cancel", json!({}))]
        {
            let answer = running.ask(method, json!({"taskId": id, "inputResponses": more})).await;
            assert_eq!(answer["result"], json!({"resultType": "complete"}));
            let seen = own.last(method);
            assert_eq!(seen.body["params"]["inputResponses"], more);
            assert_eq!((&seen.body["params"]["taskId"], seen.header("mcp-name")), (&json!("1"), Some("1")));
            assert!(declared(&seen));
        }
        assert_eq!(other.all("tasks/get").len(), before);
    }
    assert_eq!((running.seats[0].in_flight(), running.seats[1].in_flight()), (0, 0));
    running.ask("tools/call", json!({"name": "c__short"})).await;
    assert!(!declared(&c.last("tools/call")) && declared(&a.last("tools/call")));
}

#[tokio::test]
async fn an_id_that_does_not_open_is_an_unknown_task_and_reaches_nobody() {
    let (running, [a, b, _]) = three().await;
    let id = started(&running, "a__long").await;
    let mut altered = id.clone().into_bytes();
    altered[20] = if altered[20] == b'A' { b'B' } else { b'A' };
    let altered = String::from_utf8(altered).unwrap();
    for (who, id) in
        [("bob", id.as_str()), ("ada", &altered), ("ada", &id[..id.len() - 4]), ("ada", "1"), ("ada", "")]
    {
        for (method, verb) in
            [("tasks/get", "retrieve"), ("tasks/update", "update"), ("tasks/cancel", "cancel")]
        {
            let call = request_of(who, "2", method, json!({"taskId": id, "inputResponses": {}}));
            let (status, refused) = running.send(call).await.unwrap();
            assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)), "{who} {id} {method}");
            let said = format!("Failed to {verb} task: Task not found");
            assert_eq!(refused["error"]["message"], said, "{who} {id}");
        }
    }
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let refused = running.ask(method, json!({"taskId": 1})).await;
        assert_eq!(refused["error"]["code"], -32602);
        assert!(a.all(method).is_empty() && b.all(method).is_empty());
    }
}

#[tokio::test]
async fn who_does_not_declare_the_extension_is_told_to() {
    let (running, [a, ..]) = three().await;
    let id = started(&running, "a__long").await;
    for (method, params) in [
        ("tasks/get", json!({"taskId": id})),
        ("tasks/update", json!({"taskId": "1"})),
        ("tasks/cancel", json!({"taskId": id})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [id]}})),
    ] {
        let (status, refused) = running.send(undeclared(method, params)).await.unwrap();
        assert_eq!(
            (status, &refused["error"]["code"], &refused["id"]),
            (400, &json!(-32021), &json!("client-1"))
        );
        assert_eq!(
            refused["error"]["data"],
            json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
        );
        assert!(a.all(method).iter().all(|seen| !declared(seen)), "{method}");
    }
    let (_, answer) = running.send(undeclared("tools/call", json!({"name": "a__long"}))).await.unwrap();
    assert!(answer["result"].is_object() && !declared(&a.last("tools/call")));
}

#[tokio::test]
async fn without_a_server_that_has_tasks_there_are_none() {
    let fake = Fake::tools(&["short"]);
    let running = Running::learned(vec![seat("c", &fake)]).await;
    let found = running.ask("server/discover", json!({})).await;
    assert_eq!(found["result"]["capabilities"].get("extensions"), None);
    for method in ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"] {
        let (status, refused) = running.send(request(method, json!({"taskId": "1"}))).await.unwrap();
        assert_eq!((status, &refused["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
    let mut client = Client::open(&running, json!({"taskIds": ["1"], "toolsListChanged": true})).await;
    assert_eq!(client.expect(ACK).await["notifications"], json!({"toolsListChanged": true}));
}

#[tokio::test]
async fn an_id_outlives_the_process_and_reaches_a_server_that_was_not_asked_yet() {
    let fake = Fake::with_tasks();
    let sealer = || Arc::new(Sealer::new([&b"shared"[..]]));
    let before = Running::sealing(vec![seat("a", &fake)], sealer());
    super::running::until("it is learned", || before.catalogs[0].age().is_some()).await;
    let id = started(&before, "a__long").await;
    let with = |protocol| {
        let mut member = seat("a", &fake);
        member.catalog = Arc::new(Catalog::new("a".into(), protocol, Duration::from_secs(5)));
        crate::upstream::aggregate::Aggregate::new(vec![member], "__", sealer())
    };
    let call = || request("tasks/get", json!({"taskId": id}));
    assert_eq!(with(None).call(call()).await.unwrap().status(), 200);
    assert_eq!(fake.all("tasks/get").len(), 1);
    // What is known to be of the other era never sees such a request.
    assert_eq!(with(Some("2025-11-25")).call(call()).await.unwrap().status(), 404);
    assert_eq!(fake.all("tasks/get").len(), 1);
}

fn tell(fake: &Fake, id: &str, status: &str) {
    let about_tasks = |s: &super::fake::Seen| s.body["params"]["notifications"].get("taskIds").is_some();
    let listen = fake.all("subscriptions/listen").into_iter().rfind(about_tasks).unwrap();
    let mut params = task("complete", status);
    params["taskId"] = id.into();
    params["_meta"] = json!({SUBSCRIPTION: listen.body["id"]});
    fake.tell(&json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}));
}

#[tokio::test]
async fn each_server_tells_of_its_own_tasks_under_the_ids_that_the_client_has() {
    let (running, [a, b, c]) = three().await;
    let (first, second) = (started(&running, "a__long").await, started(&running, "b__long").await);
    let mut wanted = vec![first.clone(), second.clone()];
    let mut client = Client::open(&running, json!({"taskIds": [first, "1", second, 7]})).await;
    wanted.sort();
    assert_eq!(client.expect(ACK).await["notifications"], json!({"taskIds": wanted}));
    for (fake, id) in [(&a, &first), (&b, &second)] {
        assert_eq!(
            fake.last("subscriptions/listen").body["params"]["notifications"],
            json!({"taskIds": ["1"]})
        );
        assert!(declared(&fake.last("subscriptions/listen")));
        tell(fake, "2", "working");
        tell(fake, "1", "completed");
        let told = client.expect("notifications/tasks").await;
        assert_eq!((&told["taskId"], &told["status"]), (&json!(id), &json!("completed")));
        assert_eq!(told["result"]["content"][0]["uri"], "x://linked");
    }
    assert!(
        c.all("subscriptions/listen")
            .iter()
            .all(|s| s.body["params"]["notifications"].get("taskIds").is_none())
    );
    // What a task has told meanwhile is asked for when a lost stream stands again.
    a.end_streams();
    let told = client.expect("notifications/tasks").await;
    assert_eq!((&told["taskId"], &told["status"]), (&json!(first), &json!("completed")));
    assert!(told.get("resultType").is_none() && told["result"].is_object());
    assert_eq!(a.last("tasks/get").header("mcp-name"), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_over_a_task_has_its_own_time_and_counts_as_before() {
    let (running, [a, ..]) = three().await;
    let id = started(&running, "a__long").await;
    a.script(|seen| (seen.method() == "tasks/get").then_some(Act::Hang));
    for _ in 0..6 {
        let answer = running.send(request("tasks/get", json!({"taskId": id}))).await;
        assert!(matches!(answer, Err(UpstreamError::Timeout(_))), "{answer:?}");
    }
    assert_eq!(running.seats[0].breaker(), "closed");
}

#[tokio::test]
async fn a_task_that_begins_on_a_stream_has_the_same_id_in_all_its_messages() {
    let fake = Fake::with_tasks();
    let running = Running::learned(vec![seat("f", &fake)]).await;
    fake.script(|seen| {
        (seen.method() == "tools/call").then(|| {
            let (answer, events) = stream();
            let note =
                json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task("task", "working")});
            let result = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": task("task", "working")});
            for message in [note, result] {
                events.send(sse::frame(message.to_string().as_bytes()).into()).unwrap();
            }
            Act::Answer(answer)
        })
    });
    let (_, text) = running.send(request("tools/call", json!({"name": "f__long"}))).await.unwrap();
    let messages = text.as_str().unwrap().lines().filter_map(|l| l.strip_prefix("data: "));
    let messages: Vec<Value> = messages.map(|m| serde_json::from_str(m).unwrap()).collect();
    let id = &messages[0]["params"]["taskId"];
    assert!(id.as_str().is_some_and(|id| id.starts_with("v1.")));
    assert_eq!(id, &messages[1]["result"]["taskId"]);
}
