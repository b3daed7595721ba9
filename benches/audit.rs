//! What recording costs: on the call path, and on the recorder's thread.
//!
//! `cargo bench --bench audit` prints one line per arrangement, then what masking costs for each KiB of text. The thread's figure is CPU time, because
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

use sha2::{Digest, Sha256};
use smartgate::{
    audit::{
        Recorder,
        record::{Attempt, Client, Outcome, Payload, Record},
    },
    config::{Audit, Capture, Globs, Journal, OtlpProtocol, Telemetry},
    mcp::era::Era,
    metrics::Metrics,
    secrets,
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
        let place = |name: &str| folder.path().join(format!("{name}{round}"));
        let spans = Some((otlp.clone(), false));
        let kept = |full| Payload::Kept { sha256: [1; 32], bytes: payload(), truncated: false, full };
        measure("journal", &place("j"), None, &Payload::Hash([1; 32]))?;
        measure("journal and spans", &place("s"), spans, &Payload::Hash([1; 32]))?;
        measure("journal, spans and logs", &place("l"), Some((otlp.clone(), true)), &Payload::Hash([1; 32]))?;
        measure("journal, 2 KiB full", &place("f"), None, &kept(true))?;
        measure("journal, 2 KiB redacted", &place("r"), None, &kept(false))?;
    }
    for (name, text) in [("JSON", payload()), ("words", words()), ("random", random())] {
        let text = String::from_utf8(text)?;
        println!(
            "masking {name:<16} {:>11.3} us/KiB",
            per_kib(&text, || drop(black_box(secrets::masked(&text))))
        );
        println!(
            "SHA-256 {name:<16} {:>11.3} us/KiB",
            per_kib(&text, || drop(black_box(Sha256::digest(&text).to_vec())))
        );
    }
    Ok(())
}

/// A KiB of arguments as agents send them.
fn payload() -> Vec<u8> {
    let one = r#"{"path":"/srv/docs/report-2026.md","limit":200,"query":"what changed in the second quarter, and why","#;
    let mut text = String::from("{\"list\":[");
    while text.len() < 1_000 {
        text.push_str(one);
        text.push_str("\"ok\":true},");
    }
    text.push_str("1]}");
    text.into_bytes()
}

fn words() -> Vec<u8> {
    "the quick brown fox jumps over the lazy dog and its tokens, ".repeat(18).into_bytes()
}

/// Where every place may be the beginning of something.
fn random() -> Vec<u8> {
    let mut seed = 7u64;
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b' ' + u8::try_from(seed >> 57).unwrap_or_default() % 95
    };
    (0..1_024).map(next).collect()
}

/// Microseconds for each KiB, the fastest of some rounds.
fn per_kib(text: &str, mut work: impl FnMut()) -> f64 {
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..2_000).for_each(|_| work());
        start.elapsed().as_secs_f64() / 2_000.0
    };
    let fastest = (0..5).map(|_| round(&mut work)).fold(f64::MAX, f64::min);
    fastest * 1e6 / (text.len() as f64 / 1_024.0)
}

fn measure(
    name: &str,
    folder: &Path,
    otlp: Option<(String, bool)>,
    payload: &Payload,
) -> Result<(), Box<dyn Error>> {
    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = Recorder::start(&audit(folder), &telemetry(otlp), Arc::clone(&metrics))?;
    let begin = Instant::now();
    let mut handing_over = Duration::ZERO;
    for burst in 0..RECORDS / BURST {
        let records: Vec<Record> = (0..BURST).map(|n| record(burst * BURST + n, payload)).collect();
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
            keep_age: None,
            keep_bytes: None,
            deny_on_error: true,
        },
        capture: Capture::Hash,
        capture_tools: Vec::new(),
        redact: Globs::new(["*token*"]),
        signing_key: None,
        checkpoint: Duration::ZERO,
    }
}

fn telemetry(otlp: Option<(String, bool)>) -> Telemetry {
    let protocol = Some(OtlpProtocol::Grpc);
    let (otlp, logs) = otlp.unzip();
    let logs = logs.unwrap_or_default();
    Telemetry { otlp, protocol, headers: [].into(), service_name: Some("bench".into()), metrics: false, logs }
}

fn record(n: u64, payload: &Payload) -> Record {
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
        arguments: payload.clone(),
        result: payload.clone(),
        received: None,
        tokens: None,
        http_version: "1.1",
    }
}
