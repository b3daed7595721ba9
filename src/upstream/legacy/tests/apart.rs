//! Servers whose questions do not say which call they belong to: calls that can be asked keep apart.

use std::collections::HashSet;

use http::Method;
use serde_json::{Value, json};

use super::{
    Bench, EVERYTHING, Reader,
    asking::{done, question, retry},
    fake::{Does, Events, Fake, Seen, Streams, empty, until},
    last, request, tool, whole,
};
use crate::upstream::{ClientSession, OneStream, Upstream};

/// A server that answers tool calls by streams. Without GET streams unless they are asked for.
fn bench(streams: &Streams, one_stream: Option<OneStream>, gets: bool) -> Bench {
    let theirs = streams.clone();
    let fake = Fake::new(move |seen| match seen.method() {
        "tools/call" => theirs.open(seen).into(),
        _ if seen.verb == Method::GET && gets => theirs.open(seen).into(),
        _ if seen.verb == Method::GET => empty(405).into(),
        _ => Does::AsUsual,
    });
    Bench::of(Fake { one_stream, ..fake })
}

fn sessions(bench: &Bench) -> HashSet<String> {
    bench.fake.of("tools/call").iter().map(|seen| seen.header("mcp-session-id").unwrap().to_owned()).collect()
}

fn elicit(id: &str) -> Value {
    question(id, "elicitation/create", json!({"message": id}))
}

/// A call from its first question to its end, which says who was asked.
async fn asked(bench: &Bench, who: &str) -> Value {
    let mut params = tool();
    params["arguments"] = json!({"who": who});
    let (_, asked) = bench.ask("tools/call", params.clone()).await;
    assert_eq!(asked["result"]["inputRequests"]["1"]["params"]["message"], who, "{asked}");
    let answer = retry(&asked["result"]["requestState"], json!({"1": {"action": "accept", "content": {}}}));
    params["requestState"] = answer["requestState"].clone();
    params["inputResponses"] = answer["inputResponses"].clone();
    bench.ask("tools/call", params).await.1
}

/// The server's side of it: the questions first, so that they stand open together.
async fn ask_all(bench: &Bench, calls: &[(Seen, Events)]) {
    let who = |seen: &Seen| seen.body["params"]["arguments"]["who"].as_str().unwrap().to_owned();
    for (seen, events) in calls {
        events.send(&elicit(&who(seen)));
    }
    let before = bench.fake.responses().len();
    until("all are answered", || bench.fake.responses().len() == before + calls.len()).await;
    for (seen, events) in calls {
        events.send(&done(seen, json!({"who": who(seen)})));
    }
}

#[tokio::test]
async fn calls_at_the_same_time_are_asked_in_sessions_of_their_own() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: false }), false);
    for round in 0..2 {
        let server = async {
            let first = round * 3;
            let mut calls = Vec::new();
            for n in first..first + 3 {
                calls.push(streams.nth(n).await);
            }
            ask_all(&bench, &calls).await;
        };
        let (a, b, c, ()) = tokio::join!(asked(&bench, "a"), asked(&bench, "b"), asked(&bench, "c"), server);
        for (answer, who) in [(a, "a"), (b, "b"), (c, "c")] {
            assert_eq!(answer["result"]["who"], who, "{answer}");
        }
        assert_eq!(sessions(&bench).len(), 3, "round {round}");
    }
}

#[tokio::test]
async fn calls_one_after_the_other_are_in_one_session_with_all_else() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: false }), false);
    for n in 0..3 {
        let server = async { ask_all(&bench, &[streams.nth(n).await]).await };
        let (answer, ()) = tokio::join!(asked(&bench, "a"), server);
        assert_eq!(answer["result"]["who"], "a", "{answer}");
        assert_eq!(bench.ask("tools/list", json!({})).await.0, 200);
    }
    assert_eq!(bench.fake.of("initialize").len(), 1);
}

#[tokio::test]
async fn news_of_any_session_reach_who_listens() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: false }), true);
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listening = bench.send(request("ada", EVERYTHING, json!("l"), "subscriptions/listen", listen)).await;
    let mut reader = Reader::new(listening);
    assert_eq!(reader.next().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let server = async {
        let mut calls = Vec::new();
        for n in 0..4 {
            let (seen, events) = streams.nth(n).await;
            if seen.verb == Method::POST {
                calls.push((seen, events));
            }
        }
        calls.sort_by_key(|(seen, _)| seen.header("mcp-session-id").unwrap().to_owned());
        let (seen, events) = &calls[1];
        events.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        events.send(&done(seen, json!({})));
        calls[0].1.send(&done(&calls[0].0, json!({})));
    };
    let (one, two, ()) = tokio::join!(bench.call(), bench.call(), server);
    assert_eq!((one.0, two.0), (200, 200));
    assert_eq!(reader.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_process_is_shared_until_it_asks() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: true }), false);
    let server = async {
        let (one, two) = (streams.nth(0).await, streams.nth(1).await);
        two.1.send(&elicit("x"));
        until("it is refused", || !bench.fake.responses().is_empty()).await;
        one.1.send(&done(&one.0, json!({})));
        two.1.send(&done(&two.0, json!({})));
    };
    let (one, two, ()) = tokio::join!(bench.call(), bench.call(), server);
    assert_eq!((one.0, two.0), (200, 200));
    let said = &bench.fake.responses()[0];
    assert_eq!((&said["id"], &said["error"]["code"]), (&json!("x"), &json!(-32603)), "{said}");
    assert_eq!(bench.fake.of("initialize").len(), 1);
    let server = async {
        ask_all(&bench, &[streams.nth(2).await, streams.nth(3).await]).await;
    };
    let (one, two, ()) = tokio::join!(asked(&bench, "a"), asked(&bench, "b"), server);
    assert_eq!((&one["result"]["who"], &two["result"]["who"]), (&json!("a"), &json!("b")));
    assert_eq!(sessions(&bench).len(), 2);
}

#[tokio::test]
async fn a_server_that_asks_on_the_get_stream_is_found_out() {
    let streams = Streams::default();
    let bench = bench(&streams, None, true);
    let server = async {
        let (get, elsewhere) = streams.nth(0).await;
        assert_eq!(get.verb, Method::GET);
        let (one, two) = (streams.nth(1).await, streams.nth(2).await);
        elsewhere.send(&elicit("x"));
        until("it is refused", || !bench.fake.responses().is_empty()).await;
        one.1.send(&done(&one.0, json!({})));
        two.1.send(&done(&two.0, json!({})));
    };
    let (one, two, ()) = tokio::join!(bench.call(), bench.call(), server);
    assert_eq!((one.0, two.0), (200, 200));
    let (one, two) = (bench.send(request("ada", EVERYTHING, json!(1), "tools/call", tool())), bench.call());
    let server = async {
        for n in [3, 4, 5] {
            let (seen, events) = streams.nth(n).await;
            if seen.verb == Method::POST {
                events.send(&done(&seen, json!({})));
            }
        }
    };
    let (one, two, ()) = tokio::join!(one, two, server);
    assert_eq!((whole(one).await.0, two.0), (200, 200));
    assert_eq!(sessions(&bench).len(), 2, "one shared, then one each");
}

#[tokio::test]
async fn a_server_that_answers_with_its_calls_is_asked_in_one_session() {
    let streams = Streams::default();
    let bench = bench(&streams, None, false);
    let server = async { ask_all(&bench, &[streams.nth(0).await, streams.nth(1).await]).await };
    let (one, two, ()) = tokio::join!(asked(&bench, "a"), asked(&bench, "b"), server);
    assert_eq!((&one["result"]["who"], &two["result"]["who"]), (&json!("a"), &json!("b")));
    assert_eq!(bench.fake.of("initialize").len(), 1);
}

#[tokio::test]
async fn there_is_an_end_to_sessions_of_ones_own() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: false }), false);
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..70 {
        let legacy = bench.legacy.clone();
        calls.spawn(async move {
            let request = request("ada", EVERYTHING, json!(1), "tools/call", tool());
            last(legacy.call(request).await.unwrap()).await
        });
    }
    // None is answered before all are there.
    streams.nth(69).await;
    for n in 0..70 {
        let (seen, events) = streams.nth(n).await;
        events.send(&done(&seen, json!({})));
    }
    let answers = calls.join_all().await;
    assert!(answers.iter().all(|answer| answer["result"]["resultType"] == "complete"), "{answers:?}");
    assert_eq!(sessions(&bench).len(), 64, "the rest share one");
}

#[tokio::test]
async fn a_client_with_sessions_has_its_own_and_is_asked_whichever_call_it_is() {
    let streams = Streams::default();
    let bench = bench(&streams, Some(OneStream { is_process: false }), false);
    let call = |nonce: u64| {
        let mut request = request("ada", EVERYTHING, json!(nonce), "tools/call", tool());
        request.extensions_mut().insert(ClientSession([nonce, 0]));
        bench.send(request)
    };
    let server = async {
        let all = [streams.nth(0).await, streams.nth(1).await, streams.nth(2).await];
        // The last call is of the other session.
        let (one, two) = (all[0].0.header("mcp-session-id"), all[2].0.header("mcp-session-id"));
        assert!(one == all[1].0.header("mcp-session-id") && one != two, "{one:?} {two:?}");
        all[1].1.send(&elicit("of one of them"));
        for (seen, events) in [&all[0], &all[2]] {
            events.send(&done(seen, json!({})));
        }
    };
    let calls = async {
        tokio::join!(call(1), call(1), async {
            streams.nth(1).await;
            call(2).await
        })
    };
    let ((one, two, other), ()) = tokio::join!(calls, server);
    let mut types = [last(one).await, last(two).await].map(|a| a["result"]["resultType"].clone().to_string());
    types.sort();
    assert_eq!(types, ["\"complete\"", "\"input_required\""]);
    assert_eq!(last(other).await["result"]["resultType"], "complete");
}
