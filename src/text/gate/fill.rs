//! Which units are kept: what must be, then the best that fits, and what a kept unit needs to be understood. Owns
//! the account of tokens, in which each gap costs its mark, and the marks themselves.

use std::collections::{HashMap, HashSet};

use memchr::memmem;

use super::Gap;
use crate::text::{
    shingles,
    tokens::Offsets,
    units::{Container, Kind, Role, Unit},
};

/// Tokens of a gap's mark, at most in nearly all texts.
pub(super) const MARK: usize = 7;
/// A unit that is at least this similar to a kept one is left out.
const SIMILAR: f64 = 0.8;
/// Shorter units may be similar by chance, in pairs of words.
const MIN_SHINGLES: usize = 6;
/// After so many units that did not fit, the rest will hardly.
const PATIENCE: usize = 400;

/// A choice of units.
pub(super) struct Selection<'a> {
    text: &'a str,
    units: &'a [Unit],
    sizes: Vec<usize>,
    kept: Vec<bool>,
    forced: HashSet<usize>,
    used: usize,
    target: usize,
    kind: Kind,
    seen: Seen,
}

impl<'a> Selection<'a> {
    /// Of nothing, so far.
    pub(super) fn new(
        text: &'a str,
        units: &'a [Unit],
        sizes: Vec<usize>,
        target: usize,
        kind: Kind,
    ) -> Self {
        let kept = vec![false; units.len()];
        Self {
            text,
            units,
            sizes,
            kept,
            forced: HashSet::new(),
            used: MARK,
            target,
            kind,
            seen: Seen::default(),
        }
    }

    /// Tokens, with the marks.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Units.
    pub(super) fn kept(&self) -> usize {
        self.kept.iter().filter(|kept| **kept).count()
    }

    /// Keeps the units with `phrase` whatever they cost. Says whether there are any.
    pub(super) fn force(&mut self, phrase: &str) -> bool {
        let mut found = false;
        for at in memmem::find_iter(self.text.as_bytes(), phrase) {
            found = true;
            let first = self.units.partition_point(|unit| unit.span.end <= at);
            let last = self.units.partition_point(|unit| unit.span.start < at + phrase.len());
            for unit in first..last {
                for needed in self.needed(unit) {
                    self.flip(needed);
                    self.forced.insert(needed);
                }
            }
        }
        found
    }

    /// Keeps the units of the highest score that fit.
    pub(super) fn fill(&mut self, scores: &[f64]) {
        let mut order: Vec<usize> =
            (0..self.units.len()).filter(|at| self.units[*at].role == Role::Body).collect();
        if order.is_empty() {
            order = (0..self.units.len()).collect();
        }
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
        let mut missed = 0;
        for at in order {
            if missed > PATIENCE {
                break;
            }
            if !self.kept[at] && !self.add(at) {
                missed += 1;
            }
        }
        self.close_small_gaps();
    }

    /// Keeps a unit and what it needs, if that fits; says whether it does.
    fn add(&mut self, at: usize) -> bool {
        let needed = self.needed(at);
        let added: usize = needed.iter().map(|unit| self.sizes[*unit]).sum();
        if self.used + added > self.target + MARK {
            return false;
        }
        needed.iter().for_each(|unit| self.flip(*unit));
        if self.used > self.target {
            needed.iter().rev().for_each(|unit| self.flip(*unit));
            return false;
        }
        if self.kind != Kind::Code && self.seen.before(&self.text[self.units[at].span.clone()]) {
            needed.iter().rev().for_each(|unit| self.flip(*unit));
            return true;
        }
        if let Some(heading) = self.heading(at).filter(|heading| !self.kept[*heading]) {
            self.flip(heading);
            if self.used > self.target {
                self.flip(heading);
            }
        }
        true
    }

    fn heading(&self, at: usize) -> Option<usize> {
        self.units[at].context.filter(|context| self.units[*context].role == Role::Heading)
    }

    /// The unit and the containers around it, as far as they are not kept yet.
    fn needed(&self, at: usize) -> Vec<usize> {
        let mut needed = Vec::new();
        let mut next = Some(at);
        while let Some(at) = next.filter(|at| !self.kept[*at]) {
            needed.push(at);
            if let Role::Open(_, close) = self.units[at].role {
                needed.push(close);
            }
            next = self.units[at].context.filter(|context| self.units[*context].role != Role::Heading);
        }
        needed
    }

    /// Keeps a unit that was not, or the other way round.
    fn flip(&mut self, at: usize) {
        let is_kept = |at: Option<usize>| at.and_then(|at| self.kept.get(at)).copied().unwrap_or(true);
        let alone = [is_kept(at.checked_sub(1)), is_kept(Some(at + 1))];
        // A gap that is split becomes two, and one that is filled none.
        let gaps = 1 - alone.iter().filter(|kept| **kept).count() as isize;
        let change = self.sizes[at] as isize + gaps * MARK as isize;
        self.used = self.used.saturating_add_signed(if self.kept[at] { -change } else { change });
        self.kept[at] = !self.kept[at];
    }

    /// A gap that is no larger than its mark is no saving.
    fn close_small_gaps(&mut self) {
        for run in self.runs() {
            if run.clone().map(|at| self.sizes[at]).sum::<usize>() <= MARK {
                run.for_each(|at| self.flip(at));
            }
        }
    }

    /// Gives up the least of what need not be kept, at least `tokens` of it; says whether there was anything.
    pub(super) fn shrink(&mut self, scores: &[f64], tokens: usize) -> bool {
        let goal = self.used.saturating_sub(tokens.max(1));
        let mut order: Vec<usize> =
            (0..self.units.len()).filter(|at| self.kept[*at] && !self.forced.contains(at)).collect();
        order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
        let mut given_up = false;
        for at in order {
            if given_up && self.used <= goal {
                break;
            }
            if self.kept[at] && self.units[at].role != Role::Close {
                given_up |= self.remove(at);
            }
        }
        given_up
    }

    /// Gives up a unit, and a container with all that it holds.
    fn remove(&mut self, at: usize) -> bool {
        let last = match self.units[at].role {
            Role::Open(_, close) => close,
            _ => at,
        };
        let kept: Vec<usize> = (at..=last).filter(|at| self.kept[*at]).collect();
        if kept.iter().any(|at| self.forced.contains(at)) {
            return false;
        }
        kept.into_iter().for_each(|at| self.flip(at));
        true
    }

    /// Units that are left out together.
    fn runs(&self) -> Vec<std::ops::Range<usize>> {
        let mut runs = Vec::new();
        let mut from = 0;
        for at in 0..=self.units.len() {
            if self.kept.get(at).copied().unwrap_or(true) {
                if from < at {
                    runs.push(from..at);
                }
                from = at + 1;
            }
        }
        runs
    }

    /// What is left out.
    pub(super) fn gaps(&self, offsets: &Offsets) -> impl Iterator<Item = Gap> {
        self.runs().into_iter().map(|run| Gap {
            after_unit: run.start.checked_sub(1),
            units: run.len(),
            tokens: self.tokens(&run, offsets),
        })
    }

    fn tokens(&self, run: &std::ops::Range<usize>, offsets: &Offsets) -> usize {
        let (from, to) = (self.units[run.start].span.start, self.units[run.end - 1].span.end);
        offsets.before(to) - offsets.before(from)
    }

    /// What is kept, with a mark for each gap.
    pub(super) fn render(&self, offsets: &Offsets) -> String {
        let mut out = String::new();
        let mut at = 0;
        for run in self.runs() {
            self.copy(at..run.start, &mut out);
            self.mark(&run, offsets, &mut out);
            at = run.end;
        }
        self.copy(at..self.units.len(), &mut out);
        out
    }

    fn copy(&self, units: std::ops::Range<usize>, out: &mut String) {
        if !units.is_empty() {
            out.push_str(&self.text[self.units[units.start].span.start..self.units[units.end - 1].span.end]);
        }
    }

    /// A mark for what is left out, which leaves JSON what it is.
    fn mark(&self, run: &std::ops::Range<usize>, offsets: &Offsets, out: &mut String) {
        let mark = format!("[… {} tokens omitted]", self.tokens(run, offsets));
        let last = &self.text[self.units[run.end - 1].span.clone()];
        let space = &last[last.trim_end().len()..];
        let comma = if last.trim_end().ends_with(',') { "," } else { "" };
        let container = self.units[run.start].context.map(|context| self.units[context].role);
        match container {
            Some(Role::Open(Container::Array, _)) => out.extend(["\"", &mark, "\"", comma, space]),
            Some(Role::Open(Container::Object, _)) => out.extend(["\"", &mark, "\":null", comma, space]),
            _ if run.end < self.units.len() => out.extend([&mark, space]),
            _ => out.push_str(&mark),
        }
    }
}

/// The pairs of words of kept units.
#[derive(Default)]
struct Seen {
    shingles: Vec<Vec<u64>>,
    holders: HashMap<u64, Vec<usize>>,
}

impl Seen {
    /// Whether a unit like this was kept before; if not, it is now.
    fn before(&mut self, text: &str) -> bool {
        let own = shingles::prepare(text).shingles;
        if own.len() < MIN_SHINGLES {
            return false;
        }
        // Whatever is similar enough shares one of these, since sets are sorted alike.
        let prefix = own.len() - (own.len() as f64 * SIMILAR).ceil() as usize + 1;
        let mut others: Vec<usize> =
            own[..prefix].iter().filter_map(|shingle| self.holders.get(shingle)).flatten().copied().collect();
        others.sort_unstable();
        others.dedup();
        // Sets of unlike sizes cannot be similar; most candidates are, and comparing them is what takes time.
        let (least, most) = (own.len() as f64 * SIMILAR, own.len() as f64 / SIMILAR);
        others.retain(|other| (least..=most).contains(&(self.shingles[*other].len() as f64)));
        if others.iter().any(|other| shingles::jaccard(&self.shingles[*other], &own) >= SIMILAR) {
            return true;
        }
        let number = self.shingles.len();
        own[..prefix].iter().for_each(|shingle| self.holders.entry(*shingle).or_default().push(number));
        self.shingles.push(own);
        false
    }
}
