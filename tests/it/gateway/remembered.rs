//! What the gateway remembers of legacy clients before a modern server: bounded for each principal, shown in metrics, and
//! gone with the clients.

use http::Response;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::{KEY, parked::two_keys, tool};
use crate::support::{
    fake::{Fake, Reply, Seen, Speaks, result, status},
    process::{Gateway, read_to},
    soon,
};

const OTHER_KEY: &str = "sg-the-key-of-bob-0123456789abcdef";
/// Questions that clients of one principal may have open.
const EACH: usize = 1_000;
/// Open questions of one session; it may have 64.
const OF_A_SESSION: usize = 50;
const SESSIONS: &str = "smartgate_legacy_sessions{upstream=\"files\"}";
const QUESTIONS: &str = "smartgate_waiting_questions{upstream=\"files\"}";

/// A modern server whose tool `ask` asks first.
async fn server() -> Fake {
    Fake::speaking(Speaks::Modern, |seen| async move { answer(&seen) }).await
}

fn answer(seen: &Seen) -> Reply {
    let body = seen.json();
    match seen.rpc().as_str() {
        "server/discover" => result(
            seen,
            &json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 60_000, "cacheScope": "private"}),
        ),
        "tools/call" if body["params"]["name"] == "ask" && body["params"]["inputResponses"].is_null() => {
            result(
                seen,
                &json!({"resultType": "input_required", "inputRequests": {"form": {"method": "elicitation/create",
                "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}}}}),
            )
        }
        "tools/call" => result(seen, &json!({"resultType": "complete", "content": [], "isError": false})),
        _ => status(404),
    }
}

fn as_key(gate: &Gateway, key: &str) -> http::request::Builder {
    gate.request().header("authorization", format!("Bearer {key}"))
}

async fn session(gate: &Gateway, key: &str) -> String {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "old-host", "version": "1"}});
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    let answer = gate.call(as_key(gate, key), body).await;
    answer.header("mcp-session-id").unwrap().to_owned()
}

async fn ask(gate: &Gateway, key: &str, session: &str, n: usize) -> (String, Response<Incoming>) {
    let request = as_key(gate, key).header("mcp-session-id", session);
    let mut response = gate.open(request, tool(n, "ask", "{}")).await;
    let text = read_to(response.body_mut(), "\n\n").await;
    (text, response)
}

fn message(event: &str) -> Value {
    let data = event.lines().find_map(|l| l.strip_prefix("data: ")).unwrap_or_else(|| panic!("{event}"));
    data.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_one_principal_are_bounded_and_others_are_asked() {
    let fake = server().await;
    let gate = Gateway::before(&fake.url(), &two_keys("limits.concurrency = 5000")).await;
    gate.knows("files").await;
    let mut open = Vec::new();
    let mut last = String::new();
    for n in 0..EACH {
        if n % OF_A_SESSION == 0 {
            last = session(&gate, KEY).await;
        }
        let (text, response) = ask(&gate, KEY, &last, n).await;
        assert_eq!(message(&text)["method"], "elicitation/create", "{n}: {text}");
        open.push((message(&text)["id"].clone(), response));
    }
    let counted = (gate.metric(QUESTIONS).await as usize, gate.metric(SESSIONS).await as usize);
    assert_eq!(counted, (EACH, EACH / OF_A_SESSION));
    // The thousand and first: an honest error on its stream, and its call is over.
    let another = session(&gate, KEY).await;
    let (text, _) = ask(&gate, KEY, &another, EACH).await;
    let error = &message(&text)["error"];
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(429), &json!("rate_limited")), "{text}");
    assert_eq!((&error["data"]["wall"], &error["data"]["limit"]), (&json!("questions"), &json!(EACH)));
    assert!(error["message"].as_str().unwrap().contains("1000 questions"), "{text}");
    // Another principal is asked, and one that answers makes room.
    let theirs = session(&gate, OTHER_KEY).await;
    let (text, _bob) = ask(&gate, OTHER_KEY, &theirs, 1).await;
    assert_eq!(message(&text)["method"], "elicitation/create", "{text}");
    let (id, mut response) = open.pop().unwrap();
    let said = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {}}}).to_string();
    let request = as_key(&gate, KEY).header("mcp-session-id", &last);
    assert_eq!(gate.call(request, said).await.status, 202);
    let done = message(&read_to(response.body_mut(), "\n\n").await);
    assert_eq!((&done["id"], &done["result"]["isError"]), (&json!(EACH - 1), &json!(false)));
    let (text, ada) = ask(&gate, KEY, &another, 1).await;
    assert_eq!(message(&text)["method"], "elicitation/create", "{text}");
    // They leave, and nothing is left.
    drop((open, ada, _bob));
    soon("no question is left", async {
        while gate.metric(QUESTIONS).await > 0.5 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
    .await;
    let records = gate.stop().await;
    let full: Vec<_> = records.iter().filter(|r| r["error"]["code"] == 429).collect();
    assert_eq!(full.len(), 1);
    assert_eq!(
        (&full[0]["outcome"], &full[0]["error"]["reason"], &full[0]["bridged"]),
        (&json!("rejected"), &json!("rate_limited"), &json!(true)),
        "{}",
        full[0]
    );
}
