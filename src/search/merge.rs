//! One ranking out of several. Owns reciprocal rank fusion (Cormack, Clarke, Buettcher: SIGIR 2009), the collapse of
//! hits that say the same, and the spread over domains.
//!
//! Invariant: the result depends on the lists, not on their order, and has each URL once.

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hit(url: &str, snippet: &str) -> Hit {
        Hit { title: url.into(), url: url.into(), snippet: snippet.into(), ..Hit::default() }
    }

    fn list(engine: &str, weight: f64, urls: &[&str]) -> List {
        List { engine: engine.into(), weight, hits: urls.iter().map(|url| hit(url, "")).collect() }
    }

    fn urls(merged: &[Item]) -> Vec<&str> {
        merged.iter().map(|item| item.hit.url.as_str()).collect()
    }

    #[test]
    fn pages_that_more_engines_rank_high_come_first() {
        let merged = merge(&[
            list("a", 1.0, &["https://one.example/", "https://two.example/", "https://three.example/"]),
            list("b", 1.0, &["https://two.example", "http://www.three.example/?utm_source=b"]),
        ]);
        assert_eq!(
            urls(&merged.items),
            ["https://two.example", "https://three.example/", "https://one.example/"]
        );
        assert_eq!((merged.total, merged.duplicates), (5, 2));
        assert_eq!(merged.items[0].engines, ["a".into(), "b".into()]);
        assert!((merged.items[0].score - (1.0 / 62.0 + 1.0 / 61.0)).abs() < 1e-12);
        assert_eq!(merged.items[1].domain, "three.example");
    }

    #[test]
    fn weights_decide_between_engines() {
        let (a, b) = (["https://a.example/"], ["https://b.example/"]);
        assert_eq!(urls(&merge(&[list("x", 1.0, &a), list("y", 1.5, &b)]).items), [b[0], a[0]]);
    }

    #[test]
    fn a_merged_page_has_the_best_of_each() {
        let one = Hit {
            title: "Short".into(),
            published: Some("2024-05-01".into()),
            ..hit("http://e.example/a", "a longer snippet")
        };
        let other = Hit {
            title: "Longer title".into(),
            published: Some("2023-01-31".into()),
            document: Some(7),
            ..hit("https://e.example/a", "short")
        };
        let lists = [("x", one), ("y", other)].map(|(engine, hit)| List {
            engine: engine.into(),
            weight: 1.0,
            hits: vec![hit],
        });
        let merged = merge(&lists).items.remove(0).hit;
        assert_eq!(
            merged,
            Hit {
                title: "Longer title".into(),
                url: "https://e.example/a".into(),
                snippet: "a longer snippet".into(),
                published: Some("2023-01-31".into()),
                document: Some(7),
            }
        );
    }

    #[test]
    fn snippets_that_say_the_same_are_one_hit() {
        let said = "the quick brown fox jumps over the lazy dog near the river bank today";
        let lists = [List {
            engine: "a".into(),
            weight: 1.0,
            hits: vec![
                hit("https://first.example/", said),
                hit("https://mirror.example/", &said.to_uppercase().replace(" TODAY", ".")),
                hit("https://other.example/", "something else entirely is written on this page here"),
                hit("https://x.example/", "Sign in"),
                hit("https://y.example/", "Sign in"),
            ],
        }];
        let merged = merge(&lists);
        assert_eq!(
            urls(&merged.items),
            ["https://first.example/", "https://other.example/", "https://x.example/", "https://y.example/"]
        );
        assert_eq!(merged.duplicates, 1);
    }

    #[test]
    fn one_domain_does_not_fill_the_first_page() {
        let mut given: Vec<String> = (0..6).map(|n| format!("https://s{n}.big.example/")).collect();
        given.extend((0..9).map(|n| format!("https://small{n}.example/")));
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let found = merge(&[list("a", 1.0, &given)]);
        let found = urls(&found.items);
        assert_eq!(found[..10], [&given[..3], &given[6..13]].concat());
        assert_eq!(found[10..], [&given[3..6], &given[13..]].concat());
        let alone = merge(&[list("a", 1.0, &given[..6])]);
        assert_eq!(urls(&alone.items), given[..6]);
    }

    fn some_lists() -> impl Strategy<Value = Vec<List>> {
        let url = (0..6_usize, 0..6_usize, any::<bool>()).prop_map(|(site, page, www)| {
            format!(
                "https://{}site{site}.example/{page}{}",
                if www { "www." } else { "" },
                if www { "/" } else { "" }
            )
        });
        let words =
            prop::collection::vec(prop::sample::select(vec!["red", "green", "blue", "tree", "house"]), 0..8);
        let hits =
            prop::collection::vec((url, words).prop_map(|(url, words)| hit(&url, &words.join(" "))), 0..15);
        prop::collection::vec((hits, 0.1..3.0_f64), 1..5).prop_map(|all| {
            let list = |(n, (hits, weight)): (usize, (Vec<Hit>, f64))| List {
                engine: format!("e{n}").into(),
                weight,
                hits,
            };
            all.into_iter().enumerate().map(list).collect()
        })
    }

    proptest! {
        #[test]
        fn the_order_of_engines_makes_no_difference(lists in some_lists(), turn in 0..5_usize) {
            let mut other = lists.clone();
            let turn = turn % other.len();
            other.rotate_left(turn);
            other[turn..].reverse();
            prop_assert_eq!(merge(&lists), merge(&other));
        }

        #[test]
        fn no_url_comes_twice_and_none_is_lost(lists in some_lists()) {
            let merged = merge(&lists);
            let keys: HashSet<&str> = merged.items.iter().map(|item| item.key.as_str()).collect();
            prop_assert_eq!(keys.len(), merged.items.len());
            prop_assert_eq!(merged.items.len() + merged.duplicates, merged.total);
            for pair in fuse(&lists).windows(2) {
                prop_assert!(pair[0].score >= pair[1].score);
            }
        }

        #[test]
        fn an_engine_that_agrees_lowers_nothing(lists in some_lists(), weight in 0.1..3.0_f64, kept in any::<u32>()) {
            let before = fuse(&lists);
            // It ranks some of the pages, in the order they already have.
            let mask = |n: usize| kept & (1 << (n % 32)) != 0;
            let hits = before.iter().enumerate().filter(|(n, _)| mask(*n)).map(|(_, item)| item.hit.clone());
            let mut more = lists;
            more.push(List { engine: "agrees".into(), weight, hits: hits.collect() });
            let after = fuse(&more);
            let place = |key: &str| after.iter().position(|item| item.key == key);
            for (n, a) in before.iter().enumerate().filter(|(n, _)| mask(*n)) {
                for b in &before[n + 1..] {
                    prop_assert!(place(&a.key) < place(&b.key), "{} fell below {}", a.key, b.key);
                }
            }
        }

        #[test]
        fn of_the_first_ten_no_domain_has_more_than_three_while_others_wait(lists in some_lists()) {
            let items = merge(&lists).items;
            let mut count: HashMap<&str, usize> = HashMap::new();
            for (n, item) in items.iter().take(FIRST).enumerate() {
                let count = count.entry(item.site.as_deref().unwrap_or_default()).or_default();
                *count += 1;
                let others_wait = items[n..].iter().any(|later| later.site != item.site && place_free(&items[..n], later));
                prop_assert!(*count <= PER_SITE || !others_wait);
            }
        }
    }

    fn place_free(before: &[Item], item: &Item) -> bool {
        before.iter().filter(|other| other.site == item.site).count() < PER_SITE
    }
}
