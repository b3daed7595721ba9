//! How much each unit matters: for a purpose, by BM25 of the unit and of the paragraph around it; without one, by
//! what the text itself says about its parts.

use std::{collections::HashSet, iter};

use unicode_segmentation::UnicodeSegmentation;

use crate::text::{
    bm25::Counts,
    units::{Role, Unit},
    words::{Language, Vocabulary},
};

/// Terms of a purpose beyond these do not count.
const MAX_TERMS: usize = 64;
/// What a unit has of the better of its neighbours in the paragraph.
const NEIGHBOUR: f64 = 0.2;
/// What the paragraph weighs against the unit.
const PARAGRAPH: f64 = 0.7;
/// Words in Latin letters up to this length are mostly those of grammar ("how", "did", "der"), which a short text
/// makes look rare; they weigh less. All four weights were chosen on XQuAD.
const SHORT: usize = 4;
const SHORT_WEIGHT: f64 = 0.2;
/// What a unit's own weight counts for against its match.
const OWN: f64 = 0.3;
/// Without a purpose: what numbers and names count for against the beginning of a paragraph. How central or how rare
/// a unit's words are was tried as well, and made it worse.
const FACTS: f64 = 0.3;
/// What a unit's own weight counts for without a purpose.
const OWN_ALONE: f64 = 4.0;
const FAR: f64 = 2.0;

/// The score of each unit, and a warning if they are close to blind.
pub(super) fn scores(text: &str, units: &[Unit], purpose: Option<&str>) -> (Vec<f64>, Option<&'static str>) {
    match purpose.map(str::trim).filter(|purpose| !purpose.is_empty()) {
        None => (alone(text, units), Some("no_purpose")),
        Some(purpose) => match for_purpose(text, units, purpose) {
            Some(scores) => (scores, None),
            None => (alone(text, units), Some("purpose_not_found")),
        },
    }
}

/// `None` if no unit has a word of the purpose.
fn for_purpose(text: &str, units: &[Unit], purpose: &str) -> Option<Vec<f64>> {
    let mut vocabulary = Vocabulary::new(Language::of(text));
    let terms = weights(&mut vocabulary, purpose);
    let mut counts = Counts::new(units.len(), &terms);
    for (at, unit) in units.iter().enumerate() {
        vocabulary.each(&text[unit.span.clone()], |term| counts.count(at, term as usize));
    }
    let paragraphs = units.iter().map(|unit| unit.paragraph + 1).max().unwrap_or(0);
    let mut wholes = Counts::new(paragraphs, &terms);
    let mut seen = vec![false; paragraphs];
    for (at, unit) in units.iter().enumerate() {
        // What a heading says, it says of every paragraph below.
        if let Some(heading) = unit.context.filter(|_| !seen[unit.paragraph]) {
            wholes.add(unit.paragraph, &counts, heading);
        }
        seen[unit.paragraph] = true;
        wholes.add(unit.paragraph, &counts, at);
    }
    let (own, whole) = (counts.scores(), wholes.scores());
    let best = |scores: &[f64]| scores.iter().copied().fold(0.0, f64::max);
    if best(&own) <= 0.0 {
        return None;
    }
    let near = |at: usize| -> f64 {
        let same = |other: &usize| units.get(*other).is_some_and(|u| u.paragraph == units[at].paragraph);
        let neighbours = iter::once(at.wrapping_sub(1)).chain([at + 1]).filter(same);
        own[at] + NEIGHBOUR * neighbours.map(|other| own[other]).fold(0.0, f64::max)
    };
    let near: Vec<f64> = (0..units.len()).map(near).collect();
    let (best_near, best_whole) = (best(&near), best(&whole).max(f64::MIN_POSITIVE));
    let score = |(at, unit): (usize, &Unit)| {
        near[at] / best_near + PARAGRAPH * whole[unit.paragraph] / best_whole + OWN * unit.weight
    };
    Some(units.iter().enumerate().map(score).collect())
}

/// Numbers the terms of a purpose, and says what each weighs.
fn weights(vocabulary: &mut Vocabulary, purpose: &str) -> Vec<f64> {
    let mut weights = Vec::new();
    for word in purpose.unicode_words() {
        let short = word.len() <= SHORT && word.bytes().all(|b| b.is_ascii_alphabetic());
        vocabulary.each(word, |_| {});
        weights.resize(vocabulary.len().max(weights.len()), if short { SHORT_WEIGHT } else { 1.0 });
    }
    // Scripts without spaces make terms across what the rules call words.
    vocabulary.each(purpose, |_| {});
    weights.resize(vocabulary.len(), 1.0);
    weights.truncate(MAX_TERMS);
    weights
}

/// What a text itself says of its parts: paragraphs begin with what they are about, numbers and names are news, and
/// what stands beside such a unit explains it (and saves the mark of a gap).
fn alone(text: &str, units: &[Unit]) -> Vec<f64> {
    let facts = standard(units.iter().map(|unit| facts(&text[unit.span.clone()])).collect());
    let firsts = standard(firsts(units));
    let own: Vec<f64> = firsts.iter().zip(&facts).map(|(first, facts)| first + FACTS * facts).collect();
    let score = |(at, unit): (usize, &Unit)| {
        let beside = |other: usize| match units.get(other) {
            Some(neighbour) if neighbour.paragraph == unit.paragraph => own[other],
            _ => own[at],
        };
        own[at] + (beside(at.wrapping_sub(1)) + beside(at + 1)) / 2.0 + OWN_ALONE * unit.weight
    };
    units.iter().enumerate().map(score).collect()
}

/// The part of a unit's words that are numbers or names.
fn facts(text: &str) -> f64 {
    let (mut all, mut found) = (0_u32, 0_u32);
    for word in text.split_whitespace() {
        let capital = word.trim_start_matches(|c: char| !c.is_alphanumeric()).starts_with(char::is_uppercase);
        let name = capital && all > 0;
        found += u32::from(name || word.bytes().any(|b| b.is_ascii_digit()));
        all += 1;
    }
    f64::from(found) / f64::from(all.max(1))
}

fn firsts(units: &[Unit]) -> Vec<f64> {
    let mut seen = HashSet::new();
    units
        .iter()
        .map(|unit| f64::from(u8::from(unit.role == Role::Body && seen.insert(unit.paragraph))))
        .collect()
}

/// Values as distances from their mean, in standard deviations; beyond some they are all far.
fn standard(values: Vec<f64>) -> Vec<f64> {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    if deviation == 0.0 {
        return vec![0.0; values.len()];
    }
    values.into_iter().map(|v| ((v - mean) / deviation).clamp(-FAR, FAR)).collect()
}
