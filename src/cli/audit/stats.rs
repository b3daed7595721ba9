//! `smartgate audit stats`. Owns what is printed; the library adds up.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use serde_json::{Map, Value, json};

use super::{
    filters::{Filters, journals},
    query::exit,
    rows::{ms, tell},
};
use crate::{
    audit::query::{Dimension, Figures, Group, Journals, NONE, Shown, Stats},
    cli::{
        table::{BOLD, Cell, Column, DIM, Table, colour},
        usage,
    },
};

/// What `--by` knows.
const DIMENSIONS: [(&str, &str, Dimension); 8] = [
    ("key", "KEY", Dimension::Key),
    ("tool", "TOOL", Dimension::Tool),
    ("upstream", "UPSTREAM", Dimension::Upstream),
    ("outcome", "OUTCOME", Dimension::Outcome),
    ("method", "METHOD", Dimension::Method),
    ("client", "CLIENT", Dimension::Client),
    ("rule", "RULE", Dimension::Rule),
    ("reason", "REASON", Dimension::Reason),
];

/// Groupings that are shown if none is asked for.
const DEFAULT: [&str; 5] = ["key", "tool", "upstream", "outcome", "rule,client"];

/// `audit stats`
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  \
    smartgate audit stats --since 24h                  all calls of a day, by key, tool, upstream, outcome, and who\n  \
                                                     \u{20}sends what wrong (rule and client)\n  \
    smartgate audit stats --by tool --upstream files   one table\n  \
    smartgate audit stats --by tool,outcome --by key --json\n\n\
    FAILED counts every outcome but ok. P50, P95 and P99 are milliseconds from the arrival of a call to the end of its\n  \
    answer: exact for up to 256 calls, else up to 0.8 % too much.\n\n\
    Exit code: 0; 1 if the output cannot be written; 64 for wrong usage, or if a file cannot be read.")]
pub(super) struct Args {
    /// The journal; or several segments, oldest first [default: the journal in the state directory]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One table for each: key, tool, upstream, outcome, method, client, rule, reason, or several joined by commas
    #[arg(long, value_name = "NAMES")]
    by: Vec<String>,
    /// Most rows of each table; 0 for all
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
    /// Print one JSON object, with all groups
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

/// A table that was asked for.
struct Grouping {
    name: String,
    dimensions: Vec<usize>,
}

pub(super) fn run(args: Args) -> ExitCode {
    let opened = args.filters.compile().and_then(|filter| {
        let by = groupings(&args.by)?;
        let journals = Journals::open(&journals(args.files)?).map_err(|e| e.to_string())?;
        Ok((filter.calls(), by, journals))
    });
    let (filter, by, journals) = match opened {
        Ok(opened) => opened,
        Err(why) => return usage(&why),
    };
    let dimensions: Vec<Vec<Dimension>> =
        by.iter().map(|g| g.dimensions.iter().map(|d| DIMENSIONS[*d].2).collect()).collect();
    let answers = journals.stats(&filter, &dimensions).and_then(|stats| Ok((stats, journals.broken()?)));
    let (stats, broken) = match answers {
        Ok(answers) => answers,
        Err(error) => return usage(&error.to_string()),
    };
    journals.keep_indexes();
    tell(&broken);
    let text = if args.json {
        format!("{}\n", object(&stats, &by))
    } else {
        tables(&stats, &by, if args.limit == 0 { usize::MAX } else { args.limit })
    };
    exit(&print(&text))
}

fn print(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

fn groupings(asked: &[String]) -> Result<Vec<Grouping>, String> {
    let default = DEFAULT.map(str::to_owned);
    let asked = if asked.is_empty() { &default[..] } else { asked };
    let one = |name: &String| {
        let dimensions = name.split(',').map(|part| {
            let known = DIMENSIONS.iter().position(|(known, ..)| *known == part);
            known.ok_or_else(|| {
                let all = DIMENSIONS.map(|(known, ..)| known).join(", ");
                format!("--by: {part:?} is none of {all}")
            })
        });
        Ok(Grouping { name: name.clone(), dimensions: dimensions.collect::<Result<_, String>>()? })
    };
    asked.iter().map(one).collect()
}

fn object(stats: &Stats, by: &[Grouping]) -> Value {
    let group = |grouping: &Grouping, group: &Group| {
        let names = grouping.dimensions.iter().zip(&group.names);
        let mut members: Map<String, Value> =
            names.map(|(d, name)| (DIMENSIONS[*d].0.to_owned(), json!(name))).collect();
        if let Value::Object(figures) = json!(Shown::from(&group.figures)) {
            // A grouping by outcome has a name where figures have counts.
            for (name, value) in figures {
                members.entry(name).or_insert(value);
            }
        }
        Value::Object(members)
    };
    let groupings: Map<String, Value> = by
        .iter()
        .zip(&stats.groupings)
        .map(|(grouping, groups)| {
            (grouping.name.clone(), groups.iter().map(|g| group(grouping, g)).collect())
        })
        .collect();
    let span = stats.span.map(|(first, last)| json!({ "first": moment(first), "last": moment(last) }));
    json!({ "span": span, "total": Shown::from(&stats.total), "by": groupings })
}

fn moment(micros: i64) -> String {
    jiff::Timestamp::from_microsecond(micros).map(|t| format!("{t:.6}")).unwrap_or_default()
}

fn tables(stats: &Stats, by: &[Grouping], limit: usize) -> String {
    let mut out = String::new();
    let span = stats.span.map(|(a, b)| format!("{} to {}", moment(a), moment(b)));
    writeln!(out, "{BOLD}{} calls{BOLD:#} {}\n", stats.total.calls, span.unwrap_or_default())
        .expect("a String takes every write");
    if stats.total.calls == 0 {
        return out.trim_end().to_owned() + "\n";
    }
    out.push_str(&table(&[("", NONE)], &[(vec![Some("all".to_owned())], &stats.total)]));
    for (grouping, groups) in by.iter().zip(&stats.groupings) {
        if groups.is_empty() {
            continue;
        }
        let heads: Vec<_> = grouping.dimensions.iter().map(|d| (DIMENSIONS[*d].1, NONE)).collect();
        let rows: Vec<_> = groups.iter().take(limit).map(|g| (g.names.clone(), &g.figures)).collect();
        out.push('\n');
        out.push_str(&table(&heads, &rows));
        if groups.len() > limit {
            writeln!(out, "{DIM}and {} more; --limit 0 shows all{DIM:#}", groups.len() - limit)
                .expect("a String takes every write");
        }
    }
    out
}

/// `heads`: the name of each column of names, and what stands where there is none.
fn table(heads: &[(&'static str, &str)], rows: &[(Vec<Option<String>>, &Figures)]) -> String {
    const NUMBERS: [&str; 10] =
        ["CALLS", "FAILED", "%", "P50", "P95", "P99", "RECEIVED", "SENT", "TOKENS", "SAVED"];
    let columns: Vec<Column> = heads
        .iter()
        .map(|(name, _)| Column { name, is_number: false })
        .chain(NUMBERS.map(|name| Column { name, is_number: true }))
        .collect();
    let row = |(names, figures): &(Vec<Option<String>>, &Figures)| {
        let names =
            names.iter().zip(heads).map(|(name, (_, none))| Cell::new(name.as_deref().unwrap_or(none)));
        names.chain(numbers(figures)).collect::<Vec<_>>()
    };
    Table::new(&columns).rows(&rows.iter().map(row).collect::<Vec<_>>())
}

fn numbers(f: &Figures) -> [Cell; 10] {
    let failed = f.failed();
    let share = failed as f64 * 100.0 / f.calls.max(1) as f64;
    let red = |text: &str| {
        let cell = Cell::new(text);
        if failed > 0 { cell.coloured(colour(anstyle::AnsiColor::Red)) } else { cell }
    };
    let latency =
        |share| Cell::new(&f.latency_us(share).map_or_else(String::new, |us| ms(us as f64 / 1_000.0)));
    [
        Cell::new(&f.calls.to_string()),
        red(&failed.to_string()),
        red(&format!("{share:.1}")),
        latency(0.5),
        latency(0.95),
        latency(0.99),
        Cell::new(&bytes(f.request_bytes)),
        Cell::new(&bytes(f.response_bytes)),
        Cell::new(&(f.tokens[0] + f.tokens[1]).to_string()),
        Cell::new(&f.tokens[2].to_string()),
    ]
}

fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut size = n as f64;
    let mut unit = "B";
    for larger in UNITS {
        if size < 1_000.0 {
            break;
        }
        (size, unit) = (size / 1_024.0, larger);
    }
    if unit == "B" { format!("{n} B") } else { format!("{size:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases =
            [(0, "0 B"), (999, "999 B"), (1_023, "1.0 KiB"), (5 << 20, "5.0 MiB"), (u64::MAX, "16384.0 PiB")];
        for (n, text) in cases {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn a_grouping_names_what_is_wrong_with_it() {
        let asked = |by: &str| groupings(&[by.to_owned()]).map(|g| g[0].dimensions.clone());
        assert_eq!(asked("rule,client"), Ok(vec![6, 5]));
        assert!(asked("colour").unwrap_err().contains("\"colour\" is none of key, tool"));
        assert!(asked("").is_err());
    }
}
