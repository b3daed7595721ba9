//! `initialize` and what a sealed id opens, for whom and where.

use super::*;
use crate::bridge::{
    face::{revision::Revision, session::Claims},
    sealed::Purpose,
};

#[tokio::test]
async fn initialize_is_answered_from_discovery() {
    let (server, mut client) = setup();
    for (asked, told) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let result = client.initialize(asked, &json!({})).await;
        assert_eq!(result["protocolVersion"], told);
        assert_eq!(result["instructions"], "Be kind.");
        assert!(client.session.is_some());
        let mut capabilities =
            json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}, "logging": {}});
        if told > "2024-11-05" {
            capabilities["completions"] = json!({});
        }
        assert_eq!(result["capabilities"], capabilities);
        let info = match told {
            "2025-11-25" => json!({"name": "srv", "version": "3", "title": "T", "icons": []}),
            "2025-06-18" => json!({"name": "srv", "version": "3", "title": "T"}),
            _ => json!({"name": "srv", "version": "3"}),
        };
        assert_eq!(result["serverInfo"], info);
    }
    assert_eq!(server.seen("server/discover").len(), 1, "asked once and kept");
    client.principal = "bob";
    client.initialize("2025-11-25", &json!({})).await;
    assert_eq!(server.seen("server/discover").len(), 2, "what ada was told is not told to bob");
}

#[tokio::test]
async fn a_server_without_a_name_gets_one_and_one_without_ttl_is_asked_again() {
    let (server, mut client) = setup();
    for _ in 0..2 {
        server.say("server/discover", Said::Result(json!({"capabilities": {}})));
        let result = client.initialize("2025-06-18", &json!({})).await;
        assert_eq!(result["serverInfo"]["name"], "smartgate");
    }
    assert_eq!(server.seen("server/discover").len(), 2);
}

#[tokio::test]
async fn a_server_that_cannot_be_discovered_is_an_error_of_initialize() {
    let (server, client) = setup();
    let params = json!({"protocolVersion": "2025-11-25"});
    let error = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"no"}}"#;
    server.say("server/discover", Said::Raw(404, "application/json", error.into()));
    let reply = client.ask("initialize", &params).await;
    assert_eq!((reply.status, &reply.body()["error"]["code"]), (200, &json!(-32601)));
    assert!(!reply.headers.contains_key("mcp-session-id"));
    for (kind, words) in [("text/plain", ""), ("application/json", r#"{"error":"invalid_token"}"#)] {
        server.say("server/discover", Said::Raw(401, kind, words.into()));
        assert_eq!(client.ask("initialize", &params).await.status, 401, "{kind}");
    }
    let reply = client.ask("initialize", &json!({})).await;
    assert_eq!(reply.body()["error"]["code"], -32602);
}

async fn status(client: &Client, server: &Server) -> u16 {
    server.say("tools/call", Said::Result(json!({"content": []})));
    let reply = client.call_tool().await;
    if reply.status == 404 {
        server.script.lock().unwrap().clear();
        assert_eq!(reply.body()["error"]["data"]["reason"], "session_not_found");
        assert_eq!(reply.body()["id"], 7);
    }
    reply.status
}

#[tokio::test]
async fn a_session_is_its_principals_alone() {
    let (server, mut client) = joined("2025-11-25").await;
    assert_eq!(status(&client, &server).await, 200);
    client.principal = "bob";
    assert_eq!(status(&client, &server).await, 404);
    client.principal = "ada";
    client.session = Some("made-up".into());
    assert_eq!(status(&client, &server).await, 404);
    assert_eq!(client.open(Method::GET, "").await.status(), 404);
    assert_eq!(client.open(Method::DELETE, "").await.status(), 404);
}

#[tokio::test]
async fn another_replica_serves_the_same_session() {
    let (_, mut client) = joined("2025-11-25").await;
    let server = Arc::new(Server::default());
    client.face = face(&server);
    assert_eq!(status(&client, &server).await, 200);
    let seen = server.seen("tools/call").remove(0);
    assert_eq!(seen.meta("clientInfo")["name"], "cli");
    assert_eq!(seen.meta("clientCapabilities")["roots"], json!({}));
}

#[tokio::test]
async fn a_session_ends_with_its_time() {
    let (server, mut client) = setup();
    let claims = Claims {
        revision: Revision::NEWEST,
        client: None,
        can: super::super::session::Can::default(),
        nonce: [1, 2],
        named: crate::upstream::named::Named::default(),
    };
    client.session = Some(sealer().seal(Purpose::Session, "ada", std::time::Duration::ZERO, &claims));
    assert_eq!(status(&client, &server).await, 200);
    // Expiry counts whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    assert_eq!(status(&client, &server).await, 404);
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_calls() {
    let (server, client) = joined("2025-11-25").await;
    let _say = server.live("tools/call");
    let mut stream = client.start("tools/call", &json!({"name": "t"})).await;
    assert_eq!(client.open(Method::DELETE, "").await.status(), 200);
    assert!(next(&mut stream).await.is_none());
    assert_eq!(status(&client, &server).await, 404);
}

#[tokio::test]
async fn plain_calls_need_no_session() {
    let (server, mut client) = setup();
    for version in [None, Some("2024-11-05"), Some("2025-11-25")] {
        client.version = version;
        assert_eq!(status(&client, &server).await, 200);
    }
    let seen = server.seen("tools/call").remove(0);
    assert_eq!((seen.meta("clientCapabilities"), seen.meta("clientInfo")), (&json!({}), &Value::Null));
    assert_eq!(client.ask("logging/setLevel", &json!({"level": "info"})).await.body()["result"], json!({}));
    assert_eq!(client.open(Method::GET, "").await.status(), 405);
    let reply = client.ask("resources/subscribe", &json!({"uri": "a:b"})).await;
    assert_eq!(reply.body()["error"]["code"], -32602);
}

#[tokio::test]
async fn a_version_that_nobody_knows_is_refused() {
    let (_, mut client) = joined("2025-11-25").await;
    client.version = Some("2025-99-99");
    let reply = client.call_tool().await;
    assert_eq!((reply.status, &reply.body()["error"]["code"]), (400, &json!(-32022)));
    assert_eq!(reply.body()["error"]["data"]["supported"][0], "2025-11-25");
}
