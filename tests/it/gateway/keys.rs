//! What a key may see and call. Its globs hide tools in lists, however the list comes, and refuse calls, however
//! the tool's name is written. What is refused reaches no upstream.

use super::{KEY, ending, key, modern, refused, request, tool};
use crate::support::{
    fake::{Fake, Speaks, channel, event, json_reply, mcp, sse},
    process::{Gateway, next, read_to},
};

/// A key that may not delete.
fn narrow() -> String {
    key("ada", KEY, "tools = [\"*\", \"!files__delete_*\"]")
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":1.0},{"name":"files__delete_all"},{"na\u006de":"files__delete_\u0061"}],"ttlMs":5}}"#;
const CUT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":1.0}],"ttlMs":5,"cacheScope":"private"}}"#;

/// Asks for the tools in a way that the script answers.
fn asking(gate: &Gateway) -> http::request::Builder {
    gate.request().header("authorization", format!("Bearer {KEY}")).header("x-script", "1")
}

#[tokio::test]
async fn a_list_shows_only_what_the_key_may_call() {
    let fake = Fake::start(|_| async move { json_reply(200, LIST) }).await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    let answer = gate.call(asking(&gate), request(1, "tools/list")).await;
    assert_eq!(answer.text(), CUT);
    assert_eq!(answer.header("content-length"), Some(CUT.len().to_string().as_str()));
    let record = &gate.stop().await[0];
    assert_eq!(ending(record), ("ok", Some(200), None, None));
    assert_eq!(record["response_bytes"], CUT.len());
}

#[tokio::test]
async fn a_list_in_a_stream_is_cut_and_the_stream_still_streams() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
        tokio::spawn(async move {
            // The list follows only when the client has had time to see the first event.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            for piece in format!("id: 4\ndata: {LIST}\n\n: bye\n\n").as_bytes().chunks(50) {
                sender.send(bytes::Bytes::copy_from_slice(piece)).await.unwrap();
            }
            sender.closed().await;
        });
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    let mut answer = gate.open(asking(&gate), request(1, "tools/list")).await;
    let mut text = read_to(answer.body_mut(), "notifications/progress").await;
    assert!(!text.contains("tools"), "the first event was held back");
    text += &read_to(answer.body_mut(), ": bye\n\n").await;
    assert!(text.ends_with(&format!("id: 4\ndata: {CUT}\n\n: bye\n\n")), "{text}");
    drop(answer);
    assert_eq!(ending(&gate.recorded(1).await[0]), ("ok", Some(200), None, None));
}

#[tokio::test]
async fn a_list_is_cut_wherever_it_appears() {
    let fake = Fake::start(|seen| async move {
        let (sender, body) = channel();
        let data = match seen.header("x-data") {
            Some("batch") => format!("data: [{LIST}]\n\n"),
            Some("split") => {
                LIST.replace(",\"result\"", ",\ndata: \"result\"").replacen('{', "data: {", 1) + "\n\n"
            }
            Some("bom") => format!("\u{feff}data: {LIST}\n\n"),
            Some("cr") => format!("data:{LIST}\r\r"),
            Some("unfinished") => format!("data: {LIST}\n"),
            _ => format!("id: 1\ndata: {LIST}\n\n"),
        };
        sender.send(data.into()).await.unwrap();
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    for data in ["plain", "batch", "split", "bom", "cr", "unfinished"] {
        // A response may come on the stream that resumes another (2025-11-25, transports, "Resumability").
        let get = gate.call(asking(&gate).method("GET").header("x-data", data), "").await;
        assert!(!get.text().contains("delete"), "GET {data}: {}", get.text());
        let post = gate.call(asking(&gate).header("x-data", data), request(1, "tools/list")).await;
        assert!(!post.text().contains("delete"), "POST {data}: {}", post.text());
        // Whatever was asked, what comes back is a list.
        let other = gate.call(asking(&gate).header("x-data", data), request(1, "vendor/list")).await;
        assert!(!other.text().contains("delete"), "vendor/list {data}: {}", other.text());
    }
}

#[tokio::test]
async fn an_upstream_s_own_globs_hide_from_everybody() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "upstreams.files.tools = [\"add\"]").await;
    gate.knows("files").await;
    let list = gate.post(request(1, "tools/list")).await.json();
    let names: Vec<_> =
        list["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert_eq!(names, ["add"]);
    refused(&gate.post(tool(2, "fail", "{}")).await, 403, 403, "forbidden", Some("2"));
    assert_eq!(gate.post(tool(3, "add", "{}")).await.status, 200);
}

#[tokio::test]
async fn a_modern_list_is_marked_private() {
    let fake = Fake::speaking(Speaks::Modern, |_| async move {
        json_reply(
            200,
            r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","cacheScope":"public","tools":[{"name":"add"}]}}"#,
        )
    })
    .await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    gate.knows("files").await;
    let body = request(1, "tools/list").replace("{}", &format!("{{{}}}", super::META));
    let answer = gate.call(modern(asking(&gate), "tools/list", None), body).await;
    assert_eq!(answer.json()["result"]["cacheScope"], "private");
}

/// Ways to name the hidden tool.
fn tricks() -> Vec<String> {
    let call =
        |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let named = |name: &str| call(&format!(r#"{{"name":{name},"arguments":{{}}}}"#));
    vec![
        named("\"files__delete_all\""),
        named(r#""files\u005f_delete_all""#),
        named(r#""\u0066\u0069\u006c\u0065\u0073__delete_all""#),
        named("7"),
        named("null"),
        named("[\"files__delete_all\"]"),
        named("{\"files__delete_all\":1}"),
        call("{\"arguments\":{}}"),
        call("[\"files__delete_all\"]"),
        call("[]"),
        call("null"),
        call("\"files__delete_all\""),
        call(r#"{"name":"add","name":"files__delete_all","arguments":{}}"#),
        call(r#"{"name":"add","n\u0061me":"files__delete_all","arguments":{}}"#),
        call(r#"{"name":"add","Name":"files__delete_all","arguments":{}}"#),
        call(r#"{"NAME":"files__delete_all","arguments":{}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"files__delete_all"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"t\u006fols/call","params":{"name":"files__delete_all"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"files__delete_all"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},"Params":{"name":"files__delete_all"}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"files__delete_all","params":{}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"files__delete_all"}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"files\u005f_delete_all","params":[]}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"add","params":{"name":"files__delete_all","arguments":{}}}"#.into(),
        r#"{"jsonrpc":"2.0","id":1,"method":"add","params":{"name":"files__delete_all"}}"#.into(),
        r#"{"id":1,"method":"files__delete_all"}"#.into(),
        "\u{feff}".to_owned() + &named("\"files__delete_all\""),
    ]
}

#[tokio::test]
async fn no_spelling_of_a_hidden_tool_s_name_reaches_it() {
    for config in
        ["", "normalize.direct_tool_method = false", "normalize.shadow = true", "normalize.params = false"]
    {
        let fake = Fake::plain().await;
        let gate = Gateway::before(&fake.url(), &format!("{config}\n{}", narrow())).await;
        gate.knows("files").await;
        for body in tricks() {
            let answer = gate.post_as(KEY, body.clone()).await;
            assert!(matches!(answer.status, 400 | 403), "{config} {body}: {}", answer.text());
        }
        assert_eq!(fake.count(), 0, "{config}: {:?}", fake.calls());
        assert_eq!(gate.stop().await.len(), tricks().len());
    }
}

#[tokio::test]
async fn a_call_the_key_may_make_passes_in_every_spelling() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    gate.knows("files").await;
    for body in [
        tool(1, "add", "{}"),
        tool(1, "\\u0061dd", "{}"),
        r#"{"jsonrpc":"2.0","id":1,"method":"add","params":{}}"#.into(),
        tool(1, "files__read", "{\"Name\":\"files__delete_all\"}"),
    ] {
        assert_eq!(gate.post_as(KEY, body.clone()).await.status, 200, "{body}");
    }
    assert_eq!(fake.count(), 4);
}

#[tokio::test]
async fn keys_differ_from_each_other() {
    let fake = Fake::plain().await;
    let bob = "sg-the-key-of-bob-0123456789abcdef";
    let config = narrow() + &key("bob", bob, "tools = [\"files__*\"]");
    let gate = Gateway::before(&fake.url(), &config).await;
    gate.knows("files").await;
    assert_eq!(gate.post_as(bob, tool(1, "files__delete_all", "{}")).await.status, 200);
    assert_eq!(gate.post_as(bob, tool(1, "add", "{}")).await.status, 403);
    assert_eq!(gate.post_as(KEY, tool(1, "add", "{}")).await.status, 200);
    let names: Vec<_> = gate.stop().await.iter().map(|r| r["principal"].clone()).collect();
    assert_eq!(names, ["bob", "bob", "ada"]);
}

#[tokio::test]
async fn a_key_s_scheme_is_read_without_case_and_the_key_goes_no_further() {
    let fake = Fake::start(|seen| async move { mcp(&seen) }).await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    for scheme in ["Bearer", "bearer", "BEARER "] {
        let builder = gate.request().header("authorization", format!("{scheme} {KEY}"));
        assert_eq!(gate.call(builder, request(1, "ping")).await.status, 200);
    }
    assert!(fake.calls().iter().all(|c| c.header("authorization").is_none()));
}

#[tokio::test]
async fn a_get_stream_of_an_unrestricted_key_passes_half_events() {
    let fake = Fake::start(|_| async move {
        let (sender, body) = channel();
        sender.send("data: {\"half\":".into()).await.unwrap();
        tokio::spawn(async move { sender.closed().await });
        sse(body)
    })
    .await;
    let gate = Gateway::before(&fake.url(), &key("ada", KEY, "")).await;
    let mut get = gate.open(asking(&gate).method("GET"), "").await;
    assert!(matches!(next(get.body_mut()).await, Some(Ok(piece)) if piece.ends_with(b"half\":")));
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_not_passed_on() {
    let deep = format!("{}{}", "[".repeat(600), "]".repeat(600));
    let list = LIST.replace("\"x\":1.0", &format!("\"x\":{deep}"));
    let odd = LIST.replace("\"x\":1.0", "\"x\":NaN");
    let fake = Fake::start(move |seen| {
        let body = if seen.header("x-data") == Some("deep") { list.clone() } else { odd.clone() };
        async move {
            if seen.header("x-kind") == Some("json") {
                return json_reply(200, body);
            }
            let (sender, stream) = channel();
            sender.send(format!("data: {body}\n\n").into()).await.unwrap();
            sse(stream)
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), &narrow()).await;
    let asked = [
        ("json", "deep", "POST"),
        ("json", "odd", "POST"),
        ("sse", "deep", "POST"),
        ("sse", "odd", "POST"),
        ("sse", "deep", "GET"),
        ("sse", "odd", "GET"),
    ];
    for (nth, (kind, data, method)) in asked.into_iter().enumerate() {
        let (mut raw, body) = (gate.raw().await, request(1, "tools/list"));
        raw.send(format!(
            "{method} /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\nx-script: 1\r\nx-kind: {kind}\r\n\
             x-data: {data}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ))
        .await;
        let text = raw.rest().await;
        assert!(!text.contains("delete"), "{method} {kind} {data}: {text}");
        let record = gate.recorded(nth + 1).await.remove(nth);
        assert_eq!(record["outcome"], "upstream_failed", "{method} {kind} {data}");
    }
}
