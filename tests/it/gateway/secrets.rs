//! Secrets planted wherever a client, the file or an upstream can put one: none shows up in the journal, the
//! log at its most talkative, the metrics, the admin pages or an answer of the gateway's own.

use std::fmt::Write;

use super::{KEY, key, request, tool};
use crate::support::{
    fake::{Fake, error, mcp, result},
    process::Gateway,
};

#[tokio::test]
async fn planted_secrets_stay_where_they_were_planted() {
    let fake = Fake::start(|seen| async move { result(&seen, &serde_json::json!({"content": []})) }).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(folder.path().join("header.txt"), "Bearer plant-header-file\n").unwrap();
    let config = format!(
        "upstreams.files.url = \"{}?token=plant-upstream-query\"\n\
         upstreams.files.headers = {{ authorization = \"file:header.txt\", x-env = \"env:PLANTED\" }}\n\
         audit.capture = \"redacted\"\n{}",
        fake.url(),
        key("ada", KEY, "tools = [\"add\"]\nrate = \"3/h\"")
    );
    let gate = Gateway::try_start(folder, &config, &[("PLANTED", "plant-environment")]).await;
    gate.knows("files").await;
    let mut answers = String::new();
    let asked = [
        (format!("Bearer {KEY}"), tool(1, "add", "{\"password\":\"plant-argument\"}")),
        (format!("Bearer {KEY}"), tool(2, "forbidden", "{}")),
        (format!("Bearer {KEY}"), "plant-body not json".into()),
        ("Bearer plant-unknown-key".into(), request(1, "ping")),
        ("Basic plant-basic".into(), request(1, "ping")),
        (format!("Bearer {KEY}"), request(1, "ping")),
        (format!("Bearer {KEY}"), request(1, "ping")),
        (format!("Bearer {KEY}"), request(1, "ping")),
    ];
    for (authorization, body) in asked {
        let builder = gate
            .request()
            .uri("/mcp?api_key=plant-query")
            .header("authorization", authorization)
            .header("x-api-key", "plant-own-header")
            .header("cookie", "s=plant-cookie")
            .header("proxy-authorization", "plant-proxy")
            .header("mcp-session-id", "plant-session");
        let answer = gate.call(builder, body).await;
        if answer.status != 200 {
            answers.push_str(answer.text());
            write!(answers, "{:?}", answer.headers).unwrap();
        }
    }
    // The upstream goes away: its URL and headers are in nobody's error text either.
    let seen = fake.calls();
    assert_eq!(seen[0].header("authorization"), Some("Bearer plant-header-file"));
    assert_eq!(seen[0].header("x-env"), Some("plant-environment"));
    fake.kill().await;
    let gone = gate.post_as(KEY, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#).await;
    assert_eq!(gone.status, 502);
    answers.push_str(gone.text());
    // A broken file that names secrets.
    gate.rewrite("upstreams.files.url = \"http://127.0.0.1:1/mcp\"\nupstreams.files.headers = { x = \"plant-in-a-broken-file\" }\nlimits.rate = \"plant\"");
    gate.logged("configuration not reloaded").await;
    let pages = gate.page("/readyz").await.text().to_owned() + gate.page("/metrics").await.text();
    let journal = std::fs::read_to_string(gate.journal()).unwrap();
    let log = gate.log();
    for (place, text) in [("answers", &answers), ("pages", &pages), ("journal", &journal), ("log", &log)] {
        for secret in [KEY, "plant-"] {
            assert!(!text.contains(secret), "{secret} in the {place}: {text}");
        }
    }
}

#[tokio::test]
async fn the_caller_s_own_key_is_masked_even_where_everything_is_kept() {
    let fake = Fake::start(|seen| async move { mcp(&seen) }).await;
    let gate =
        Gateway::before(&fake.url(), &format!("audit.capture = \"full\"\n{}", key("ada", KEY, ""))).await;
    let body = tool(1, "add", &format!("{{\"header\":\"Bearer {KEY}\"}}"));
    assert_eq!(gate.post_as(KEY, body).await.status, 200);
    let journal = gate.journal();
    let records = gate.recorded(1).await;
    assert!(records[0]["arguments"]["sha256"].is_string());
    assert!(!std::fs::read_to_string(journal).unwrap().contains(KEY));
}

#[tokio::test]
async fn credentials_that_look_like_nothing_are_masked_in_every_text_of_a_record() {
    let fake = Fake::start(|seen| async move {
        let said = format!("who is {}?", seen.header("x-own").unwrap_or_default());
        error(&seen, -32_000, &said)
    })
    .await;
    let word = "correct horse battery staple";
    let config = format!(
        "upstreams.files.url = \"{}\"\nupstreams.files.headers = {{ x-own = \"{word}\" }}\naudit.capture = \"none\"\n{}",
        fake.url(),
        key("ada", KEY, "")
    );
    let gate = Gateway::start(&config).await;
    for body in [
        tool(1, KEY, "{}"),
        request(format!("\"{KEY}\""), "ping"),
        request(2, KEY),
        format!(r#"{{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{{"uri":"x:{KEY}"}}}}"#),
    ] {
        gate.post_as(KEY, body).await;
    }
    gate.recorded(4).await;
    let pages = gate.page("/readyz").await.text().to_owned() + gate.page("/metrics").await.text();
    let log = gate.log();
    let records = gate.stop().await.iter().map(ToString::to_string).collect::<String>();
    assert!(records.contains("who is ***?"));
    for text in [records, pages, log] {
        assert!(!text.contains(KEY) && !text.contains(word), "{text}");
    }
}
