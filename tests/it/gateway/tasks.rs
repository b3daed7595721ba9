//! The modern tasks extension where several servers are one: equal ids of two servers are two tasks, each is reached by
//! who began it alone, and what the servers of the other era and its clients see of it is nothing.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::request::Builder;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::{KEY, META, key, modern, refused, request};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, channel, error, event, result, sse},
    process::{Answer, Gateway, read_to},
};

const BOB: &str = "sg-the-key-of-bob-0123456789abcdef";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Each with the id of the request that opened it.
type Streams = Mutex<Vec<(Value, Sender<Bytes>)>>;

/// A server whose calls become the task `1`, and the streams on which it tells of that.
struct Worker {
    fake: Fake,
    streams: Arc<Streams>,
}

fn task(name: &str, kind: &str, status: &str) -> Value {
    json!({"resultType": kind, "taskId": "1", "status": status, "statusMessage": name, "ttlMs": 60_000,
        "createdAt": "2026-12-01T00:00:00Z", "lastUpdatedAt": "2026-12-01T00:00:00Z"})
}

fn act(name: &str, seen: &Seen, streams: &Streams) -> Reply {
    let (body, known) = (seen.json(), seen.json()["params"]["taskId"] == "1");
    if known {
        assert_eq!(seen.header("mcp-name"), Some("1"));
    }
    match seen.rpc().as_str() {
        "tools/call" => result(seen, &task(name, "task", "working")),
        "tasks/get" if known => result(seen, &task(name, "complete", "working")),
        "tasks/update" | "tasks/cancel" if known => result(seen, &json!({"resultType": "complete"})),
        "subscriptions/listen" => {
            let (sender, stream) = channel();
            let params = json!({"notifications": body["params"]["notifications"], "_meta": {SUBSCRIPTION: body["id"]}});
            let ack = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params});
            sender.try_send(event(&ack.to_string())).unwrap();
            streams.lock().unwrap().push((body["id"].clone(), sender));
            sse(stream)
        }
        _ => error(seen, -32602, "Failed to retrieve task: Task not found"),
    }
}

impl Worker {
    async fn start(name: &'static str) -> Self {
        let streams = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&streams);
        let script = move |seen: Seen| {
            let reply = act(name, &seen, &theirs);
            async move { reply }
        };
        Self { fake: Fake::speaking(Speaks::Tasks, script).await, streams }
    }

    /// How often it was asked about a task.
    fn asked(&self) -> usize {
        self.fake.calls().iter().filter(|c| c.rpc().starts_with("tasks/")).count()
    }

    async fn tell(&self, name: &str) {
        let (id, sender) = self.streams.lock().unwrap().last().unwrap().clone();
        let mut params = task(name, "complete", "completed");
        params["_meta"] = json!({SUBSCRIPTION: id});
        let message = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params});
        sender.send(event(&message.to_string())).await.unwrap();
    }
}

fn upstreams(servers: &[(&str, &Fake)]) -> String {
    servers.iter().map(|(name, fake)| format!("upstreams.{name}.url = \"{}\"\n", fake.url())).collect()
}

/// A request of a client that has the extension.
fn asking(
    gate: &Gateway,
    secret: &str,
    method: &str,
    name: Option<&str>,
    params: &Value,
) -> (Builder, String) {
    let meta = META
        .replace("Capabilities\":{}", &format!("Capabilities\":{{\"extensions\":{{\"{EXTENSION}\":{{}}}}}}"));
    let params = params.to_string();
    let members = &params[1..params.len() - 1];
    let comma = if members.is_empty() { "" } else { "," };
    let body =
        format!(r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{{{members}{comma}{meta}}}}}"#);
    let request = modern(gate.request(), method, name).header("authorization", format!("Bearer {secret}"));
    (request, body)
}

async fn ask(gate: &Gateway, secret: &str, method: &str, name: Option<&str>, params: &Value) -> Answer {
    let (request, body) = asking(gate, secret, method, name, params);
    gate.call(request, body).await
}

async fn begin(gate: &Gateway, secret: &str, tool: &str) -> String {
    let answer =
        ask(gate, secret, "tools/call", Some(tool), &json!({"name": tool, "arguments": {}})).await.json();
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn about(gate: &Gateway, secret: &str, method: &str, id: &str) -> Value {
    let answer = ask(gate, secret, method, Some(id), &json!({"taskId": id, "inputResponses": {}})).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn is_unknown(answer: &Value) -> bool {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    answer["error"]["code"] == -32602 && message.ends_with("Task not found")
}

async fn two(more: &str) -> (Gateway, Worker, Worker) {
    let (a, b) = (Worker::start("a").await, Worker::start("b").await);
    let gate = Gateway::start(&(upstreams(&[("a", &a.fake), ("b", &b.fake)]) + more)).await;
    gate.knows("a").await;
    gate.knows("b").await;
    (gate, a, b)
}

#[tokio::test]
async fn a_task_is_reached_at_its_server_by_who_began_it_and_nobody_else() {
    let keys = key("ada", KEY, "") + &key("bob", BOB, "tools = [\"b__*\"]");
    let (gate, a, b) = two(&keys).await;
    let found = ask(&gate, KEY, "server/discover", None, &json!({})).await.json();
    assert_eq!(found["result"]["capabilities"]["extensions"], json!({EXTENSION: {}}));
    let (first, second) = (begin(&gate, KEY, "a__add").await, begin(&gate, KEY, "b__add").await);
    assert_ne!(first, second);
    for (id, name) in [(&first, "a"), (&second, "b")] {
        let told = about(&gate, KEY, "tasks/get", id).await;
        assert_eq!((&told["result"]["taskId"], &told["result"]["statusMessage"]), (&json!(id), &json!(name)));
        for method in ["tasks/update", "tasks/cancel"] {
            assert_eq!(about(&gate, KEY, method, id).await["result"], json!({"resultType": "complete"}));
        }
    }
    assert_eq!((a.asked(), b.asked()), (3, 3));
    let half = first.len() / 2;
    let other = if &first[half..=half] == "A" { "B" } else { "A" };
    let altered = format!("{}{other}{}", &first[..half], &first[half + 1..]);
    for (secret, id) in [(BOB, first.as_str()), (BOB, &second), (KEY, &altered), (KEY, "1")] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let answer = about(&gate, secret, method, id).await;
            assert!(is_unknown(&answer), "{method}: {answer}");
        }
    }
    // The header is held to the body as it is for a name.
    let wrong = ask(&gate, KEY, "tasks/get", Some(&second), &json!({"taskId": first})).await;
    refused(&wrong, 400, -32020, "header_mismatch", Some("\"c\""));
    // A tool that a key may not call gives it no task either.
    let hidden =
        ask(&gate, BOB, "tools/call", Some("a__add"), &json!({"name": "a__add", "arguments": {}})).await;
    refused(&hidden, 403, 403, "forbidden", Some("\"c\""));
    assert_eq!((a.asked(), b.asked()), (3, 3), "none of these reached a server");
    let of_bob = begin(&gate, BOB, "b__add").await;
    assert_ne!(of_bob, second, "the same task of the server has another id for another key");
    assert!(is_unknown(&about(&gate, KEY, "tasks/get", &of_bob).await));
    let records = gate.stop().await;
    let got = records.iter().find(|r| r["method"] == "tasks/get").unwrap();
    assert_eq!(
        (&got["upstream"], &got["outcome"], &got["principal"]),
        (&json!("a"), &json!("ok"), &json!("ada")),
        "{got}"
    );
    assert!(got.get("tool").is_none_or(Value::is_null));
}

#[tokio::test]
async fn each_request_about_a_task_counts_for_its_keys_rate() {
    let (gate, a, _) = two(&key("ada", KEY, "rate = \"3/h\"")).await;
    let id = begin(&gate, KEY, "a__add").await;
    about(&gate, KEY, "tasks/get", &id).await;
    about(&gate, KEY, "tasks/get", "1").await;
    let answer = ask(&gate, KEY, "tasks/get", Some(&id), &json!({"taskId": id})).await;
    refused(&answer, 429, 429, "rate_limited", Some("\"c\""));
    assert_eq!(a.asked(), 1);
}

#[tokio::test]
async fn tasks_are_told_of_under_the_ids_that_were_subscribed_to() {
    let (gate, a, b) = two(&(key("ada", KEY, "") + &key("bob", BOB, ""))).await;
    let (first, second) = (begin(&gate, KEY, "a__add").await, begin(&gate, KEY, "b__add").await);
    let foreign = begin(&gate, BOB, "a__add").await;
    let wanted = json!({"notifications": {"taskIds": [first, second, foreign, "1"]}});
    let (request, body) = asking(&gate, KEY, "subscriptions/listen", None, &wanted);
    let mut stream = gate.open(request, body).await;
    let ack = read_to(stream.body_mut(), "\n\n").await;
    assert!(ack.contains("acknowledged") && ack.contains(&first) && ack.contains(&second), "{ack}");
    assert!(!ack.contains(&foreign) && !ack.contains("\"1\""), "{ack}");
    for (worker, name, id) in [(&a, "a", &first), (&b, "b", &second)] {
        worker.tell(name).await;
        let told = read_to(stream.body_mut(), "\n\n").await;
        let told: Value =
            serde_json::from_str(told.lines().find_map(|l| l.strip_prefix("data: ")).unwrap()).unwrap();
        assert_eq!((&told["params"]["taskId"], &told["params"]["statusMessage"]), (&json!(id), &json!(name)));
        assert_eq!(told["params"]["_meta"][SUBSCRIPTION], "c");
    }
}

#[tokio::test]
async fn ids_outlive_a_reload_and_lead_nowhere_when_their_server_is_gone() {
    let keys = key("ada", KEY, "");
    let (gate, a, b) = two(&keys).await;
    let (first, second) = (begin(&gate, KEY, "a__add").await, begin(&gate, KEY, "b__add").await);
    let third = Fake::plain().await;
    let rest = [("a", &a.fake), ("c", &third)];
    gate.rewrite(&(upstreams(&rest) + &keys));
    gate.logged("configuration reloaded").await;
    gate.knows("c").await;
    assert_eq!(about(&gate, KEY, "tasks/get", &first).await["result"]["taskId"], json!(first));
    assert!(is_unknown(&about(&gate, KEY, "tasks/get", &second).await));
    assert_eq!(b.asked(), 0);
}

#[tokio::test]
async fn the_other_era_sees_nothing_of_tasks() {
    let (worker, old) = (Worker::start("new").await, Fake::plain().await);
    let config = upstreams(&[("new", &worker.fake), ("old", &old)]) + &key("ada", KEY, "");
    let gate = Gateway::start(&config).await;
    gate.knows("new").await;
    gate.knows("old").await;
    // A legacy server of a client that has the extension.
    let answer =
        ask(&gate, KEY, "tools/call", Some("old__add"), &json!({"name": "old__add", "arguments": {}})).await;
    assert_eq!(answer.json()["result"]["resultType"], "complete", "{}", answer.text());
    assert!(old.calls().iter().all(|seen| !seen.text().contains(EXTENSION)));
    // A legacy client of a server that has it.
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"tasks":{}},"clientInfo":{"name":"n","version":"1"}}}"#;
    let opened = gate.post_as(KEY, hello).await;
    let capabilities = opened.json()["result"]["capabilities"].clone();
    assert!(capabilities.is_object() && !capabilities.to_string().contains("tasks"), "{capabilities}");
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let gone =
        gate.request().header("authorization", format!("Bearer {KEY}")).header("mcp-session-id", session);
    let gone = gate.call(gone, request(2, "tasks/get")).await;
    assert_eq!(gone.json()["error"]["code"], -32601, "{}", gone.text());
    assert_eq!(worker.asked(), 0);
}
