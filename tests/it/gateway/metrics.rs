//! `/metrics` tells what happened, and strangers cannot make it grow.

use super::{KEY, key, request, tool};
use crate::support::{
    fake::{Fake, channel, mcp, sse},
    process::{Gateway, send_to, whole},
    until,
};

#[tokio::test]
async fn calls_durations_and_what_is_in_flight_are_counted() {
    let fake = Fake::start(|seen| async move {
        match seen.json()["params"]["name"].as_str() {
            Some("hang") => std::future::pending().await,
            _ if seen.method == http::Method::GET => {
                let (sender, body) = channel();
                tokio::spawn(async move { sender.closed().await });
                sse(body)
            }
            _ => mcp(&seen),
        }
    })
    .await;
    let gate = Gateway::before(&fake.url(), "").await;
    gate.post(tool(1, "add", "{}")).await;
    gate.post(tool(2, "fail", "{}")).await;
    gate.post("{").await;
    gate.recorded(3).await;
    let page = gate.page("/metrics").await;
    // Prometheus takes the page for what its type says, and refuses all of it if it is not.
    assert_eq!(page.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let count = async |sample: &str| gate.metric(sample).await as u64;
    let calls = |tool: &str, outcome: &str| {
        format!(
            "smartgate_calls_total{{method=\"tools/call\",tool=\"{tool}\",upstream=\"files\",outcome=\"{outcome}\"}}"
        )
    };
    assert_eq!(count(&calls("add", "ok")).await, 1);
    assert_eq!(count(&calls("fail", "tool_error")).await, 1);
    assert!(page.text().contains("outcome=\"rejected\"} 1"));
    assert!(page.text().contains("mcp_server_operation_duration_seconds_count{"));
    assert!(page.text().contains("mcp_client_operation_duration_seconds_bucket{"));
    let hang = gate.request().body(http_body_util::Full::new(tool(3, "hang", "{}").into())).unwrap();
    let hanging = tokio::spawn(send_to(gate.addr, hang));
    fake.received(3).await;
    assert_eq!(count("smartgate_calls_in_flight").await, 1);
    let get = gate.open(gate.request().method("GET"), "").await;
    assert_eq!(count("smartgate_open_streams").await, 1);
    hanging.abort();
    drop(get);
    gate.recorded(5).await;
    assert_eq!(count("smartgate_calls_in_flight").await, 0);
    assert_eq!(count("smartgate_open_streams").await, 0);
}

#[tokio::test]
async fn names_from_outside_do_not_make_it_grow() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), &key("ada", KEY, "rate = \"100000/s\"")).await;
    let mut client = gate.http2().await;
    let mut answers = tokio::task::JoinSet::new();
    for n in 0..3_000 {
        let bodies = [tool(n, &format!("tool-{n}"), "[]"), request(n, &format!("method-{n}"))];
        for body in bodies {
            client.ready().await.unwrap();
            let request = gate
                .request()
                .uri(format!("http://{}/mcp", gate.addr))
                .header("authorization", format!("Bearer {KEY}"))
                .header("user-agent", format!("agent-{n}/{n}"))
                .header("mcp-protocol-version", format!("version-{n}"));
            let request = request.body(http_body_util::Full::new(body.into())).unwrap();
            answers.spawn(client.send_request(request));
            while answers.len() > 100 {
                answers.join_next().await.unwrap().unwrap().unwrap();
            }
        }
    }
    while let Some(answer) = answers.join_next().await {
        answer.unwrap().unwrap();
    }
    until("all records", || gate.records().len() == 6_000).await;
    let page = gate.page("/metrics").await;
    assert!(page.body.len() < 4 << 20, "{} bytes", page.body.len());
    assert!(page.text().lines().count() < 20_000);
}

#[tokio::test]
async fn several_upstreams_show_their_breakers_and_the_names_that_collide() {
    let (a, b) = (Fake::plain().await, Fake::plain().await);
    let config = format!(
        "upstreams.a.url = \"{}\"\nupstreams.a.prefix = \"\"\nupstreams.b.url = \"{}\"\nupstreams.b.prefix = \"\"",
        a.url(),
        b.url()
    );
    let gate = Gateway::start(&config).await;
    gate.knows("a").await;
    gate.knows("b").await;
    let collides = |r: &serde_json::Value| {
        let collisions = r["collisions"].as_array().map_or(&[][..], Vec::as_slice);
        collisions.iter().any(|c| c["name"] == "add" && c["upstreams"] == serde_json::json!(["a", "b"]))
    };
    let state = gate.ready_until("the collision", collides).await;
    assert_eq!(
        (&state["upstreams"]["a"]["breaker"], &state["upstreams"]["a"]["in_flight"]),
        (&"closed".into(), &0.into())
    );
    for (state, is) in [("closed", 1), ("half_open", 0), ("open", 0)] {
        let sample = format!("smartgate_upstream_breaker{{upstream=\"a\",state=\"{state}\"}}");
        assert_eq!(gate.metric(&sample).await as u64, is, "{sample}");
    }
    assert!(gate.page("/metrics").await.text().contains("smartgate_parked_calls{upstream=\"b\"} 0"));
}

#[tokio::test]
async fn who_takes_openmetrics_gets_examples_of_durations() {
    let fake = Fake::plain().await;
    let gate = Gateway::before(&fake.url(), "").await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = gate.request().header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    assert_eq!(gate.call(request, tool(1, "add", "{}")).await.status, 200);
    gate.recorded(1).await;
    let plain = gate.page("/metrics").await;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!plain.text().contains(trace));
    let asked = http::Request::get("/metrics")
        .header("host", "localhost")
        .header("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        .body(http_body_util::Full::default())
        .unwrap();
    let open = whole(send_to(gate.admin, asked).await).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().ends_with("# EOF\n"));
    for kind in ["server", "client"] {
        let name = format!("mcp_{kind}_operation_duration_seconds_bucket");
        let example =
            |l: &&str| l.starts_with(&name) && l.contains(&format!("# {{trace_id=\"{trace}\",span_id=\""));
        assert!(open.text().lines().any(|l| example(&l)), "{}", open.text());
    }
}
