//! How well and how fast entries are found again.

use std::{collections::HashSet, time::Instant};

use super::*;
use crate::{
    store::{Store, now},
    text::xquad,
};

fn scope(tenant: &str) -> Scope {
    Scope { tenant: tenant.into(), namespace: "default".into(), tags: Vec::new(), now: now() }
}

fn prepared(tenant: &str, key: String, content: &str) -> Prepared {
    Prepared::new(New {
        tenant: tenant.into(),
        namespace: "default".into(),
        key: Some(key),
        content: content.into(),
        tags: None,
        source: None,
        expires: None,
        if_version: None,
    })
}

/// The share of questions for which the sentence with the answer is among the first five.
fn recall_at_5(language: &str, least: f64) {
    let Some(articles) = xquad::articles(language) else { return };
    let paragraphs: Vec<_> = articles.into_iter().flatten().collect();
    let sentences: Vec<&str> = {
        use unicode_segmentation::UnicodeSegmentation;
        let all = paragraphs.iter().flat_map(|paragraph| paragraph.text.unicode_sentences().map(str::trim));
        let mut seen = HashSet::new();
        all.filter(|sentence| !sentence.is_empty() && seen.insert(*sentence)).collect()
    };
    let store = Store::open(None, 256 << 20).unwrap();
    for (n, sentence) in sentences.iter().enumerate() {
        let prepared = prepared("ada", n.to_string(), sentence);
        store.write_blocking(move |c| store::store(c, &prepared, now())).unwrap().unwrap();
    }
    let (mut asked, mut found) = (0_u32, 0_u32);
    for question in paragraphs.iter().flat_map(|paragraph| &paragraph.questions) {
        let terms = words::of_query(&question.text);
        let (items, _) = store.read_blocking(move |c| find::by_words(c, &scope("ada"), &terms, 5)).unwrap();
        asked += 1;
        found += u32::from(items.iter().any(|(_, entry)| entry.content == question.sentence));
    }
    let share = f64::from(found) / f64::from(asked);
    println!("{language}: R@5 {share:.4} of {asked} questions over {} sentences", sentences.len());
    assert!(share >= least, "{share} is under {least}");
}

#[test]
fn english_sentences_are_found_again() {
    recall_at_5("en", 0.90);
}

#[test]
fn chinese_sentences_are_found_again() {
    recall_at_5("zh", 0.88);
}

/// Prints how long a recall takes: `cargo test --release --lib hundred_thousand -- --ignored --nocapture`.
#[test]
#[ignore = "a figure and no verdict"]
fn recall_of_a_hundred_thousand_takes() {
    let Some(articles) = xquad::articles("en") else { return };
    let paragraphs: Vec<_> = articles.into_iter().flatten().collect();
    let sentences: Vec<&str> = {
        use unicode_segmentation::UnicodeSegmentation;
        paragraphs.iter().flat_map(|paragraph| paragraph.text.unicode_sentences()).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(Some(&folder.path().join("m.db")), 1 << 30).unwrap();
    let begun = Instant::now();
    // Halves of two sentences and a number, so that no two entries are the same.
    for from in (0..100_000).step_by(500) {
        let batch: Vec<Prepared> = (from..from + 500)
            .map(|n| {
                let (one, two) = (sentences[n % sentences.len()], sentences[n * 7 % sentences.len()]);
                let half = |text: &str| text[..text.ceil_char_boundary(text.len() / 2)].to_owned();
                prepared("ada", n.to_string(), &format!("{} {} {n}", half(one), half(two)))
            })
            .collect();
        store
            .write_blocking(move |c| {
                batch.iter().try_for_each(|prepared| store::store(c, prepared, now()).map(drop))
            })
            .unwrap();
    }
    println!("stored in {:?}", begun.elapsed());
    let mut times = Vec::new();
    let queries =
        paragraphs.iter().flat_map(|paragraph| &paragraph.questions).map(|question| question.text.clone());
    for query in queries.chain(["the".to_owned(), "the of and in".to_owned()]) {
        let start = Instant::now();
        let terms = words::of_query(&query);
        let (items, _) = store.read_blocking(move |c| find::by_words(c, &scope("ada"), &terms, 10)).unwrap();
        times.push((start.elapsed(), items.len(), query));
    }
    println!("common words alone: {:?}", &times[times.len() - 2..]);
    times.sort();
    println!(
        "median {:?}, p95 {:?}, worst {:?}",
        times[times.len() / 2].0,
        times[times.len() * 95 / 100].0,
        times.last()
    );
}
