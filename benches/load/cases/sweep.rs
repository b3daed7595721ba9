//! What a repair costs as the body grows from 1 KiB to 4 MiB: through the gateway, the same call clean and
//! broken, beside the bare pass-through. Linear growth means that the figure per KiB does not rise.

use super::Field;
use crate::{
    Plan, Res,
    bodies::{Shape, Template},
    client::Client,
    stats::{difference, median},
    table::Table,
};

const CASE: &str = "sweep";
const KIB: usize = 1024;
/// The largest is what the gateway takes by default, less room for the envelope.
const SIZES: [usize; 7] = [KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4095 * KIB];

pub(super) fn run(plan: &Plan, table: &mut Table) -> Res<()> {
    let field = Field::start(plan)?;
    let Some(gateway) = &field.gateway else { return Ok(()) };
    let mut bare = Client::connect(field.bare.address)?;
    let mut through = Client::connect(gateway.process.address)?;
    for size in SIZES {
        let (clean, broken) = (Template::call(Shape::Clean, size), Template::call(Shape::Broken, size));
        let calls = plan.pick((8 * 1024 * KIB / size).clamp(5, 200), 3);
        let (mut plain, mut relayed, mut repaired) = (vec![], vec![], vec![]);
        for _ in 0..plan.pick(10, 2) {
            plain.push(median(&bare.calls(&clean, calls)?));
            relayed.push(median(&through.calls(&clean, calls)?));
            repaired.push(median(&through.calls(&broken, calls)?));
        }
        let kib = (size / KIB) as f64;
        let mut row = |what: &str, figure: f64, goal| {
            table.row(CASE, format!("{kib:>4} KiB: {what}"), format!("{figure:.2}"), goal)
        };
        row("bare, median us", median(&plain), "");
        row("gateway, clean: us/KiB added over bare", difference(&relayed, &plain) / kib, "");
        row("gateway, repair: us/KiB added over clean", difference(&repaired, &relayed) / kib, "<= 2");
    }
    Ok(())
}
