use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use super::*;
use crate::audit::record::{Attempt, Client, Failure, Outcome, Payload};

fn call(method: &str, tool: Option<&str>, outcome: Outcome) -> Record {
    let attempt = Attempt {
        span_id: [1; 8],
        start: SystemTime::now(),
        duration: Duration::from_millis(15),
        server_address: "127.0.0.1".into(),
        server_port: 3001,
        status: Some(200),
        error_type: None,
    };
    Record {
        time: SystemTime::now(),
        duration: Duration::from_millis(25),
        trace_id: [1; 16],
        span_id: [1; 8],
        parent_id: None,
        trace_state: None,
        link: None,
        principal: None,
        client: Client { name: Some("cursor".into()), version: Some("2.1".into()), address: None },
        era: None,
        protocol_version: Some("2025-11-25".into()),
        bridged: false,
        upstream_version: None,
        session: None,
        method: Some(method.into()),
        request_id: None,
        upstream: Some("files".into()),
        tool: tool.map(Into::into),
        prompt: None,
        resource: None,
        original_method: None,
        normalized: vec![],
        lossy: false,
        edits: vec![],
        shadow: None,
        outcome,
        status: Some(200),
        error: None,
        attempts: vec![attempt],
        request_bytes: 0,
        response_bytes: 0,
        arguments: Payload::None,
        result: Payload::None,
        received: None,
        tokens: None,
        http_version: "1.1",
    }
}

/// Samples by everything before their value.
fn samples(metrics: &Metrics) -> HashMap<String, f64> {
    let text = metrics.encode();
    let lines = text.lines().filter(|l| !l.starts_with('#'));
    lines.map(|l| l.rsplit_once(' ').unwrap()).map(|(k, v)| (k.to_owned(), v.parse().unwrap())).collect()
}

#[test]
fn names_are_the_contracts() {
    let metrics = Metrics::new();
    metrics.rate_limited("key");
    metrics.reloaded(true);
    let stream = metrics.open_stream();
    let text = metrics.encode();
    for line in [
        "smartgate_rate_limited_total{wall=\"key\"} 1",
        "smartgate_reloads_total{result=\"ok\"} 1",
        "smartgate_open_streams 1",
        "smartgate_spans_dropped_total 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
    }
    drop(stream);
    assert!(metrics.encode().contains("smartgate_open_streams 0\n"));
}

#[test]
fn a_call_is_counted_and_timed_by_its_labels() {
    let metrics = Metrics::new();
    metrics.observe(&call("tools/call", Some("files__read"), Outcome::Ok));
    metrics.observe(&call("tools/call", Some("files__read"), Outcome::ToolError));
    let samples = samples(&metrics);
    let calls =
        r#"smartgate_calls_total{method="tools/call",tool="files__read",upstream="files",outcome="ok"}"#;
    assert_eq!(samples[calls], 1.0);
    let labels =
        r#"mcp_method_name="tools/call",gen_ai_tool_name="files__read",mcp_protocol_version="2025-11-25""#;
    let server = "mcp_server_operation_duration_seconds";
    assert_eq!(samples[&format!(r#"{server}_count{{{labels},error_type=""}}"#)], 1.0);
    assert_eq!(samples[&format!(r#"{server}_count{{{labels},error_type="tool_error"}}"#)], 1.0);
    assert_eq!(samples[&format!(r#"{server}_bucket{{{labels},error_type="",le="0.02"}}"#)], 0.0);
    assert_eq!(samples[&format!(r#"{server}_bucket{{{labels},error_type="",le="0.05"}}"#)], 1.0);
    let client = format!(
        r#"mcp_client_operation_duration_seconds_bucket{{{labels},error_type="",server_address="127.0.0.1",server_port="3001",le="0.02"}}"#
    );
    assert_eq!(samples[&client], 2.0);
}

#[test]
fn repairs_are_counted_by_rule_and_client() {
    let metrics = Metrics::new();
    let mut record = call("tools/call", Some("x"), Outcome::Ok);
    record.normalized = vec!["params_array", "fill_arguments"];
    metrics.observe(&record);
    let samples = samples(&metrics);
    for rule in ["params_array", "fill_arguments"] {
        let key =
            format!(r#"smartgate_repairs_total{{rule="{rule}",client_name="cursor",client_version="2.1"}}"#);
        assert_eq!(samples[&key], 1.0);
    }
}

#[test]
fn streams_and_what_is_not_mcp_are_counted_but_not_timed() {
    let metrics = Metrics::new();
    for method in ["GET", "DELETE", "POST", "subscriptions/listen"] {
        metrics.observe(&call(method, None, Outcome::Ok));
    }
    let samples = samples(&metrics);
    assert_eq!(samples.keys().filter(|k| k.starts_with("smartgate_calls_total")).count(), 4);
    assert!(!samples.keys().any(|k| k.contains("duration_seconds")));
}

#[test]
fn a_flood_of_invented_names_stays_within_bounds() {
    let metrics = Metrics::new();
    for n in 0..5_000 {
        let invented = format!("x{n}");
        let mut record = call(&invented, Some(&invented), Outcome::RpcError);
        record.client = Client {
            name: Some(invented.as_str().into()),
            version: Some(invented.as_str().into()),
            address: None,
        };
        record.protocol_version = Some(invented.clone());
        record.normalized = vec!["params_array"];
        record.attempts[0].error_type = Some(invented);
        metrics.observe(&record);
    }
    metrics.observe(&call("tools/call", Some("real"), Outcome::Ok));
    let samples = samples(&metrics);
    assert!(samples.keys().any(|k| k.contains("tool=\"real\"")));
    assert!(!samples.keys().any(|k| k.contains("method=\"x")));
    let calls = samples.iter().filter(|(k, _)| k.starts_with("smartgate_calls_total"));
    assert_eq!(calls.clone().map(|(_, v)| v).sum::<f64>(), 5_001.0);
    assert!(calls.count() <= 201);
    assert!(samples.len() < 5 * 2_001 * 17, "{} samples", samples.len());
}

#[test]
fn calls_and_refusals_are_counted_by_key() {
    let metrics = Metrics::new();
    let of = |key: Option<&str>, outcome, reason: Option<&'static str>| {
        let mut record = call("tools/call", Some("x"), outcome);
        record.principal = key.map(Into::into);
        record.error =
            reason.map(|reason| Failure { reason: Some(reason), code: None, message: String::new() });
        metrics.observe(&record);
    };
    of(Some("ada"), Outcome::Ok, None);
    of(Some("ada"), Outcome::Rejected, Some("rate_limited"));
    of(Some("bob"), Outcome::Rejected, Some("budget_exhausted"));
    of(None, Outcome::Rejected, Some("unauthenticated"));
    let samples = samples(&metrics);
    assert_eq!(samples[r#"smartgate_key_calls_total{key="ada",outcome="ok"}"#], 1.0);
    assert_eq!(samples[r#"smartgate_key_calls_total{key="ada",outcome="rejected"}"#], 1.0);
    assert_eq!(samples[r#"smartgate_key_refusals_total{key="ada",reason="rate_limited"}"#], 1.0);
    assert_eq!(samples[r#"smartgate_key_refusals_total{key="bob",reason="budget_exhausted"}"#], 1.0);
    assert_eq!(samples.keys().filter(|k| k.starts_with("smartgate_key_")).count(), 5);
    for n in 0..1_000 {
        of(Some(&format!("key{n}")), Outcome::Ok, None);
    }
    let samples = self::samples(&metrics);
    let keys = samples.iter().filter(|(k, _)| k.starts_with("smartgate_key_calls_total"));
    assert!(keys.clone().count() <= 202);
    assert_eq!(keys.map(|(_, v)| v).sum::<f64>(), 1_003.0);
}

#[test]
fn budgets_are_those_of_the_keys_that_are_there() {
    let metrics = Metrics::new();
    let level = |key: &str, used| Level { key: key.into(), unit: "tokens", window: "day", limit: 10, used };
    metrics.budgets([level("ada", 3), level("bob", 12)].into_iter());
    let samples = samples(&metrics);
    assert_eq!(samples[r#"smartgate_key_budget_used{key="bob",unit="tokens",window="day"}"#], 12.0);
    assert_eq!(samples[r#"smartgate_key_budget_limit{key="ada",unit="tokens",window="day"}"#], 10.0);
    metrics.budgets([level("ada", 4)].into_iter());
    let samples = self::samples(&metrics);
    assert_eq!(samples[r#"smartgate_key_budget_used{key="ada",unit="tokens",window="day"}"#], 4.0);
    assert!(!samples.keys().any(|k| k.contains("bob")));
    metrics.budgets((0..1_000).map(|n| level(&n.to_string(), 0)));
    assert_eq!(self::samples(&metrics).keys().filter(|k| k.starts_with("smartgate_key_budget")).count(), 400);
}

/// What `promtool check metrics` asks of the text: help and type before the samples of each family, counters
/// that end in `_total`, no sample twice.
#[test]
fn the_text_is_well_formed() {
    let metrics = Metrics::new();
    let mut record = call("tools/call", Some("quote\"back\\slash\nline"), Outcome::Ok);
    record.normalized = vec!["params_array"];
    metrics.observe(&record);
    metrics.upstream_up(&"files".into(), true);
    metrics.http_refused("parse");
    let text = metrics.encode();
    let (mut family, mut kind, mut seen) = ("", "", std::collections::HashSet::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            family = help.split_once(' ').unwrap().0;
            let (name, of) = lines.next().unwrap().strip_prefix("# TYPE ").unwrap().split_once(' ').unwrap();
            assert_eq!(name, family);
            kind = of;
            assert_eq!(kind == "counter", family.ends_with("_total"), "{family} is a {kind}");
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let rest = name.strip_prefix(family).unwrap_or_else(|| panic!("{name} has no help"));
        let allowed = if kind == "histogram" { &["_bucket", "_sum", "_count"][..] } else { &[""] };
        assert!(allowed.contains(&rest), "{line}");
        assert!(seen.insert(line.rsplit_once(' ').unwrap().0), "{line} is there twice");
    }
    assert!(text.contains(r#"tool="quote\"back\\slash\nline""#));
    assert!(seen.contains(r#"smartgate_upstream_up{upstream="files"}"#));
}
