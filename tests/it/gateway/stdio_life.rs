//! What a session and a call over stdio may count on: their time, what the child before was asked for, and that
//! others on a shared child hear none of it.

use http::Method;

use super::{ending, tool};
use crate::support::{
    children::{Children, answer_to, initialize},
    process::{next, read_to, signal, try_signal},
    until,
};

/// A call with a progress token.
fn noted(id: u32, name: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},"_meta":{{"progressToken":"t"}}}}}}"#
    )
}

fn ask(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

async fn subscribe(children: &Children, session: &str, how: &str, uri: &str) {
    let body = ask(1, &format!("resources/{how}"), &format!(r#"{{"uri":"{uri}"}}"#));
    let answer = children.in_session(session, body).await;
    assert_eq!(answer.text().replace(' ', ""), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

#[tokio::test]
async fn what_a_child_says_of_other_things_gives_a_call_no_more_time() {
    let children = Children::start("upstreams.files.timeout = \"1s\"", "").await;
    let id = children.session().await;
    let muttered = children.gate.open(children.request(Method::POST, &id), noted(1, "mutter", "{}")).await;
    let mut stream = muttered.into_body();
    assert!(read_to(&mut stream, "\n\n").await.contains("of something else"));
    let mut last = None;
    while let Some(piece) = next(&mut stream).await {
        last = Some(piece);
    }
    assert!(last.is_some_and(|piece| piece.is_err()), "no clean end without an answer");
    children.event("cancelled").await;
    let records = children.stop().await;
    assert_eq!(ending(records.iter().find(|r| r["tool"] == "mutter").unwrap()).0, "upstream_failed");
}

#[tokio::test]
async fn progress_gives_a_call_more_time_and_silence_after_it_ends_it() {
    let children = Children::start("upstreams.files.timeout = \"1s\"", "").await;
    let id = children.session().await;
    let busy = children.in_session(&id, noted(1, "busy", r#"{"steps":5}"#)).await;
    assert!(busy.text().contains("done"), "{}", busy.text());
    assert_eq!(children.events("cancelled"), Vec::<String>::new());
    children.stop().await;
    let children = Children::start("upstreams.files.idle_timeout = \"1s\"", "").await;
    let id = children.session().await;
    let begun = children.gate.open(children.request(Method::POST, &id), noted(1, "begin", "{}")).await;
    let mut stream = begun.into_body();
    assert!(read_to(&mut stream, "\n\n").await.contains("progress"));
    assert!(next(&mut stream).await.is_some_and(|piece| piece.is_err()));
    children.event("cancelled").await;
    children.stop().await;
}

#[tokio::test]
async fn the_end_of_its_input_is_the_first_that_a_child_hears_of_its_end() {
    let children = Children::start("", "").await;
    children.learned().await;
    let id = children.session().await;
    let pid = children.alive()[0].to_string();
    children.gate.call(children.request(Method::DELETE, &id), "").await;
    children.all_gone().await;
    assert!(children.events("eof").contains(&pid), "{:?}", children.events("eof"));
    children.stop().await;
}

#[tokio::test]
async fn one_that_is_kept_ready_is_replaced_when_it_dies() {
    let own = "upstreams.files.start = \"now\"\nupstreams.files.idle_stop = \"200ms\"";
    let children = Children::start(own, "").await;
    children.gate.knows("files").await;
    // The first is the catalog's. On a busy machine one in waiting may have been idle for too long, and another be there.
    until("a child in waiting", || children.events("start").len() >= 2 && children.alive().len() == 1).await;
    // It may have been idle for too long at this very moment.
    let killed = loop {
        match children.alive()[..] {
            [pid] if try_signal(pid, "KILL") => break pid,
            _ => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    until("another", || matches!(children.alive()[..], [pid] if pid != killed)).await;
    children.stop().await;
}

#[tokio::test]
async fn messages_may_come_as_a_batch() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let answer = children.in_session(&id, noted(7, "batch", "{}")).await;
    assert!(answer.text().contains(r#""progressToken": "t""#), "{}", answer.text());
    assert!(
        answer.text().contains("of a batch") && answer.text().contains(r#""id": 7"#),
        "{}",
        answer.text()
    );
    children.gate.logged("standard output: 5").await;
    assert!(!children.gate.log().contains("of a batch"));
    children.stop().await;
}

#[tokio::test]
async fn the_next_child_is_asked_for_what_the_one_before_was_asked_for() {
    let children = Children::start("upstreams.files.idle_stop = \"200ms\"", "").await;
    let id = children.session().await;
    for level in ["info", "debug"] {
        children.in_session(&id, ask(1, "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#))).await;
    }
    for uri in ["file:///a", "file:///b", "file:///c"] {
        subscribe(&children, &id, "subscribe", uri).await;
    }
    subscribe(&children, &id, "unsubscribe", "file:///b").await;
    children.all_gone().await;
    assert_eq!(children.in_session(&id, tool(1, "count", "{}")).await.status, 200);
    assert_eq!(children.events("logging/setLevel"), ["info", "debug", "debug"]);
    let asked = children.events("resources/subscribe");
    assert_eq!(asked[3..], ["file:///a", "file:///c"], "{asked:?}");
    children.stop().await;
}

#[tokio::test]
async fn a_child_whose_news_somebody_waits_for_is_not_idle() {
    let children = Children::start("upstreams.files.idle_stop = \"200ms\"", "").await;
    children.learned().await;
    let (waiting, other) = (children.session().await, children.session().await);
    subscribe(&children, &waiting, "subscribe", "file:///a").await;
    let news = children.gate.open(children.request(Method::GET, &waiting), "").await;
    children.in_session(&other, tool(1, "count", "{}")).await;
    until("the end of the other", || children.alive().len() == 1).await;
    assert!(children.in_session(&waiting, tool(1, "count", "{}")).await.text().contains(" 1\""));
    assert_eq!(children.events("resources/subscribe").len(), 1, "it is the same child");
    drop(news);
    children.all_gone().await;
    children.stop().await;
}

#[tokio::test]
async fn what_is_no_request_starts_no_child() {
    let children = Children::start("upstreams.files.idle_stop = \"200ms\"", "").await;
    children.learned().await;
    let id = children.session().await;
    children.all_gone().await;
    let started = children.events("start").len();
    for body in [
        r#"{"jsonrpc":"2.0","id":"q-1","result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
    ] {
        assert_eq!(children.in_session(&id, body).await.status, 202);
    }
    assert_eq!(children.events("start").len(), started);
    children.stop().await;
}

#[tokio::test]
async fn on_a_shared_child_each_hears_what_it_asked_for() {
    let children = Children::start("upstreams.files.sharing = \"shared\"", "").await;
    let (a, b) = (children.session().await, children.session().await);
    let news = async |id: &str| children.gate.open(children.request(Method::GET, id), "").await.into_body();
    let (mut of_a, mut of_b) = (news(&a).await, news(&b).await);
    subscribe(&children, &a, "subscribe", "file:///a").await;
    subscribe(&children, &b, "subscribe", "file:///a").await;
    subscribe(&children, &b, "subscribe", "file:///b/").await;
    for uri in ["file:///secret", "file:///b/x", "file:///a"] {
        children.in_session(&a, noted(1, "update", &format!(r#"{{"uri":"{uri}"}}"#))).await;
    }
    children.in_session(&a, noted(1, "flood", r#"{"thousands":1}"#)).await;
    children.in_session(&a, noted(1, "announce", "{}")).await;
    let heard = read_to(&mut of_a, "list_changed\"}\n\n").await;
    assert!(heard.contains("file:///a") && !heard.contains("file:///b"), "{heard}");
    let also = read_to(&mut of_b, "list_changed\"}\n\n").await;
    assert!(also.contains("file:///a") && also.contains("file:///b/x"), "{also}");
    for heard in [heard, also] {
        assert!(!heard.contains("secret") && !heard.contains("notifications/message"), "{heard}");
    }
    subscribe(&children, &a, "unsubscribe", "file:///a").await;
    assert_eq!(children.events("resources/unsubscribe"), Vec::<String>::new(), "the other still wants it");
    children.gate.call(children.request(Method::DELETE, &b), "").await;
    until("the end of what nobody wants", || children.events("resources/unsubscribe").len() == 2).await;
    children.stop().await;
}

#[tokio::test]
async fn on_a_shared_child_an_older_client_is_not_turned_away() {
    let children = Children::start("upstreams.files.sharing = \"shared\"", "").await;
    for (asked, told) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("x", "2025-11-25"),
    ] {
        let answer = children.gate.post(initialize().replace("2025-06-18", asked)).await;
        assert_eq!(answer.json()["result"]["protocolVersion"], told, "{asked}: {}", answer.text());
    }
    children.stop().await;
}

#[tokio::test]
async fn a_question_that_was_taken_back_takes_no_room() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let news = children.gate.open(children.request(Method::GET, &id), "").await;
    let hesitated = children.in_session(&id, tool(1, "hesitate", r#"{"times":1500}"#)).await;
    assert!(hesitated.text().contains("hesitated"));
    drop(news);
    let call = children.gate.open(children.request(Method::POST, &id), tool(9, "ask", "{}")).await;
    let mut stream = call.into_body();
    let question = read_to(&mut stream, "\n\n").await;
    assert_eq!(children.in_session(&id, answer_to(&question, "assistant")).await.status, 202);
    assert!(read_to(&mut stream, "\n\n").await.contains("assistant"));
    children.stop().await;
}

#[tokio::test]
async fn the_next_child_s_questions_have_other_ids() {
    let children = Children::start("", "").await;
    children.learned().await;
    let id = children.session().await;
    let ask = async || {
        let call = children.gate.open(children.request(Method::POST, &id), tool(9, "ask", "{}")).await;
        let mut stream = call.into_body();
        let question = read_to(&mut stream, "\n\n").await;
        assert!(question.contains("sampling/createMessage"), "{question}");
        (question, stream)
    };
    let (before, mut stream) = ask().await;
    signal(children.alive()[0], "KILL");
    assert!(next(&mut stream).await.is_some_and(|piece| piece.is_err()));
    let (after, mut stream) = ask().await;
    for (question, role) in [(before, "of the one before"), (after, "of this one")] {
        assert_eq!(children.in_session(&id, answer_to(&question, role)).await.status, 202);
    }
    let rest = read_to(&mut stream, "\n\n").await;
    assert!(rest.contains("of this one") && rest.contains("q-1"), "{rest}");
    children.stop().await;
}

#[tokio::test]
async fn on_a_shared_child_nobody_cancels_another_s_call() {
    let children = Children::start("upstreams.files.sharing = \"shared\"", "").await;
    let (a, b) = (children.session().await, children.session().await);
    let slow = Box::pin(children.gate.open(children.request(Method::POST, &a), tool(5, "slow", "{}")));
    tokio::select! {
        _ = slow => panic!("a slow call was answered"),
        _ = children.event("slow") => {}
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}"#;
    children.in_session(&b, cancel).await;
    children.in_session(&b, tool(1, "count", "{}")).await;
    assert_eq!(children.events("cancelled"), Vec::<String>::new());
    children.in_session(&a, cancel).await;
    children.event("cancelled").await;
    children.stop().await;
}

#[tokio::test]
async fn a_shared_child_that_dies_is_followed_by_one_that_knows_what_all_wanted() {
    let children = Children::start("upstreams.files.sharing = \"shared\"", "").await;
    let (a, b) = (children.session().await, children.session().await);
    subscribe(&children, &a, "subscribe", "file:///a").await;
    subscribe(&children, &b, "subscribe", "file:///b").await;
    children.in_session(&a, tool(1, "die_before", "{}")).await;
    let answer = children.in_session(&b, tool(2, "count", "{}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(children.events("resources/subscribe")[2..], ["file:///a", "file:///b"]);
    children.stop().await;
}
