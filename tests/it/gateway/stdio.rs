//! A server over stdio behind the gateway is a streamable HTTP server to its clients: sessions, streams, questions,
//! cancellation, and both eras.

use http::Method;

use super::{KEY, bridge::modern_server, ending, key, modern, modern_tool, request, tool};
use crate::support::{
    children::{Children, answer_to, initialize, is_alive},
    process::{next, read_to},
    soon, until,
};

fn said(answer: &crate::support::process::Answer) -> String {
    answer.json()["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{}", answer.text()))
        .into()
}

/// A call with a progress token.
fn with_token(id: &str, name: &str, token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","_meta":{{"progressToken":{token}}}}}}}"#
    )
}

#[tokio::test]
async fn a_session_from_its_beginning_to_its_end() {
    let children = Children::start("", "").await;
    children.learned().await;
    let id = children.session().await;
    let (process, rest) = id.split_once('-').unwrap();
    assert!(
        (process.len(), rest.len()) == (8, 32) && hex::decode(format!("{process}{rest}")).is_ok(),
        "{id}"
    );
    let listed = children.in_session(&id, request(1.0, "tools/list")).await;
    assert_eq!(listed.json()["result"]["tools"][0]["name"], "echo");
    let echoed = children.in_session(&id, tool("\"\\u0041\"", "echo", r#"{"message":"hi"}"#)).await;
    assert!(echoed.text().contains(r#""id": "\u0041""#), "{}", echoed.text());
    assert_eq!((said(&echoed).as_str(), echoed.header("content-type")), ("hi", Some("application/json")));
    let unknown = children.in_session(&id, tool(3, "nothing", "{}")).await;
    assert_eq!(unknown.json()["error"]["code"], -32602);
    let pid: u32 = children.events("start").last().unwrap().parse().unwrap();
    assert!(is_alive(pid));
    let ended = children.gate.call(children.request(Method::DELETE, &id), "").await;
    assert_eq!(ended.status, 204);
    children.all_gone().await;
    let gone = children.in_session(&id, request(4, "tools/list")).await;
    assert_eq!(
        (gone.status, &gone.json()["id"], gone.reason().as_str()),
        (404, &4.into(), "session_not_found")
    );
    assert!(!gone.text().contains("another process"), "{}", gone.text());
    assert_eq!(children.gate.call(children.request(Method::GET, &id), "").await.status, 404);
    assert_eq!(children.gate.call(children.request(Method::DELETE, &id), "").await.status, 404);
    assert_eq!(children.gate.post(request(5, "tools/list")).await.status, 400);
    let records = children.stop().await;
    let first = &records[0];
    assert_eq!(
        (first["method"].as_str(), first["client"]["name"].as_str()),
        (Some("initialize"), Some("host"))
    );
    assert!(records.iter().any(|r| r["tool"] == "echo" && ending(r) == ("ok", Some(200), None, None)));
}

#[tokio::test]
async fn a_session_of_another_process_says_that_it_is_one() {
    let (one, other) = (Children::start("", "").await, Children::start("", "").await);
    one.learned().await;
    other.learned().await;
    let id = one.session().await;
    for method in [Method::GET, Method::DELETE] {
        let answer = other.gate.call(other.request(method, &id), "").await;
        assert_eq!((answer.status, answer.reason().as_str()), (404, "session_not_found"));
    }
    let answer = other.in_session(&id, request(4, "tools/list")).await;
    assert_eq!((answer.status, answer.reason().as_str()), (404, "session_not_found"));
    let told = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        told.contains("another process of the gateway") && told.contains("begin with initialize"),
        "{told}"
    );
    assert_eq!(answer.json()["error"]["data"]["trace_id"].as_str().map(str::len), Some(32));
    assert_eq!(one.in_session(&id, request(5, "tools/list")).await.status, 200);
    let last = other.stop().await.pop().unwrap();
    assert_eq!((ending(&last).1, ending(&last).2), (Some(404), Some("session_not_found")), "{last}");
}

#[tokio::test]
async fn sessions_have_children_and_ids_of_their_own() {
    let keys = key("ada", KEY, "") + &key("bob", "sg-the-key-of-bob-0123456789abcdef", "");
    let children = Children::start("", &keys).await;
    children.learned().await;
    let open = async |secret: &str| {
        let opened = children.gate.post_as(secret, initialize()).await;
        opened.header("mcp-session-id").unwrap().to_owned()
    };
    let (ada, other, bob) =
        (open(KEY).await, open(KEY).await, open("sg-the-key-of-bob-0123456789abcdef").await);
    let call = async |secret: &str, session: &str| {
        let bearer = format!("Bearer {secret}");
        let request = children.request(Method::POST, session).header("authorization", bearer);
        children.gate.call(request, tool(1, "count", "{}")).await
    };
    let (first, second) = (said(&call(KEY, &ada).await), said(&call(KEY, &other).await));
    assert!(first.ends_with(" 1") && second.ends_with(" 1") && first != second, "{first} {second}");
    assert!(said(&call(KEY, &ada).await).ends_with(" 2"));
    assert_eq!(call(KEY, &bob).await.status, 404, "a session is its principal's alone");
    assert_eq!(children.alive().len(), 3);
    children.stop().await;
}

#[tokio::test]
async fn progress_comes_on_the_call_s_stream_with_its_own_token() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let mut calls = Vec::new();
    for token in [r#""a""#, "7", "1.0"] {
        let answer = children.in_session(&id, with_token("1", "progress", token)).await;
        assert_eq!(answer.header("content-type"), Some("text/event-stream"));
        let text = answer.text().to_owned();
        assert_eq!(text.matches(&format!(r#""progressToken": {token}"#)).count(), 3, "{text}");
        assert!(text.ends_with("\"done\"}]}}\n\n") && text.contains(r#""id": 1"#), "{text}");
        calls.push(text);
    }
    children.stop().await;
}

#[tokio::test]
async fn a_question_reaches_the_client_and_its_answer_the_child() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let call = children.gate.open(children.request(Method::POST, &id), tool(9, "ask", "{}")).await;
    let mut stream = call.into_body();
    let question = read_to(&mut stream, "\n\n").await;
    assert!(question.contains("sampling/createMessage") && !question.contains("q-1"), "{question}");
    for stray in ["\"q-1\"", "77"] {
        let stray = format!(r#"{{"jsonrpc":"2.0","id":{stray},"result":{{"x":0}}}}"#);
        assert_eq!(
            children.in_session(&id, stray).await.status,
            202,
            "an answer to nothing is taken and dropped"
        );
    }
    let answer = answer_to(&question, "assistant");
    assert_eq!(children.in_session(&id, answer).await.status, 202);
    let rest = read_to(&mut stream, "\n\n").await;
    assert!(rest.contains("assistant") && rest.contains("q-1") && rest.contains(r#""id": 9"#), "{rest}");
    assert!(next(&mut stream).await.is_none());
    children.stop().await;
}

#[tokio::test]
async fn news_comes_on_the_get_stream_or_waits_for_it() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    assert_eq!(said(&children.in_session(&id, tool(1, "announce", "{}")).await), "announced");
    let news = children.gate.open(children.request(Method::GET, &id), "").await;
    assert_eq!(
        (news.status(), news.headers()["content-type"].to_str().unwrap()),
        (http::StatusCode::OK, "text/event-stream")
    );
    let mut news = news.into_body();
    assert!(read_to(&mut news, "\n\n").await.contains("list_changed"));
    children.in_session(&id, tool(3, "announce", "{}")).await;
    assert!(read_to(&mut news, "\n\n").await.contains("list_changed"));
    let again = children.gate.open(children.request(Method::GET, &id), "").await;
    assert!(next(&mut news).await.is_none(), "the stream of a client that came back ends");
    assert_eq!(children.gate.call(children.request(Method::DELETE, &id), "").await.status, 204);
    assert!(next(&mut again.into_body()).await.is_none());
    children.stop().await;
}

#[tokio::test]
async fn a_cancellation_is_passed_on_and_leaving_is_none() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let slow = children.request(Method::POST, &id);
    let waiting = Box::pin(children.gate.open(slow, tool("\"s\"", "slow", "{}")));
    let own = tokio::select! {
        _ = waiting => panic!("a slow call was answered"),
        own = children.event("slow") => own,
    };
    assert_eq!(said(&children.in_session(&id, tool(2, "echo", r#"{"message":"x"}"#)).await), "x");
    assert_eq!(children.events("cancelled"), Vec::<String>::new(), "leaving is no cancellation here");
    let cancelled = |id| {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
    };
    assert_eq!(children.in_session(&id, cancelled("\"other\"")).await.status, 202);
    assert_eq!(children.in_session(&id, cancelled("\"s\"")).await.status, 202);
    assert_eq!(children.event("cancelled").await, own);
    assert_eq!(children.events("cancelled").len(), 1);
    children.stop().await;
}

#[tokio::test]
async fn a_call_that_the_gateway_gives_up_is_cancelled() {
    let children = Children::start("upstreams.files.timeout = \"1s\"", "").await;
    let id = children.session().await;
    let late = children.in_session(&id, tool(2, "slow", "{}")).await;
    assert_eq!((late.status, late.reason().as_str()), (504, "upstream_timeout"));
    let own = children.event("slow").await;
    assert_eq!(children.event("cancelled").await, own);
    children.stop().await;
}

#[tokio::test]
async fn a_modern_client_is_told_to_begin_with_initialize() {
    let children = Children::start("", "").await;
    let call = modern(children.gate.request(), "tools/call", Some("echo"));
    let refused = children.gate.call(call, modern_tool(5, "echo", r#"{"message":"x"}"#)).await;
    assert_eq!((refused.status, &refused.json()["id"]), (400, &5.into()), "{}", refused.text());
    assert!(refused.text().contains("initialize"));
    children.stop().await;
}

#[tokio::test]
async fn modern_calls_share_a_modern_child() {
    let children = Children::start("upstreams.files.env.SPEAKS = \"modern\"", "").await;
    children.gate.knows("files").await;
    let call = async |id: &str, name: &str| {
        let request = modern(children.gate.request(), "tools/call", Some(name));
        children.gate.call(request, modern_tool(id, name, "{}")).await
    };
    let (first, second) = (call("\"x\"", "count").await, call("\"x\"", "count").await);
    assert_eq!(first.json()["id"], "x");
    let (first, second) = (said(&first), said(&second));
    assert_eq!(first.split(' ').next(), second.split(' ').next(), "one process");
    assert!(second.ends_with(" 2"));
    let waiting = Box::pin(call("1", "slow"));
    let own = tokio::select! {
        _ = waiting => panic!("a slow call was answered"),
        own = children.event("slow") => own,
    };
    assert_eq!(children.event("cancelled").await, own, "leaving cancels in this era");
    assert_eq!(children.events("start").len(), 1);
    children.stop().await;
}

#[tokio::test]
async fn a_log_line_of_a_modern_child_is_the_only_callers() {
    const BOB: &str = "sg-the-key-of-bob-0123456789abcdef";
    let keys = key("ada", KEY, "") + &key("bob", BOB, "");
    let children = Children::start("upstreams.files.env.SPEAKS = \"modern\"", &keys).await;
    children.gate.knows("files").await;
    let call = async |secret: &str, name: &str, arguments: &str| {
        let request = modern(children.gate.request(), "tools/call", Some(name));
        let request = request.header("authorization", format!("Bearer {secret}"));
        let level = r#""_meta":{"io.modelcontextprotocol/logLevel":"info","#;
        let body = modern_tool(1, name, arguments).replace(r#""_meta":{"#, level);
        children.gate.call(request, body).await
    };
    let logged = call(KEY, "log", r#"{"words":"mine"}"#).await;
    assert!(logged.text().contains("\"mine\"") && logged.text().contains("logged"), "{}", logged.text());
    // Of two calls that want such lines, it is nobody's.
    let waiting = call(KEY, "slow", "{}");
    let other = async {
        children.event("slow").await;
        call(KEY, "log", r#"{"words":"whose?"}"#).await
    };
    tokio::select! {
        _ = waiting => panic!("a slow call was answered"),
        other = other => assert!(!other.text().contains("whose?"), "{}", other.text()),
    }
    children.event("cancelled").await;
    assert!(call(KEY, "log", r#"{"words":"again"}"#).await.text().contains("again"));
    // A child that has worked for two may speak of the other's call, late.
    assert!(!call(BOB, "log", r#"{"words":"of bob"}"#).await.text().contains("of bob"));
    assert!(!call(KEY, "log", r#"{"words":"of ada"}"#).await.text().contains("of ada"));
    children.stop().await;
}

#[tokio::test]
async fn sessions_with_several_servers_have_children_of_their_own() {
    let other = modern_server().await;
    let children = Children::start("", &format!("upstreams.other.url = {:?}", other.url())).await;
    children.gate.knows("other").await;
    children.learned().await;
    let open = async || {
        let opened = children.gate.post(initialize()).await;
        opened.header("mcp-session-id").unwrap().to_owned()
    };
    let (one, two) = (open().await, open().await);
    for session in [&one, &two, &one] {
        let call = tool(1, "files__echo", r#"{"message":"hi"}"#);
        assert_eq!(said(&children.in_session(session, call).await), "hi");
    }
    assert_eq!(children.alive().len(), 2);
    children.stop().await;
}

/// A command that sleeps tells of its changes in the sessions of its clients alone.
#[tokio::test]
async fn a_change_that_one_session_hears_is_listed_for_all() {
    let other = modern_server().await;
    let children = Children::start("", &format!("upstreams.other.url = {:?}", other.url())).await;
    children.gate.knows("other").await;
    children.learned().await;
    let opened = children.gate.post(initialize()).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let list = async || children.in_session(&session, request(2, "tools/list")).await.text().to_owned();
    assert!(list().await.contains("files__echo") && !list().await.contains("files__grown"));
    let grow = tool(1, "files__echo", r#"{"message":"grow"}"#);
    assert_eq!(said(&children.in_session(&session, grow).await), "grow");
    soon("the new list", async {
        while !list().await.contains("files__grown") {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await;
    children.stop().await;
}

#[tokio::test]
async fn one_child_for_all_where_it_is_shared() {
    let children = Children::start("upstreams.files.sharing = \"shared\"", "").await;
    let (a, b) = (children.session().await, children.session().await);
    let (first, second) = tokio::join!(
        children.in_session(&a, with_token("1", "progress", "1")),
        children.in_session(&b, with_token("1", "progress", "\"t\"")),
    );
    assert!(
        first.text().contains(r#""progressToken": 1"#) && !first.text().contains("\"t\""),
        "{}",
        first.text()
    );
    assert!(second.text().contains(r#""progressToken": "t""#), "{}", second.text());
    let asked = children.in_session(&a, tool(2, "ask", "{}")).await;
    assert!(said(&asked).contains("-32601"), "nobody can be asked: {}", asked.text());
    let mut news = children.gate.open(children.request(Method::GET, &b), "").await.into_body();
    children.in_session(&a, tool(3, "announce", "{}")).await;
    assert!(read_to(&mut news, "\n\n").await.contains("list_changed"));
    children.gate.call(children.request(Method::DELETE, &a), "").await;
    assert!(said(&children.in_session(&b, tool(4, "count", "{}")).await).ends_with(" 5"));
    assert_eq!(children.events("initialized").len(), 1);
    drop(news);
    children.stop().await;
}

#[tokio::test]
async fn a_child_sees_no_more_of_the_environment_than_it_needs() {
    let children =
        Children::start("upstreams.files.env.GIVEN = \"x\"\nupstreams.files.cwd = \"/\"", "").await;
    let id = children.session().await;
    let seen = said(&children.in_session(&id, tool(1, "environment", "{}")).await);
    let (names, folder) = seen.split_once(" in ").unwrap();
    let names: Vec<_> = names.split(' ').collect();
    assert_eq!(folder, "/");
    assert!(names.contains(&"GIVEN") && names.contains(&"PATH") && names.contains(&"HOME"), "{names:?}");
    assert!(
        !names.iter().any(|n| *n == "HIDDEN" || n.starts_with("CARGO") || n.starts_with("SMARTGATE")),
        "{names:?}"
    );
    children.stop().await;
}

#[tokio::test]
async fn an_idle_child_is_stopped_and_its_session_goes_on() {
    let children = Children::start("upstreams.files.idle_stop = \"200ms\"", "").await;
    let id = children.session().await;
    let first = said(&children.in_session(&id, tool(1, "count", "{}")).await);
    children.all_gone().await;
    let second = said(&children.in_session(&id, tool(1, "count", "{}")).await);
    assert!(
        second.ends_with(" 1") && first != second,
        "another process serves the session: {first} {second}"
    );
    until("the second greeting", || children.events("initialized").len() >= 2).await;
    children.stop().await;
}

#[tokio::test]
async fn one_that_starts_at_once_is_ready_before_its_client() {
    let children = Children::start("upstreams.files.start = \"now\"", "").await;
    children.gate.knows("files").await;
    // The first learned the tools.
    until("a child in waiting", || children.events("start").len() == 2 && children.alive().len() == 1).await;
    let waiting = children.alive();
    let id = children.session().await;
    let counted = said(&children.in_session(&id, tool(1, "count", "{}")).await);
    assert_eq!(counted, format!("{} 1", waiting[0]));
    until("the next one in waiting", || children.alive().len() == 2).await;
    children.stop().await;
}
