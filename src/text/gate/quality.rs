//! What survives a cut: the share of XQuAD questions whose answer's sentence is still there. A measure of this set
//! and no promise about others: its questions share many words with their paragraphs. Without a purpose a cut is close
//! to chance, and the result says so.

use super::*;
use crate::text::xquad::{self, Paragraph};

/// Cuts documents of `articles` articles for each question about them.
fn retention(language: &str, articles: usize, ratio: f64, with_purpose: bool) -> Option<f64> {
    let all = xquad::articles(language)?;
    let (mut asked, mut answered) = (0, 0);
    // Unoptimised, all documents of six articles take minutes: two of the eight stand for them.
    let step = if cfg!(debug_assertions) && articles > 1 { 4 } else { 1 };
    for articles in all.chunks(articles).step_by(step) {
        let paragraphs: Vec<&Paragraph> = articles.iter().flatten().collect();
        let text =
            paragraphs.iter().map(|paragraph| paragraph.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let mut options = Options { ratio, max_tokens: None, ..Options::to_fit(0, None) };
        let blind = (!with_purpose).then(|| cut(&text, &options).unwrap());
        for question in paragraphs.iter().flat_map(|paragraph| &paragraph.questions) {
            let result = blind.clone().unwrap_or_else(|| {
                options.purpose = Some(question.text.clone());
                cut(&text, &options).unwrap()
            });
            assert!(result.tokens_out <= result.target);
            asked += 1;
            answered += usize::from(result.text.contains(&question.sentence));
        }
    }
    let share = f64::from(answered as u32) / f64::from(asked as u32);
    let purpose = if with_purpose { "" } else { ", no purpose" };
    println!("{language}, {articles} article(s), keep {ratio}{purpose}: {share:.4} of {asked}");
    Some(share)
}

fn at_least(least: f64, language: &str, articles: usize, ratio: f64) {
    if let Some(share) = retention(language, articles, ratio, true) {
        assert!(share >= least, "{share} is under {least}");
    }
}

#[test]
fn english_article_at_a_fifth() {
    at_least(0.95, "en", 1, 0.2);
}

#[test]
fn english_article_at_three_tenths() {
    at_least(0.97, "en", 1, 0.3);
}

#[test]
fn six_english_articles_at_a_tenth() {
    at_least(0.97, "en", 6, 0.1);
}

#[test]
fn six_german_articles_at_a_fifth() {
    at_least(0.95, "de", 6, 0.2);
}

#[test]
fn six_chinese_articles_at_a_fifth() {
    at_least(0.95, "zh", 6, 0.2);
}

/// Every sentence has the same chance by its size, less what the marks of gaps take: that would be .50 or less.
#[test]
fn half_of_an_article_without_a_purpose() {
    for (language, least) in [("en", 0.56), ("de", 0.53), ("zh", 0.52)] {
        if let Some(share) = retention(language, 1, 0.5, false) {
            assert!(share >= least, "{language}: {share} is under {least}");
        }
    }
}

/// The project's own questions about its own pages, all pages being one text: unlike XQuAD they are always here, and
/// ask about lists, tables and code as well.
#[test]
fn own_questions_about_own_pages() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pages");
    let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
    let questions: Vec<serde_json::Value> = serde_json::from_str(&read("questions.json")).unwrap();
    let mut names: Vec<&str> = questions.iter().map(|question| question["page"].as_str().unwrap()).collect();
    names.dedup();
    let texts: Vec<String> = names.iter().map(|name| read(&format!("{name}.md"))).collect();
    let body = |text: &String| text.split_once("\n---\n").unwrap().1.to_owned();
    let text = texts.iter().map(body).collect::<Vec<_>>().join("\n\n");
    for (ratio, least) in [(0.1, 45), (0.2, 47)] {
        let mut kept = 0;
        for question in &questions {
            let [asked, answer] = ["question", "answer"].map(|name| question[name].as_str().unwrap());
            assert!(text.contains(answer), "{answer}");
            let options = Options { ratio, max_tokens: None, ..Options::to_fit(0, Some(asked)) };
            if cut(&text, &options).unwrap().text.contains(answer) {
                kept += 1;
            } else {
                println!("lost at {ratio}: {asked}");
            }
        }
        println!("own questions, keep {ratio}: {kept} of {}", questions.len());
        assert!(kept >= least, "{kept} is under {least}");
    }
}
