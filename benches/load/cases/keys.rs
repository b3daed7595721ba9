//! Whether a hundred thousand keys cost a call more than ten.

use crate::{
    Plan, Res,
    bodies::{Shape, Template},
    client::Client,
    gateway::{Gateway, Setting},
    process::Process,
    stats::{median, ratio},
    table::Table,
};

const CASE: &str = "keys";
const FEW: usize = 10;
const MANY: usize = 100_000;

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let Some(program) = &plan.gateway else { return Ok(()) };
    let (upstream, sink) = (Process::role(&["upstream"])?, Process::role(&["sink"])?);
    let template = Template::call(Shape::Clean, 1024);
    let mut sides = Vec::new();
    for keys in [FEW, plan.pick(MANY, 2_000)] {
        let folder = tempfile::tempdir()?;
        let setting = Setting {
            folder: folder.path(),
            upstream: upstream.address,
            sink: sink.address,
            keys,
            upstreams: 1,
            prefixed: false,
        };
        let gateway = Gateway::start(program, &setting)?;
        gateway.settle()?;
        let client = Client::connect(gateway.process.address)?;
        sides.push((keys, client, gateway, folder, Vec::new(), Vec::new()));
    }
    for _ in 0..plan.pick(20, 3) {
        for (_, client, gateway, _, medians, cpu) in &mut sides {
            let (calls, before) = (plan.pick(2_000, 100), gateway.process.cpu_seconds()?);
            medians.push(median(&client.calls(&template, calls)?));
            cpu.push((gateway.process.cpu_seconds()? - before) * 1e6 / calls as f64);
        }
    }
    for (keys, _, gateway, _, medians, cpu) in &sides {
        let memory = gateway.process.resident()? as f64 / 1024.0 / 1024.0;
        table.row(CASE, format!("{keys} keys: median us"), format!("{:.1}", median(medians)), "");
        table.row(CASE, format!("{keys} keys: cpu us/call"), format!("{:.1}", median(cpu)), "");
        table.row(CASE, format!("{keys} keys: MiB resident"), format!("{memory:.1}"), "");
    }
    let [few, many] = &sides[..] else { return Ok(()) };
    table.row(CASE, "many / few: median", format!("{:.2}", ratio(&many.4, &few.4)), "1");
    table.row(CASE, "many / few: cpu", format!("{:.2}", ratio(&many.5, &few.5)), "1");
    Ok(())
}
