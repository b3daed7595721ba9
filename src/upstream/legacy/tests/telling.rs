//! Progress, log messages and pings in the middle of calls.

use serde_json::{Value, json};

use super::{
    Bench, EVERYTHING, Reader,
    fake::{Does, Streams, until},
    request,
};

fn bench() -> (Bench, Streams) {
    let streams = Streams::default();
    let theirs = streams.clone();
    let bench = Bench::new(move |seen| match seen.method() {
        "tools/call" => theirs.open(seen).into(),
        _ => Does::AsUsual,
    });
    (bench, streams)
}

fn call(meta: Value) -> http::Request<bytes::Bytes> {
    request("ada", EVERYTHING, json!(1), "tools/call", json!({"name": "t", "_meta": meta}))
}

fn note(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

#[tokio::test]
async fn equal_tokens_of_two_calls_stay_apart() {
    let (bench, streams) = bench();
    let server = async {
        let (one, two) = (streams.nth(0).await, streams.nth(1).await);
        let token = |seen: &super::Seen| seen.body["params"]["_meta"]["progressToken"].clone();
        let (first, second) = (token(&one.0), token(&two.0));
        assert_ne!(first, second);
        // The tokens of the other call mean nothing on this stream.
        for ((seen, events), own, foreign) in [(&one, &first, &second), (&two, &second, &first)] {
            let n = &seen.body["params"]["_meta"]["vendor/n"];
            events.send(&note("progress", json!({"progressToken": foreign, "progress": 99})));
            events.send(&note("progress", json!({"progressToken": own, "progress": n, "message": "m"})));
        }
    };
    let token = |n: u8| json!({"progressToken": "same", "vendor/n": n});
    let (one, two, ()) = tokio::join!(bench.send(call(token(10))), bench.send(call(token(20))), server);
    for (response, n) in [(one, 10), (two, 20)] {
        let heard = Reader::new(response).next().await.unwrap();
        assert_eq!(heard["params"], json!({"progressToken": "same", "progress": n, "message": "m"}));
    }
}

#[tokio::test]
async fn log_messages_come_only_as_they_were_asked_for() {
    let (bench, streams) = bench();
    let level = |level: &str| json!({"io.modelcontextprotocol/logLevel": level});
    for (n, (meta, heard)) in [
        (level("warning"), vec!["warning", "error"]),
        (json!({}), vec![]),
        (level("error"), vec!["error"]),
        (level("info"), vec!["info", "warning", "error"]),
    ]
    .into_iter()
    .enumerate()
    {
        let server = async {
            let (seen, events) = streams.nth(n).await;
            for level in ["debug", "info", "warning", "loud", "error"] {
                events.send(&note("message", json!({"level": level, "data": 1.0})));
            }
            events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}));
        };
        let (response, ()) = tokio::join!(bench.send(call(meta)), server);
        if heard.is_empty() {
            assert_eq!(super::whole(response).await.1["result"]["resultType"], "complete");
            continue;
        }
        let mut reader = Reader::new(response);
        for level in heard {
            let message = reader.next().await.unwrap();
            assert_eq!(
                (&message["params"]["level"], &message["params"]["data"]),
                (&json!(level), &json!(1.0))
            );
        }
        assert_eq!(reader.next().await.unwrap()["id"], 1);
    }
    let set: Vec<_> =
        bench.fake.of("logging/setLevel").iter().map(|s| s.body["params"]["level"].clone()).collect();
    assert_eq!(set, ["warning", "info"], "raised when needed, and never lowered");
}

#[tokio::test]
async fn pings_are_answered_here_and_strange_notices_pass() {
    let (bench, streams) = bench();
    let server = async {
        let (seen, events) = streams.nth(0).await;
        events.send(&json!({"jsonrpc": "2.0", "id": "ping-1", "method": "ping"}));
        until("the ping is answered", || !bench.fake.responses().is_empty()).await;
        assert_eq!(bench.fake.responses(), [json!({"jsonrpc": "2.0", "id": "ping-1", "result": {}})]);
        for dropped in ["elicitation/complete", "tasks/status", "tools/list_changed"] {
            events.send(&note(dropped, json!({"elicitationId": "e"})));
        }
        events.send(&note("vendor/hello", json!({"n": 1e2})));
        events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}));
    };
    let (response, ()) = tokio::join!(bench.send(call(json!({}))), server);
    let mut reader = Reader::new(response);
    assert_eq!(reader.next().await.unwrap()["method"], "notifications/vendor/hello");
    assert_eq!(reader.next().await.unwrap()["id"], 1);
    assert_eq!(reader.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_keeps_the_client_waiting_on_a_stream() {
    let (bench, streams) = bench();
    let response = bench.send(call(json!({}))).await;
    let mut reader = Reader::new(response);
    let (seen, events) = streams.nth(0).await;
    for _ in 0..3 {
        tokio::time::sleep(std::time::Duration::from_secs(6)).await;
        events.raw(": still here\n\n");
    }
    events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32601, "message": "m"}}));
    assert_eq!(reader.next().await.unwrap()["error"]["code"], -32601);
    assert_eq!(reader.next().await, None);
}
