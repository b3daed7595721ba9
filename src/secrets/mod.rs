//! Secrets inside text, found by how they look. Owns the rules and the search; not which text is shown to whom.
//!
//! One pass of an Aho-Corasick automaton over the text finds places where a secret may begin; each place is then
//! looked at for a bounded number of bytes. Text with escapes is searched once more for each level of them. Invariants: time is linear in the text, memory is that of the result, and
//! what is found is replaced whole, so that no part of it remains.

mod assigned;
pub(crate) mod escaped;
mod forms;
pub(crate) mod known;
mod table;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// Stands for what was masked.
pub const MASK: &str = "***";

/// Shorter text holds nothing that could be told from a word.
const SHORTEST: usize = 6;

/// What an anchor in the text may be the beginning of.
#[derive(Debug, Clone, Copy)]
enum Anchor {
    /// A token that has this many characters behind its beginning.
    Token(usize),
    /// The name of a value that is always masked.
    Plain,
    /// The name of a value that is masked if it looks random.
    Name,
    /// `Bearer` and the like.
    Scheme,
    /// A block of PEM.
    Pem,
    /// `://`, behind which a user may be named.
    Url,
    /// `@` of an address.
    Mail,
}

struct Rules {
    find: AhoCorasick,
    anchors: Vec<(Anchor, &'static str)>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let tokens = table::TOKENS.iter().map(|(begin, least)| (Anchor::Token(*least), *begin));
    let of = |anchor, words: &'static [&'static str]| words.iter().map(move |w| (anchor, *w));
    let rest =
        [(Anchor::Pem, "-----begin"), (Anchor::Url, "://"), (Anchor::Mail, "@"), (Anchor::Mail, "%40")];
    let anchors: Vec<_> = tokens
        .chain(of(Anchor::Plain, table::PLAIN))
        .chain(of(Anchor::Name, table::NAMES))
        .chain(of(Anchor::Scheme, table::SCHEMES))
        .chain(rest)
        .collect();
    let find = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::DFA))
        .build(anchors.iter().map(|(_, text)| text))
        .expect("the rules are few and short");
    Rules { find, anchors }
});

/// The text without its secrets. Borrows where there were none.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let found = find(text.as_bytes());
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for range in found {
        // Ranges end at ASCII characters, so these are always boundaries.
        out.push_str(text.get(from..range.start).unwrap_or_default());
        out.push_str(MASK);
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// Whether a member of this name with this value is a secret by its name.
#[must_use]
pub fn is_named(name: &str, value: &str) -> bool {
    RULES.find.find_overlapping_iter(name).any(|hit| match RULES.anchors[hit.pattern().as_usize()].0 {
        Anchor::Plain => assigned::is_plain(value.as_bytes()),
        Anchor::Name => assigned::looks_random(value.as_bytes()),
        _ => false,
    })
}

/// The same, where only a change is of interest.
#[must_use]
pub fn changed(text: &str) -> Option<String> {
    match masked(text) {
        Cow::Owned(masked) => Some(masked),
        Cow::Borrowed(_) => None,
    }
}

/// Where secrets are, in order and apart from each other; also those that are written with escapes.
fn find(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = find_plain(text);
    for level in escaped::levels(text) {
        found.extend(find_plain(&level.text).into_iter().map(|range| level.written(range)));
    }
    joined(found)
}

fn find_plain(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    if text.len() < SHORTEST {
        return found;
    }
    // Up to where each kind of search has covered the text already.
    let mut covered = 0;
    for hit in RULES.find.find_overlapping_iter(text) {
        if hit.start() < covered && hit.end() <= covered {
            continue;
        }
        let (anchor, begin) = RULES.anchors[hit.pattern().as_usize()];
        let range = match anchor {
            Anchor::Token(least) => forms::token(text, hit.range(), begin, least),
            Anchor::Plain => assigned::value(text, hit.range(), true),
            Anchor::Name => assigned::value(text, hit.range(), false),
            Anchor::Scheme => forms::scheme(text, hit.range()),
            Anchor::Pem => forms::pem(text, hit.range()),
            Anchor::Url => forms::user_of_url(text, hit.end()),
            // What comes after the user of a URL is its host.
            Anchor::Mail if covered > 0 && hit.start() == covered => None,
            Anchor::Mail => forms::mail(text, hit.range()),
        };
        if let Some(range) = range {
            covered = covered.max(range.end);
            found.push(range);
        }
    }
    forms::runs(text, &mut found);
    found
}

fn joined(mut found: Vec<Range<usize>>) -> Vec<Range<usize>> {
    found.sort_unstable_by_key(|r| r.start);
    let mut apart: Vec<Range<usize>> = Vec::with_capacity(found.len());
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}
