//! Spans that are built from lines again are those that were sent at first.

use opentelemetry_proto::tonic::trace::v1::Span;

use super::{
    otlp::sink::{Behaviour, Sink},
    *,
};
use crate::{
    audit::resend::{self, Range, Sent},
    config::OtlpProtocol,
};

fn to(sink: &Sink, protocol: OtlpProtocol) -> Telemetry {
    Telemetry { otlp: Some(sink.url()), protocol: Some(protocol), ..no_export() }
}

/// Records of every shape.
fn records(full: bool) -> Vec<Record> {
    let kept = Payload::Kept { sha256: [3; 32], bytes: br#"{"a":"b c"}"#.to_vec(), truncated: false, full };
    let mut again = example().attempts[0].clone();
    (again.span_id, again.error_type) = ([9; 8], Some("timeout".into()));
    vec![
        example(),
        refused(),
        Record {
            parent_id: Some([5; 8]),
            trace_state: Some("a=b".into()),
            link: Some(([6; 16], [7; 8])),
            era: Some(Era::Modern),
            prompt: Some("greet".into()),
            resource: Some("file:///x".into()),
            shadow: Some(vec!["one", "two"]),
            client: Client { address: Some("[::1]:9".parse().unwrap()), ..example().client },
            request_id: Some("\"s é\"".into()),
            tool: Some("t".repeat(3_000)),
            outcome: Outcome::UpstreamFailed,
            error: Some(Failure { reason: None, code: Some(-32_001), message: "no \"luck\"".into() }),
            attempts: vec![again, example().attempts[0].clone()],
            arguments: kept.clone(),
            result: Payload::None,
            tokens: Some(crate::audit::record::Tokens { input: 1, output: 2, saved: 3 }),
            http_version: "2",
            ..example()
        },
        Record { result: kept, outcome: Outcome::RpcError, ..example() },
    ]
}

fn as_sent(sink: &Sink) -> Vec<Span> {
    let mut spans = sink.spans();
    spans.sort_by_key(|s| (s.attributes.len(), s.span_id.clone(), s.name.clone()));
    spans
}

#[test]
fn they_are_the_same_to_the_last_attribute_and_any_number_of_times() {
    for (protocol, capture) in
        [(OtlpProtocol::Grpc, Capture::Full), (OtlpProtocol::HttpProtobuf, Capture::Redacted)]
    {
        let (_folder, path) = place();
        let audit = Audit { capture, ..settings(&path) };
        let first = Sink::start(protocol, Behaviour::Take);
        let metrics = Arc::new(Metrics::new());
        let (recorder, thread) = Recorder::start(&audit, &to(&first, protocol), metrics).unwrap();
        records(capture == Capture::Full).into_iter().for_each(|r| recorder.record(r));
        thread.stop();
        let files = resend::files(&path).unwrap();
        for _ in 0..2 {
            let second = Sink::start(protocol, Behaviour::Take);
            let sent = resend::resend(&files, &Range::default(), &to(&second, protocol)).unwrap();
            assert_eq!(sent, Sent { records: 4, spans: 8, rejected: 0 });
            assert_eq!(as_sent(&second), as_sent(&first));
        }
    }
}

#[test]
fn a_range_is_sent_and_no_more() {
    let (_folder, path) = place();
    for _ in 0..2 {
        let (recorder, thread, _) = start(&settings(&path));
        (0..5).for_each(|_| recorder.record(example()));
        thread.stop();
    }
    let files = resend::files(&path).unwrap();
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::Take);
    let sent = |range: &Range| resend::resend(&files, range, &to(&sink, OtlpProtocol::Grpc)).unwrap().records;
    let boot = |n: usize| lines(&path)[n]["boot"].as_str().unwrap().to_owned();
    let time = Some(example().time);
    assert_eq!(sent(&Range { from: Some((boot(0), 4)), ..Range::default() }), 7);
    assert_eq!(sent(&Range { from: Some((boot(11), 4)), ..Range::default() }), 2);
    assert_eq!(resend::newest_boot(&path), Some(boot(11)));
    assert_eq!(sent(&Range { since: time, ..Range::default() }), 10);
    assert_eq!(sent(&Range { until: time, ..Range::default() }), 0);
}

#[test]
fn a_line_that_was_changed_is_not_sent_and_what_was_not_taken_is_said() {
    let (_folder, path) = place();
    let (recorder, thread, _) = start(&settings(&path));
    recorder.record(example());
    thread.stop();
    let busy = Sink::start(OtlpProtocol::Grpc, Behaviour::Refuse);
    let files = resend::files(&path).unwrap();
    let why = resend::resend(&files, &Range::default(), &to(&busy, OtlpProtocol::Grpc)).unwrap_err();
    assert!(why.contains("took nothing of the batch up to seq 1 of boot "), "{why}");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("-ada\"", "-eve\"")).unwrap();
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::Take);
    let why = resend::resend(&files, &Range::default(), &to(&sink, OtlpProtocol::Grpc)).unwrap_err();
    assert!(why.ends_with(":2: the line was changed: it does not match its hash"), "{why}");
    assert!(sink.spans().is_empty());
}
