//! Adding up: the rows of blocks into groups, by several threads, then all of them together. Invariant: a block is
//! added whole or not at all.

use std::collections::HashMap;

use super::{
    block::{Name, Number},
    filter::Filter,
    segment::{Bad, View},
    select,
    stats::{Dimension, Figures, Group, OUTCOMES, Stats},
};

/// What one thread has added up.
#[derive(Debug, Default)]
pub(super) struct Sums {
    total: Figures,
    groupings: Vec<Grouped>,
    span: Option<(u64, u64)>,
}

#[derive(Debug, Default)]
struct Grouped {
    numbers: HashMap<Vec<Option<String>>, usize>,
    figures: Vec<Figures>,
}

impl Grouped {
    fn number(&mut self, names: Vec<Option<String>>) -> usize {
        let next = self.figures.len();
        let number = *self.numbers.entry(names).or_insert(next);
        if number == next {
            self.figures.push(Figures::default());
        }
        number
    }
}

/// The columns that every grouping needs.
struct Facts {
    rows: Vec<u32>,
    outcomes: Vec<usize>,
    outcome_ids: Vec<u64>,
    duration: Vec<u64>,
    request: Vec<u64>,
    response: Vec<u64>,
    tokens: [Vec<u64>; 3],
}

impl Facts {
    fn of(view: View<'_>, filter: &Filter) -> Result<Self, Bad> {
        let slot = |name: &Option<String>| {
            OUTCOMES.iter().position(|o| Some(*o) == name.as_deref()).unwrap_or(OUTCOMES.len() - 1)
        };
        Ok(Self {
            rows: select::rows(view, filter)?,
            outcomes: view.outline.names[Name::Outcome as usize].iter().map(slot).collect(),
            outcome_ids: view.ids(Name::Outcome)?,
            duration: view.number(Number::Duration)?,
            request: view.number(Number::RequestBytes)?,
            response: view.number(Number::ResponseBytes)?,
            tokens: [
                view.number(Number::TokensIn)?,
                view.number(Number::TokensOut)?,
                view.number(Number::TokensSaved)?,
            ],
        })
    }

    fn add(&self, row: usize, figures: &mut Figures) {
        figures.calls += 1;
        figures.outcomes[self.outcomes[self.outcome_ids[row] as usize]] += 1;
        figures.request_bytes = figures.request_bytes.saturating_add(self.request[row]);
        figures.response_bytes = figures.response_bytes.saturating_add(self.response[row]);
        for (sum, column) in figures.tokens.iter_mut().zip(&self.tokens) {
            *sum = sum.saturating_add(column[row]);
        }
        figures.latency.add(self.duration[row]);
    }
}

impl Sums {
    /// Adds the calls of a block. Leaves everything as it was if a column is bad.
    pub(super) fn add(&mut self, view: View<'_>, filter: &Filter, by: &[Vec<Dimension>]) -> Result<(), Bad> {
        let facts = Facts::of(view, filter)?;
        let keys: Vec<Keys> = by.iter().map(|dims| Keys::of(view, dims)).collect::<Result<_, _>>()?;
        let times = view.number(Number::Time)?;
        self.groupings.resize_with(by.len(), Grouped::default);
        for row in facts.rows.iter().map(|row| *row as usize) {
            facts.add(row, &mut self.total);
            let (first, last) = self.span.get_or_insert((times[row], times[row]));
            (*first, *last) = ((*first).min(times[row]), (*last).max(times[row]));
        }
        for (grouped, keys) in self.groupings.iter_mut().zip(keys) {
            keys.add(&facts, grouped);
        }
        Ok(())
    }

    pub(super) fn merge(all: Vec<Self>, by: usize) -> Stats {
        let mut total = Figures::default();
        let mut groupings: Vec<HashMap<Vec<Option<String>>, Figures>> = vec![HashMap::new(); by];
        let mut span: Option<(u64, u64)> = None;
        for sums in all {
            total.merge(sums.total);
            if let Some((first, last)) = sums.span {
                let so_far = span.unwrap_or((first, last));
                span = Some((so_far.0.min(first), so_far.1.max(last)));
            }
            for (into, from) in groupings.iter_mut().zip(sums.groupings) {
                let mut figures: Vec<Option<Figures>> = from.figures.into_iter().map(Some).collect();
                for (names, number) in from.numbers {
                    if let Some(figures) = figures[number].take() {
                        into.entry(names).or_default().merge(figures);
                    }
                }
            }
        }
        let sorted = |groups: HashMap<Vec<Option<String>>, Figures>| {
            let mut list: Vec<Group> =
                groups.into_iter().map(|(names, figures)| Group { names, figures }).collect();
            list.sort_by(|a, b| (b.figures.calls, &a.names).cmp(&(a.figures.calls, &b.names)));
            list
        };
        let micros = |key: u64| (key ^ (1 << 63)).cast_signed();
        Stats {
            total,
            groupings: groupings.into_iter().map(sorted).collect(),
            span: span.map(|(first, last)| (micros(first), micros(last))),
        }
    }
}

/// How the rows of a block fall into the groups of a grouping.
struct Keys {
    ids: Vec<Vec<u64>>,
    /// For each dimension and dictionary entry: the names of its groups.
    names: Vec<Vec<Vec<Option<String>>>>,
}

impl Keys {
    fn of(view: View<'_>, dims: &[Dimension]) -> Result<Self, Bad> {
        let names = |dim: &Dimension| {
            let dictionary = &view.outline.names[dim.column() as usize];
            dictionary.iter().map(|name| dim.groups(name.as_deref())).collect()
        };
        Ok(Self {
            ids: dims.iter().map(|dim| view.ids(dim.column())).collect::<Result<_, _>>()?,
            names: dims.iter().map(names).collect(),
        })
    }

    fn add(&self, facts: &Facts, grouped: &mut Grouped) {
        let mut known: HashMap<u64, Box<[usize]>> = HashMap::new();
        for row in facts.rows.iter().map(|row| *row as usize) {
            let mixed = self.ids.iter().zip(&self.names).fold(0u64, |mixed, (ids, names)| {
                mixed.wrapping_mul(names.len() as u64).wrapping_add(ids[row])
            });
            let groups = known.entry(mixed).or_insert_with(|| self.groups(row, grouped));
            for group in groups.iter() {
                facts.add(row, &mut grouped.figures[*group]);
            }
        }
    }

    /// The groups of a row: one for each combination of its dimensions' names.
    fn groups(&self, row: usize, grouped: &mut Grouped) -> Box<[usize]> {
        let mut all: Vec<Vec<Option<String>>> = vec![Vec::new()];
        for (ids, names) in self.ids.iter().zip(&self.names) {
            let mine = &names[ids[row] as usize];
            all = all
                .iter()
                .flat_map(|so_far| {
                    mine.iter().map(|name| [so_far.as_slice(), std::slice::from_ref(name)].concat())
                })
                .collect();
        }
        all.into_iter().map(|names| grouped.number(names)).collect()
    }
}
