//! XQuAD (Artetxe, Ruder and Yogatama 2020, CC BY-SA 4.0) for tests: questions about paragraphs, with the place of
//! the answer.

use std::fs;

use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation;

use crate::testdata;

/// One question.
pub(crate) struct Question {
    pub(crate) text: String,
    /// The sentence with the answer, without the space around it.
    pub(crate) sentence: String,
}

/// One paragraph and what is asked about it.
pub(crate) struct Paragraph {
    pub(crate) text: String,
    pub(crate) questions: Vec<Question>,
}

/// The articles in `language`; `None`, with a message, where the set is not there.
pub(crate) fn articles(language: &str) -> Option<Vec<Vec<Paragraph>>> {
    let path = testdata::folder("xquad")?.join(format!("xquad.{language}.json"));
    let text = fs::read_to_string(path).unwrap();
    let set: Value = serde_json::from_str(&text).unwrap();
    let articles = set["data"].as_array().unwrap().iter();
    Some(
        articles
            .map(|article| article["paragraphs"].as_array().unwrap().iter().map(paragraph).collect())
            .collect(),
    )
}

fn paragraph(paragraph: &Value) -> Paragraph {
    let text = paragraph["context"].as_str().unwrap().to_owned();
    let questions = paragraph["qas"].as_array().unwrap().iter().map(|question| {
        let answer = question["answers"][0]["answer_start"].as_u64().unwrap() as usize;
        let answer = text.char_indices().nth(answer).unwrap().0;
        let sentence =
            text.split_sentence_bound_indices().take_while(|(at, _)| *at <= answer).last().unwrap().1;
        Question {
            text: question["question"].as_str().unwrap().to_owned(),
            sentence: sentence.trim().to_owned(),
        }
    });
    Paragraph { questions: questions.collect(), text }
}
