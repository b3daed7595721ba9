//! What counts as a duplicate: pairs of the kinds that the thresholds were measured on, and properties. The pairs here
//! stand for the measured ones, line by line, where the set is absent that `quality` measures them with again.

use proptest::prelude::{Just, Strategy, any, prop, proptest};

use super::{
    group::{Duplicate, Kind, Rule, duplicates},
    paragraphs, preference,
};
use crate::text::shingles::{Prepared, prepare};

/// Three unrelated passages, about 90 words each.
const PASSAGES: [&str; 3] = [
    "The harbour town grew around a single quay where fishing boats unloaded before dawn. By the middle of the \
     century a second pier had been added, and merchants from the inland valleys came every week to trade wool and \
     timber for salt, rope and dried cod. When the railway reached the coast the market moved uphill, close to the \
     station, and the old quay fell silent for almost thirty years. Only a handful of families kept their boats \
     there, mending nets in the sheds that still line the water today, now painted and rented to visitors.",
    "A garbage collector frees memory that a program can no longer reach. The simplest design marks every object \
     that is reachable from the stack and from global variables, then sweeps over the heap and returns the rest to \
     the allocator. Such a pause grows with the size of the heap, so later designs divide objects by age: most die \
     young, and a small nursery can be collected often and cheaply. Concurrent collectors go further and trace \
     while the program runs, at the price of a barrier on each pointer that is written or read.",
    "Sourdough begins with flour and water left alone until wild yeast and bacteria settle in. Each day the baker \
     throws away most of the mixture and feeds what remains, until it doubles within a few hours and smells mildly \
     sour. The dough is mixed wet, rested, folded several times and left to rise overnight in a cool place. Baked in \
     a closed iron pot it keeps its steam, the crust blisters and turns dark, and the crumb stays open and moist for \
     several days without any of the additives that factory bread depends on.",
];

fn run(texts: &[&str], threshold: f64) -> Vec<Option<Duplicate>> {
    let prepared: Vec<Prepared> = texts.iter().map(|text| prepare(text)).collect();
    duplicates(&prepared, &preference(texts, false), Rule { threshold, contained: true })
}

fn kinds(verdicts: &[Option<Duplicate>]) -> Vec<Option<(usize, Kind)>> {
    verdicts.iter().map(|verdict| verdict.map(|d| (d.of, d.kind))).collect()
}

/// Replaces every `step`-th word.
fn edited(text: &str, step: usize) -> String {
    let words = text.split_whitespace().enumerate();
    words.map(|(at, word)| if at % step == step / 2 { "changed" } else { word }).collect::<Vec<_>>().join(" ")
}

fn sentences_reversed(text: &str) -> String {
    text.split_inclusive('.').rev().collect::<Vec<_>>().join(" ")
}

/// "Unrelated pairs <= .28".
#[test]
fn unrelated_passages_stay_even_at_the_lowest_threshold() {
    assert_eq!(run(&PASSAGES, 0.3), [None, None, None]);
}

/// "3% word edits p10 .84", "sentences reordered p10 .89", "+30% foreign text p10 .75".
#[test]
fn light_edits_reordering_and_additions_are_near_duplicates_at_the_default() {
    for text in PASSAGES {
        let foreign = PASSAGES.iter().find(|other| **other != text).unwrap_or(&text);
        let added: Vec<&str> =
            foreign.split_whitespace().take(text.split_whitespace().count() * 3 / 10).collect();
        let added = format!("{text} {}", added.join(" "));
        for variant in [edited(text, 33), sentences_reversed(text), added] {
            assert_eq!(kinds(&run(&[text, &variant], 0.7)), [None, Some((0, Kind::Near))], "{variant}");
        }
    }
}

/// "10% edits p10 .65".
#[test]
fn one_word_in_ten_changed_needs_a_lower_threshold() {
    for text in PASSAGES {
        let variant = edited(text, 10);
        assert_eq!(run(&[text, &variant], 0.75), [None, None]);
        assert_eq!(kinds(&run(&[text, &variant], 0.6)), [None, Some((0, Kind::Near))]);
    }
}

/// "60% prefix Jaccard .58 but containment 1.0".
#[test]
fn a_snippet_is_contained_whichever_comes_first() {
    let whole = PASSAGES[0];
    let words: Vec<_> = whole.split_whitespace().collect();
    let snippet = words[..words.len() * 6 / 10].join(" ");
    assert_eq!(kinds(&run(&[whole, &snippet], 0.7)), [None, Some((0, Kind::Contained))]);
    assert_eq!(kinds(&run(&[&snippet, whole], 0.7)), [Some((1, Kind::Contained)), None]);
}

#[test]
fn containment_can_be_switched_off() {
    let snippet: String = PASSAGES[1].chars().take(300).collect();
    let prepared = [prepare(PASSAGES[1]), prepare(&snippet)];
    let verdicts = duplicates(&prepared, &[0, 1], Rule { threshold: 0.7, contained: false });
    assert_eq!(verdicts, [None, None]);
}

#[test]
fn a_few_words_are_never_contained() {
    assert_eq!(run(&[PASSAGES[0], "The harbour town grew around a single quay"], 0.3), [None, None]);
}

#[test]
fn at_threshold_one_only_identical_texts_go() {
    let variant = edited(PASSAGES[0], 60);
    let snippet: String = PASSAGES[0].chars().take(300).collect();
    let verdicts = run(&[PASSAGES[0], &variant, &snippet, &PASSAGES[0].to_uppercase()], 1.0);
    assert_eq!(kinds(&verdicts), [None, None, None, Some((0, Kind::Exact))]);
}

#[test]
fn a_chain_does_not_carry_a_duplicate_to_its_end() {
    let a = PASSAGES[0].to_owned();
    let b = edited(&a, 22);
    let c = edited(&b, 21);
    let ab = run(&[&a, &b], 0.7);
    let bc = run(&[&b, &c], 0.7);
    let ac = run(&[&a, &c], 0.7);
    assert!(ab[1].is_some() && bc[1].is_some() && ac[1].is_none(), "the fixture must be a chain");
    assert_eq!(kinds(&run(&[&a, &b, &c], 0.7)), [None, Some((0, Kind::Near)), None]);
}

#[test]
fn a_contained_text_stays_when_its_own_duplicates_need_it() {
    // `small` is within `large`; `variant` is near `small`, but not near enough to `large`.
    let small: String = PASSAGES[0].split_whitespace().take(60).collect::<Vec<_>>().join(" ");
    let variant = edited(&small, 14);
    let large = format!("{small} {} {}", PASSAGES[1], PASSAGES[2]);
    let verdicts = run(&[&small, &variant, &large], 0.7);
    assert_eq!(kinds(&verdicts), [None, Some((0, Kind::Near)), None]);
}

#[test]
fn the_longest_can_be_asked_to_stay() {
    let longer = format!("{} And so it is to this day.", PASSAGES[2]);
    let texts = [PASSAGES[2], &longer];
    let prepared: Vec<_> = texts.iter().map(|text| prepare(text)).collect();
    let rule = Rule { threshold: 0.7, contained: true };
    assert_eq!(kinds(&duplicates(&prepared, &preference(&texts, true), rule)), [Some((1, Kind::Near)), None]);
    assert_eq!(
        kinds(&duplicates(&prepared, &preference(&texts, false), rule)),
        [None, Some((0, Kind::Near))]
    );
}

#[test]
fn repeats_of_a_duplicate_point_to_what_stays() {
    let near = edited(PASSAGES[0], 33);
    let verdicts = run(&[PASSAGES[0], &near, &near.to_uppercase(), &near], 0.7);
    assert_eq!(verdicts[1], verdicts[2]);
    assert_eq!(kinds(&verdicts)[3], Some((0, Kind::Near)));
}

#[test]
fn repeated_paragraphs_go_and_the_first_stays() {
    let [a, b, c] = PASSAGES;
    let texts = [format!("{a}\n\n{b}"), format!("{b}\r\n\r\n{c}"), a.to_owned(), "Own words.".to_owned()];
    let rule = Rule { threshold: 0.7, contained: true };
    let found = paragraphs::dedup(&texts, rule, false, 100).expect("within the limit");
    assert_eq!(found.kept, [0, 1, 3]);
    assert_eq!(found.texts, [texts[0].as_str(), c, "Own words."]);
    let removed: Vec<_> =
        found.removed.iter().map(|r| (&r["index"], &r["paragraph"], &r["duplicate_of_paragraph"])).collect();
    assert_eq!(removed, [(&1.into(), &0.into(), &1.into()), (&2.into(), &0.into(), &0.into())]);
}

/// Short texts over few words, so that duplicates of every kind are common.
fn lists() -> impl Strategy<Value = Vec<String>> {
    let word = prop::sample::select(vec!["a", "b", "c", "d", "e", "Zug", "!", "漢", "-5"]);
    prop::collection::vec(prop::collection::vec(word, 0..40).prop_map(|words| words.join(" ")), 1..24)
}

/// Similarity from the definition, by sets.
fn jaccard_and_containment(a: &Prepared, b: &Prepared) -> (f64, f64) {
    let common = a.shingles.iter().filter(|s| b.shingles.contains(s)).count();
    let union = a.shingles.len() + b.shingles.len() - common;
    (common as f64 / union.max(1) as f64, common as f64 / a.shingles.len().max(1) as f64)
}

proptest! {
    #[test]
    fn what_goes_is_covered_by_what_stays(texts in lists(), threshold in 0.3..1.0_f64, contained in any::<bool>(), longest in any::<bool>()) {
        let prepared: Vec<_> = texts.iter().map(|text| prepare(text)).collect();
        let verdicts = duplicates(&prepared, &preference(&texts, longest), Rule { threshold, contained });
        for (at, verdict) in verdicts.iter().enumerate() {
            let Some(duplicate) = verdict else { continue };
            assert_ne!(duplicate.of, at);
            assert!(verdicts[duplicate.of].is_none(), "{at} points to {}, which goes as well", duplicate.of);
            let (jaccard, part) = jaccard_and_containment(&prepared[at], &prepared[duplicate.of]);
            match duplicate.kind {
                Kind::Exact => assert_eq!(prepared[at].key, prepared[duplicate.of].key),
                Kind::Near => assert!(jaccard >= threshold && (jaccard - duplicate.similarity).abs() < 1e-9),
                Kind::Contained => assert!(contained && part >= threshold.max(0.9)),
            }
        }
    }

    #[test]
    fn what_stays_are_no_duplicates_of_each_other(texts in lists(), threshold in 0.3..1.0_f64) {
        let prepared: Vec<_> = texts.iter().map(|text| prepare(text)).collect();
        let verdicts = duplicates(&prepared, &preference(&texts, false), Rule { threshold, contained: true });
        let kept: Vec<usize> = (0..texts.len()).filter(|&at| verdicts[at].is_none()).collect();
        for (n, &a) in kept.iter().enumerate() {
            for &b in &kept[n + 1..] {
                assert!(prepared[a].key != prepared[b].key);
                assert!(jaccard_and_containment(&prepared[a], &prepared[b]).0 < threshold);
            }
        }
    }

    #[test]
    fn any_text_is_prepared(text in any::<String>()) {
        let prepared = prepare(&text);
        assert!(!prepared.key.is_empty());
        assert!(prepared.shingles.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn spacing_and_case_make_no_difference(words in prop::collection::vec("[a-zäß]{1,6}", 1..20), gap in Just(" \t ,; ")) {
        assert_eq!(prepare(&words.join(" ")), prepare(&words.join(gap).to_uppercase()));
    }
}
