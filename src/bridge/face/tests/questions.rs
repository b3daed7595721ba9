//! `input_required`: the server's needs as requests to the client, and the call sent again with the answers.

use super::*;

fn needs(requests: &Value, state: Option<&str>) -> Said {
    let state = state.map(|s| format!(r#","requestState":{s}"#)).unwrap_or_default();
    let requests = if requests.is_null() { String::new() } else { format!(r#","inputRequests":{requests}"#) };
    let text = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"resultType":"input_required"{requests}{state}}}}}"#
    );
    Said::Raw(200, "application/json", text)
}

fn form() -> Value {
    json!({"name": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": {}}}})
}

const STATE: &str = r#""st\u0061te/+=""#;

#[tokio::test]
async fn what_the_server_needs_is_asked_and_the_call_goes_again() {
    let (server, client) = joined("2025-11-25").await;
    let mut asks = form();
    asks["roots"] = json!({"method": "roots/list"});
    server.say("tools/call", needs(&asks, Some(STATE)));
    server.say("tools/call", Said::Result(json!({"content": [{"type": "text", "text": "Ada"}]})));
    let mut stream = client.start("tools/call", &json!({"name": "t", "arguments": {"region": "eu"}})).await;
    let (first, second) = (next(&mut stream).await.unwrap(), next(&mut stream).await.unwrap());
    assert_eq!((&first["method"], &second["method"]), (&json!("elicitation/create"), &json!("roots/list")));
    assert_eq!(first["params"]["message"], "Who?");
    assert_ne!(first["id"], second["id"]);
    // In any order; an answer that comes twice goes nowhere.
    for (id, result) in [
        (&second["id"], json!({"roots": []})),
        (&first["id"], json!({"action": "accept", "content": {"name": "Ada", "n": 1.5}})),
        (&first["id"], json!({"action": "decline"})),
    ] {
        let reply = client.answer(id, &result).await;
        assert_eq!((reply.status, reply.text.as_str()), (202, ""));
    }
    assert_eq!(next(&mut stream).await.unwrap()["result"]["content"][0]["text"], "Ada");
    assert!(next(&mut stream).await.is_none());
    let seen = server.seen("tools/call");
    assert_ne!(seen[0].body["id"], seen[1].body["id"]);
    assert!(seen[1].text.contains(&format!(r#""requestState":{STATE}"#)));
    assert_eq!(seen[1].body["params"]["arguments"], json!({"region": "eu"}));
    assert_eq!(seen[1].header("mcp-param-region"), Some("eu"));
    assert_eq!(
        seen[1].body["params"]["inputResponses"],
        json!({"name": {"action": "accept", "content": {"name": "Ada", "n": 1.5}}, "roots": {"roots": []}})
    );
}

#[tokio::test]
async fn notes_come_before_questions_on_one_stream() {
    let (server, client) = joined("2025-06-18").await;
    server.say(
        "tools/call",
        Said::Events(vec![
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#.into(),
            format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"resultType":"input_required","inputRequests":{}}}}}"#, form()),
        ]),
    );
    server.say("tools/call", Said::Result(json!({"content": []})));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    assert_eq!(next(&mut stream).await.unwrap()["method"], "notifications/message");
    let ask = next(&mut stream).await.unwrap();
    assert_eq!(ask["params"], json!({"message": "Who?", "requestedSchema": {}}), "2025-06-18 has no modes");
    client.answer(&ask["id"], &json!({"action": "decline"})).await;
    assert_eq!(next(&mut stream).await.unwrap()["id"], 7);
    assert!(server.seen("tools/call")[1].body["params"].get("requestState").is_none());
}

#[tokio::test]
async fn an_error_of_the_client_cancels_a_form_and_fails_the_rest() {
    let (server, client) = joined("2025-11-25").await;
    let refuse = |id: &Value| {
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no model"}}).to_string()
    };
    server.say("tools/call", needs(&form(), None));
    server.say("tools/call", Said::Result(json!({"content": []})));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    let ask = next(&mut stream).await.unwrap();
    client.post(refuse(&ask["id"])).await;
    next(&mut stream).await.unwrap();
    assert_eq!(server.seen("tools/call")[1].body["params"]["inputResponses"]["name"]["action"], "cancel");

    server.say("tools/call", needs(&json!({"s": {"method": "sampling/createMessage", "params": {}}}), None));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    let ask = next(&mut stream).await.unwrap();
    client.post(refuse(&ask["id"])).await;
    let error = next(&mut stream).await.unwrap()["error"].clone();
    assert_eq!((&error["code"], &error["data"]["reason"]), (&json!(-32603), &json!("unanswered")));
    assert!(error["message"].as_str().unwrap().contains("no model"));
}

#[tokio::test(start_paused = true)]
async fn a_state_alone_is_sent_back_after_a_pause_and_not_for_ever() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", needs(&Value::Null, Some("\"1\"")));
    server.say("tools/call", needs(&Value::Null, Some("\"2\"")));
    server.say("tools/call", Said::Result(json!({"content": []})));
    assert!(client.call_tool().await.text.contains("content"));
    let seen = server.seen("tools/call");
    let states: Vec<_> = seen.iter().map(|s| s.body["params"]["requestState"].clone()).collect();
    assert_eq!(states, [Value::Null, json!("1"), json!("2")]);
    assert!(seen[1].body["params"].get("inputResponses").is_none());
    for _ in 0..32 {
        server.say("tools/call", needs(&Value::Null, Some("\"x\"")));
    }
    assert!(client.call_tool().await.text.contains("kept asking"));
    assert!(server.script.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_without_an_answer_is_taken_back() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", needs(&form(), None));
    let text = client.call_tool().await.text;
    let mut stream = Messages::new(body::whole(text.clone()));
    let ask = next(&mut stream).await.unwrap();
    let taken_back = next(&mut stream).await.unwrap();
    assert_eq!(taken_back["method"], "notifications/cancelled");
    assert_eq!(taken_back["params"]["requestId"], ask["id"]);
    assert_eq!(next(&mut stream).await.unwrap()["error"]["data"]["reason"], "unanswered");
    assert!(text.contains(": keep-alive\n\n"));
    assert_eq!(client.answer(&ask["id"], &json!({})).await.status, 202, "late answers are no fault");
}

#[tokio::test]
async fn what_the_client_did_not_declare_is_not_asked() {
    let (server, client) = joined_with("2025-11-25", &json!({"elicitation": {}})).await;
    for asks in [
        json!({"a": {"method": "roots/list"}}),
        json!({"a": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x", "message": ""}}}),
        json!({"a": {"method": "tools/call"}}),
    ] {
        server.say("tools/call", needs(&asks, None));
        let text = client.call_tool().await.text;
        assert!(text.contains("did not declare") && !text.contains("\"params\""), "{text}");
    }
    assert_eq!(
        server.seen("tools/call")[0].meta("clientCapabilities"),
        &json!({"elicitation": {"form": {}}})
    );
}

#[tokio::test]
async fn a_client_that_takes_no_stream_is_told_so() {
    let (server, mut client) = joined("2025-11-25").await;
    client.accept = "application/json";
    server.say("tools/call", needs(&form(), None));
    let reply = client.call_tool().await;
    assert_eq!(reply.headers["content-type"], "application/json");
    assert!(reply.body()["error"]["message"].as_str().unwrap().contains("text/event-stream"));
}

#[tokio::test]
async fn pages_to_open_get_an_id_in_2025_11_25_and_are_not_declared_before() {
    let (server, client) = joined("2025-11-25").await;
    let asks = json!({"u": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://x", "message": "m"}}});
    server.say("tools/call", needs(&asks, None));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    let params = next(&mut stream).await.unwrap()["params"].clone();
    assert_eq!((&params["mode"], &params["url"]), (&json!("url"), &json!("https://x")));
    assert!(!params["elicitationId"].as_str().unwrap().is_empty());
    for (revision, capabilities) in [
        ("2025-06-18", json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}}})),
        ("2025-03-26", json!({"roots": {}, "sampling": {}})),
        ("2024-11-05", json!({"roots": {}, "sampling": {}})),
    ] {
        let (server, client) = joined(revision).await;
        server.say("tools/call", Said::Result(json!({"content": []})));
        client.call_tool().await;
        assert_eq!(server.seen("tools/call")[0].meta("clientCapabilities"), &capabilities);
    }
}

#[tokio::test]
async fn answers_open_only_for_the_session_and_the_process_that_asked() {
    let (server, client) = joined("2025-11-25").await;
    server.say("tools/call", needs(&form(), None));
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    let id = next(&mut stream).await.unwrap()["id"].clone();
    let mut other = client.clone();
    other.initialize("2025-11-25", &json!({})).await;
    assert_eq!(other.answer(&id, &json!({})).await.status, 400);
    let bob = Client { principal: "bob", session: None, ..client.clone() };
    assert_eq!(bob.answer(&id, &json!({})).await.status, 400);
    for made_up in [json!(1), json!("v1.x")] {
        assert_eq!(client.answer(&made_up, &json!({})).await.status, 400);
    }
    let replica = Client { face: face(&server), ..client.clone() };
    let reply = replica.answer(&id, &json!({})).await;
    assert_eq!((reply.status, &reply.body()["error"]["data"]["reason"]), (409, &json!("parked_elsewhere")));
    server.say("tools/call", Said::Result(json!({"content": []})));
    assert_eq!(client.answer(&id, &json!({"action": "decline"})).await.status, 202);
    assert_eq!(next(&mut stream).await.unwrap()["id"], 7);
}
