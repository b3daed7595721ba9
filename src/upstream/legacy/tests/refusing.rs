//! Questions that no client gets, and links that come as errors.

use http::Method;
use serde_json::json;

use super::{
    Bench, EVERYTHING,
    asking::{Asking, done, elicitation, question, retry},
    fake::{Does, error, until},
    last, request, tool, whole,
};

#[tokio::test]
async fn what_cannot_be_asked_is_answered_at_once() {
    let asking = Asking::new();
    for (n, (method, capabilities)) in
        [("tools/call", "{}"), ("tools/list", EVERYTHING), ("tools/call", r#"{"elicitation":{"url":{}}}"#)]
            .into_iter()
            .enumerate()
    {
        let before = asking.bench.fake.responses().len();
        let server = async {
            let (seen, events) = asking.streams.nth(n).await;
            events.send(&elicitation("e"));
            events.send(&question("s", "sampling/createMessage", json!({})));
            events.send(&question("v", "vendor/ask", json!({})));
            until("all are answered", || asking.bench.fake.responses().len() == before + 3).await;
            events.send(&done(&seen, json!({})));
        };
        let (answer, ()) =
            tokio::join!(asking.bench.send(request("ada", capabilities, json!(1), method, tool())), server);
        assert_eq!(last(answer).await["result"]["resultType"], "complete");
        let said = &asking.bench.fake.responses()[before..];
        assert_eq!(said[0], json!({"jsonrpc": "2.0", "id": "e", "result": {"action": "cancel"}}));
        assert_eq!((&said[1]["error"]["code"], &said[2]["error"]["code"]), (&json!(-32601), &json!(-32601)));
    }
}

#[tokio::test]
async fn the_server_may_take_a_question_back() {
    let asking = Asking::new();
    let server = async {
        let (seen, events) = asking.streams.nth(0).await;
        events.send(&elicitation("e"));
        events.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "e"}}),
        );
        events.send(&done(&seen, json!({"n": 1})));
    };
    let ((_, answer), ()) = tokio::join!(asking.bench.call(), server);
    assert_eq!(answer["result"], json!({"resultType": "complete", "n": 1}));
    assert!(asking.bench.fake.responses().is_empty());
}

#[tokio::test]
async fn links_that_a_server_wants_opened_first_are_asked_for_and_the_call_sent_again() {
    let bench = Bench::new(|seen| match seen.method() {
        "tools/call"
            if seen.body["params"].get("arguments").is_some() && seen.header("x-opened").is_none() =>
        {
            let link =
                json!({"mode": "url", "elicitationId": "id-1", "url": "https://x/y", "message": "log in"});
            error(seen, 200, json!({"code": -32042, "message": "first", "data": {"elicitations": [link]}}))
                .into()
        }
        _ => Does::AsUsual,
    });
    let (status, asked) = bench.call().await;
    assert_eq!(status, 200);
    assert_eq!(
        asked["result"]["inputRequests"],
        json!({"1": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x/y", "message": "log in"}}})
    );
    let params = retry(&asked["result"]["requestState"], json!({"1": {"action": "accept"}}));
    let mut again = request("ada", EVERYTHING, json!(2), "tools/call", params);
    again.headers_mut().insert("x-opened", "1".parse().unwrap());
    assert_eq!(whole(bench.send(again).await).await.1["result"], json!({"resultType": "complete"}));
    let calls = bench.fake.of("tools/call");
    assert_eq!(calls[0].body["params"], calls[1].body["params"]);
    let (status, refused) = bench.ask_as("ada", "{}", "tools/call", tool()).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32021)));
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
    assert_eq!(bench.fake.verbs(&Method::GET).len(), 1, "the client that can be asked something");
}
