//! Metrics and logs as a collector receives them.

use crate::free::free;
use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    metrics::v1::{AggregationTemporality, Metric, metric::Data, number_data_point::Value as Number},
};
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::audit::{LogLayer, Signal};

fn everything_to(sink: &Sink, protocol: OtlpProtocol) -> Telemetry {
    Telemetry { metrics: true, logs: true, ..export_to(&sink.url(), protocol) }
}

fn named<'a>(metrics: &'a [Metric], name: &str) -> &'a Metric {
    let names = || metrics.iter().map(|m| m.name.as_str()).collect::<Vec<_>>();
    metrics.iter().find(|m| m.name == name).unwrap_or_else(|| panic!("no {name} in {:?}", names()))
}

fn of(attributes: &[KeyValue]) -> HashMap<&str, String> {
    attributes.iter().map(|a| (a.key.as_str(), text(a.value.as_ref().unwrap()))).collect()
}

/// Records, stops, and gives what the collector got beside the spans.
fn told(protocol: OtlpProtocol, records: Vec<Record>) -> (Sink, Vec<String>, Arc<Metrics>) {
    let sink = Sink::start(protocol, Behaviour::Take);
    let (folder, recorder, thread, metrics) = start_exporting(&everything_to(&sink, protocol));
    records.into_iter().for_each(|r| recorder.record(r));
    thread.stop();
    let journal = fs::read_to_string(folder.path().join("audit.jsonl")).unwrap();
    (sink, journal.lines().map(ToOwned::to_owned).collect(), metrics)
}

#[test]
fn metrics_are_what_the_page_says_under_the_conventions_names() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let slow = Record { duration: Duration::from_secs(1), ..example() };
        let (sink, _, metrics) = told(protocol, vec![example(), slow]);
        let all = sink.last_metrics();
        let Data::Sum(calls) = named(&all, "smartgate.calls").data.as_ref().unwrap() else { panic!() };
        assert!(calls.is_monotonic);
        assert_eq!(calls.aggregation_temporality(), AggregationTemporality::Cumulative);
        let point = &calls.data_points[0];
        assert_eq!(point.value, Some(Number::AsInt(2)));
        assert!(point.start_time_unix_nano > 0 && point.start_time_unix_nano <= point.time_unix_nano);
        assert_eq!(of(&point.attributes)["outcome"], "ok");
        let Data::Gauge(backlog) = named(&all, "smartgate.journal_backlog").data.as_ref().unwrap() else {
            panic!()
        };
        assert_eq!(backlog.data_points[0].value, Some(Number::AsInt(0)));
        let durations = named(&all, "mcp.server.operation.duration");
        assert_eq!(durations.unit, "s");
        let Data::Histogram(histogram) = durations.data.as_ref().unwrap() else { panic!() };
        assert_eq!(histogram.aggregation_temporality(), AggregationTemporality::Cumulative);
        let point = &histogram.data_points[0];
        let bounds = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
        assert_eq!((point.count, &point.explicit_bounds[..]), (2, &bounds[..]));
        assert_eq!(point.bucket_counts, [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!((point.sum.unwrap() - 1.0124).abs() < 1e-9);
        let attributes = of(&point.attributes);
        assert_eq!(attributes["mcp.method.name"], "tools/call");
        assert_eq!(attributes["gen_ai.tool.name"], "files__read");
        assert!(!attributes.contains_key("error.type"));
        let [first, _] = &point.exemplars[..] else { panic!("{:?}", point.exemplars) };
        assert_eq!((&first.trace_id[..], &first.span_id[..]), (&[0xab; 16][..], &[0xcd; 8][..]));
        let client = named(&all, "mcp.client.operation.duration");
        let Data::Histogram(client) = client.data.as_ref().unwrap() else { panic!() };
        assert_eq!(of(&client.data_points[0].attributes)["server.port"], "3001");
        let (_, request) = sink.metrics().pop().unwrap();
        let resource = of(&request.resource_metrics[0].resource.as_ref().unwrap().attributes);
        assert_eq!(resource["service.name"], "smartgate");
        assert!(metrics.encode().contains("smartgate_otlp_exported_total{signal=\"metrics\"}"));
    }
}

#[test]
fn an_audit_record_is_a_log_record_with_its_line_and_place() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let failed = Record { outcome: Outcome::ToolError, ..example() };
        let (sink, journal, metrics) = told(protocol, vec![example(), failed]);
        let logs = sink.logs();
        let audit: Vec<_> = logs.iter().filter(|l| l.event_name == "smartgate.audit.call").collect();
        assert_eq!(audit.len(), 2);
        for (log, line) in audit.iter().zip(&journal[1..]) {
            assert_eq!(text(log.body.as_ref().unwrap()), *line);
            let attributes = of(&log.attributes);
            let line: Value = serde_json::from_str(line).unwrap();
            for name in ["boot", "hash", "outcome", "principal"] {
                assert_eq!(attributes[format!("smartgate.{name}").as_str()], line[name].as_str().unwrap());
            }
            assert_eq!(attributes["smartgate.seq"], line["seq"].to_string());
            assert_eq!((&log.trace_id[..], &log.span_id[..]), (&[0xab; 16][..], &[0xcd; 8][..]));
        }
        assert_eq!([audit[0].severity_text.as_str(), &audit[1].severity_text], ["INFO", "WARN"]);
        assert!(metrics.encode().contains("smartgate_otlp_exported_total{signal=\"logs\"} 2"));
    }
}

#[test]
fn warnings_of_the_process_are_log_records_and_beget_none() {
    let sink = Sink::start(OtlpProtocol::Grpc, Behaviour::Take);
    let (_folder, _recorder, thread, _) = start_exporting(&everything_to(&sink, OtlpProtocol::Grpc));
    let trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
    tracing::subscriber::with_default(tracing_subscriber::registry().with(LogLayer), || {
        tracing::warn!(upstream = "files", "says password=hunter2 to everybody");
        tracing::error!(trace_id, "failed");
        tracing::info!("quiet");
        wait_until("both lines", || sink.logs().len() >= 2);
    });
    thread.stop();
    let logs = sink.logs();
    // Another test's lines may come here too: there is one log for a process.
    let find = |said: &str| logs.iter().find(|l| text(l.body.as_ref().unwrap()) == said).unwrap();
    let warning = find("says password=*** to everybody");
    assert_eq!((warning.severity_text.as_str(), &of(&warning.attributes)["upstream"][..]), ("WARN", "files"));
    assert_eq!(hex::encode(&find("failed").trace_id), trace_id);
    assert!(!logs.iter().any(|l| text(l.body.as_ref().unwrap()) == "quiet"));
}

#[test]
fn a_collector_of_spans_alone_is_left_alone_with_the_rest() {
    for protocol in [OtlpProtocol::Grpc, OtlpProtocol::HttpProtobuf] {
        let sink = Sink::start(protocol, Behaviour::OnlySpans);
        let (_folder, recorder, thread, metrics) = start_exporting(&everything_to(&sink, protocol));
        let lost = |n: u32| {
            metrics.encode().contains(&format!("smartgate_otlp_dropped_total{{signal=\"logs\"}} {n}\n"))
        };
        recorder.record(example());
        wait_until("the refusal is known here", || lost(1));
        recorder.record(example());
        wait_until("the next one is not sent", || lost(2));
        assert_eq!(recorder.status().exporter, ExporterState::Ok);
        thread.stop();
        assert!(sink.spans().len() >= 2);
        // Metrics once, at the end.
        assert_eq!(sink.turned_away(), 2);
    }
}

#[test]
fn what_is_lost_is_counted_by_signal() {
    let url = format!("http://{}", free());
    let telemetry = Telemetry { metrics: true, logs: true, ..export_to(&url, OtlpProtocol::Grpc) };
    let (_folder, recorder, thread, metrics) = start_exporting(&telemetry);
    recorder.record(example());
    thread.stop();
    let page = metrics.encode();
    for (signal, lost) in [(Signal::Traces, "2"), (Signal::Logs, "1")] {
        let line = format!("smartgate_otlp_dropped_total{{signal=\"{}\"}} {lost}", signal.as_str());
        assert!(page.lines().any(|l| l == line), "{line} is missing in {page}");
    }
    assert!(page.contains("smartgate_otlp_dropped_total{signal=\"metrics\"}"));
    assert_eq!(metrics.spans_dropped.get(), 2);
}

#[test]
fn repairs_are_events_of_the_span() {
    let (spans, _) = exported(OtlpProtocol::Grpc, vec![example()]);
    let events: Vec<_> = spans[0].events.iter().map(|e| (e.name.as_str(), of(&e.attributes))).collect();
    let whole = HashMap::from([("smartgate.repair.rule", "direct_tool_method".to_owned())]);
    let edit = [("rule", "schema_coercion"), ("path", "/n"), ("from", "string"), ("to", "integer")];
    let keys =
        ["smartgate.repair.rule", "smartgate.repair.path", "smartgate.repair.from", "smartgate.repair.to"];
    let edit = keys.into_iter().zip(edit.map(|(_, value)| value.to_owned())).collect();
    assert_eq!(events, [("smartgate.repair", whole), ("smartgate.repair", edit)]);
    assert_eq!(spans[0].events[0].time_unix_nano, spans[0].start_time_unix_nano);
    assert!(spans[1].events.is_empty());
}
