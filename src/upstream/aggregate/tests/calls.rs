use std::collections::BTreeMap;

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    fake::{Act, Fake, json_answer, stream, tool},
    running::{Running, request, request_of, seat},
};
use crate::{bridge::hops::Hops, config::Show, glob::Globs, upstream::Upstream};

#[tokio::test]
async fn a_call_reaches_its_server_under_its_own_name_with_ids_of_ours() {
    let (a, b) = (Fake::tools(&["read"]), Fake::tools(&["read"]));
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let call = request_of(
        "ada",
        "1.0",
        "tools/call",
        json!({"name": "b__read", "arguments": {"q": "ö", "n": 1}, "_meta": {"progressToken": "p"}}),
    );
    let hops = call.extensions().get::<Hops>().unwrap().clone();
    let response = running.aggregate.call(call).await.unwrap();
    let text = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains(r#""id":1.0,"#) && text.contains("read"), "{text}");
    assert!(a.all("tools/call").is_empty());
    let seen = b.last("tools/call");
    assert_eq!(seen.header("mcp-name"), Some("read"));
    assert!(seen.body["id"].is_u64() && seen.header("content-length").is_none());
    assert_eq!(seen.body["params"]["_meta"]["progressToken"], seen.body["id"]);
    assert!(seen.text.contains(r#""arguments":{"q":"ö","n":1}"#), "{}", seen.text);
    let capabilities = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(capabilities, &json!({"extensions": {"x/y": {}}}));
    assert_eq!(hops.seen().upstream.as_deref(), Some("b"));
    assert_eq!(hops.seen().upstream_version.as_deref(), Some("2026-07-28"));
    let again = running.ask("tools/call", json!({"name": "b__read"})).await;
    assert_eq!(again["id"], "client-1");
    assert_ne!(b.last("tools/call").body["id"], seen.body["id"]);
}

#[tokio::test]
async fn fixed_parameters_are_filled_in_and_mirrored() {
    let annotated = json!({"name": "s", "inputSchema": {"type": "object", "properties": {
        "q": {"type": "string", "x-mcp-header": "Q"}, "zone": {"type": "string", "x-mcp-header": "Zone"}}}});
    let fake = Fake::with(json!({"tools": [annotated]}));
    let mut member = seat("f", &fake);
    let fixed = BTreeMap::from([("zone".to_owned(), json!("eu")), ("deep".to_owned(), json!({"a": [1]}))]);
    member.show = Show { fixed: BTreeMap::from([("s".to_owned(), fixed)]), ..Show::default() };
    let running = Running::learned(vec![member]).await;
    for arguments in [json!({"q": "x"}), json!({"q": "x", "zone": "us"}), json!({})] {
        running.ask("tools/call", json!({"name": "f__s", "arguments": arguments})).await;
        let seen = fake.last("tools/call");
        assert_eq!(seen.body["params"]["arguments"]["zone"], "eu");
        assert_eq!(seen.body["params"]["arguments"]["deep"], json!({"a": [1]}));
        assert_eq!(seen.header("mcp-param-zone"), Some("eu"));
        assert_eq!(seen.header("mcp-param-q"), arguments.get("q").and_then(Value::as_str));
    }
    running.ask("tools/call", json!({"name": "f__s"})).await;
    assert_eq!(fake.last("tools/call").body["params"]["arguments"]["zone"], "eu");
}

#[tokio::test]
async fn prompts_resources_and_completions_find_their_server() {
    let a = Fake::with(
        json!({"tools": [], "prompts": [{"name": "ask"}], "resources": [{"uri": "file:///a"}, {"uri": "x://same"}],
        "resourceTemplates": [{"uriTemplate": "db://{id}"}]}),
    );
    let b = Fake::with(
        json!({"tools": [tool("link")], "prompts": [{"name": "ask"}], "resources": [{"uri": "file:///b"}, {"uri": "x://same"}],
        "resourceTemplates": [{"uriTemplate": "db://rows/{+id}"}]}),
    );
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    running.ask("prompts/get", json!({"name": "b__ask"})).await;
    assert_eq!(b.last("prompts/get").body["params"]["name"], "ask");
    assert_eq!(b.last("prompts/get").header("mcp-name"), Some("ask"));
    for (uri, server) in [("file:///a", &a), ("file:///b", &b), ("db://7", &a), ("db://rows/7/8", &b)] {
        running.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(server.last("resources/read").body["params"]["uri"], uri);
    }
    for uri in ["x://same", "x://unknown"] {
        let refused = running.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    // A resource that only an answer links to is read where the link came from.
    b.script(|seen| {
        let link = json!({"content": [{"type": "resource_link", "uri": "x://linked", "name": "l"}]});
        (seen.method() == "tools/call").then(|| Act::Result(link))
    });
    running.ask("tools/call", json!({"name": "b__link"})).await;
    running.ask("resources/read", json!({"uri": "x://linked"})).await;
    assert_eq!(b.last("resources/read").body["params"]["uri"], "x://linked");
    let argument = json!({"name": "n", "value": "v"});
    running
        .ask(
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "a__ask"}, "argument": argument}),
        )
        .await;
    assert_eq!(a.last("completion/complete").body["params"]["ref"]["name"], "ask");
    running
        .ask(
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "db://rows/{+id}"}, "argument": argument}),
        )
        .await;
    assert_eq!(b.all("completion/complete").len(), 1);
}

#[tokio::test]
async fn prompts_and_resources_that_the_file_hides_are_neither_listed_nor_read() {
    let fake = Fake::with(json!({"tools": [tool("link")], "prompts": [{"name": "ask"}, {"name": "secret"}],
        "resources": [{"uri": "file:///open/a"}, {"uri": "file:///closed/b"}],
        "resourceTemplates": [{"uriTemplate": "file:///open/{+path}"}, {"uriTemplate": "file:///{+path}"}]}));
    fake.script(|seen| {
        let link = json!({"content": [{"type": "resource_link", "uri": "file:///closed/c", "name": "l"}]});
        (seen.method() == "tools/call").then(|| Act::Result(link))
    });
    let mut member = seat("f", &fake);
    member.show.prompts = Some(Globs::new(["*", "!secret"]));
    member.show.resources = Some(Globs::new(["file:///open/*"]));
    let running = Running::learned(vec![member]).await;
    assert_eq!(running.names("prompts/list", "prompts", "name").await, ["f__ask"]);
    assert_eq!(running.names("resources/list", "resources", "uri").await, ["file:///open/a"]);
    let templates = running.names("resources/templates/list", "resourceTemplates", "uriTemplate").await;
    assert_eq!(templates, ["file:///open/{+path}"]);
    running.ask("tools/call", json!({"name": "f__link"})).await;
    for uri in ["file:///open/a", "file:///open/of/a/template"] {
        running.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(fake.last("resources/read").body["params"]["uri"], uri);
    }
    let refused = [
        ("prompts/get", json!({"name": "f__secret"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "f__secret"}, "argument": {}})),
        ("resources/read", json!({"uri": "file:///closed/b"})),
        ("resources/read", json!({"uri": "file:///closed/c"})),
        ("resources/read", json!({"uri": "file:///open/../closed/b"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "file:///{+path}"}, "argument": {}}),
        ),
    ];
    for (method, params) in refused {
        let (before, answer) = (fake.all(method).len(), running.ask(method, params.clone()).await);
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        assert_eq!(fake.all(method).len(), before, "{params}");
    }
}

#[tokio::test]
async fn a_retry_reaches_the_same_server_with_its_own_state_and_nobody_elses() {
    let (a, b) = (Fake::tools(&["ask", "other"]), Fake::tools(&["ask"]));
    for fake in [&a, &b] {
        fake.script(|seen| {
            (seen.method() == "tools/call" && seen.body["params"].get("requestState").is_none()).then(|| {
                let asked = json!({"who": {"method": "elicitation/create", "params": {}}});
                Act::Result(json!({"resultType": "input_required", "inputRequests": asked, "requestState": "own\"state"}))
            })
        });
    }
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let asked = running.ask("tools/call", json!({"name": "a__ask"})).await["result"].clone();
    let state = asked["requestState"].as_str().unwrap().to_owned();
    assert!(state.starts_with("v1.") && asked["inputRequests"]["who"]["method"] == "elicitation/create");
    let retry = |who: &str, name: &str, state: &str| {
        let params =
            json!({"name": name, "requestState": state, "inputResponses": {"who": {"action": "accept"}}});
        request_of(who, "2", "tools/call", params)
    };
    let (_, done) = running.send(retry("ada", "a__ask", &state)).await.unwrap();
    assert_eq!(done["result"]["resultType"], "complete");
    assert_eq!(a.last("tools/call").body["params"]["requestState"], "own\"state");
    for (who, name, state) in [
        ("bob", "a__ask", state.as_str()),
        ("ada", "b__ask", &state),
        ("ada", "a__other", &state),
        ("ada", "a__ask", "own\"state"),
    ] {
        let (_, refused) = running.send(retry(who, name, state)).await.unwrap();
        assert_eq!(refused["error"]["code"], -32602, "{who} {name}");
    }
    assert_eq!((a.all("tools/call").len(), b.all("tools/call").len()), (2, 0));
}

#[tokio::test]
async fn a_stream_passes_event_by_event_with_the_clients_tokens() {
    let fake = Fake::tools(&["slow"]);
    let (answer, events) = stream();
    let answer = std::sync::Mutex::new(Some(answer));
    fake.script(move |seen| {
        (seen.method() == "tools/call").then(|| Act::Answer(answer.lock().unwrap().take().unwrap()))
    });
    let running = Running::learned(vec![seat("f", &fake)]).await;
    let call = request("tools/call", json!({"name": "f__slow", "_meta": {"progressToken": 77}}));
    let response = running.aggregate.call(call).await.unwrap();
    assert_eq!(running.seats[0].in_flight(), 1);
    let mut body = response.into_body();
    let id = fake.last("tools/call").body["id"].clone();
    let progress = |token: &Value| {
        format!(
            "data: {}\n\n",
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        )
    };
    events.send(Bytes::from(progress(&id))).unwrap();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(frame, progress(&json!(77)));
    events
        .send(Bytes::from(format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": id, "result": {}}))))
        .unwrap();
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.starts_with(b"data: {\"jsonrpc\":\"2.0\",\"id\":\"client-1\""));
    drop(body);
    assert!(events.is_closed(), "the client's leaving reaches the server");
    assert_eq!(running.seats[0].in_flight(), 0);
}

#[tokio::test]
async fn headers_that_no_longer_fit_the_schema_lead_to_a_new_look_and_one_more_try() {
    let fake = Fake::tools(&["s"]);
    let running = Running::learned(vec![seat("f", &fake)]).await;
    let annotated = json!({"name": "s", "inputSchema": {"type": "object", "properties": {"q": {"type": "string", "x-mcp-header": "Q"}}}});
    *fake.lists.lock().unwrap() = json!({"tools": [annotated]});
    fake.script(|seen| {
        let refuse = seen.method() == "tools/call" && seen.header("mcp-param-q").is_none();
        refuse.then(|| {
            Act::Answer(json_answer(
                400,
                &json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {"code": -32020, "message": "no"}}),
            ))
        })
    });
    let answer = running.ask("tools/call", json!({"name": "f__s", "arguments": {"q": "x"}})).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(fake.all("tools/call").len(), 2);
}

#[tokio::test]
async fn what_nobody_has_is_refused_here() {
    let fake = Fake::tools(&["a"]);
    let running = Running::learned(vec![seat("f", &fake)]).await;
    for (method, params) in [
        ("tools/call", json!({"name": "a"})),
        ("tools/call", json!({})),
        ("prompts/get", json!({"name": "f__a"})),
        ("resources/read", json!({})),
        ("completion/complete", json!({})),
        ("subscriptions/listen", json!({})),
    ] {
        let mut call = request(method, params);
        call.headers_mut().remove("mcp-name");
        let (status, body) = running.send(call).await.unwrap();
        assert_eq!(
            (status, &body["error"]["code"], &body["id"]),
            (200, &json!(-32602), &json!("client-1")),
            "{method}"
        );
    }
    let (status, body) = running.send(request("tasks/get", json!({"taskId": "x"}))).await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (404, &json!(-32601)));
    let notification = http::Request::post("/")
        .body(Bytes::from_static(
            br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
        ))
        .unwrap();
    assert_eq!(running.send(notification).await.unwrap().0, 202);
    assert_eq!(running.send(http::Request::get("/").body(Bytes::new()).unwrap()).await.unwrap().0, 405);
    assert!(fake.all("tools/call").is_empty());
}
