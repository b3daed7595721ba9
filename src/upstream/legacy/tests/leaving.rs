//! Clients that leave, at each moment at which they can.

use std::time::Duration;

use serde_json::json;

use super::{
    Bench, EVERYTHING, Reader,
    fake::{Does, Fake, Seen, Streams, until},
    request, tool,
};

fn bench(streams: &Streams) -> Bench {
    let theirs = streams.clone();
    Bench::of(Fake::new(move |seen| match seen.method() {
        "tools/call" => theirs.open(seen).into(),
        "prompts/get" => Does::Hang,
        _ => Does::AsUsual,
    }))
}

/// Makes a call and leaves it as soon as the server has it.
async fn left(bench: &Bench, method: &str) {
    tokio::select! {
        _ = bench.send(request("ada", EVERYTHING, json!(1), method, tool())) => panic!("it is answered"),
        () = until("the server has it", || !bench.fake.of(method).is_empty()) => {}
    }
}

async fn is_cancelled(bench: &Bench, call: &Seen) {
    until("the server knows", || !bench.fake.of("notifications/cancelled").is_empty()).await;
    let cancelled = &bench.fake.of("notifications/cancelled")[0];
    assert_eq!(cancelled.body["params"]["requestId"], call.body["id"]);
    assert_eq!(cancelled.header("mcp-session-id"), call.header("mcp-session-id"));
    assert_eq!(bench.fake.of("notifications/cancelled").len(), 1);
}

#[tokio::test]
async fn before_the_servers_head() {
    let bench = bench(&Streams::default());
    left(&bench, "prompts/get").await;
    is_cancelled(&bench, &bench.fake.of("prompts/get")[0]).await;
}

#[tokio::test]
async fn before_the_first_message() {
    let streams = Streams::default();
    let bench = bench(&streams);
    left(&bench, "tools/call").await;
    let (seen, events) = streams.nth(0).await;
    is_cancelled(&bench, &seen).await;
    until("the stream is dropped", || events.is_closed()).await;
}

#[tokio::test]
async fn in_the_middle_of_the_stream() {
    let streams = Streams::default();
    let bench = bench(&streams);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor"});
    let server = async {
        let (seen, events) = streams.nth(0).await;
        events.send(&note);
        (seen, events)
    };
    let call = bench.send(request("ada", EVERYTHING, json!(1), "tools/call", tool()));
    let (response, (seen, events)) = tokio::join!(call, server);
    let mut reader = Reader::new(response);
    assert_eq!(reader.next().await, Some(note));
    drop(reader);
    is_cancelled(&bench, &seen).await;
    until("the stream is dropped", || events.is_closed()).await;
}

#[tokio::test]
async fn after_the_answer_there_is_nothing_to_cancel() {
    let streams = Streams::default();
    let bench = bench(&streams);
    let server = async {
        let (seen, events) = streams.nth(0).await;
        events.send(&json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {}}));
    };
    let ((status, _), ()) = tokio::join!(bench.call(), server);
    assert_eq!(status, 200);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(bench.fake.of("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn during_initialize_the_session_is_ended_all_the_same() {
    let bench = Bench::new(|_| Does::AsUsual);
    let mut call = Box::pin(bench.send(request("ada", EVERYTHING, json!(1), "tools/call", tool())));
    // One look: initialize is on its way.
    assert!(tokio::time::timeout(Duration::ZERO, &mut call).await.is_err());
    drop(call);
    until("it was opened and ended", || {
        !bench.fake.of("initialize").is_empty() && bench.fake.sessions() == 0
    })
    .await;
    assert!(bench.fake.of("notifications/cancelled").is_empty(), "initialize must not be cancelled");
}
