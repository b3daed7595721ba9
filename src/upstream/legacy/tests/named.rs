//! Sessions that a client's own id names: one process opens them, others go on with them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

use super::{
    super::{Legacy, Settings},
    Bench, EVERYTHING, Reader,
    fake::{Does, Fake, Seen, Streams, text, until},
    last, request, tool,
};
use crate::{
    bridge::sealed::Sealer,
    upstream::{
        Caller, ClientSession,
        named::{Named, NamedHere, Openings},
    },
};

const CLIENT: ClientSession = ClientSession([1, 2]);

/// Another process of the gateway before the same server.
fn another(bench: &Bench) -> Bench {
    let sealer = Arc::new(Sealer::of_this_process());
    let legacy = Arc::new(Legacy::new(bench.fake.clone(), sealer, Settings::default()));
    Bench { legacy, fake: bench.fake.clone() }
}

fn of_client(method: &str, params: Value) -> Request<Bytes> {
    let mut request = request("ada", EVERYTHING, json!("c-1"), method, params);
    request.extensions_mut().insert(CLIENT);
    request
}

fn with(mut request: Request<Bytes>, named: &Named) -> Request<Bytes> {
    request.extensions_mut().insert::<NamedHere>(named.at("fake").expect("it is named"));
    request
}

/// What `initialize` of the client does.
async fn open(bench: &Bench) -> Named {
    let openings = Openings::with_room(1_000);
    let mut discover = of_client("server/discover", json!({}));
    discover.extensions_mut().insert(openings.at(&"fake".into()));
    assert_eq!(bench.send(discover).await.status(), 200);
    openings.close()
}

async fn call(bench: &Bench, named: &Named) -> Value {
    last(bench.send(with(of_client("tools/call", tool()), named)).await).await
}

fn delete() -> Request<Bytes> {
    let mut request = Request::delete("/mcp").body(Bytes::new()).unwrap();
    request.extensions_mut().insert(CLIENT);
    request.extensions_mut().insert(Caller { name: "ada".into(), ..Caller::default() });
    request
}

fn sessions_of(bench: &Bench, method: &str) -> Vec<String> {
    let seen = bench.fake.of(method);
    seen.iter().map(|s| s.header("mcp-session-id").unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn another_process_goes_on_with_the_session_and_uses_no_id_again() {
    let one = Bench::new(|_| Does::AsUsual);
    let named = open(&one).await;
    let other = another(&one);
    for bench in [&one, &other, &one] {
        assert_eq!(call(bench, &named).await["id"], "c-1");
    }
    assert_eq!(one.fake.of("initialize").len(), 1);
    assert_eq!(sessions_of(&one, "tools/call"), ["s1"; 3]);
    assert_eq!(one.fake.of("tools/call")[1].header("mcp-protocol-version"), Some("2025-11-25"));
    let ids: Vec<_> = one.fake.of("tools/call").iter().map(|s| s.body["id"].as_u64().unwrap()).collect();
    assert!(ids[0] < 100 && ids[1] >= 1 << 51 && ids[1] < 1 << 53, "{ids:?}");
}

#[tokio::test]
async fn the_end_of_a_process_leaves_the_session_and_the_clients_delete_ends_it_anywhere() {
    for opener in [true, false] {
        let one = Bench::new(|_| Does::AsUsual);
        let (named, other) = (open(&one).await, another(&one));
        let fake = one.fake.clone();
        let (stays, goes) = if opener { (one, other) } else { (other, one) };
        drop(goes);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!((fake.sessions(), fake.verbs(&Method::DELETE).len()), (1, 0));
        assert_eq!(stays.send(with(delete(), &named)).await.status(), 200);
        until("the session has ended", || fake.sessions() == 0).await;
        assert_eq!(fake.verbs(&Method::DELETE).len(), 1, "opener {opener}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_session_is_let_go_of_and_found_again() {
    let bench = Bench::new(|_| Does::AsUsual);
    let named = open(&bench).await;
    assert_eq!(bench.legacy.sessions(), 1);
    tokio::time::sleep(Settings::default().idle * 2).await;
    assert_eq!((bench.legacy.sessions(), bench.fake.sessions()), (0, 1));
    call(&bench, &named).await;
    assert_eq!((bench.fake.of("initialize").len(), sessions_of(&bench, "tools/call")[0].as_str()), (1, "s1"));
}

#[tokio::test]
async fn one_that_is_gone_costs_one_initialize_and_its_successor_is_remembered() {
    let one = Bench::new(|_| Does::AsUsual);
    let named = open(&one).await;
    one.fake.forget_sessions();
    let other = another(&one);
    for bench in [&other, &one] {
        let before = one.fake.of("initialize").len();
        let (a, b, c) = tokio::join!(call(bench, &named), call(bench, &named), call(bench, &named));
        assert!([a, b, c].iter().all(|answer| answer["result"].is_object()));
        call(bench, &named).await;
        assert_eq!(one.fake.of("initialize").len(), before + 1);
    }
    // What took its place is named nowhere, so it ends with the process.
    drop(other);
    until("it has ended", || one.fake.sessions() == 1).await;
}

#[tokio::test]
async fn other_credentials_do_not_go_on_with_it() {
    let one = Bench::new(|_| Does::AsUsual);
    let openings = Openings::with_room(1_000);
    let mut discover = of_client("server/discover", json!({}));
    discover.extensions_mut().insert(openings.at(&"fake".into()));
    discover.headers_mut().insert("authorization", "Bearer ada".parse().unwrap());
    one.send(discover).await;
    let (named, other) = (openings.close(), another(&one));
    for (token, session) in [(Some("Bearer ada"), "s1"), (Some("Bearer bob"), "s2"), (None, "s3")] {
        let mut request = with(of_client("tools/call", tool()), &named);
        if let Some(token) = token {
            request.headers_mut().insert("authorization", token.parse().unwrap());
        }
        last(other.send(request).await).await;
        assert_eq!(sessions_of(&one, "tools/call").last().unwrap(), session);
    }
}

#[tokio::test]
async fn what_the_server_knows_of_the_session_holds_elsewhere() {
    let streams = Streams::default();
    let script = {
        let streams = streams.clone();
        move |seen: &Seen| match (&seen.verb, seen.method()) {
            (&Method::GET, _) | (_, "tools/call") => streams.open(seen).into(),
            _ => Does::AsUsual,
        }
    };
    let one = Bench::new(script);
    let (named, other) = (open(&one).await, another(&one));
    let wanted = json!({"notifications": {"resourceSubscriptions": ["file:///a"]}});
    let listening = other.send(with(of_client("subscriptions/listen", wanted), &named));
    let (response, (get, news)) = tokio::join!(listening, streams.nth(0));
    assert_eq!(get.header("mcp-session-id"), Some("s1"));
    let mut listener = Reader::new(response);
    let acknowledged = listener.next().await.unwrap();
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["file:///a"]));
    assert_eq!(sessions_of(&one, "resources/subscribe"), ["s1"]);
    news.send(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "file:///a"}}));
    assert_eq!(listener.next().await.unwrap()["method"], "notifications/resources/updated");
    let calling = other.send(with(of_client("tools/call", tool()), &named));
    let (response, (seen, events)) = tokio::join!(calling, streams.nth(1));
    events.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "debug", "data": 1}}));
    let mut answer = Reader::new(response);
    assert_eq!(answer.next().await.unwrap()["method"], "notifications/message", "a level was set elsewhere");
    drop(answer);
    until("the call is cancelled", || !one.fake.of("notifications/cancelled").is_empty()).await;
    let cancelled = &one.fake.of("notifications/cancelled")[0];
    assert_eq!(cancelled.body["params"]["requestId"], seen.body["id"]);
    assert_eq!(cancelled.header("mcp-session-id"), Some("s1"));
    assert_eq!(one.fake.of("initialize").len(), 1);
}

#[tokio::test]
async fn a_listener_finds_a_new_session_also_where_the_server_says_so_with_400() {
    let streams = Streams::default();
    let script = {
        let streams = streams.clone();
        move |seen: &Seen| match (&seen.verb, seen.header("mcp-session-id")) {
            (_, Some("s1")) if seen.method() != "notifications/initialized" => {
                let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No valid session ID"}});
                text(400, "application/json", error.to_string()).into()
            }
            (&Method::GET, _) => streams.open(seen).into(),
            _ => Does::AsUsual,
        }
    };
    let one = Bench::new(script);
    let (named, other) = (open(&one).await, another(&one));
    for wanted in [json!({"resourceSubscriptions": ["file:///a"]}), json!({"toolsListChanged": true})] {
        let listen = with(of_client("subscriptions/listen", json!({"notifications": wanted})), &named);
        let mut listener = Reader::new(other.send(listen).await);
        assert_eq!(listener.next().await.unwrap()["params"]["notifications"], wanted);
    }
    assert_eq!(one.fake.of("initialize").len(), 2);
}

#[tokio::test]
async fn servers_without_session_ids_are_not_named() {
    let bench = Bench::of(Fake { stateless: true, ..Fake::new(|_| Does::AsUsual) });
    assert!(open(&bench).await.is_empty());
    bench.send(delete()).await;
    assert_eq!((bench.legacy.sessions(), bench.fake.verbs(&Method::DELETE).len()), (0, 0));
}
