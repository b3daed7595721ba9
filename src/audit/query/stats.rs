//! Figures about many calls, in groups. Owns what is counted and how groups are named.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    block::{Name, Number},
    filter::Filter,
    latency::Latency,
    segment::{Bad, View},
    select,
};
use crate::audit::record::Outcome;

/// What calls are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Name of the key.
    Key,
    /// Public tool name.
    Tool,
    /// Name of the upstream.
    Upstream,
    /// Outcome.
    Outcome,
    /// Method after repair.
    Method,
    /// `name/version` of the client.
    Client,
    /// Each rule that fired; a call with several counts in each, one with none in none.
    Rule,
    /// Reason of a refusal or failure; calls without one are left out.
    Reason,
}

impl Dimension {
    fn column(self) -> Name {
        match self {
            Self::Key => Name::Key,
            Self::Tool => Name::Tool,
            Self::Upstream => Name::Upstream,
            Self::Outcome => Name::Outcome,
            Self::Method => Name::Method,
            Self::Client => Name::Client,
            Self::Rule => Name::Rules,
            Self::Reason => Name::Reason,
        }
    }

    /// The groups that a name belongs to.
    fn groups(self, name: Option<&str>) -> Vec<Option<String>> {
        match (self, name) {
            (Self::Rule | Self::Reason, None) => Vec::new(),
            (Self::Rule, Some(list)) => list.split(',').map(|one| Some(one.to_owned())).collect(),
            (_, name) => vec![name.map(str::to_owned)],
        }
    }
}

/// All outcomes, in the order of the record's documentation; anything else is counted as "other".
pub const OUTCOMES: [&str; 9] = [
    Outcome::Ok.as_str(),
    Outcome::ToolError.as_str(),
    Outcome::RpcError.as_str(),
    Outcome::Rejected.as_str(),
    Outcome::UpstreamFailed.as_str(),
    Outcome::ClientClosed.as_str(),
    Outcome::Drained.as_str(),
    Outcome::Panicked.as_str(),
    "other",
];

/// Figures about a group of calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many.
    pub calls: u64,
    /// How many of each of [`OUTCOMES`].
    pub outcomes: [u64; OUTCOMES.len()],
    /// Body bytes received.
    pub request_bytes: u64,
    /// Body bytes sent.
    pub response_bytes: u64,
    /// Tokens worked on, given back, saved.
    pub tokens: [u64; 3],
    latency: Latency,
}

impl Figures {
    /// Calls that did not end in `ok`.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.calls - self.outcomes[0]
    }

    /// The duration in microseconds that `share` of the calls do not exceed: exact for up to 256 calls, else
    /// up to 1/128 too much. `None` without calls.
    #[must_use]
    pub fn latency_us(&self, share: f64) -> Option<u64> {
        self.latency.quantile(share)
    }

    fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.outcomes.iter_mut().zip(other.outcomes).for_each(|(a, b)| *a += b);
        self.request_bytes = self.request_bytes.saturating_add(other.request_bytes);
        self.response_bytes = self.response_bytes.saturating_add(other.response_bytes);
        self.tokens.iter_mut().zip(other.tokens).for_each(|(a, b)| *a = a.saturating_add(b));
        self.latency.merge(other.latency);
    }
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// A name for each dimension of the grouping.
    pub names: Vec<Option<String>>,
    /// Its figures.
    pub figures: Figures,
}

/// Answers of [`Journals::stats`](super::Journals::stats).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// All calls that pass the filter.
    pub total: Figures,
    /// For each grouping asked for its groups, the one with most calls first.
    pub groupings: Vec<Vec<Group>>,
    /// Arrival of the first and the last call, in microseconds since 1970.
    pub span: Option<(i64, i64)>,
}

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
        let mut last: Option<(u64, Box<[usize]>)> = None;
        for row in facts.rows.iter().map(|row| *row as usize) {
            let mixed = self.ids.iter().zip(&self.names).fold(0u64, |mixed, (ids, names)| {
                mixed.wrapping_mul(names.len() as u64).wrapping_add(ids[row])
            });
            if last.as_ref().is_none_or(|(m, _)| *m != mixed) {
                let groups = known.entry(mixed).or_insert_with(|| self.groups(row, grouped));
                last = Some((mixed, groups.clone()));
            }
            for group in last.iter().flat_map(|(_, groups)| groups) {
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

/// A group as JSON shows it.
#[derive(Debug, Serialize)]
pub struct Shown {
    calls: u64,
    failed: u64,
    outcomes: serde_json::Map<String, serde_json::Value>,
    p50_ms: Option<f64>,
    p95_ms: Option<f64>,
    p99_ms: Option<f64>,
    request_bytes: u64,
    response_bytes: u64,
    tokens_in: u64,
    tokens_out: u64,
    tokens_saved: u64,
}

impl From<&Figures> for Shown {
    fn from(f: &Figures) -> Self {
        let ms = |share| f.latency_us(share).map(|us| us as f64 / 1_000.0);
        let some = OUTCOMES.iter().zip(f.outcomes).filter(|(_, n)| *n > 0);
        Self {
            calls: f.calls,
            failed: f.failed(),
            outcomes: some.map(|(name, n)| ((*name).to_owned(), n.into())).collect(),
            p50_ms: ms(0.5),
            p95_ms: ms(0.95),
            p99_ms: ms(0.99),
            request_bytes: f.request_bytes,
            response_bytes: f.response_bytes,
            tokens_in: f.tokens[0],
            tokens_out: f.tokens[1],
            tokens_saved: f.tokens[2],
        }
    }
}
