//! Spans as a collector receives them: over real sockets, decoded with the published message definitions.

mod signals;
pub(super) mod sink;

use crate::free::free;
use std::collections::HashMap;

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, any_value::Value as Otel},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use sink::{Behaviour, Sink};

use super::*;
use crate::{audit::ExporterState, config::OtlpProtocol};

fn export_to(url: &str, protocol: OtlpProtocol) -> Telemetry {
    Telemetry { otlp: Some(url.into()), protocol: Some(protocol), ..no_export() }
}

fn start_exporting(telemetry: &Telemetry) -> (tempfile::TempDir, Recorder, RecorderThread, Arc<Metrics>) {
    let (folder, path) = place();
    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = Recorder::start(&settings(&path), telemetry, Arc::clone(&metrics)).unwrap();
    (folder, recorder, thread, metrics)
}

/// Records, stops, and gives what the collector got.
fn exported(protocol: OtlpProtocol, records: Vec<Record>) -> (Vec<Span>, Vec<Value>) {
    let sink = Sink::start(protocol, Behaviour::Take);
    let (folder, recorder, thread, metrics) = start_exporting(&export_to(&sink.url(), protocol));
    records.into_iter().for_each(|r| recorder.record(r));
    thread.stop();
    assert_eq!(metrics.spans_dropped.get(), 0);
    (sink.spans(), lines(&folder.path().join("audit.jsonl")))
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().unwrap() {
        Otel::StringValue(s) => s.clone(),
        Otel::BoolValue(b) => b.to_string(),
        Otel::IntValue(i) => i.to_string(),
        Otel::DoubleValue(d) => d.to_string(),
        Otel::ArrayValue(list) => list.values.iter().map(text).collect::<Vec<_>>().join("+"),
        other => panic!("{other:?}"),
    }
}

fn attributes(span: &Span) -> HashMap<&str, String> {
    let all: HashMap<_, _> =
        span.attributes.iter().map(|a| (a.key.as_str(), text(a.value.as_ref().unwrap()))).collect();
    assert_eq!(all.len(), span.attributes.len(), "an attribute is there twice");
    all
}

/// Checks that exactly these attributes are there.
fn assert_attributes(span: &Span, expected: &[(&str, &str)]) {
    let expected: HashMap<&str, String> = expected.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    assert_eq!(attributes(span), expected);
}

#[test]
fn a_call_is_a_server_span_with_a_client_child() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let (spans, lines) = exported(protocol, vec![example()]);
        let [server, client] = &spans[..] else { panic!("{} spans", spans.len()) };
        assert_eq!((server.name.as_str(), server.kind()), ("tools/call files__read", SpanKind::Server));
        assert_eq!((client.name.as_str(), client.kind()), ("tools/call files__read", SpanKind::Client));
        assert_eq!((&server.trace_id[..], &server.span_id[..]), (&[0xab; 16][..], &[0xcd; 8][..]));
        assert_eq!((&client.trace_id[..], &client.span_id[..]), (&[0xab; 16][..], &[0xef; 8][..]));
        assert!(server.parent_span_id.is_empty());
        assert_eq!(client.parent_span_id, server.span_id);
        assert_eq!(server.start_time_unix_nano, 1_796_025_600_123_456_000);
        assert_eq!(server.end_time_unix_nano - server.start_time_unix_nano, 12_400_000);
        assert_eq!(client.end_time_unix_nano - client.start_time_unix_nano, 11_900_000);
        assert_eq!((server.flags, client.flags), (0x101, 0x101));
        assert!(server.status.is_none() && client.status.is_none());
        let line = &lines[1];
        assert_attributes(server, &server_attributes(&line["boot"], &line["hash"]));
        assert_attributes(client, CLIENT_ATTRIBUTES);
    }
}

fn server_attributes<'a>(boot: &'a Value, hash: &'a Value) -> Vec<(&'a str, &'a str)> {
    vec![
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "files__read"),
        ("jsonrpc.request.id", "7"),
        ("mcp.protocol.version", "2025-11-25"),
        ("mcp.session.id", "5e55"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("client.address", "10.0.0.7"),
        ("client.port", "5555"),
        ("http.response.status_code", "200"),
        ("smartgate.principal", "cursor-ada"),
        ("smartgate.client.name", "cursor"),
        ("smartgate.client.version", "2.1"),
        ("smartgate.era", "legacy"),
        ("smartgate.bridged", "false"),
        ("smartgate.upstream_version", "2025-11-25"),
        ("smartgate.upstream", "files"),
        ("smartgate.original_method", "files__read"),
        ("smartgate.normalized", "direct_tool_method"),
        ("smartgate.lossy", "false"),
        ("smartgate.edits", r#"[{"rule":"schema_coercion","path":"/n","from":"string","to":"integer"}]"#),
        ("smartgate.outcome", "ok"),
        ("smartgate.status", "200"),
        ("smartgate.upstream_ms", "11.9"),
        ("smartgate.attempts", "1"),
        ("smartgate.request_bytes", "210"),
        ("smartgate.response_bytes", "5120"),
        ("smartgate.arguments.sha256", "1111111111111111111111111111111111111111111111111111111111111111"),
        ("smartgate.result.sha256", "2222222222222222222222222222222222222222222222222222222222222222"),
        ("smartgate.boot", boot.as_str().unwrap()),
        ("smartgate.seq", "1"),
        ("smartgate.hash", hash.as_str().unwrap()),
    ]
}

const CLIENT_ATTRIBUTES: &[(&str, &str)] = &[
    ("mcp.method.name", "tools/call"),
    ("gen_ai.operation.name", "execute_tool"),
    ("gen_ai.tool.name", "files__read"),
    ("jsonrpc.request.id", "7"),
    ("mcp.protocol.version", "2025-11-25"),
    ("mcp.session.id", "5e55"),
    ("network.transport", "tcp"),
    ("network.protocol.name", "http"),
    ("server.address", "127.0.0.1"),
    ("server.port", "3001"),
    ("smartgate.upstream", "files"),
    ("http.response.status_code", "200"),
];

#[test]
fn the_callers_context_is_parent_state_and_link() {
    let record = Record {
        parent_id: Some([1; 8]),
        trace_state: Some("vendor=x".into()),
        link: Some(([2; 16], [3; 8])),
        ..example()
    };
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![record]);
    let server = &spans[0];
    assert_eq!((&server.parent_span_id[..], server.trace_state.as_str()), (&[1; 8][..], "vendor=x"));
    assert_eq!((server.flags, spans[1].flags), (0x301, 0x101));
    assert_eq!((&server.links[0].trace_id[..], &server.links[0].span_id[..]), (&[2; 16][..], &[3; 8][..]));
}

fn failing(outcome: Outcome, code: Option<i64>, reason: Option<&'static str>) -> Record {
    Record { outcome, error: Some(Failure { reason, code, message: "no".into() }), ..example() }
}

#[test]
fn status_follows_the_conventions() {
    let cases = [
        (failing(Outcome::RpcError, Some(-32_602), None), "-32602", Some("-32602"), false),
        (failing(Outcome::RpcError, Some(-32_603), None), "-32603", Some("-32603"), true),
        (failing(Outcome::Rejected, Some(403), Some("forbidden")), "forbidden", Some("403"), true),
        (
            failing(Outcome::Rejected, Some(-32_700), Some("parse_error")),
            "parse_error",
            Some("-32700"),
            false,
        ),
        (
            failing(Outcome::UpstreamFailed, Some(504), Some("upstream_timeout")),
            "upstream_timeout",
            Some("504"),
            true,
        ),
        (Record { outcome: Outcome::ToolError, ..example() }, "tool_error", None, true),
        (Record { outcome: Outcome::ClientClosed, status: None, ..example() }, "client_closed", None, false),
    ];
    let records = cases.iter().map(|(record, ..)| record.clone()).collect();
    let (spans, _) = exported(OtlpProtocol::Grpc, records);
    let servers: Vec<_> = spans.iter().filter(|s| s.kind() == SpanKind::Server).collect();
    assert_eq!(servers.len(), cases.len());
    for (span, (record, error_type, code, is_error)) in servers.into_iter().zip(&cases) {
        let all = attributes(span);
        assert_eq!(all["error.type"], *error_type);
        assert_eq!(all.get("rpc.response.status_code").map(String::as_str), *code);
        let status = span.status.as_ref().map(|s| (s.code(), s.message.as_str()));
        let message = if record.error.is_some() { "no" } else { "" };
        assert_eq!(status, is_error.then_some((StatusCode::Error, message)), "{error_type}");
    }
}

#[test]
fn a_failed_attempt_is_a_failed_client_span_and_retries_are_siblings() {
    let mut record = example();
    record.attempts.push(record.attempts[0].clone());
    record.attempts[0].error_type = Some("-32602".into());
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![record]);
    assert_eq!(spans.len(), 3);
    assert_eq!(spans[1].status.as_ref().unwrap().code(), StatusCode::Error);
    assert_eq!(attributes(&spans[1])["rpc.response.status_code"], "-32602");
    assert!(spans[2].status.is_none());
}

#[test]
fn odd_records_have_names_and_no_invented_attributes() {
    let get = Record {
        method: Some("GET".into()),
        tool: None,
        request_id: Some("null".into()),
        era: Some(Era::Modern),
        ..example()
    };
    let prompt = Record {
        method: Some("prompts/get".into()),
        tool: None,
        prompt: Some("greet".into()),
        request_id: Some("\"a\\u0062\"".into()),
        ..example()
    };
    let mut refused = refused();
    refused.client.address = None;
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![refused, get, prompt]);
    let servers: Vec<_> = spans.iter().filter(|s| s.kind() == SpanKind::Server).collect();
    let names: Vec<_> = servers.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["POST", "GET", "prompts/get greet"]);
    let all = attributes(servers[1]);
    assert_eq!(all["http.request.method"], "GET");
    for absent in ["mcp.method.name", "jsonrpc.request.id", "mcp.session.id", "gen_ai.operation.name"] {
        assert!(!all.contains_key(absent), "{absent}");
    }
    assert_eq!(attributes(servers[2])["jsonrpc.request.id"], "ab");
    assert!(!attributes(servers[0]).contains_key("client.address"));
}

#[test]
fn built_in_tools_are_reached_over_no_network() {
    let mut record = example();
    record.attempts[0].server_address = "builtin".into();
    record.attempts[0].server_port = 0;
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![record]);
    let all = attributes(&spans[1]);
    assert_eq!(all["server.address"], "builtin");
    assert!(!all.keys().any(|k| k.starts_with("network.") || *k == "server.port"), "{all:?}");
}

#[test]
fn commands_are_reached_over_pipes() {
    let mut record = example();
    record.attempts[0].server_address = "npx".into();
    record.attempts[0].server_port = 0;
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![record]);
    let all = attributes(&spans[1]);
    assert_eq!((&*all["server.address"], &*all["network.transport"]), ("npx", "pipe"));
    assert!(!all.contains_key("network.protocol.name") && !all.contains_key("server.port"), "{all:?}");
}

#[test]
fn tokens_stand_in_line_and_span() {
    let tokens = Some(crate::audit::record::Tokens { input: 900, output: 100, saved: 800 });
    let (spans, lines) = exported(OtlpProtocol::Grpc, vec![Record { tokens, ..example() }]);
    assert_eq!(lines[1]["tokens"], serde_json::json!({"in": 900, "out": 100, "saved": 800}));
    let all = attributes(&spans[0]);
    for (name, value) in [("in", "900"), ("out", "100"), ("saved", "800")] {
        assert_eq!(all[format!("smartgate.tokens.{name}").as_str()], value);
    }
}

#[test]
fn kept_payloads_are_masked_in_spans_too() {
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::Take);
    let (_folder, recorder, thread, _) = start_exporting(&export_to(&sink.url(), OtlpProtocol::Grpc));
    let bytes = br#"{"password":"hunter2","n":1}"#.to_vec();
    recorder.record(Record {
        arguments: Payload::Kept { sha256: [1; 32], bytes, truncated: false, full: false },
        ..example()
    });
    thread.stop();
    assert_eq!(attributes(&sink.spans()[0])["gen_ai.tool.call.arguments"], r#"{"password":"***","n":1}"#);
}

#[test]
fn resource_scope_and_headers_are_sent() {
    use crate::config::Secret;
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let sink = Sink::start(protocol, Behaviour::Take);
        let mut telemetry = export_to(&sink.url(), protocol);
        telemetry.service_name = Some("edge".into());
        telemetry.headers = [("x-tenant".to_owned(), Secret::new("t1"))].into();
        let (_folder, recorder, thread, _) = start_exporting(&telemetry);
        recorder.record(example());
        thread.stop();
        let (headers, request) = sink.requests().remove(0);
        assert_eq!(headers["x-tenant"], "t1");
        let spans = &request.resource_spans[0];
        let resource: HashMap<_, _> = spans
            .resource
            .as_ref()
            .unwrap()
            .attributes
            .iter()
            .map(|a| (a.key.as_str(), text(a.value.as_ref().unwrap())))
            .collect();
        assert_eq!(resource["service.name"], "edge");
        assert_eq!(resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(
            resource["service.instance.id"],
            attributes(&spans.scope_spans[0].spans[0])["smartgate.boot"]
        );
        assert_eq!(spans.scope_spans[0].scope.as_ref().unwrap().name, "smartgate");
    }
}

#[test]
fn a_burst_arrives_whole_and_in_order() {
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::Take);
    let (_folder, recorder, thread, metrics) = start_exporting(&export_to(&sink.url(), OtlpProtocol::Grpc));
    for n in 0..3_000u64 {
        recorder.record(Record { request_bytes: n, ..example() });
    }
    wait_until("every span", || metrics.spans_exported.get() == 6_000);
    thread.stop();
    assert_eq!(metrics.spans_dropped.get(), 0);
    let spans = sink.spans();
    let sequence: Vec<u64> = spans
        .iter()
        .filter(|s| s.kind() == SpanKind::Server)
        .map(|s| attributes(s)["smartgate.request_bytes"].parse().unwrap())
        .collect();
    assert!(sequence.iter().copied().eq(0..3_000));
    assert!(sink.requests().iter().all(|(_, r)| r.resource_spans[0].scope_spans[0].spans.len() <= 2_048));
}

#[test]
fn what_a_collector_refuses_is_counted() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let sink = Sink::start(protocol, Behaviour::Refuse);
        let (_folder, recorder, thread, metrics) = start_exporting(&export_to(&sink.url(), protocol));
        recorder.record(example());
        wait_until("the loss", || metrics.spans_dropped.get() == 2);
        let ExporterState::Failing { message, .. } = recorder.status().exporter else {
            panic!("not failing")
        };
        let expected = match protocol {
            OtlpProtocol::Grpc => "gRPC status 3: bad spans",
            OtlpProtocol::HttpProtobuf => "HTTP status 400",
        };
        assert_eq!(message, expected);
        assert_eq!(recorder.status().dropped_spans, 2);
        thread.stop();
    }
}

#[test]
fn partly_taken_batches_count_the_rest() {
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::TakeAllBut(1));
    let (_folder, recorder, thread, metrics) = start_exporting(&export_to(&sink.url(), OtlpProtocol::Grpc));
    recorder.record(example());
    wait_until("the answer", || metrics.spans_exported.get() == 1);
    assert_eq!(metrics.spans_dropped.get(), 1);
    thread.stop();
}

#[test]
fn a_collector_that_is_briefly_away_loses_nothing() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let sink = Sink::start(protocol, Behaviour::BusyFirst(2));
        let (_folder, recorder, thread, metrics) = start_exporting(&export_to(&sink.url(), protocol));
        recorder.record(example());
        wait_until("the failure to be seen", || {
            matches!(recorder.status().exporter, ExporterState::Failing { .. })
        });
        wait_until("both spans", || metrics.spans_exported.get() == 2);
        wait_until("the state", || recorder.status().exporter == ExporterState::Ok);
        thread.stop();
        assert_eq!((metrics.spans_dropped.get(), sink.spans().len()), (0, 2));
    }
}

/// A certificate for `localhost` and what a server makes of it.
fn certificate() -> (String, rustls::ServerConfig) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (own.cert.pem(), config)
}

#[test]
fn tls_is_verified_against_the_ca_that_is_named() {
    use crate::audit::{
        chain::{Chain, GENESIS},
        export::Exporter,
        otel_env::Exports,
        redact::Shown,
    };
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let (pem, config) = certificate();
        fs::write(&ca, pem).unwrap();
        let sink = Sink::start_tls(protocol, config);
        for named in [Some(&ca), None] {
            let metrics = Arc::new(Metrics::new());
            let telemetry = export_to(&format!("https://localhost:{}", sink.port()), protocol);
            let mut exports = Exports::resolve(&telemetry).unwrap().unwrap();
            let settings = exports.traces.as_mut().unwrap();
            settings.timeout = Duration::from_secs(2);
            settings.ca = named.cloned();
            let mut exporter = Exporter::start(exports, "boot", &metrics).unwrap();
            let payloads = [Shown::None, Shown::None];
            let place = Chain::new(GENESIS).call(&mut Vec::new(), &example(), &payloads, 0);
            exporter.add(&example(), &payloads, place, b"");
            exporter.hand_over();
            wait_until("an end", || metrics.spans_exported.get() + metrics.spans_dropped.get() == 2);
            assert_eq!(metrics.spans_exported.get() == 2, named.is_some());
            exporter.stop();
        }
        assert_eq!(sink.spans().len(), 2);
    }
}

/// Far more than the queue holds, into a collector that takes nothing: handing records over goes on, the journal
/// has them all, every span that is not in the queue is counted, and stopping does not wait for the collector.
fn goes_on_without(url: &str) {
    let (folder, recorder, thread, metrics) = start_exporting(&export_to(url, OtlpProtocol::Grpc));
    let ten_spans = Record { attempts: vec![example().attempts[0].clone(); 9], ..example() };
    for _ in 0..8_000 {
        recorder.record(ten_spans.clone());
    }
    wait_until("the journal", || metrics.journal_records.get() == 8_001);
    wait_until("the full queue", || metrics.spans_dropped.get() > 0);
    assert_eq!(recorder.accepting(), Ok(()));
    thread.stop();
    assert_eq!(metrics.spans_dropped.get() + metrics.spans_exported.get(), 80_000);
    assert_eq!(metrics.spans_exported.get(), 0);
    let path = folder.path().join("audit.jsonl");
    assert_eq!(crate::audit::verify::journal(&path).unwrap().records, 8_001);
}

#[test]
fn a_hanging_collector_delays_nothing_and_is_counted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // The kernel accepts; nobody ever answers.
    goes_on_without(&format!("http://{}", listener.local_addr().unwrap()));
}

#[test]
fn a_dead_collector_delays_nothing_and_is_counted() {
    goes_on_without(&format!("http://{}", free()));
}
