//! What a server says of a call on the session's GET stream, and how long that stream stays.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{
    Bench, EVERYTHING, Reader,
    asking::{done, question, retry},
    fake::{Does, Events, Fake, Seen, Streams, empty, result, until},
    request, tool,
};

fn roots(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
}

/// A server with GET streams that answers tool calls by streams, too.
fn bench(streams: &Streams) -> Bench {
    let theirs = streams.clone();
    Bench::new(move |seen| {
        let opens = seen.verb == Method::GET || seen.method() == "tools/call";
        if opens { theirs.open(seen).into() } else { Does::AsUsual }
    })
}

/// The GET stream and the first call's, both open.
async fn both(streams: &Streams) -> (Events, Seen, Events) {
    let (get, elsewhere) = streams.nth(0).await;
    assert_eq!(get.verb, Method::GET, "it is open before the call");
    let (call, events) = streams.nth(1).await;
    (elsewhere, call, events)
}

#[tokio::test]
async fn a_question_there_is_the_only_calls() {
    let streams = Streams::default();
    let bench = bench(&streams);
    let server = async {
        let (elsewhere, call, events) = both(&streams).await;
        elsewhere.send(&roots("r"));
        (elsewhere, call, events)
    };
    let ((status, asked), (elsewhere, call, events)) = tokio::join!(bench.call(), server);
    assert_eq!(status, 200, "{asked}");
    assert_eq!(asked["result"]["inputRequests"], json!({"1": {"method": "roots/list"}}), "{asked}");
    let server = async {
        until("the answer is posted", || !bench.fake.responses().is_empty()).await;
        events.send(&done(&call, json!({"content": []})));
    };
    let params = retry(&asked["result"]["requestState"], json!({"1": {"roots": []}}));
    let ((_, answer), ()) = tokio::join!(bench.ask("tools/call", params), server);
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    assert_eq!(bench.fake.responses(), [json!({"jsonrpc": "2.0", "id": "r", "result": {"roots": []}})]);
    // No call is open any more: nobody can be asked.
    elsewhere.send(&roots("s"));
    until("it is answered", || bench.fake.responses().len() == 2).await;
    assert_eq!(bench.fake.responses()[1]["error"]["code"], -32601);
    assert!(!elsewhere.is_closed(), "the stream stays a moment for the next call");
    drop(bench);
    until("it ends with the session", || elsewhere.is_closed()).await;
}

#[tokio::test]
async fn of_several_open_calls_it_is_nobodys() {
    let streams = Streams::default();
    let bench = bench(&streams);
    let server = async {
        let (elsewhere, one, events) = both(&streams).await;
        let (two, others) = streams.nth(2).await;
        elsewhere.send(&roots("r"));
        elsewhere.send(&question("e", "elicitation/create", json!({"message": "sure?"})));
        until("both are answered", || bench.fake.responses().len() == 2).await;
        events.send(&done(&one, json!({})));
        others.send(&done(&two, json!({})));
    };
    let (one, two, ()) = tokio::join!(bench.call(), bench.call(), server);
    assert_eq!(one.1["result"], json!({"resultType": "complete"}));
    assert_eq!(two.1["result"], json!({"resultType": "complete"}));
    let said = bench.fake.responses();
    for (said, id) in said.iter().zip(["r", "e"]) {
        assert_eq!((&said["id"], &said["error"]["code"]), (&json!(id), &json!(-32603)), "{said}");
    }
    assert_eq!(bench.fake.verbs(&Method::GET).len(), 1, "one stream for both");
}

#[tokio::test]
async fn progress_there_goes_by_its_token_and_log_messages_to_the_only_call() {
    let streams = Streams::default();
    let bench = bench(&streams);
    let mut params = tool();
    params["_meta"] = json!({"progressToken": "mine", "io.modelcontextprotocol/logLevel": "info"});
    let send = bench.send(request("ada", EVERYTHING, json!(1), "tools/call", params));
    let note = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    let server = async {
        let (elsewhere, call, events) = both(&streams).await;
        let token = &call.body["params"]["_meta"]["progressToken"];
        elsewhere.send(&note("notifications/progress", json!({"progressToken": 99, "progress": 0})));
        elsewhere.send(&note("notifications/progress", json!({"progressToken": token, "progress": 1})));
        elsewhere.send(&note("notifications/message", json!({"level": "info", "data": "hello"})));
        (call, events)
    };
    let (response, (call, events)) = tokio::join!(send, server);
    let mut reader = Reader::new(response);
    assert_eq!(reader.next().await.unwrap()["params"], json!({"progressToken": "mine", "progress": 1}));
    assert_eq!(reader.next().await.unwrap()["params"]["data"], "hello");
    events.send(&done(&call, json!({})));
    assert_eq!(reader.next().await.unwrap()["id"], 1);
}

#[tokio::test]
async fn a_server_that_answers_with_json_is_heard_before_its_response_head() {
    let streams = Streams::default();
    let theirs = streams.clone();
    let fake = Fake::new(move |seen| match seen.method() {
        "tools/call" => Does::Hang,
        _ if seen.verb == Method::GET => theirs.open(seen).into(),
        _ => Does::AsUsual,
    });
    let bench = Bench::of(fake);
    let server = async {
        until("the call is there", || !bench.fake.of("tools/call").is_empty()).await;
        streams.nth(0).await.1.send(&roots("r"));
    };
    let ((_, asked), ()) = tokio::join!(bench.call(), server);
    assert_eq!(asked["result"]["inputRequests"], json!({"1": {"method": "roots/list"}}), "{asked}");
    assert_eq!(bench.legacy.parked(), 1);
}

#[tokio::test]
async fn it_is_opened_for_calls_that_can_be_asked_alone() {
    let bench = Bench::new(|seen| match seen.method() {
        "tools/call" => result(seen, json!({})).into(),
        _ => Does::AsUsual,
    });
    assert_eq!(bench.ask_as("ada", "{}", "tools/call", tool()).await.0, 200);
    assert_eq!(bench.ask("tools/list", json!({})).await.0, 200);
    assert!(bench.fake.verbs(&Method::GET).is_empty());
    for _ in 0..3 {
        assert_eq!(bench.call().await.0, 200);
    }
    assert_eq!(bench.fake.verbs(&Method::GET).len(), 1, "it is refused once in a session");
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_has_no_stream() {
    let streams = Streams::default();
    let theirs = streams.clone();
    let bench = Bench::new(move |seen| match seen.method() {
        _ if seen.verb == Method::GET => theirs.open(seen).into(),
        "tools/call" => result(seen, json!({})).into(),
        _ => Does::AsUsual,
    });
    for _ in 0..3 {
        assert_eq!(bench.call().await.0, 200);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let (_, elsewhere) = streams.nth(0).await;
    assert!(!elsewhere.is_closed(), "calls that follow one another share it");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(elsewhere.is_closed());
    assert_eq!(bench.legacy.sessions(), 1, "the session stays");
    assert_eq!(bench.call().await.0, 200);
    streams.nth(1).await;
    assert_eq!(bench.fake.of("initialize").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_still_has_the_last_stream_is_asked_again() {
    let streams = Streams::default();
    let (theirs, busy) = (streams.clone(), std::sync::atomic::AtomicBool::new(true));
    let bench = Bench::new(move |seen| match seen.method() {
        _ if seen.verb != Method::GET => {
            if seen.method() == "tools/call" {
                theirs.open(seen).into()
            } else {
                Does::AsUsual
            }
        }
        _ if busy.swap(false, std::sync::atomic::Ordering::Relaxed) => empty(409).into(),
        _ => theirs.open(seen).into(),
    });
    let server = async {
        let (_, elsewhere) = streams.nth(0).await;
        streams.nth(1).await;
        elsewhere.send(&roots("r"));
    };
    let ((_, asked), ()) = tokio::join!(bench.call(), server);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
}

/// Web frameworks answer 404 to a method that has no route.
#[tokio::test]
async fn a_server_that_knows_no_get_does_not_lose_its_session_by_it() {
    let bench = Bench::new(|seen| if seen.verb == Method::GET { empty(404).into() } else { Does::AsUsual });
    for _ in 0..4 {
        assert_eq!(bench.call().await.0, 200);
    }
    assert_eq!((bench.fake.of("initialize").len(), bench.fake.verbs(&Method::GET).len()), (1, 1));
}
