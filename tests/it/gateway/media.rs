//! Content types: what a client can take decides how it is answered; what it sends is read leniently, except
//! from a browser.

use http::request::Builder;

use super::{ending, request, tool};
use crate::support::{
    fake::{Fake, channel, event, json_reply, mcp, sse},
    process::Gateway,
};

fn accepting(accept: Option<&str>) -> Builder {
    let builder =
        http::Request::post("/mcp").header("host", "localhost").header("content-type", "application/json");
    match accept {
        Some(accept) => builder.header("accept", accept),
        None => builder,
    }
}

/// Answers "stream" with a stream, everything else with JSON.
async fn fake() -> Fake {
    Fake::start(|seen| async move {
        if seen.json()["params"]["name"] != "stream" {
            return mcp(&seen);
        }
        let (sender, body) = channel();
        sender.send(event(r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).await.unwrap();
        sender.send(event("{\"jsonrpc\":\"2.0\",\"id\":1,\ndata: \"result\":{\"n\":1.0}}")).await.unwrap();
        // The stream stays open: the answer is enough.
        tokio::spawn(async move { sender.closed().await });
        sse(body)
    })
    .await
}

#[tokio::test]
async fn a_client_of_one_type_gets_that_type() {
    let fake = fake().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let folded = gate.call(accepting(Some("application/json")), tool(1, "stream", "{}")).await;
    assert_eq!(folded.header("content-type"), Some("application/json"));
    assert_eq!(folded.text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\n\"result\":{\"n\":1.0}}");
    let framed = gate.call(accepting(Some("text/event-stream")), tool(2, "add", "{}")).await;
    assert_eq!(framed.header("content-type"), Some("text/event-stream"));
    assert!(framed.text().starts_with("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{"));
    assert!(framed.text().ends_with("}\n\n"));
    let records = gate.recorded(2).await;
    assert_eq!((ending(&records[0]).0, &records[0]["lossy"]), ("ok", &true.into()));
    assert_eq!((ending(&records[1]).0, &records[1]["lossy"]), ("ok", &false.into()));
    assert!(records.iter().all(|r| r["result"]["sha256"].is_string()));
    for seen in fake.calls() {
        assert_eq!(seen.header("accept"), Some("application/json, text/event-stream"));
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_gets_what_the_server_sends() {
    let fake = fake().await;
    let gate = Gateway::before(&fake.url(), "").await;
    for accept in [None, Some("*/*"), Some("application/json, text/event-stream"), Some("text/html")] {
        let answer = gate.open(accepting(accept), tool(1, "stream", "{}")).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream", "{accept:?}");
        drop(answer);
        let answer = gate.call(accepting(accept), tool(1, "add", "{}")).await;
        assert_eq!(answer.header("content-type"), Some("application/json"), "{accept:?}");
    }
}

#[tokio::test]
async fn errors_stay_json() {
    let fake = Fake::start(|_| async move {
        json_reply(404, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone"}}"#)
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    let answer = gate.call(accepting(Some("text/event-stream")), tool(1, "add", "{}")).await;
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("application/json")));
    let own = gate.call(accepting(Some("text/event-stream")), "{").await;
    assert_eq!((own.status, own.header("content-type")), (400, Some("application/json")));
}

#[tokio::test]
async fn a_body_s_type_is_read_leniently() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let bare = || http::Request::post("/mcp").header("host", "localhost");
    for builder in [
        bare(),
        bare().header("content-type", "Application/JSON ; charset=UTF-8"),
        bare().header("content-type", "application/json").header("content-encoding", "identity"),
    ] {
        assert_eq!(gate.call(builder, request(1, "ping")).await.status, 200);
    }
    assert!(fake.calls().iter().all(|c| c.header("content-type") == Some("application/json")));
}

#[tokio::test]
async fn an_allowed_page_may_read_answers_and_refusals() {
    let fake = Fake::plain().await;
    let config =
        "server.allowed_origins = [\"https://app.example\"]\nserver.allowed_hosts = [\"gate.example\"]";
    let gate = Gateway::before(&fake.url(), config).await;
    let from = |origin: &str| {
        http::Request::post("/mcp")
            .header("host", "gate.example")
            .header("content-type", "application/json")
            .header("origin", origin)
    };
    let answer = gate.call(from("https://app.example"), request(1, "ping")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(answer.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    assert!(
        answer.headers.get_all("vary").iter().any(|v| v.to_str().unwrap().eq_ignore_ascii_case("origin"))
    );
    let refusal = gate.call(from("https://app.example"), "{").await;
    assert_eq!(refusal.header("access-control-allow-origin"), Some("https://app.example"));
    let foreign = gate.call(from("https://evil.example"), request(1, "ping")).await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (403, None));
    let asked = gate
        .call(
            from("https://app.example")
                .method("OPTIONS")
                .header("access-control-request-headers", "authorization,mcp-param-city,x-other"),
            "",
        )
        .await;
    assert_eq!(asked.status, 204);
    let allowed = asked.header("access-control-allow-headers").unwrap();
    for name in [
        "authorization",
        "content-type",
        "accept",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "mcp-method",
        "mcp-name",
        "mcp-param-city",
    ] {
        assert!(allowed.split(", ").any(|a| a == name), "{name}");
    }
    assert!(!allowed.contains("x-other"));
    assert_eq!(asked.header("access-control-allow-methods"), Some("POST, GET, DELETE, OPTIONS"));
}
