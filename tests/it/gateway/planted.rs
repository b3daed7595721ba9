//! Secrets from a published rule set's own samples, in every place of a message that can carry one, plain and written
//! with escapes of JSON: none is in the journal, in what a collector receives, in the log at its most talkative, in the
//! metrics, on the admin pages or in their API.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::support::{
    fake::{Fake, Reply, Seen, error, event, json_reply, result, typed},
    gate::{self, Gate},
    process::{Gateway, read_to, send_to},
};

/// What cannot be told from ordinary words, see docs/security.md.
const MISSED: &[&str] = &["np.generic.7", "np.jenkins.2", "np.psexec.1", "np.thingsboard.1"];

/// Where the sample stands in a message.
const HERE: &str = "@@HERE@@";
/// And where in a text of JSON within it.
const WITHIN: &str = "@@WITHIN@@";
/// Of the calls' own pages, one of so many is looked at.
const STEP: usize = 7;

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

/// A way to write a text of JSON between its quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    /// As programs do.
    Usual,
    /// With escapes where none is needed.
    Odd,
    /// With nothing else.
    Escapes,
}

impl Written {
    fn text(self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                '/' if self == Self::Odd => out.push_str("\\/"),
                'a' | 'e' | 'i' | 'A' | 'E' | 'I' | '1'..='3' | ':' | '=' if self == Self::Odd => {
                    write!(out, "\\u{:04X}", u32::from(c)).unwrap();
                }
                _ if self == Self::Escapes => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| write!(out, "\\u{unit:04x}").unwrap());
                }
                _ => {
                    let quoted = Value::from(c.to_string()).to_string();
                    out.push_str(&quoted[1..quoted.len() - 1]);
                }
            }
        }
        out
    }

    /// The forms in which a piece of it may be seen.
    fn seen(self, piece: &str) -> Vec<String> {
        let once = self.text(piece);
        let twice = Self::Usual.text(&once);
        let mut all = vec![piece.to_owned(), Self::Usual.text(&twice), twice, once];
        all.sort_unstable();
        all.dedup();
        all
    }
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

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// An upstream that says everything back as it was written: as a result, as an error, in a stream with a log notification.
fn echo(seen: &Seen) -> Reply {
    let (message, text) = (seen.json(), seen.text());
    let params = serde_json::from_str::<Raw<'_>>(text).unwrap().params.map_or("null", RawValue::get);
    match seen.rpc().as_str() {
        "prompts/get" => error(seen, -32_602, params),
        "resources/read" => {
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": params}});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"contents": [{"uri": "a:b", "text": params}]}});
            typed(200, "text/event-stream", [event(&log.to_string()), event(&answer.to_string())].concat())
        }
        "tools/call" if message["params"]["name"] == "add" => {
            let arguments = serde_json::from_str::<Params<'_>>(params).unwrap().arguments;
            let arguments = arguments.map_or("null", RawValue::get);
            let (id, said) = (&message["id"], Value::from(params));
            json_reply(
                200,
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{said}}}],"structuredContent":{arguments}}}}}"#
                ),
            )
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
fn bodies(text: &str, how: Written) -> Vec<String> {
    let call = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let within = json!({"deep": [WITHIN, {"deeper": WITHIN}]}).to_string();
    let messages = [
        call(
            1.into(),
            "tools/call",
            json!({"name": "add", "arguments": {"a": HERE, "list": [1, {"x": [HERE]}], HERE: 1, "json": within}}),
        ),
        call(2.into(), "tools/call", json!({"name": HERE, "arguments": {}})),
        call(HERE.into(), "ping", json!({})),
        call(3.into(), HERE, json!({"a": HERE})),
        call(4.into(), "prompts/get", json!({"name": HERE, "arguments": {"a": HERE}})),
        call(5.into(), "resources/read", json!({"uri": HERE})),
        call(
            6.into(),
            "initialize",
            json!({"protocolVersion": HERE, "capabilities": {}, "clientInfo": {"name": HERE, "version": HERE}}),
        ),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": HERE}}),
    ];
    let once = how.text(text);
    let twice = Written::Usual.text(&once);
    messages.iter().map(|message| message.to_string().replace(HERE, &once).replace(WITHIN, &twice)).collect()
}

/// Sends them; how many records that makes.
async fn drive(gate: &Gateway, text: &str, how: Written) -> usize {
    let bodies = bodies(text, how);
    let sent = bodies.len();
    for body in bodies {
        gate.post(body).await;
    }
    // Neither JSON nor complete.
    gate.post(format!("{{\"id\":1,\"a\":\"{}", how.text(text))).await;
    if how != Written::Usual {
        return sent + 1;
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
    gate.post(format!("{{\"id\":1,{line}")).await;
    sent + 4
}

/// Everything that the admin listener says, each with its path. What pages write for markup is undone.
async fn pages(gate: &Gateway, records: &[Value]) -> Vec<(String, String)> {
    let own = |record: &Value| format!("{}/{}", record["boot"].as_str().unwrap(), record["seq"]);
    let mut paths: Vec<String> = ["/readyz", "/metrics", "/activity", "/connect", "/api/calls?limit=9999"]
        .into_iter()
        .chain(["/api/activity", "/api/connect"])
        .map(str::to_owned)
        .collect();
    for record in records.iter().step_by(STEP) {
        paths.extend([format!("/activity/{}", own(record)), format!("/api/calls/{}", own(record))]);
    }
    let mut told = Vec::new();
    for path in paths {
        let page = gate.page(&path).await;
        assert_eq!(page.status, 200, "{path}");
        let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
            .into_iter()
            .fold(page.text().to_owned(), |text, (written, meant)| text.replace(written, meant));
        told.push((path, plain));
    }
    // A place of another boot is the beginning.
    let stream = Request::get("/api/events?after=01ANOTHER.1").header("host", "localhost");
    let mut stream = send_to(gate.admin, stream.body(Full::default()).unwrap()).await.into_body();
    let last = format!("/activity/{}\"", own(records.last().unwrap()));
    told.push(("/api/events".to_owned(), read_to(&mut stream, &last).await));
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_of_a_published_rule_set_are_in_nothing_that_is_kept_or_told() {
    // All of them in each arrangement take minutes; thirds that differ are as many as are asked for.
    let all = std::env::var_os("SMARTGATE_ALL_SECRETS").is_some();
    for (nth, capture) in ["none", "hash", "redacted"].into_iter().enumerate() {
        let samples = samples();
        let driven: Vec<(&Sample, Written)> = samples
            .iter()
            .enumerate()
            .flat_map(|(n, sample)| {
                let odd = if n / 3 % 2 == 0 { Written::Odd } else { Written::Escapes };
                let ways: &[Written] = match (n + nth) % 3 {
                    _ if all => &[Written::Usual, Written::Odd, Written::Escapes],
                    0 => &[Written::Usual],
                    1 => &[odd],
                    _ => &[],
                };
                ways.iter().map(move |how| (sample, *how)).collect::<Vec<_>>()
            })
            .collect();
        assert!(driven.len() >= 60, "{}", driven.len());
        let fake = Fake::start(|seen| async move { echo(&seen) }).await;
        let (sink, taken) = collector();
        let config = format!(
            "audit.capture = \"{capture}\"\nlimits.rate = \"none\"\ntelemetry.otlp = \"http://{}\"\ntelemetry.protocol = \"http/protobuf\"",
            sink.addr
        );
        let gate = Gateway::before(&fake.url(), &config).await;
        let mut expected = 0;
        for (sample, how) in &driven {
            expected += drive(&gate, &sample.text, *how).await;
        }
        let records = gate.recorded(expected).await;
        let mut places = pages(&gate, &records).await;
        places.push(("the log".to_owned(), gate.log()));
        places.push(("the journal".to_owned(), std::fs::read_to_string(gate.journal()).unwrap()));
        let records = gate.stop().await;
        // What escapes would hide in the lines of the journal.
        places.push(("its records".to_owned(), records.iter().map(Value::to_string).collect()));
        let taken = String::from_utf8_lossy(&taken.lock().unwrap()).into_owned();
        for signal in ["/v1/traces", "/v1/metrics", "/v1/logs"] {
            assert!(taken.contains(signal), "nothing came to {signal}");
        }
        places.push(("the collector".to_owned(), taken));
        let mut found = String::new();
        for (sample, how) in &driven {
            for piece in how.seen(&sample.piece) {
                for (place, told) in &places {
                    if let Some(at) = told.find(&piece) {
                        let from = told.floor_char_boundary(at.saturating_sub(300));
                        let rule = sample.rule;
                        let near = &told[from..at + piece.len()];
                        writeln!(found, "{capture}, {how:?}: {rule} in {place}: …{near}").unwrap();
                    }
                }
            }
        }
        assert!(found.is_empty(), "{found}");
    }
}
