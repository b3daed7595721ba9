//! Deduplication by paragraph: what a passage repeats of itself or of another one goes, the rest of it stays.

use std::ops::Range;

use serde_json::json;

use super::{Found, duplicates, group::Rule, groups, preference, shown};
use crate::{text::shingles, upstream::builtin::tool::ToolError};

/// One paragraph of one passage.
struct Paragraph {
    passage: usize,
    /// Its place within the passage, from 0.
    place: usize,
    span: Range<usize>,
}

/// Removes repeated paragraphs from `texts`. A passage of which nothing stays is not kept.
///
/// # Errors
/// `too_many_items` above `limit` paragraphs.
pub(super) fn dedup(texts: &[String], rule: Rule, longest: bool, limit: usize) -> Result<Found, ToolError> {
    let all = split_all(texts);
    if all.len() > limit {
        let message = format!("at most {limit} paragraphs in one call; send the texts in parts");
        let details = json!({"limit": limit, "given": all.len()});
        return Err(ToolError::new("too_many_items", message).with_details(details));
    }
    let bodies: Vec<&str> = all.iter().map(|p| &texts[p.passage][p.span.clone()]).collect();
    let prepared: Vec<_> = bodies.iter().map(|body| shingles::prepare(body)).collect();
    let verdicts = duplicates(&prepared, &preference(&bodies, longest), rule);
    let mut removed = Vec::new();
    let mut left: Vec<Vec<&str>> = vec![Vec::new(); texts.len()];
    let mut touched = vec![false; texts.len()];
    for (at, verdict) in verdicts.iter().enumerate() {
        let paragraph = &all[at];
        let Some(duplicate) = verdict else {
            left[paragraph.passage].push(bodies[at]);
            continue;
        };
        touched[paragraph.passage] = true;
        let of = &all[duplicate.of];
        removed.push(json!({
            "index": paragraph.passage, "paragraph": paragraph.place,
            "duplicate_of": of.passage, "duplicate_of_paragraph": of.place,
            "similarity": shown(duplicate), "kind": duplicate.kind.as_str(),
        }));
    }
    let kept: Vec<usize> = (0..texts.len()).filter(|&at| !left[at].is_empty()).collect();
    let texts = kept.iter().map(|&at| if touched[at] { left[at].join("\n\n") } else { texts[at].clone() });
    Ok(Found { removed, texts: texts.collect(), groups: groups(&verdicts), kept })
}

fn split_all(texts: &[String]) -> Vec<Paragraph> {
    let mut all = Vec::new();
    for (passage, text) in texts.iter().enumerate() {
        let spans = split(text);
        all.extend(spans.into_iter().enumerate().map(|(place, span)| Paragraph { passage, place, span }));
    }
    all
}

/// The paragraphs of `text`: runs of lines that are not blank. A text of blank lines is one paragraph.
fn split(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.trim_end().len();
        let blank = line.trim().is_empty();
        match spans.last_mut() {
            Some(last) if open && !blank => last.end = end,
            _ if !blank => spans.push(at..end),
            _ => {}
        }
        open = !blank;
        at += line.len();
    }
    if spans.is_empty() {
        spans.push(0..text.len());
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_on_blank_lines_of_any_kind() {
        let text = "one\ntwo\n\nthree\r\n \t\r\nfour\n";
        let parts: Vec<_> = split(text).into_iter().map(|span| &text[span]).collect();
        assert_eq!(parts, ["one\ntwo", "three", "four"]);
        assert_eq!(split(" \n").len(), 1);
        assert_eq!(split("").len(), 1);
    }
}
