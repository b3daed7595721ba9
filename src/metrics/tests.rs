use super::*;

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
