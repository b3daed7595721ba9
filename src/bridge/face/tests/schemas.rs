//! Calls that a server refuses because the gateway knows its tools as they were.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use serde_json::{Value, json};

use super::{Client, Listed, face_that_knows, joined, server::Said};

const MISMATCH: &str = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32020,"message":"headers"}}"#;

fn in_region() -> Value {
    json!({"name": "t", "arguments": {"region": "north"}})
}

fn refused() -> Said {
    Said::Raw(400, "application/json", MISMATCH.into())
}

#[tokio::test]
async fn a_call_refused_for_its_headers_is_sent_again_by_the_new_schema() {
    let (server, client) = joined("2025-11-25").await;
    server.has_moved.store(true, Relaxed);
    let listed = Arc::new(Listed::default());
    listed.stale.store(true, Relaxed);
    let client = Client { face: face_that_knows(&server, Arc::clone(&listed)), ..client };
    server.say("tools/call", refused());
    server.say("tools/call", Said::Result(json!({"content": []})));
    let reply = client.ask("tools/call", &in_region()).await;
    assert_eq!(reply.body()["result"], json!({"content": []}));
    let seen = server.seen("tools/call");
    let regions: Vec<_> = seen.iter().map(|s| s.header("mcp-param-region")).collect();
    assert_eq!(regions, [None, Some("north")]);
    assert_ne!(seen[0].body["id"], seen[1].body["id"]);
    assert_eq!(listed.relists.load(Relaxed), 1);
}

#[tokio::test]
async fn it_is_sent_again_once_and_only_by_another_list() {
    let (server, client) = joined("2025-11-25").await;
    let listed = Arc::new(Listed::default());
    let client = Client { face: face_that_knows(&server, Arc::clone(&listed)), ..client };
    for (stale, sent) in [(false, 1), (true, 3)] {
        server.has_moved.store(stale, Relaxed);
        listed.stale.store(stale, Relaxed);
        for _ in 0..2 {
            server.say("tools/call", refused());
        }
        let reply = client.ask("tools/call", &in_region()).await;
        assert_eq!((reply.status, &reply.body()["error"]["code"]), (200, &json!(-32603)));
        assert_eq!(server.seen("tools/call").len(), sent, "stale: {stale}");
        server.script.lock().unwrap().clear();
    }
    server.say("prompts/get", refused());
    let reply = client.ask("prompts/get", &json!({"name": "p"})).await;
    assert_eq!(reply.body()["error"]["code"], -32603);
    assert_eq!((server.seen("prompts/get").len(), listed.relists.load(Relaxed)), (1, 2));
}
