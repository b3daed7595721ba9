//! The local index on the Cranfield collection: 1,400 abstracts, 225 questions with judged answers.

use std::{collections::HashMap, fs};

use super::{
    Query,
    local::{self, Document, OPERATOR},
};
use crate::{store::Store, testdata};

/// What stands between the tags of each `<name>` in `text`.
fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(open.as_str()).skip(1);
    parts.map(|part| part.split(close.as_str()).next().unwrap_or_default()).collect()
}

#[test]
fn cranfield_is_ranked_as_well_as_bm25_can() {
    let Some(folder) = testdata::folder("cranfield") else { return };
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let store = Store::open(None, 256 << 20).unwrap();
    for doc in elements(&read("cran.all.1400.xml"), "doc") {
        let part = |name| elements(doc, name).first().map_or(String::new(), |text| text.trim().to_owned());
        // Two have no text.
        let Ok(document) = Document::new(
            &format!("https://cranfield.example/{}", part("docno")),
            &part("title"),
            &part("text"),
        ) else {
            continue;
        };
        store.write_blocking(move |c| local::add(c, OPERATOR, &document)).unwrap();
    }
    // Judgements number the questions as they come, from 1.
    let mut relevant: HashMap<usize, Vec<String>> = HashMap::new();
    for line in read("cranqrel.trec.txt").lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if fields[3] != "0" {
            relevant.entry(fields[0].parse().unwrap()).or_default().push(fields[2].to_owned());
        }
    }
    let (mut precision, mut gain, mut count) = (0.0, 0.0, 0.0);
    for (at, question) in elements(&read("cran.qry.xml"), "title").into_iter().enumerate() {
        let Some(good) = relevant.get(&(at + 1)) else { continue };
        let query = Query { text: question.trim().into(), count: 1_000, page: 1, ..Query::default() };
        let hits = store.read_blocking(move |c| local::search(c, "reader", &query)).unwrap();
        let found: Vec<bool> =
            hits.iter().map(|hit| good.iter().any(|id| hit.url.ends_with(&format!("/{id}")))).collect();
        precision += average_precision(&found, good.len());
        gain += ndcg(&found[..found.len().min(10)], good.len());
        count += 1.0;
    }
    let (map, ndcg) = (precision / count, gain / count);
    eprintln!("Cranfield, {count} questions: MAP {map:.4}, nDCG@10 {ndcg:.4}");
    assert!(map >= 0.31 && ndcg >= 0.38, "MAP {map:.4}, nDCG@10 {ndcg:.4}");
}

fn average_precision(found: &[bool], relevant: usize) -> f64 {
    let mut hits = 0.0;
    let mut sum = 0.0;
    for (at, _) in found.iter().enumerate().filter(|(_, good)| **good) {
        hits += 1.0;
        sum += hits / (at + 1) as f64;
    }
    sum / relevant as f64
}

fn ndcg(found: &[bool], relevant: usize) -> f64 {
    let share = |at: usize| 1.0 / ((at + 2) as f64).log2();
    let gain: f64 = found.iter().enumerate().filter(|(_, good)| **good).map(|(at, _)| share(at)).sum();
    gain / (0..relevant.min(10)).map(share).sum::<f64>()
}
