//! Secrets from a published rule set's own samples, in every place of a message that can carry one: none is in the
//! journal, in what a collector receives, in the log at its most talkative, in the metrics or on a page.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::support::{
    fake::{Fake, Reply, Seen, error, event, json_reply, result, typed},
    gate::{self, Gate},
    process::Gateway,
};

/// What cannot be told from ordinary words, see docs/security.md.
const MISSED: &[&str] = &["np.generic.7", "np.jenkins.2", "np.psexec.1", "np.thingsboard.1"];

/// A text with a secret, and a piece of the secret that no escape changes.
struct Sample {
    rule: &'static str,
    text: String,
    piece: String,
}

fn samples() -> Vec<Sample> {
    let decoded = |text: &str| String::from_utf8(BASE64_STANDARD.decode(text).unwrap()).unwrap();
    let lines = include_str!("../../fixtures/secrets.tsv").lines().filter(|l| !l.starts_with('#'));
    lines
        .map(|line| {
            let [rule, text, secret] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let secret = decoded(secret);
            let plain = |c: char| c.is_whitespace() || c == '"' || c == '\\';
            let piece = secret.split(plain).max_by_key(|piece| piece.len()).unwrap().to_owned();
            Sample { rule, text: decoded(text), piece }
        })
        .filter(|sample| !MISSED.contains(&sample.rule))
        .collect()
}

/// A collector that keeps the bytes of everything it is sent. Strings of protobuf are in them as they are.
fn collector() -> (Gate, Arc<Mutex<Vec<u8>>>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&taken);
    let gate = Gate::start(move |req, _| {
        let taken = Arc::clone(&theirs);
        async move {
            let path = req.uri().path().to_owned();
            let body = req.into_body().collect().await.unwrap().to_bytes();
            let mut taken = taken.lock().unwrap();
            taken.extend_from_slice(path.as_bytes());
            taken.extend_from_slice(&body);
            gate::answer("")
        }
    });
    (gate, taken)
}

/// An upstream that says everything back: as a result, as an error, in a stream with a log notification.
fn echo(seen: &Seen) -> Reply {
    let message = seen.json();
    let said = message["params"].to_string();
    match seen.rpc().as_str() {
        "prompts/get" => error(seen, -32_602, &said),
        "resources/read" => {
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": said}});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"contents": [{"uri": "a:b", "text": said}]}});
            typed(200, "text/event-stream", [event(&log.to_string()), event(&answer.to_string())].concat())
        }
        "tools/call" if message["params"]["name"] == "add" => {
            result(seen, &json!({"content": [{"type": "text", "text": said}], "structuredContent": message["params"]["arguments"]}))
        }
        "tools/call" => {
            let text = message["params"]["name"].clone();
            result(seen, &json!({"content": [{"type": "text", "text": text}], "isError": true}))
        }
        "initialize" => result(seen, &json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": message["params"]["clientInfo"]})),
        _ => json_reply(200, json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32_601, "message": message["method"]}}).to_string()),
    }
}

/// Messages with the sample in every place of a body.
fn bodies(text: &str) -> Vec<Value> {
    let call = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let within = json!({"deep": [text, {"deeper": text}]}).to_string();
    vec![
        call(
            1.into(),
            "tools/call",
            json!({"name": "add", "arguments": {"a": text, "list": [1, {"x": [text]}], text: 1, "json": within}}),
        ),
        call(2.into(), "tools/call", json!({"name": text, "arguments": {}})),
        call(text.into(), "ping", json!({})),
        call(3.into(), text, json!({"a": text})),
        call(4.into(), "prompts/get", json!({"name": text, "arguments": {"a": text}})),
        call(5.into(), "resources/read", json!({"uri": text})),
        call(
            6.into(),
            "initialize",
            json!({"protocolVersion": text, "capabilities": {}, "clientInfo": {"name": text, "version": text}}),
        ),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": text}}),
    ]
}

async fn drive(gate: &Gateway, text: &str) {
    for body in bodies(text) {
        gate.post(body.to_string()).await;
    }
    // A header and a query hold one line of visible characters.
    let line: String = text.chars().map(|c| if c.is_ascii_graphic() { c } else { ' ' }).collect();
    let query = line.bytes().fold(String::new(), |mut all, b| {
        if b.is_ascii_alphanumeric() {
            all.push(b.into())
        } else {
            write!(all, "%{b:02X}").unwrap()
        }
        all
    });
    let mut request = gate.request().uri(format!("/mcp?q={query}"));
    for name in [
        "user-agent",
        "mcp-session-id",
        "mcp-protocol-version",
        "x-anything",
        "tracestate",
        "baggage",
        "cookie",
    ] {
        request = request.header(name, line.trim());
    }
    let request = request.header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    gate.call(request, r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#).await;
    let lost = gate.request().uri(format!("/nowhere/{query}"));
    gate.call(lost, "{}").await;
    // Neither JSON nor complete.
    gate.post(format!("{{\"id\":1,{line}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_a_published_rule_set_are_in_nothing_that_is_kept_or_told() {
    // All of them in each arrangement take a minute; halves that overlap are as many as are asked for.
    let all = std::env::var_os("SMARTGATE_ALL_SECRETS").is_some();
    for (nth, capture) in ["none", "hash", "redacted"].into_iter().enumerate() {
        let samples: Vec<_> = samples()
            .into_iter()
            .enumerate()
            .filter(|(n, _)| all || n % 2 == nth % 2)
            .map(|(_, s)| s)
            .collect();
        assert!(samples.len() >= 60, "{}", samples.len());
        let fake = Fake::start(|seen| async move { echo(&seen) }).await;
        let (sink, taken) = collector();
        let config = format!(
            "audit.capture = \"{capture}\"\nlimits.rate = \"none\"\ntelemetry.otlp = \"http://{}\"\ntelemetry.protocol = \"http/protobuf\"",
            sink.addr
        );
        let gate = Gateway::before(&fake.url(), &config).await;
        for sample in &samples {
            drive(&gate, &sample.text).await;
        }
        let pages = gate.page("/readyz").await.text().to_owned() + gate.page("/metrics").await.text();
        let log = gate.log();
        let records = gate.stop().await;
        assert!(records.len() >= samples.len() * 11, "{} records", records.len());
        let journal = records.iter().map(Value::to_string).collect::<String>();
        let taken = String::from_utf8_lossy(&taken.lock().unwrap()).into_owned();
        for signal in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
            assert!(taken.contains(signal), "nothing came to {signal}");
        }
        let mut found = String::new();
        for (place, told) in [("journal", &journal), ("collector", &taken), ("log", &log), ("pages", &pages)]
        {
            for Sample { rule, piece, .. } in &samples {
                if let Some(at) = told.find(piece.as_str()) {
                    let from = told.floor_char_boundary(at.saturating_sub(300));
                    writeln!(found, "{capture}: {rule} in the {place}: …{}", &told[from..at + piece.len()])
                        .unwrap();
                }
            }
        }
        assert!(found.is_empty(), "{found}");
    }
}
