//! Memory for each idle SSE stream: open through a proxy, one event in, nothing more.

use std::{thread, time::Duration};

use super::Field;
use crate::{
    Plan, Res,
    process::{self, Process},
    table::Table,
};

const CASE: &str = "streams";

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let count = process::two_ended(plan.pick(10_000, 500))?;
    let field = Field::start(plan)?;
    for (name, process) in field.targets() {
        if name == "nginx" {
            continue; // its memory lies in its workers, and nobody set a goal for it
        }
        let before = process.resident()?;
        let clients = Process::role(&["streams", &process.address.to_string(), &count.to_string()])
            .map_err(|error| format!("{name}: {error}"))?;
        thread::sleep(Duration::from_millis(plan.pick(3000, 300)));
        let after = process.resident()?;
        let each = after.saturating_sub(before) as f64 / 1024.0 / count as f64;
        let goal = if name == "gateway" { "<= 24" } else { "" };
        table.row(CASE, format!("{name}: KiB resident each, {count} open"), format!("{each:.1}"), goal);
        drop(clients);
    }
    Ok(())
}
