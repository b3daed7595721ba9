//! From the start of the process to its first answer, and its memory when idle.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{
    Plan, Res,
    bodies::{Shape, Template},
    client::Client,
    gateway::{Gateway, Setting},
    process::Process,
    stats::{median, quantile},
    table::Table,
};

const CASE: &str = "start";
const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let Some(program) = &plan.gateway else { return Ok(()) };
    let (upstream, sink) = (Process::role(&["upstream"])?, Process::role(&["sink"])?);
    let template = Template::call(Shape::Clean, 1024);
    let (mut millis, mut idle) = (Vec::new(), Vec::new());
    for _ in 0..plan.pick(9, 2) {
        let folder = tempfile::tempdir()?;
        let setting = Setting {
            folder: folder.path(),
            upstream: upstream.address,
            sink: sink.address,
            keys: 10,
            upstreams: 1,
            prefixed: false,
        };
        let start = Instant::now();
        let gateway = Gateway::start(program, &setting)?;
        Client::connect(gateway.process.address)?.call(&template)?;
        millis.push(start.elapsed().as_secs_f64() * 1e3);
        thread::sleep(Duration::from_millis(plan.pick(1500, 300)));
        idle.push(gateway.process.resident()? as f64 / MIB);
    }
    table.row(CASE, "exec to first answered call, ms: median", format!("{:.1}", median(&millis)), "< 100");
    table.row(CASE, "exec to first answered call, ms: worst", format!("{:.1}", quantile(&millis, 1.0)), "");
    table.row(CASE, "idle process, MiB resident", format!("{:.1}", median(&idle)), "< 20");
    Ok(())
}
