//! `smartgate replay`. Owns what is printed; the library compares.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::Write,
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use serde_json::json;

use super::{
    FAILURE,
    audit::filters::{Filters, journals},
    table::{BOLD, Cell, Column, DIM, Table},
    usage,
};
use crate::{
    audit::query::{Journals, NONE},
    config::{self, Coercion, Config},
    proxy::rehearse::Rehearsal,
    replay::{self, Changed, Counts},
    snapshot::Snapshot,
};

/// Show what another configuration would have done with recorded calls
///
/// Calls that were recorded under `audit.capture = "full"` go through the pipeline of the configuration as they were
/// received: where they may come from, keys by name, repairs, access, rates by the recorded times. Nothing is sent.
/// Budgets and limits of calls in flight are not replayed.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate replay audit.jsonl -c new.toml                     what would change, call by call\n  \
    smartgate replay audit.jsonl -c new.toml --since 7d --key 'cursor-*' --json\n  \
    smartgate replay audit.jsonl -c new.toml --schemas files=tools-list.json\n\n\
    Exit code: 0 if nothing would change, 1 if something would, 64 for wrong usage, if a file cannot be read, or if\n  \
    no call could be replayed.")]
pub struct Args {
    /// The journal; or several segments, oldest first
    #[arg(value_name = "JOURNAL", required = true)]
    files: Vec<PathBuf>,
    /// The configuration that is tried
    #[arg(short, long, value_name = "FILE", required = true)]
    config: PathBuf,
    /// Tools of an upstream, from a file with a tools/list result [default: what its storage remembers]
    #[arg(long, value_name = "[NAME=]FILE")]
    schemas: Vec<String>,
    /// Most calls that are shown; 0 for all. All are counted
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    limit: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

/// Everything that is printed.
struct Report {
    counts: Counts,
    changed: Vec<Changed>,
    kinds: BTreeMap<String, u64>,
    /// Upstreams whose tools are not known.
    unknown: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("smartgate: {error}");
            return ExitCode::from(FAILURE);
        }
    };
    let report = match runtime.block_on(rehearsal(&args)).and_then(|mut rehearsal| {
        let _inside = runtime.enter();
        replayed(&args, &mut rehearsal)
    }) {
        Ok(report) => report,
        Err(why) => return usage(&why),
    };
    let text = if args.json { object(&report) } else { page(&report) };
    let mut out = anstream::stdout();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        return ExitCode::from(FAILURE);
    }
    match report.counts {
        Counts { replayed: 0, .. } => {
            usage("no call could be replayed: record with audit.capture = \"full\", or choose other filters")
        }
        Counts { changed: 0, .. } => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILURE),
    }
}

async fn rehearsal(args: &Args) -> Result<Rehearsal, String> {
    let loaded = config::load(&args.config).map_err(|problems| problems.to_string())?;
    let snapshot = Snapshot::rehearse(loaded.config).await?;
    for schemas in &args.schemas {
        suppose(&snapshot, schemas).await.map_err(|why| format!("--schemas {schemas}: {why}"))?;
    }
    Ok(Rehearsal::new(snapshot))
}

async fn suppose(snapshot: &Snapshot, schemas: &str) -> Result<(), String> {
    let (name, file) = match schemas.split_once('=') {
        Some((name, file)) => (Some(name), file),
        None => (None, schemas),
    };
    let route = match name {
        Some(name) => snapshot.routes.get(name).ok_or("the configuration has no such upstream")?,
        None if snapshot.routes.len() == 1 => {
            snapshot.routes.values().next().ok_or("there is no upstream")?
        }
        None => return Err("there are several upstreams: write NAME=FILE".to_owned()),
    };
    let list = std::fs::read(Path::new(file)).map_err(|e| e.to_string())?;
    route.catalog.suppose(&list).await
}

fn replayed(args: &Args, rehearsal: &mut Rehearsal) -> Result<Report, String> {
    let filter = args.filters.compile()?;
    let journals = Journals::open(&journals(args.files.clone())?).map_err(|e| e.to_string())?;
    let mut report = Report {
        counts: Counts::default(),
        changed: Vec::new(),
        kinds: BTreeMap::new(),
        unknown: unknown(rehearsal.snapshot()),
    };
    let most = if args.limit == 0 { usize::MAX } else { args.limit };
    let done = replay::run(&journals, filter, rehearsal, |changed| {
        for change in &changed.changes {
            let kind = match (change.what, &change.after) {
                ("outcome", Some(after)) => format!("now {after}"),
                (what, _) => what.to_owned(),
            };
            *report.kinds.entry(kind).or_default() += 1;
        }
        if report.changed.len() < most {
            report.changed.push(changed);
        }
        ControlFlow::Continue(())
    });
    let (counts, broken) = done.map_err(|e| e.to_string())?;
    super::audit::tell(&broken);
    Ok(Report { counts, ..report })
}

/// Upstreams whose arguments would be bent to schemas, had replay their tools.
fn unknown(snapshot: &Snapshot) -> Vec<String> {
    let config: &Config = &snapshot.config;
    let bends =
        |coercion: Option<Coercion>| coercion.unwrap_or(config.normalize.schema_coercion) != Coercion::Off;
    let routes = snapshot.routes.iter().filter(|(_, route)| bends(route.spec.schema_coercion));
    routes.filter(|(_, route)| route.tools().is_empty()).map(|(name, _)| name.to_string()).collect()
}

fn object(report: &Report) -> String {
    let Report { counts, changed, kinds, unknown } = report;
    let all = json!({ "counts": counts, "kinds": kinds, "tools_unknown": unknown, "changed": changed });
    format!("{all}\n")
}

fn page(report: &Report) -> String {
    let Report { counts, changed, kinds, unknown } = report;
    let mut out = String::new();
    let mut line =
        |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect("a String takes every write");
    line(format_args!("{BOLD}{} calls replayed, {} would change{BOLD:#}", counts.replayed, counts.changed));
    for (count, what) in [
        (counts.not_captured, "not replayed: the message as it was received is not in the journal"),
        (counts.too_long, "not replayed: the message was too long to be kept"),
        (counts.no_message, "not replayed: GET or DELETE"),
        (counts.masked, "compared but for what goes out: a credential was masked in the message"),
    ] {
        if count > 0 {
            line(format_args!("{DIM}{count} {what}{DIM:#}"));
        }
    }
    for name in unknown {
        line(format_args!(
            "{DIM}the tools of {name} are not known: no repair that needs them; see --schemas{DIM:#}"
        ));
    }
    for (kind, count) in kinds {
        line(format_args!("{count} {kind}"));
    }
    if !changed.is_empty() {
        out.push('\n');
        out.push_str(&table(changed));
        let shown = u64::try_from(changed.len()).unwrap_or(u64::MAX);
        if shown < counts.changed {
            writeln!(out, "{DIM}and {} more; --limit 0 shows all{DIM:#}", counts.changed - shown)
                .expect("a String takes every write");
        }
    }
    out
}

fn table(changed: &[Changed]) -> String {
    let text = |name| Column { name, is_number: false };
    let columns = [
        text("TIME"),
        Column { name: "SEQ", is_number: true },
        text("KEY"),
        text("CALL"),
        text("WHAT"),
        text("BEFORE"),
        text("AFTER"),
    ];
    let cell = |text: Option<&str>| Cell::new(text.unwrap_or(NONE));
    let rows = changed.iter().flat_map(|call| {
        call.changes.iter().map(|change| {
            // Of a hash the beginning is enough to see that it is another one.
            let short = |value: &Option<String>| match change.what {
                "forwarded" => cell(value.as_deref().and_then(|v| v.get(..12))),
                _ => cell(value.as_deref()),
            };
            vec![
                Cell::new(&super::audit::time(&call.time)),
                Cell::new(&call.seq.to_string()),
                cell(call.key.as_deref()),
                cell(call.call.as_deref()),
                Cell::new(change.what),
                short(&change.before),
                short(&change.after),
            ]
        })
    });
    Table::new(&columns).rows(&rows.collect::<Vec<_>>())
}
