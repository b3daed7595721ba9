//! Added latency at one connection with one call in flight, in short alternating rounds.

use super::Field;
use crate::{
    Plan, Res,
    bodies::{Shape, Template},
    client::Client,
    stats::{difference, median, quantile},
    table::Table,
};

const CASE: &str = "latency";

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let field = Field::start(plan)?;
    let template = Template::call(Shape::Clean, 1024);
    let mut series = Vec::new();
    for (name, process) in field.targets() {
        let mut client = Client::connect(process.address)?;
        client.calls(&template, plan.pick(500, 50))?; // warm
        series.push((name, client, Vec::new(), Vec::new()));
    }
    for _ in 0..plan.pick(40, 3) {
        for (_, client, medians, tails) in &mut series {
            let micros = client.calls(&template, plan.pick(250, 50))?;
            medians.push(median(&micros));
            tails.push(quantile(&micros, 0.99));
        }
    }
    let direct = series[0].2.clone();
    for (name, _, medians, tails) in &series {
        table.row(CASE, format!("{name}: median us"), format!("{:.1}", median(medians)), "");
        table.row(CASE, format!("{name}: p99 us"), format!("{:.1}", median(tails)), "");
        if *name != "direct" {
            let goal = if *name == "gateway" { "<= 100" } else { "" };
            table.row(
                CASE,
                format!("{name}: median added over direct, us"),
                format!("{:.1}", difference(medians, &direct)),
                goal,
            );
        }
    }
    Ok(())
}
