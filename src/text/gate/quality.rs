//! What survives a cut: the share of XQuAD questions whose answer's sentence is still there. A measure of this set
//! and no promise about others: its questions share many words with their paragraphs.

use super::*;
use crate::text::xquad::{self, Paragraph};

/// Cuts documents of `articles` articles for each question about them.
fn retention(language: &str, articles: usize, ratio: f64, with_purpose: bool) -> Option<f64> {
    let all = xquad::articles(language)?;
    let (mut asked, mut answered) = (0, 0);
    for articles in all.chunks(articles) {
        let paragraphs: Vec<&Paragraph> = articles.iter().flatten().collect();
        let text =
            paragraphs.iter().map(|paragraph| paragraph.text.as_str()).collect::<Vec<_>>().join("\n\n");
        let mut options = Options { ratio, max_tokens: None, ..Options::to_fit(0, None) };
        let blind = (!with_purpose).then(|| cut(&text, &options).unwrap());
        for question in paragraphs.iter().flat_map(|paragraph| &paragraph.questions) {
            options.purpose = Some(question.text.clone());
            let result = blind.clone().unwrap_or_else(|| cut(&text, &options).unwrap());
            assert!(result.tokens_out <= result.target);
            asked += 1;
            answered += usize::from(result.text.contains(&question.sentence));
        }
    }
    let share = f64::from(answered as u32) / f64::from(asked as u32);
    println!("{language}, {articles} article(s), keep {ratio}: {share:.4} of {asked}");
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

#[test]
fn without_a_purpose_half_keeps_a_little_more_than_chance() {
    if let Some(share) = retention("en", 1, 0.5, false) {
        assert!(share >= 0.56, "{share}");
    }
}
