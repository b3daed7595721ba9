//! Trace context: the caller's from `_meta` or header, honoured and passed on with a span of ours; a new one
//! where there is none or it is malformed.

use super::{request, tool};
use crate::support::{
    fake::{Fake, mcp},
    process::Gateway,
};

const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
const IN_META: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn the_caller_s_trace_goes_on() {
    let fake = Fake::start(|seen| async move { mcp(&seen) }).await;
    let gate = Gateway::before(&fake.url(), "").await;
    let meta = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"traceparent":"{IN_META}","tracestate":"m=1"}}}}}}"#
    );
    let broken_meta = meta.replace("0af7651916cd43dd8448eb211c80319c", "00000000000000000000000000000000");
    let with = |parent: &str| gate.request().header("traceparent", parent).header("tracestate", "h=1");
    let two_states =
        gate.request().header("traceparent", HEADER).header("tracestate", "a=1").header("tracestate", "b=2");
    let header_trace = Some(&HEADER[3..35]);
    let meta_trace = Some(&IN_META[3..35]);
    let cases = [
        (gate.request(), request(1, "ping"), None, None, None),
        (with(HEADER), request(1, "ping"), header_trace, Some(&HEADER[36..52]), Some("h=1")),
        (with("00-xyz"), request(1, "ping"), None, None, None),
        (with(&HEADER.to_uppercase()), request(1, "ping"), None, None, None),
        (gate.request(), meta.clone(), meta_trace, Some(&IN_META[36..52]), Some("m=1")),
        (with(HEADER), meta, meta_trace, Some(&IN_META[36..52]), Some("m=1")),
        (with(HEADER), broken_meta, header_trace, Some(&HEADER[36..52]), Some("h=1")),
        (two_states, request(1, "ping"), header_trace, Some(&HEADER[36..52]), Some("a=1,b=2")),
    ];
    for (nth, (builder, body, trace, parent, state)) in cases.into_iter().enumerate() {
        assert_eq!(gate.call(builder, body.clone()).await.status, 200);
        let record = gate.recorded(nth + 1).await.remove(nth);
        let seen = fake.calls().remove(nth);
        let sent = seen.header("traceparent").unwrap().to_owned();
        assert_eq!(sent.len(), 55);
        assert_eq!(Some(&sent[3..35]), record["trace_id"].as_str(), "{nth}");
        assert_eq!(&sent[53..], "01");
        assert_eq!(record["parent_id"].as_str(), parent, "{nth}");
        match trace {
            Some(trace) => assert_eq!(record["trace_id"], trace, "{nth}"),
            None => assert!(record["trace_id"] != HEADER[3..35] && record["trace_id"] != IN_META[3..35]),
        }
        // The span of the try is a third one: neither the caller's nor the record's own.
        assert!(sent[36..52] != *record["span_id"].as_str().unwrap() && Some(&sent[36..52]) != parent);
        assert_eq!(seen.header("tracestate"), state, "{nth}");
        // What `_meta` says stays as it was said.
        assert_eq!(seen.text(), body);
    }
}

#[tokio::test]
async fn every_call_without_context_has_a_trace_of_its_own() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    for id in 0..20 {
        gate.post(tool(id, "add", "{}")).await;
    }
    let mut traces: Vec<_> = gate.stop().await.iter().map(|r| r["trace_id"].to_string()).collect();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), 20);
}
