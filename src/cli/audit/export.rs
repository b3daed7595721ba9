//! `smartgate audit export`: a range of the journal as spans, to a collector. Owns how the range is written.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{Parser, ValueEnum};

use super::filters::standard_journal;
use crate::{
    audit::resend::{self, Range, Sent},
    cli::{FAILURE, print, usage},
    config::{OtlpProtocol, Secret, Telemetry},
};

/// `audit export`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit export --otlp http://127.0.0.1:4317 audit.jsonl\n  \
    smartgate audit export --otlp http://127.0.0.1:4318 --since 2h audit.jsonl\n  \
    smartgate audit export --otlp https://otel.example --header 'api-key: ...' --since 2026-11-30T08:00:00Z \\\n    \
        --until 2026-11-30T09:00:00Z audit.jsonl\n\n\
    Spans have the ids that they had when the gateway sent them: sending a range twice changes nothing in a store that\n  \
    knows a span by its ids. Works beside a running gateway. The OTEL_EXPORTER_OTLP_* variables work as for `serve`.")]
pub(super) struct Args {
    /// The collector
    #[arg(long, value_name = "URL")]
    otlp: String,
    /// Else the port decides: 4318 is http/protobuf, others are grpc
    #[arg(long, value_enum)]
    protocol: Option<Protocol>,
    /// Header to send along, 'NAME: VALUE'; may be given more than once
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// `service.name` of the spans
    #[arg(long, value_name = "NAME")]
    service_name: Option<String>,
    /// Records from this time on: a time with its offset, or so long ago (30m, 2h, 7d)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Records before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Records from this number on: of this boot, else of the newest one
    #[arg(long, value_name = "[BOOT:]SEQ")]
    from_seq: Option<String>,
    /// The journal; or several segments, oldest first
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Protocol {
    Grpc,
    #[value(name = "http/protobuf")]
    HttpProtobuf,
}

pub(super) fn run(args: Args) -> ExitCode {
    let files = match files(&args) {
        Ok(files) => files,
        Err(why) => return usage(&why),
    };
    let asked = range(&args, &files).and_then(|range| Ok((range, telemetry(&args)?)));
    let (range, telemetry) = match asked {
        Ok(asked) => asked,
        Err(why) => return usage(&why),
    };
    match resend::resend(&files, &range, &telemetry) {
        Ok(sent) => report(sent),
        Err(why) => {
            eprintln!("smartgate: {why}");
            ExitCode::from(FAILURE)
        }
    }
}

fn report(sent: Sent) -> ExitCode {
    let Sent { records, spans, rejected } = sent;
    let code = print(&format!("records    {records}\nspans      {spans}\nrejected   {rejected}\n"));
    if rejected > 0 { ExitCode::from(FAILURE) } else { code }
}

fn files(args: &Args) -> Result<Vec<PathBuf>, String> {
    let journal = match &args.files[..] {
        [] => standard_journal()?,
        [journal] => journal.clone(),
        several => return Ok(several.to_vec()),
    };
    resend::files(&journal).map_err(|e| format!("{}: {e}", journal.display()))
}

fn range(args: &Args, files: &[PathBuf]) -> Result<Range, String> {
    let time = |flag: &str, written: &Option<String>| {
        written.as_deref().map(|text| moment(text).ok_or(format!("{flag}: `{text}` is no time"))).transpose()
    };
    let from = match args.from_seq.as_deref() {
        None => None,
        Some(text) => {
            let (boot, seq) = text.rsplit_once(':').unwrap_or(("", text));
            let seq = seq.parse().map_err(|_| format!("--from-seq: `{text}` is no number of a record"))?;
            let boot = if boot.is_empty() {
                files.last().and_then(|f| resend::newest_boot(f)).ok_or("--from-seq: the journal is empty")?
            } else {
                boot.to_owned()
            };
            Some((boot, seq))
        }
    };
    Ok(Range { since: time("--since", &args.since)?, until: time("--until", &args.until)?, from })
}

/// A time with its offset, or how long ago it was.
fn moment(text: &str) -> Option<SystemTime> {
    if let Some(time) = resend::time(text) {
        return Some(time);
    }
    let count: u64 = text.get(..text.len().checked_sub(1)?)?.parse().ok()?;
    let seconds = match text.as_bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3_600,
        b'd' => 86_400,
        _ => return None,
    };
    SystemTime::now().checked_sub(Duration::from_secs(count.checked_mul(seconds)?))
}

fn telemetry(args: &Args) -> Result<Telemetry, String> {
    let mut headers = BTreeMap::new();
    for header in &args.header {
        let (name, value) = header.split_once(':').ok_or("--header: write NAME: VALUE")?;
        headers.insert(name.trim().to_lowercase(), Secret::new(value.trim()));
    }
    let protocol = args.protocol.map(|p| match p {
        Protocol::Grpc => OtlpProtocol::Grpc,
        Protocol::HttpProtobuf => OtlpProtocol::HttpProtobuf,
    });
    Ok(Telemetry {
        otlp: Some(args.otlp.clone()),
        protocol,
        headers,
        service_name: args.service_name.clone(),
        metrics: false,
        logs: false,
    })
}
