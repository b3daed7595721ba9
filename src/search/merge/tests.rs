//! Examples, and what holds for every set of lists.

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
