//! What recording costs: on the call path, and on the recorder's thread.
//!
//! `cargo bench --bench audit` prints one line per arrangement. The thread's figure is CPU time, because
//! that is what calls and recorder share. Times are reported, never asserted.

use std::{
    error::Error,
    fs,
    hint::black_box,
    net::TcpListener,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use smartgate::{
    audit::{
        Recorder,
        record::{Attempt, Client, Outcome, Payload, Record},
    },
    config::{Audit, Capture, Globs, Journal, OtlpProtocol, Telemetry},
    mcp::era::Era,
    metrics::Metrics,
};

/// Records of one arrangement.
const RECORDS: u64 = 200_000;
/// Records handed over at once, so that the call path is measured as a busy gateway sees it.
const BURST: u64 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    // A collector that accepts and never answers: spans are encoded, queued and dropped.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let otlp = format!("http://{}", silent.local_addr()?);
    println!("{:<24} {:>14} {:>16} {:>12}", "", "call path", "recorder thread", "records/s");
    for round in 0..2 {
        measure("journal", &folder.path().join(format!("j{round}")), None)?;
        measure("journal and spans", &folder.path().join(format!("s{round}")), Some(otlp.clone()))?;
    }
    Ok(())
}

fn measure(name: &str, folder: &Path, otlp: Option<String>) -> Result<(), Box<dyn Error>> {
    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = Recorder::start(&audit(folder), &telemetry(otlp), Arc::clone(&metrics))?;
    let begin = Instant::now();
    let mut handing_over = Duration::ZERO;
    for burst in 0..RECORDS / BURST {
        let records: Vec<Record> = (0..BURST).map(|n| record(burst * BURST + n)).collect();
        let start = Instant::now();
        for record in records {
            black_box(recorder.accepting())?;
            recorder.record(record);
        }
        handing_over += start.elapsed();
        while metrics.journal_records.get() + 4_096 < burst * BURST {
            thread::yield_now();
        }
    }
    while metrics.journal_records.get() <= RECORDS {
        thread::yield_now();
    }
    let rate = RECORDS as f64 / begin.elapsed().as_secs_f64();
    let cpu = recorder_cpu()?;
    thread.stop();
    let per_record = |time: Duration| time.as_nanos() as f64 / RECORDS as f64 / 1_000.0;
    println!("{name:<24} {:>11.3} us {:>13.3} us {rate:>12.0}", per_record(handing_over), per_record(cpu));
    Ok(())
}

/// CPU time that the recorder's thread has used (`schedstat` of Linux counts nanoseconds on the processor).
fn recorder_cpu() -> Result<Duration, Box<dyn Error>> {
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        if fs::read_to_string(task.join("comm"))?.trim() == "recorder" {
            let spent = fs::read_to_string(task.join("schedstat"))?;
            let nanos = spent.split(' ').next().ok_or("no schedstat")?.parse()?;
            return Ok(Duration::from_nanos(nanos));
        }
    }
    Err("no recorder thread".into())
}

fn audit(folder: &Path) -> Audit {
    Audit {
        journal: Journal {
            path: folder.join("audit.jsonl"),
            fsync: Duration::from_secs(1),
            rotate: 256 * 1024 * 1024,
            keep: 8,
            deny_on_error: true,
        },
        capture: Capture::Hash,
        capture_tools: Vec::new(),
        redact: Globs::new(["*token*"]),
    }
}

fn telemetry(otlp: Option<String>) -> Telemetry {
    let protocol = Some(OtlpProtocol::Grpc);
    Telemetry { otlp, protocol, headers: [].into(), service_name: Some("bench".into()) }
}

fn record(n: u64) -> Record {
    let now = SystemTime::now();
    Record {
        time: now,
        duration: Duration::from_micros(400 + n % 1_000),
        trace_id: u128::from(n).to_be_bytes(),
        span_id: n.to_be_bytes(),
        parent_id: Some([7; 8]),
        trace_state: None,
        link: None,
        principal: Some("cursor-ada".into()),
        client: Client {
            name: Some("cursor".into()),
            version: Some("2.1".into()),
            address: Some(([127, 0, 0, 1], 5_555).into()),
        },
        era: Some(Era::Modern),
        protocol_version: Some("2026-07-28".into()),
        bridged: false,
        upstream_version: Some("2026-07-28".into()),
        session: None,
        method: Some("tools/call".into()),
        request_id: Some(n.to_string()),
        upstream: Some("files".into()),
        tool: Some("files__read".into()),
        prompt: None,
        resource: None,
        original_method: Some("tools/call".into()),
        normalized: vec!["arguments_string"],
        lossy: false,
        edits: Vec::new(),
        shadow: None,
        outcome: Outcome::Ok,
        status: Some(200),
        error: None,
        attempts: vec![Attempt {
            span_id: n.to_le_bytes(),
            start: now,
            duration: Duration::from_micros(300),
            server_address: "127.0.0.1".into(),
            server_port: 3_001,
            status: Some(200),
            error_type: None,
        }],
        request_bytes: 1_024,
        response_bytes: 1_024,
        arguments: Payload::Hash([1; 32]),
        result: Payload::Hash([2; 32]),
        received: None,
        tokens: None,
        http_version: "1.1",
    }
}
