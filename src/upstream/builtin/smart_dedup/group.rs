//! Decides which of a list of prepared texts are duplicates. Exact: all pairs are compared, through an index of
//! the word pairs that occur more than once.
//!
//! Greedy, not transitive. Invariant: every text that goes is by itself similar enough to the one that it is
//! said to duplicate, and that one stays.

use std::collections::HashMap;

use crate::text::shingles::Prepared;

/// Containment counts from this many shingles in the smaller text: less would be chance.
const MIN_CONTAINED: usize = 20;
/// Least part of a text that must be in another for it to count as contained.
const CONTAINMENT: f64 = 0.9;

/// What counts as a duplicate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Least Jaccard similarity; at 1 only identical texts count.
    pub(super) threshold: f64,
    /// Whether a text that another one almost entirely contains counts too.
    pub(super) contained: bool,
}

/// How a duplicate was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Exact,
    Near,
    Contained,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Near => "near",
            Self::Contained => "contained",
        }
    }
}

/// Why a text goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Duplicate {
    /// The text that stays for it.
    pub(super) of: usize,
    /// Jaccard similarity, or for a contained text the part of it that the other one has.
    pub(super) similarity: f64,
    pub(super) kind: Kind,
}

/// For each text: `None` if it stays. Texts that come earlier in `order` are preferred.
pub(super) fn duplicates(texts: &[Prepared], order: &[usize], rule: Rule) -> Vec<Option<Duplicate>> {
    let mut grouping = Grouping::new(texts, rule);
    let mut by_key: HashMap<&str, usize> = HashMap::with_capacity(texts.len());
    for &at in order {
        let first = *by_key.entry(&texts[at].key).or_insert(at);
        if first != at {
            grouping.repeat(at, first);
        } else if rule.threshold < 1.0 {
            grouping.place(at);
        }
    }
    grouping.verdicts
}

struct Grouping {
    rule: Rule,
    /// Number of shingles of each text.
    sizes: Vec<usize>,
    /// Of each text: the shingles that other texts have too, as small sorted numbers.
    shared: Vec<Vec<u32>>,
    /// Of each such shingle: the texts placed so far that have it and stayed at first.
    holders: Vec<Vec<u32>>,
    verdicts: Vec<Option<Duplicate>>,
    /// Of each text: those that go because of it.
    dependants: Vec<Vec<usize>>,
    /// Shared shingles with each placed text; zero outside of [`Grouping::place`].
    common: Vec<u32>,
}

impl Grouping {
    fn new(texts: &[Prepared], rule: Rule) -> Self {
        let (shared, kinds) = number_shared(texts);
        Self {
            rule,
            sizes: texts.iter().map(|t| t.shingles.len()).collect(),
            shared,
            holders: vec![Vec::new(); kinds],
            verdicts: vec![None; texts.len()],
            dependants: vec![Vec::new(); texts.len()],
            common: vec![0; texts.len()],
        }
    }

    /// `at` has the same words as `first`, which was placed: it shares its fate.
    fn repeat(&mut self, at: usize, first: usize) {
        let duplicate =
            self.verdicts[first].unwrap_or(Duplicate { of: first, similarity: 1.0, kind: Kind::Exact });
        self.remove(at, duplicate);
    }

    /// Compares `at` with every text that has stayed so far.
    fn place(&mut self, at: usize) {
        let touched = self.count_common(at);
        match self.best(at, &touched) {
            Some(duplicate) => self.remove(at, duplicate),
            None => {
                for shingle in &self.shared[at] {
                    self.holders[*shingle as usize].push(at as u32);
                }
                self.displace_contained(at, &touched);
            }
        }
        for other in touched {
            self.common[other] = 0;
        }
    }

    fn count_common(&mut self, at: usize) -> Vec<usize> {
        let mut touched = Vec::new();
        for shingle in &self.shared[at] {
            for &holder in &self.holders[*shingle as usize] {
                let other = holder as usize;
                if self.verdicts[other].is_some() {
                    continue;
                }
                if self.common[other] == 0 {
                    touched.push(other);
                }
                self.common[other] += 1;
            }
        }
        touched
    }

    /// The most similar of the texts that make `at` a duplicate; the earliest in the list among equals.
    fn best(&self, at: usize, touched: &[usize]) -> Option<Duplicate> {
        let found = touched.iter().filter_map(|&other| self.compare(at, other, self.common[other] as usize));
        found.reduce(|best, next| match next.similarity.total_cmp(&best.similarity) {
            std::cmp::Ordering::Greater => next,
            std::cmp::Ordering::Equal if next.of < best.of => next,
            _ => best,
        })
    }

    /// Whether `at` is a duplicate of `other`, with which it has `common` shingles in common.
    fn compare(&self, at: usize, other: usize, common: usize) -> Option<Duplicate> {
        let (size, other_size) = (self.sizes[at], self.sizes[other]);
        let similarity = common as f64 / (size + other_size - common) as f64;
        if similarity >= self.rule.threshold {
            return Some(Duplicate { of: other, similarity, kind: Kind::Near });
        }
        let part = common as f64 / size as f64;
        let contained = self.rule.contained
            && (MIN_CONTAINED..=other_size).contains(&size)
            && part >= self.rule.threshold.max(CONTAINMENT);
        contained.then_some(Duplicate { of: other, similarity: part, kind: Kind::Contained })
    }

    /// `at` stays; earlier and smaller texts that it contains go, if it can also stand for all that went
    /// because of them.
    fn displace_contained(&mut self, at: usize, touched: &[usize]) {
        for &smaller in touched {
            if self.sizes[smaller] >= self.sizes[at] {
                continue;
            }
            let Some(duplicate) = self.compare(smaller, at, self.common[smaller] as usize) else { continue };
            let moved: Option<Vec<_>> =
                self.dependants[smaller].iter().map(|&d| Some((d, self.compare_directly(d, at)?))).collect();
            let Some(moved) = moved else { continue };
            self.dependants[smaller].clear();
            self.remove(smaller, duplicate);
            for (dependant, duplicate) in moved {
                self.remove(dependant, duplicate);
            }
        }
    }

    fn compare_directly(&self, at: usize, other: usize) -> Option<Duplicate> {
        let (a, b) = (&self.shared[at], &self.shared[other]);
        let (mut i, mut j, mut common) = (0, 0, 0);
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => (i, j, common) = (i + 1, j + 1, common + 1),
            }
        }
        self.compare(at, other, common)
    }

    fn remove(&mut self, at: usize, duplicate: Duplicate) {
        self.verdicts[at] = Some(duplicate);
        self.dependants[duplicate.of].push(at);
    }
}

/// Numbers the shingles that occur in at least two texts; returns each text's numbers and how many there are.
fn number_shared(texts: &[Prepared]) -> (Vec<Vec<u32>>, usize) {
    let mut all: Vec<(u64, u32)> = Vec::with_capacity(texts.iter().map(|t| t.shingles.len()).sum());
    for (at, text) in texts.iter().enumerate() {
        all.extend(text.shingles.iter().map(|shingle| (*shingle, at as u32)));
    }
    all.sort_unstable();
    let mut shared = vec![Vec::new(); texts.len()];
    let mut kinds = 0_u32;
    for run in all.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        for (_, at) in run {
            shared[*at as usize].push(kinds);
        }
        kinds += 1;
    }
    (shared, kinds as usize)
}
