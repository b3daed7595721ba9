//! One ranking out of several. Owns reciprocal rank fusion (Cormack, Clarke, Buettcher: SIGIR 2009), the collapse of
//! hits that say the same, and the spread over domains.
//!
//! Invariant: the result depends on the lists, not on their order, and has each URL once.

#[cfg(test)]
mod tests;

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
};

use unicode_segmentation::UnicodeSegmentation;

use super::{Hit, url};

/// Damping of ranks; the value of the paper.
const K: f64 = 60.0;
/// Snippets at least this similar say the same.
const SAME: f64 = 0.8;
/// Pairs of words that a snippet needs before it is compared: a few words are alike by chance.
const ENOUGH: usize = 4;
/// Within the first results, no domain has more than this.
const PER_SITE: usize = 3;
const FIRST: usize = 10;

/// The hits of one engine.
#[derive(Debug, Clone)]
pub struct List {
    /// Its name; no two lists have the same.
    pub engine: Arc<str>,
    /// How much it counts; above 0.
    pub weight: f64,
    /// Best first.
    pub hits: Vec<Hit>,
}

/// One page, found by at least one engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The longest title, URL (https before http, then the shortest), longest snippet and earliest date.
    pub hit: Hit,
    /// The host.
    pub domain: String,
    /// Names of the engines that found it, sorted.
    pub engines: Vec<Arc<str>>,
    /// Sum over engines of weight / (60 + rank).
    pub score: f64,
    key: String,
    site: Option<String>,
    best_rank: usize,
}

/// The merged ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// Best first.
    pub items: Vec<Item>,
    /// Hits before merging.
    pub total: usize,
    /// Hits that went into another.
    pub duplicates: usize,
}

/// Merges the lists.
#[must_use]
pub fn merge(lists: &[List]) -> Merged {
    let total = lists.iter().map(|list| list.hits.len()).sum();
    let items = spread(collapse(fuse(lists)));
    let duplicates = total - items.len();
    Merged { items, total, duplicates }
}

/// Fuses by URL. Hits whose URL cannot be read are left to whoever made the lists.
fn fuse(lists: &[List]) -> Vec<Item> {
    let mut pages: HashMap<String, Vec<Found<'_>>> = HashMap::new();
    let mut names: HashMap<String, url::Canonical> = HashMap::new();
    for list in lists {
        for (at, hit) in list.hits.iter().enumerate() {
            let name = url::canonical(&hit.url).unwrap_or_else(|| url::Canonical {
                key: hit.url.clone(),
                host: String::new(),
                site: None,
            });
            pages.entry(name.key.clone()).or_default().push(Found { list, rank: at + 1, hit });
            names.entry(name.key.clone()).or_insert(name);
        }
    }
    let mut items: Vec<Item> = names
        .into_values()
        .map(|name| {
            let found = pages.remove(&name.key).unwrap_or_default();
            item(name, &found)
        })
        .collect();
    items.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then(a.best_rank.cmp(&b.best_rank)).then_with(|| a.key.cmp(&b.key))
    });
    items
}

struct Found<'a> {
    list: &'a List,
    rank: usize,
    hit: &'a Hit,
}

fn item(name: url::Canonical, found: &[Found<'_>]) -> Item {
    // An engine counts with its best rank, however often it lists the page.
    let mut ranks: HashMap<&Arc<str>, (usize, f64)> = HashMap::new();
    for Found { list, rank, .. } in found {
        let best = ranks.entry(&list.engine).or_insert((*rank, list.weight));
        best.0 = best.0.min(*rank);
    }
    let mut shares: Vec<f64> = ranks.values().map(|(rank, weight)| weight / (K + *rank as f64)).collect();
    // Sums of floats depend on their order.
    shares.sort_by(f64::total_cmp);
    let mut engines: Vec<Arc<str>> = ranks.keys().map(|engine| Arc::clone(engine)).collect();
    engines.sort_unstable();
    let pick = |of: fn(&Hit) -> &str, order: fn(&str, &str) -> Ordering| {
        found.iter().map(|f| of(f.hit)).max_by(|a, b| order(a, b)).unwrap_or_default().to_owned()
    };
    let hit = Hit {
        title: pick(|h| &h.title, longest),
        url: pick(|h| &h.url, shortest_secure),
        snippet: pick(|h| &h.snippet, longest),
        published: found.iter().filter_map(|f| f.hit.published.clone()).min(),
        document: found.iter().filter_map(|f| f.hit.document).min(),
    };
    let best_rank = found.iter().map(|f| f.rank).min().unwrap_or_default();
    let score = shares.iter().sum();
    let domain = url::canonical(&hit.url).unwrap_or_default().host;
    Item { hit, domain, engines, score, key: name.key, site: name.site, best_rank }
}

fn longest(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| b.cmp(a))
}

fn shortest_secure(a: &str, b: &str) -> Ordering {
    let secure = |url: &str| url.starts_with("https:");
    secure(a).cmp(&secure(b)).then(b.len().cmp(&a.len())).then_with(|| b.cmp(a))
}

/// Drops items whose snippet a better one has as well.
fn collapse(items: Vec<Item>) -> Vec<Item> {
    let mut kept: Vec<(Item, HashSet<u64>)> = Vec::with_capacity(items.len());
    for item in items {
        let pairs = pairs(&item.hit.snippet);
        let known = pairs.len() >= ENOUGH && kept.iter().any(|(_, other)| jaccard(&pairs, other) >= SAME);
        if !known {
            kept.push((item, pairs));
        }
    }
    kept.into_iter().map(|(item, _)| item).collect()
}

/// Hashes of each two neighbouring words.
fn pairs(text: &str) -> HashSet<u64> {
    let text = text.to_lowercase();
    let words: Vec<&str> = text.unicode_words().collect();
    words
        .windows(2)
        .map(|pair| {
            let mut hasher = DefaultHasher::new();
            pair.hash(&mut hasher);
            hasher.finish()
        })
        .collect()
}

fn jaccard(a: &HashSet<u64>, b: &HashSet<u64>) -> f64 {
    let common = a.intersection(b).count();
    let all = a.len() + b.len() - common;
    if all == 0 { 0.0 } else { common as f64 / all as f64 }
}

/// At most three of one domain among the first ten; what that pushes out comes right after them.
fn spread(items: Vec<Item>) -> Vec<Item> {
    let mut per_site: HashMap<String, usize> = HashMap::new();
    let (mut first, mut pushed, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for item in items {
        if first.len() == FIRST {
            rest.push(item);
            continue;
        }
        let count = item.site.as_ref().map(|site| per_site.entry(site.clone()).or_default());
        match count {
            Some(count) if *count == PER_SITE => pushed.push(item),
            count => {
                if let Some(count) = count {
                    *count += 1;
                }
                first.push(item);
            }
        }
    }
    first.into_iter().chain(pushed).chain(rest).collect()
}
