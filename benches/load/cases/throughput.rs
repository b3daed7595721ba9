//! Calls per second over 32 kept connections, all proxies in alternating rounds; then whether every call of
//! the gateway left its record and its spans.

use super::Field;
use crate::{
    Plan, Res,
    bodies::{Shape, Template},
    gateway::{self, Gateway},
    stats::{median, ratio},
    table::Table,
    wrk,
};

const CASE: &str = "throughput";
const CONNECTIONS: u32 = 32;

/// Figures of one target, one a round.
struct Series {
    name: &'static str,
    per_second: Vec<f64>,
    cpu_micros: Vec<f64>,
    calls: u64,
}

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    if !wrk::installed() {
        table.row(CASE, "skipped: wrk is not installed", String::new(), "");
        return Ok(());
    }
    let field = Field::start(plan)?;
    let before = field.gateway.as_ref().map(|gateway| records(&field, gateway)).transpose()?;
    let series = rounds(plan, &field)?;
    report(&series, table);
    if let (Some(gateway), Some(before)) = (&field.gateway, before) {
        let calls = series.iter().find(|series| series.name == "gateway").map_or(0, |series| series.calls);
        let after = records(&field, gateway)?;
        table.row(CASE, "gateway: calls seen by the client", calls.to_string(), "");
        table.row(CASE, "gateway: call records in the journal", (after.0 - before.0).to_string(), "= calls");
        table.row(CASE, "gateway: spans at the sink", (after.1 - before.1).to_string(), "2 a call - dropped");
        let dropped = gateway.counter("smartgate_spans_dropped_total")?;
        table.row(CASE, "gateway: spans dropped", dropped.to_string(), "");
    }
    Ok(())
}

fn rounds(plan: &Plan, field: &Field) -> Res<Vec<Series>> {
    let template = Template::call(Shape::Clean, 1024);
    let targets = field.targets();
    let series =
        |(name, _): &(&'static str, _)| Series { name, per_second: vec![], cpu_micros: vec![], calls: 0 };
    let mut all: Vec<Series> = targets.iter().map(series).collect();
    for _ in 0..plan.pick(7, 1) {
        for (series, (name, process)) in all.iter_mut().zip(&targets) {
            let cpu = process.cpu_seconds()?;
            let run = wrk::run(field.folder.path(), process.address, &template, CONNECTIONS, plan.pick(2, 1))
                .map_err(|error| format!("{name}: {error}"))?;
            series.cpu_micros.push((process.cpu_seconds()? - cpu) * 1e6 / run.calls as f64);
            series.per_second.push(run.per_second);
            series.calls += run.calls;
        }
    }
    Ok(all)
}

fn report(series: &[Series], table: &mut Table) {
    for one in series {
        table.row(CASE, format!("{}: calls/s", one.name), format!("{:.0}", median(&one.per_second)), "");
        table.row(CASE, format!("{}: cpu us/call", one.name), format!("{:.1}", median(&one.cpu_micros)), "");
    }
    let find = |name| series.iter().find(|series| series.name == name);
    for (above, below, goal) in [("bare", "nginx", "0.90 to 1.10 and above"), ("gateway", "bare", ">= 0.80")]
    {
        if let (Some(a), Some(b)) = (find(above), find(below)) {
            table.row(
                CASE,
                format!("{above} / {below}"),
                format!("{:.2}", ratio(&a.per_second, &b.per_second)),
                goal,
            );
        }
    }
}

/// Records and spans so far.
fn records(field: &Field, gateway: &Gateway) -> Res<(u64, u64)> {
    Ok((gateway.records()?, gateway::spans(field.sink.address)?))
}
