//! Fits entries into the tokens that a result may have.

use serde_json::{Map, Value};

use super::entry::Entry;
use crate::text::{gate, tokens};

/// With less room than this, in tokens, the rest of an entry is not worth showing.
const LEAST: u64 = 48;
/// What `list` shows of a content, in characters.
const HEAD: usize = 80;

/// Entries as they are shown.
pub(super) struct Shown {
    pub(super) items: Vec<Value>,
    /// Whether any is missing or cut.
    pub(super) truncated: bool,
    /// Tokens of the whole content of what is shown.
    pub(super) tokens_in: u64,
}

/// Whole entries while they fit; of the next one, what matters for `query`, or its beginning.
pub(super) fn contents(entries: &[(Option<f64>, Entry)], query: Option<&str>, max_tokens: u64) -> Shown {
    let mut shown = Shown { items: Vec::new(), truncated: false, tokens_in: 0 };
    let mut left = max_tokens;
    for (score, entry) in entries {
        let frame = weight(&with_score(entry.shown("", true), *score));
        let content = tokens::count(&entry.content);
        if frame + content > left {
            shown.truncated = true;
            if frame + LEAST > left {
                break;
            }
            let part = part(&entry.content, query, left - frame);
            shown.items.push(with_score(entry.shown(&part, false), *score).into());
            shown.tokens_in += content;
            break;
        }
        left -= frame + content;
        shown.tokens_in += content;
        shown.items.push(with_score(entry.shown(&entry.content, true), *score).into());
    }
    shown
}

/// Entries with the beginning of their content.
pub(super) fn heads(entries: &[Entry], max_tokens: u64) -> Shown {
    let mut shown = Shown { items: Vec::new(), truncated: false, tokens_in: 0 };
    let mut left = max_tokens;
    for entry in entries {
        let head: String = entry.content.chars().take(HEAD).collect();
        let item = entry.shown(&head, head.len() == entry.content.len());
        let weight = weight(&item);
        if weight > left {
            shown.truncated = true;
            break;
        }
        left -= weight;
        shown.tokens_in += tokens::count(&entry.content);
        shown.items.push(item.into());
    }
    shown
}

fn part(content: &str, query: Option<&str>, tokens: u64) -> String {
    let room = usize::try_from(tokens).unwrap_or(usize::MAX);
    if query.is_some()
        && let Ok(cut) = gate::cut(content, &gate::Options::to_fit(room, query))
    {
        return cut.text;
    }
    let offsets = tokens::Offsets::of(content);
    let mut end = content.len();
    while offsets.before(end) + 1 > room {
        end = content.floor_char_boundary(end * 9 / 10);
    }
    content[..end].to_owned()
}

fn with_score(mut item: Map<String, Value>, score: Option<f64>) -> Map<String, Value> {
    if let Some(score) = score {
        item.insert("score".into(), ((score * 1_000.0).round() / 1_000.0).into());
    }
    item
}

fn weight(item: &Map<String, Value>) -> u64 {
    tokens::count(&serde_json::to_string(item).unwrap_or_default())
}
