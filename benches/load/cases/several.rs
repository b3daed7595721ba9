//! What a call costs more where twenty upstreams with a thousand tools are shown as one: the same call of the same server,
//! in short rounds that take turns, to a gateway with one upstream, to one that shows its only upstream with a prefix, and
//! to one with twenty, there to one of them alone and to all as one.

use std::time::Instant;

use crate::{
    Plan, Res,
    bodies::Template,
    client::Client,
    gateway::{Gateway, Setting},
    process::Process,
    stats::{difference, median, ratio},
    table::Table,
};

const CASE: &str = "several";
const UPSTREAMS: usize = 20;
const TOOLS: usize = 50;

/// One way to the server.
struct Way<'a> {
    what: &'static str,
    gateway: &'a Gateway,
    client: Client,
    template: Template,
    medians: Vec<f64>,
    cpu: Vec<f64>,
}

impl<'a> Way<'a> {
    fn to(what: &'static str, gateway: &'a Gateway, path: &str, tool: &str) -> Res<Self> {
        let client = Client::connect(gateway.process.address)?;
        let template = Template::modern(path, "tools/call", tool, 1024);
        Ok(Self { what, gateway, client, template, medians: Vec::new(), cpu: Vec::new() })
    }

    fn round(&mut self, calls: usize) -> Res<()> {
        let before = self.gateway.process.cpu_seconds()?;
        self.medians.push(median(&self.client.calls(&self.template, calls)?));
        self.cpu.push((self.gateway.process.cpu_seconds()? - before) * 1e6 / calls as f64);
        Ok(())
    }
}

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let Some(program) = &plan.gateway else { return Ok(()) };
    let (upstream, sink) = (Process::role(&["upstream", &TOOLS.to_string()])?, Process::role(&["sink"])?);
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let start = |folder: usize, upstreams: usize, prefixed: bool| -> Res<Gateway> {
        let setting = Setting {
            folder: folders[folder].path(),
            upstream: upstream.address,
            sink: sink.address,
            keys: 10,
            upstreams,
            prefixed,
        };
        let gateway = Gateway::start(program, &setting)?;
        gateway.knows(upstreams)?;
        Ok(gateway)
    };
    let (one, several) = (start(0, 1, false)?, start(1, UPSTREAMS, false)?);
    let prefixed = start(2, 1, true)?;
    let mut ways = [
        Way::to("one upstream", &one, "/mcp", "echo")?,
        Way::to("one with a prefix", &prefixed, "/mcp", "load0__echo")?,
        Way::to("one of twenty alone", &several, "/mcp/load7", "echo")?,
        Way::to("twenty as one", &several, "/mcp", "load7__echo")?,
    ];
    for way in &mut ways {
        way.client.calls(&way.template, plan.pick(2_000, 50))?; // warm
    }
    for round in 0..plan.pick(150, 4) {
        // Whoever comes first in a round finds another state of the machine than who comes last.
        for n in 0..ways.len() {
            let way = (n + round) % ways.len();
            ways[way].round(plan.pick(100, 20))?;
        }
    }
    for way in &ways {
        table.row(CASE, format!("{}: median us", way.what), format!("{:.1}", median(&way.medians)), "");
        table.row(CASE, format!("{}: cpu us/call", way.what), format!("{:.1}", median(&way.cpu)), "");
    }
    let [one, prefixed, alone, all] = &ways;
    for other in [one, prefixed, alone] {
        let against = |what: &str| format!("twenty as one against {}: {what}", other.what);
        let added = difference(&all.medians, &other.medians);
        table.row(CASE, against("added us"), format!("{added:.1}"), "0");
        table.row(CASE, against("ratio"), format!("{:.3}", ratio(&all.medians, &other.medians)), "1");
        let added = difference(&all.cpu, &other.cpu);
        table.row(CASE, against("added cpu us"), format!("{added:.1}"), "0");
    }
    listed(plan, &several, table)
}

/// The whole list of all tools, in one answer.
fn listed(plan: &Plan, several: &Gateway, table: &mut Table) -> Res<()> {
    let mut client = Client::connect(several.process.address)?;
    let list = Template::modern("/mcp", "tools/list", "", 0);
    let mut millis = Vec::new();
    for _ in 0..plan.pick(50, 3) {
        let start = Instant::now();
        client.call(&list)?;
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let tools = client.body().matches("\"name\":\"load").count();
    if tools != UPSTREAMS * TOOLS {
        return Err(format!("{tools} tools in one list").into());
    }
    table.row(CASE, format!("list of {tools} tools, ms"), format!("{:.2}", median(&millis)), "");
    Ok(())
}
