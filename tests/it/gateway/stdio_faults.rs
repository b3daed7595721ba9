//! Children that die, flood, stay deaf or will not go: their callers are told, others notice nothing, and no process
//! is left behind.

use http::Method;

use super::{ending, tool};
use crate::support::{
    children::{Children, initialize, is_alive},
    process::{next, read_to},
    soon, until,
};

fn count(id: u32) -> String {
    tool(id, "count", "{}")
}

#[tokio::test]
async fn a_call_that_reports_progress_for_ever_is_given_up_and_cancelled() {
    let children = Children::start("upstreams.files.max_total_timeout = \"3s\"", "").await;
    let id = children.session().await;
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"busy","arguments":{"steps":12},"_meta":{"progressToken":"t"}}}"#;
    let answer = children.in_session(&id, call).await;
    let text = answer.text();
    assert!(text.contains("notifications/progress") && !text.contains("done"), "{text}");
    let last = text.trim_end().rsplit("data: ").next().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!((&last["id"], &last["error"]["data"]["reason"]), (&7.into(), &"upstream_timeout".into()));
    assert!(last["error"]["message"].as_str().unwrap().contains("max_total_timeout"), "{last}");
    children.event("cancelled").await;
    children.stop().await;
}

#[tokio::test]
async fn a_child_that_dies_fails_its_calls_and_the_next_call_starts_another() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let other = children.session().await;
    for name in ["die_before", "die_in"] {
        let failed = children.in_session(&id, tool(1, name, "{}")).await;
        assert_eq!(
            (failed.status, failed.reason().as_str()),
            (502, "upstream_protocol"),
            "{}",
            failed.text()
        );
        assert!(failed.text().contains("exit status: 3"), "{}", failed.text());
        // The second death in a row costs a pause.
        soon("another child", async {
            while children.in_session(&id, count(2)).await.status != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    }
    let last = children.in_session(&id, tool(3, "die_after", "{}")).await;
    assert!(last.text().contains("last words"), "an answer before the end arrives: {}", last.text());
    let fine = children.in_session(&other, count(4)).await;
    assert!(fine.text().contains(" 1\""), "another session keeps its child: {}", fine.text());
    let records = children.stop().await;
    let died = records.iter().find(|r| r["tool"] == "die_before").unwrap();
    assert_eq!(ending(died).0, "upstream_failed");
}

#[tokio::test]
async fn a_stream_breaks_when_its_child_dies() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"die_in_stream","_meta":{"progressToken":1}}}"#;
    let mut stream = children.gate.open(children.request(Method::POST, &id), body).await.into_body();
    assert!(read_to(&mut stream, "\n\n").await.contains("progress"));
    assert!(next(&mut stream).await.is_some_and(|piece| piece.is_err()), "no clean end without an answer");
    let records = children.stop().await;
    assert_eq!(ending(records.last().unwrap()).0, "upstream_failed");
}

#[tokio::test]
async fn one_that_never_comes_up_is_started_less_and_less() {
    let children = Children::with(&["broken"], "", "").await;
    let mut refused = 0;
    until("the first starts", || children.events("start").len() >= 2).await;
    for _ in 0..50 {
        let answer = children.gate.post(initialize()).await;
        assert_eq!(answer.status, 502, "{}", answer.text());
        refused += usize::from(answer.text().contains("next try in"));
    }
    assert!(refused > 30, "{refused} of 50 waited for the pause");
    assert!(children.events("start").len() < 20, "{} starts", children.events("start").len());
    let state = children
        .gate
        .ready_until("the bad news", |r| r["upstreams"]["files"]["state"] == "unreachable")
        .await;
    assert!(state["upstreams"]["files"]["detail"].as_str().is_some_and(|d| !d.is_empty()), "{state}");
    children.stop().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let gate =
        crate::support::process::Gateway::start("upstreams.files.command = [\"no-such-program\"]").await;
    let answer = gate.post(initialize()).await;
    assert_eq!((answer.status, answer.reason().as_str()), (502, "upstream_connect"), "{}", answer.text());
    assert!(answer.text().contains("no-such-program cannot be started"), "{}", answer.text());
    gate.stop().await;
}

#[tokio::test]
async fn a_flood_reaches_whoever_reads_and_drowns_nobody_else() {
    let children = Children::start("", "").await;
    let (flooded, fine) = (children.session().await, children.session().await);
    let body = tool(1, "flood", r#"{"thousands":40}"#);
    // It does not read: 40 MB are on their way to it.
    let stuck = children.gate.open(children.request(Method::POST, &flooded), body.clone()).await;
    for n in 0..20 {
        assert_eq!(children.in_session(&fine, count(n)).await.status, 200);
    }
    let small = 120 * 1024;
    let used = resident_kib(children.gate.id());
    assert!(used < small, "{used} KiB");
    let mut stream = stuck.into_body();
    let (mut last, mut bytes) = (bytes::Bytes::new(), 0);
    while let Some(piece) = next(&mut stream).await {
        last = piece.unwrap();
        bytes += last.len();
    }
    assert!(bytes > 1 << 20, "{bytes} bytes");
    assert!(last.ends_with(b"\"dry\"}]}}\n\n"), "the answer comes after all");
    children.stop().await;
}

#[tokio::test]
async fn one_that_does_not_read_is_waited_for_and_given_up() {
    let children = Children::start("upstreams.files.timeout = \"3s\"", "").await;
    let (deaf, fine) = (children.session().await, children.session().await);
    let large = tool(1, "echo", &format!(r#"{{"message":"{}"}}"#, "x".repeat(1 << 20)));
    let first = children.in_session(&deaf, tool(0, "deaf", "{}"));
    let rest = async {
        children.event("deaf").await;
        for _ in 0..3 {
            let answer = children.in_session(&deaf, large.clone()).await;
            assert_eq!((answer.status, answer.reason().as_str()), (504, "upstream_timeout"));
        }
    };
    let quick = async {
        for n in 0..20 {
            assert_eq!(children.in_session(&fine, count(n)).await.status, 200);
        }
    };
    let (first, (), ()) = tokio::join!(first, async { soon("the deaf one", rest).await }, quick);
    assert_eq!(first.status, 504);
    children.stop().await;
}

#[tokio::test]
async fn noise_is_logged_and_passed_over() {
    let children = Children::start("upstreams.files.env.KEY = \"hunter22\"", "").await;
    let id = children.session().await;
    assert!(children.in_session(&id, tool(1, "noise", "{}")).await.text().contains("heard"));
    assert!(children.in_session(&id, tool(2, "complain", "{}")).await.text().contains("complained"));
    children.gate.logged("npm notice").await;
    children.gate.logged("stderr: the key is ***").await;
    children.gate.logged("stderr: and more").await;
    assert!(!children.gate.log().contains("hunter22"));
    children.stop().await;
}

#[tokio::test]
async fn a_large_answer_passes_and_one_that_is_too_large_fails_alone() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    let large = children.in_session(&id, tool(1, "huge", r#"{"mib":20}"#)).await;
    assert!(large.status == 200 && large.body.len() > 20 << 20);
    let fails = children.in_session(&id, tool(2, "huge", r#"{"mib":65}"#)).await;
    assert_eq!((fails.status, fails.reason().as_str()), (502, "upstream_protocol"), "{}", fails.text());
    assert!(fails.text().contains("the limit is 64 MiB"), "{}", fails.text());
    assert!(children.in_session(&id, count(3)).await.text().contains(" 3\""), "the same child goes on");
    children.stop().await;
}

#[tokio::test]
async fn who_will_not_go_is_killed_with_all_that_it_started() {
    let children = Children::start("", "").await;
    children.learned().await;
    let id = children.session().await;
    children.in_session(&id, tool(1, "fork", "{}")).await;
    children.in_session(&id, tool(2, "stubborn", "{}")).await;
    assert_eq!(children.alive().len(), 2);
    assert_eq!(children.gate.call(children.request(Method::DELETE, &id), "").await.status, 204);
    children.all_gone().await;
    let id = children.session().await;
    children.in_session(&id, tool(1, "fork", "{}")).await;
    children.in_session(&id, tool(2, "die_after", "{}")).await;
    children.all_gone().await;
    children.stop().await;
}

#[tokio::test]
async fn the_gateway_takes_its_children_with_it() {
    for name in ["TERM", "KILL"] {
        let mut children = Children::start("upstreams.files.start = \"now\"", "").await;
        children.gate.knows("files").await;
        let id = children.session().await;
        children.in_session(&id, tool(1, "fork", "{}")).await;
        children.in_session(&id, tool(2, "stubborn", "{}")).await;
        until("the next one in waiting", || children.alive().len() >= 2).await;
        children.gate.signal(name);
        children.gate.exit().await;
        if name == "TERM" {
            assert_eq!(children.alive(), Vec::<u32>::new(), "at the end none is left");
        }
        children.all_gone().await;
    }
}

#[tokio::test]
async fn a_warden_that_was_ended_is_replaced() {
    let mut children = Children::start("", "").await;
    let first = children.session().await;
    children.in_session(&first, tool(1, "fork", "{}")).await;
    let warden = warden_of(children.gate.id());
    crate::support::process::signal(warden, "KILL");
    until("the end of the warden", || !is_alive(warden)).await;
    let second = children.session().await;
    children.in_session(&second, tool(1, "fork", "{}")).await;
    assert_ne!(warden_of(children.gate.id()), warden);
    children.gate.signal("KILL");
    children.gate.exit().await;
    children.all_gone().await;
}

/// The process that a gateway runs beside itself.
fn warden_of(gateway: u32) -> u32 {
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse().ok());
    let mut wardens = processes.filter(|pid| {
        let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let parent = read("stat").rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
        parent == Some(gateway) && read("cmdline").ends_with("warden\0")
    });
    wardens.next().unwrap_or_else(|| panic!("{gateway} has no warden"))
}

#[tokio::test]
async fn a_reload_ends_the_children_of_what_was_changed() {
    let children = Children::start("", "").await;
    let id = children.session().await;
    children.in_session(&id, count(1)).await;
    children.gate.rewrite("upstreams.files.builtin = true\n");
    children.gate.signal("HUP");
    children.gate.logged("configuration reloaded").await;
    children.all_gone().await;
    children.stop().await;
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
