//! Which rows of a block pass a filter, from its columns alone. Says the same as [`Filter::matches`], except that
//! a trace id is only looked for by its beginning: what is shown is read again.

use super::{
    block::{Name, Number, key_of, trace_of},
    filter::{Filter, Names},
    segment::{Bad, View},
};

/// How a name is judged.
type Judge = fn(&Names, Option<&str>) -> bool;

/// Numbers of the rows that pass, in order.
pub(super) fn rows(view: View<'_>, filter: &Filter) -> Result<Vec<u32>, Bad> {
    let outline = view.outline;
    let mut rows: Vec<u32> = (0..u32::try_from(outline.rows).map_err(|_| Bad)?).collect();
    let numbers: [(Number, Option<(u64, u64)>); 3] = [
        (Number::Time, time_range(filter)),
        (Number::Trace, filter.trace.as_deref().map(|t| (trace_of(Some(t)), trace_of(Some(t))))),
        (Number::Seq, filter.seq),
    ];
    for (column, range) in numbers {
        let Some((from, to)) = range else { continue };
        let packing = outline.columns[column as usize];
        if packing.base > to || packing.top < from {
            return Ok(Vec::new());
        }
        if packing.base < from || packing.top > to {
            let values = view.number(column)?;
            rows.retain(|row| (from..=to).contains(&values[*row as usize]));
        }
    }
    let plain = |names: &Names, name: Option<&str>| names.allows(name);
    let names: [(Name, &Names, Judge); 9] = [
        (Name::Kind, &filter.kind, plain),
        (Name::Key, &filter.key, plain),
        (Name::Tool, &filter.tool, plain),
        (Name::Upstream, &filter.upstream, plain),
        (Name::Outcome, &filter.outcome, plain),
        (Name::Method, &filter.method, plain),
        (Name::Client, &filter.client, Names::allows_client),
        (Name::Rules, &filter.rule, Names::allows_one_of),
        (Name::Reason, &filter.reason, plain),
    ];
    for (column, wanted, allows) in names {
        if !wanted.is_any() {
            keep(&mut rows, view, column, |name| allows(wanted, name))?;
        }
    }
    if let Some(boot) = &filter.boot {
        keep(&mut rows, view, Name::Boot, |name| name == Some(boot))?;
    }
    Ok(rows)
}

/// Arrivals of the rows that pass, in order.
pub(super) fn times(view: View<'_>, filter: &Filter) -> Result<Vec<u64>, Bad> {
    let times = view.number(Number::Time)?;
    Ok(rows(view, filter)?.into_iter().map(|row| times[row as usize]).collect())
}

/// Keeps the rows whose name in this column passes.
fn keep(
    rows: &mut Vec<u32>,
    view: View<'_>,
    column: Name,
    passes: impl Fn(Option<&str>) -> bool,
) -> Result<(), Bad> {
    let passing: Vec<bool> =
        view.outline.names[column as usize].iter().map(|n| passes(n.as_deref())).collect();
    if passing.iter().all(|p| *p) {
        return Ok(());
    }
    if !passing.contains(&true) {
        rows.clear();
    }
    if !rows.is_empty() {
        let ids = view.ids(column)?;
        rows.retain(|row| passing[ids[*row as usize] as usize]);
    }
    Ok(())
}

fn time_range(filter: &Filter) -> Option<(u64, u64)> {
    if filter.since.is_none() && filter.until.is_none() {
        return None;
    }
    let from = filter.since.map_or(0, key_of);
    // Nothing is before the first moment of all: an empty range.
    Some(match filter.until.map(key_of) {
        Some(0) => (1, 0),
        Some(until) => (from, until - 1),
        None => (from, u64::MAX),
    })
}
