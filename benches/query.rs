//! What questions to a large journal cost.
//!
//! `cargo bench --bench query` writes a journal of 100,000 records and asks it; `cargo bench --bench query -- N [FOLDER]`
//! takes another number, and another place than the temporary folder (about 1.1 GB for each million, deleted at the
//! end). With `sqlite` as a third word the same rows are put into SQLite, for comparison. Times are reported, never
//! asserted.

use std::{
    error::Error,
    fs,
    hint::black_box,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use smartgate::{
    audit::{
        Recorder,
        query::{Dimension, Entry, Filter, Journals, Names, Order, moment},
        record::{Attempt, Client, Failure, Outcome, Payload, Record},
    },
    config::{Audit, Capture, Globs, Journal, Telemetry},
    mcp::era::Era,
    metrics::Metrics,
};

const ROUNDS: usize = 7;
/// 2026-11-01T00:00:00Z
const BEGIN: u64 = 1_793_491_200;
/// Between two calls.
const STEP: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let count: u64 = words.first().map_or(Ok(100_000), |n| n.parse())?;
    let folder = match words.get(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let journal = folder.path().join("audit.jsonl");
    let begin = Instant::now();
    write(&journal, count)?;
    println!("{count} records, {} MB, written in {:.1?}", size(folder.path())? / 1_000_000, begin.elapsed());
    let files = [journal];
    let before = size(folder.path())?;
    time("first question, index made", 1, || ask(&files, &Filter::default().calls(), None))?;
    println!("{:<44} {:>9} MB", "index", (size(folder.path())? - before) / 1_000_000);
    let names = |name: &str| Names::new(&[name]);
    let all = Filter::default;
    let middle = SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN) + STEP * u32::try_from(count / 2)?;
    let since = i64::try_from(middle.duration_since(SystemTime::UNIX_EPOCH)?.as_micros())?;
    let hour = Filter { since: Some(since), until: Some(since + 3_600_000_000), ..all() };
    let trace = Filter { trace: Some(hex::encode(trace_id(count / 3))), ..all() };
    let rare =
        Filter { key: names("key-17"), tool: names("files__delete_*"), outcome: names("rejected"), ..all() };
    for (name, filter, limit) in [
        ("the latest 100", all(), Some(100)),
        ("by key, 100", Filter { key: names("key-17"), ..all() }, Some(100)),
        ("by tool, 100", Filter { tool: names("files__tool-1?"), ..all() }, Some(100)),
        ("by outcome, 100", Filter { outcome: names("panicked"), ..all() }, Some(100)),
        ("by key, tool and outcome, all (few)", rare, None),
        ("an hour in the middle, 1,000", hour.clone(), Some(1_000)),
        ("by trace id", trace, None),
    ] {
        time(name, ROUNDS, || ask(&files, &filter, limit))?;
    }
    let by = [Dimension::Key, Dimension::Tool, Dimension::Upstream, Dimension::Outcome].map(|d| vec![d]);
    let five = [&by[..], &[vec![Dimension::Rule, Dimension::Client]]].concat();
    for (name, filter, by) in [
        ("stats of an hour, five tables", hour, &five[..]),
        ("stats of a key, five tables", Filter { key: names("key-17"), ..all() }, &five[..]),
        ("stats of all, total", all(), &[]),
        ("stats of all, by key", all(), &by[..1]),
        ("stats of all, five tables", all(), &five[..]),
    ] {
        let filter = filter.calls();
        time(name, ROUNDS, || {
            black_box(Journals::open(&files)?.stats(&filter, by)?);
            Ok(())
        })?;
    }
    if words.get(2).is_some_and(|w| w == "sqlite") {
        sqlite(folder.path(), &files)?;
    }
    Ok(())
}

/// A whole question, as a command asks it.
fn ask(files: &[PathBuf], filter: &Filter, limit: Option<usize>) -> Result<(), Box<dyn Error>> {
    let journals = Journals::open(files)?;
    let mut found = 0;
    if limit.is_none() && filter.trace.is_none() && filter.key.is_any() {
        black_box(journals.stats(filter, &[])?);
    } else {
        journals.find(filter, Order::NewestFirst, limit, |row| {
            found += usize::from(!row.line.is_empty());
            ControlFlow::Continue(())
        })?;
    }
    journals.keep_indexes();
    black_box(found);
    Ok(())
}

fn time(
    name: &str,
    rounds: usize,
    mut work: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        work()?;
        all.push(begin.elapsed());
    }
    all.sort();
    println!("{name:<44} {:>9.1} ms", all[rounds / 2].as_secs_f64() * 1_000.0);
    Ok(())
}

fn size(folder: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        sum += if found.is_dir() { size(&entry.path())? } else { found.len() };
    }
    Ok(sum)
}

/// The same rows and the same questions in SQLite.
fn sqlite(folder: &Path, files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let path = folder.join("rows.db");
    let mut connection = rusqlite::Connection::open(&path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
         CREATE TABLE calls (time INTEGER, duration INTEGER, trace TEXT, key TEXT, client TEXT, tool TEXT, upstream TEXT,
            outcome TEXT, rules TEXT, received INTEGER, sent INTEGER, file INTEGER, at INTEGER);",
    )?;
    let begin = Instant::now();
    let transaction = connection.transaction()?;
    {
        let sql = "INSERT INTO calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12)";
        let mut insert = transaction.prepare(sql)?;
        let mut failed = None;
        Journals::open(files)?.find(&Filter::default().calls(), Order::OldestFirst, None, |row| {
            let inserted = row.entry().map(|e: Entry<'_>| {
                insert.execute(rusqlite::params![
                    e.micros(),
                    e.duration_us() as i64,
                    e.trace_id.as_deref(),
                    e.principal.as_deref(),
                    e.client_name(),
                    e.tool.as_deref(),
                    e.upstream.as_deref(),
                    e.outcome.as_deref(),
                    e.rules(),
                    e.request_bytes.map(|b| b as i64),
                    e.response_bytes.map(|b| b as i64),
                    row.offset as i64,
                ])
            });
            failed = inserted.and_then(Result::err);
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
    }
    transaction.commit()?;
    connection
        .execute_batch("CREATE INDEX by_key ON calls (key, time); CREATE INDEX by_trace ON calls (trace);")?;
    println!("SQLite: filled in {:.1?}, {} MB", begin.elapsed(), fs::metadata(&path)?.len() / 1_000_000);
    for sql in [
        "SELECT at FROM calls WHERE key = 'key-17' ORDER BY time DESC LIMIT 100",
        "SELECT at FROM calls WHERE outcome = 'panicked' ORDER BY rowid DESC LIMIT 100",
        "SELECT key, count(*), sum(outcome <> 'ok'), sum(received), sum(sent) FROM calls GROUP BY key",
        "SELECT tool, count(*), sum(outcome <> 'ok'), sum(received), sum(sent) FROM calls GROUP BY tool",
        "SELECT key, max(p50) FROM (SELECT key, CASE WHEN ntile(100) OVER (PARTITION BY key ORDER BY duration) = 50
            THEN duration END AS p50 FROM calls) GROUP BY key",
    ] {
        time(&sql[..sql.len().min(43)], 3, || {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                black_box(row);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes a journal with a correct chain, as the gateway does.
fn write(path: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let audit = Audit {
        journal: Journal {
            path: path.to_owned(),
            fsync: Duration::from_secs(1),
            rotate: 256 << 20,
            keep: 100_000,
            keep_age: None,
            keep_bytes: None,
            deny_on_error: false,
        },
        capture: Capture::Hash,
        capture_tools: Vec::new(),
        redact: Globs::default(),
        signing_key: None,
        checkpoint: Duration::ZERO,
    };
    let telemetry = Telemetry {
        otlp: None,
        protocol: None,
        headers: [].into(),
        service_name: None,
        metrics: false,
        logs: false,
    };
    let metrics = Arc::new(Metrics::new());
    let (recorder, thread) = Recorder::start(&audit, &telemetry, Arc::clone(&metrics))?;
    debug_assert!(moment("2026-11-01", 0) == Ok(i64::try_from(BEGIN)? * 1_000_000));
    for n in 0..count {
        recorder.record(record(n));
        while n.is_multiple_of(1_024) && metrics.journal_records.get() + 8_192 < n {
            thread::sleep(Duration::from_millis(1));
        }
    }
    thread.stop();
    Ok(())
}

fn trace_id(n: u64) -> [u8; 16] {
    (u128::from(mixed(n)) << 64 | u128::from(n)).to_be_bytes()
}

/// SplitMix64: the same journal each time.
fn mixed(n: u64) -> u64 {
    let mut x = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn record(n: u64) -> Record {
    let chance = mixed(n);
    let pick = |shift: u32, of: u64| (chance >> shift) % of;
    let time =
        SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN) + STEP * u32::try_from(n).unwrap_or(u32::MAX);
    let upstream = ["files", "git", "search", "tickets", "db", "mail"][pick(3, 6) as usize];
    let tool = if pick(9, 500) == 0 { "delete_all".to_owned() } else { format!("tool-{}", pick(12, 40)) };
    let (outcome, reason) = match pick(20, 1_000) {
        0 => (Outcome::Panicked, Some("internal")),
        1..10 => (Outcome::UpstreamFailed, Some("upstream_timeout")),
        10..40 => (Outcome::Rejected, Some("rate_limited")),
        40..90 => (Outcome::ToolError, None),
        _ => (Outcome::Ok, None),
    };
    let rules: &[&'static str] = match pick(30, 20) {
        0 => &["arguments_string"],
        1 => &["jsonrpc_missing", "schema_coercion"],
        _ => &[],
    };
    let duration = Duration::from_micros(500 + pick(33, 1_000) * pick(43, 1_000));
    Record {
        time,
        received: None,
        duration,
        trace_id: trace_id(n),
        span_id: n.to_be_bytes(),
        parent_id: Some([7; 8]),
        trace_state: None,
        link: None,
        principal: Some(format!("key-{}", pick(0, 60)).into()),
        client: Client {
            name: Some(["cursor", "claude-desktop", "vscode", "windsurf"][pick(5, 4) as usize].into()),
            version: Some(format!("2.{}", pick(7, 5)).into()),
            address: Some(([127, 0, 0, 1], 5_555).into()),
        },
        era: Some(Era::Modern),
        protocol_version: Some("2026-07-28".into()),
        bridged: false,
        upstream_version: Some("2026-07-28".into()),
        session: None,
        method: Some("tools/call".into()),
        request_id: Some(n.to_string()),
        upstream: Some(upstream.into()),
        tool: Some(format!("{upstream}__{tool}")),
        prompt: None,
        resource: None,
        original_method: Some("tools/call".into()),
        normalized: rules.to_vec(),
        lossy: false,
        edits: Vec::new(),
        shadow: None,
        outcome,
        status: Some(200),
        error: reason.map(|reason| Failure { reason: Some(reason), code: None, message: "no".into() }),
        attempts: vec![Attempt {
            span_id: n.to_le_bytes(),
            start: time,
            duration,
            server_address: "127.0.0.1".into(),
            server_port: 3_001,
            status: Some(200),
            error_type: None,
        }],
        request_bytes: 200 + pick(40, 2_000),
        response_bytes: 300 + pick(45, 60_000),
        arguments: Payload::Hash([1; 32]),
        result: Payload::Hash([2; 32]),
        tokens: None,
        http_version: "1.1",
    }
}
