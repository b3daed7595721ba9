//! The index on a real store.

use super::{rank::EMPTY, *};
use crate::{
    search::{Hit, Query},
    store::Store,
};

fn store() -> Store {
    Store::open(None, 64 << 20).unwrap()
}

fn put_in(store: &Store, tenant: &'static str, url: &str, title: &str, body: &str) -> Added {
    let document = Document::new(url, title, body).unwrap();
    store.write_blocking(move |c| add(c, tenant, &document)).unwrap()
}

fn query(text: &str) -> Query {
    Query { text: text.into(), count: 10, page: 1, snippet_tokens: 40, ..Query::default() }
}

fn hits(store: &Store, tenant: &'static str, query: Query) -> Vec<Hit> {
    store.read_blocking(move |c| search(c, tenant, &query)).unwrap()
}

fn urls(store: &Store, tenant: &'static str, text: &str) -> Vec<String> {
    hits(store, tenant, query(text)).into_iter().map(|hit| hit.url).collect()
}

#[test]
fn words_are_found_in_any_form_and_language() {
    let store = store();
    put_in(
        &store,
        OPERATOR,
        "https://e.org/en",
        "Bakers",
        "The bakers of this town were kneading their dough long before the sun had risen over the hills.",
    );
    put_in(
        &store,
        OPERATOR,
        "https://e.org/de",
        "Häuser",
        "Die alten Häuser am Hafen wurden von den Kaufleuten gebaut.",
    );
    put_in(
        &store,
        OPERATOR,
        "https://e.org/zh",
        "天气",
        "今天的天气很好,我们一起去公园散步吧,晚上再回家吃饭。",
    );
    assert_eq!(urls(&store, "ada", "baker kneads"), ["https://e.org/en"]);
    assert_eq!(urls(&store, "ada", "Haus"), ["https://e.org/de"]);
    assert_eq!(urls(&store, "ada", "公园"), ["https://e.org/zh"]);
    assert_eq!(urls(&store, "ada", "\"quoted\" AND (don't NEAR/2 * 3.14"), Vec::<String>::new());
    assert_eq!(urls(&store, "ada", "the"), ["https://e.org/en"], "all there is to go by");
    assert!(EMPTY.is_sorted());
    assert_eq!(urls(&store, "ada", "!?"), Vec::<String>::new());
}

#[test]
fn a_hit_shows_where_the_words_are_and_leads_to_the_text() {
    let store = store();
    let filler = "Other matters are discussed here at some length. ".repeat(60);
    let body = format!("{filler}The lighthouse keeper counts the passing ships. {filler}");
    put_in(&store, OPERATOR, "https://e.org/a#part", " The  <b>Light</b>", &body);
    let hit = hits(&store, "ada", query("who counts ships")).remove(0);
    assert_eq!((hit.url.as_str(), hit.title.as_str()), ("https://e.org/a", "The Light"));
    assert!(hit.snippet.contains("keeper counts the passing ships"), "{}", hit.snippet);
    let id = hit.document.unwrap();
    let text = store.read_blocking(move |c| super::body(c, "ada", id)).unwrap();
    assert_eq!(text, Some(body));
}

#[test]
fn a_url_has_one_document_which_can_change_and_go() {
    let store = store();
    assert_eq!(put_in(&store, OPERATOR, "https://e.org/a", "A", "old words stand here"), Added::New);
    assert_eq!(
        put_in(&store, OPERATOR, "https://www.e.org/a/", "A", "old words stand here"),
        Added::Unchanged
    );
    assert_eq!(
        put_in(&store, OPERATOR, "http://e.org/a?utm_source=x", "A", "fresh words stand here"),
        Added::Changed
    );
    assert!(urls(&store, "ada", "old").is_empty());
    assert_eq!(urls(&store, "ada", "fresh"), ["http://e.org/a?utm_source=x"]);
    let listed = store.read_blocking(|c| list(c, OPERATOR)).unwrap();
    assert_eq!((listed.len(), listed[0].bytes), (1, 22));
    assert!(store.write_blocking(|c| remove(c, OPERATOR, "https://e.org/a")).unwrap());
    assert!(!store.write_blocking(|c| remove(c, OPERATOR, "https://e.org/a")).unwrap());
    assert!(urls(&store, "ada", "fresh").is_empty());
    assert!(store.read_blocking(|c| is_empty(c, "ada")).unwrap());
}

#[test]
fn what_cannot_be_indexed_is_refused_with_why() {
    for (url, body, says) in [
        ("no url", "words", "URL"),
        ("https://e.org/", " \n!", "no words"),
        ("https://e.org/", &"word ".repeat(1 << 20), "split it"),
    ] {
        assert!(Document::new(url, "t", body).unwrap_err().contains(says));
    }
}

#[test]
fn domains_and_pages_are_obeyed() {
    let store = store();
    for n in 0..7 {
        put_in(
            &store,
            OPERATOR,
            &format!("https://s{}.example/{n}", n % 2),
            "T",
            &format!("apple number {n}"),
        );
    }
    let only = Query { include: vec!["s1.example".into()], ..query("apple") };
    assert_eq!(hits(&store, "ada", only).len(), 3);
    let page = |page| hits(&store, "ada", Query { count: 3, page, ..query("apple") });
    let mut all: Vec<String> = (1..=4).flat_map(page).map(|hit| hit.url).collect();
    assert_eq!(all.len(), 7);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 7);
}

#[test]
fn tenants_see_their_own_and_the_operators_alone() {
    let store = store();
    put_in(&store, OPERATOR, "https://e.org/shared", "S", "the harbour report for everyone");
    put_in(&store, "ada", "https://e.org/ada", "A", "the harbour report of ada");
    put_in(&store, "bob", "https://e.org/bob", "B", "the harbour report of bob");
    put_in(&store, "bob", "https://e.org/shared", "B", "the harbour report as bob has it");
    let own = |tenant| urls(&store, tenant, "harbour report");
    assert_eq!(own("ada"), ["https://e.org/shared", "https://e.org/ada"]);
    assert_eq!(own("carol"), ["https://e.org/shared"]);
    assert_eq!(own("bob").len(), 2, "a URL comes once");
    assert!(own("x'; DROP TABLE documents; --").len() == 1);
    let of_bob = store
        .read_blocking(|c| {
            c.query_row("SELECT document FROM documents WHERE tenant = 'bob'", [], |r| r.get(0))
        })
        .unwrap();
    assert_eq!(store.read_blocking(move |c| super::body(c, "ada", of_bob)).unwrap(), None);
    assert!(!store.write_blocking(|c| remove(c, "ada", "https://e.org/bob")).unwrap());
}

#[test]
fn another_tenants_documents_change_no_rank() {
    let (alone, beside) = (store(), store());
    for store in [&alone, &beside] {
        for (n, text) in
            ["red red house", "red tree", "tree tree house", "green tree by a house"].iter().enumerate()
        {
            put_in(store, "ada", &format!("https://e.org/{n}"), "T", text);
            put_in(store, OPERATOR, &format!("https://o.org/{n}"), "T", &format!("{text} again"));
        }
    }
    // In one table, so many houses would make `house` the commonest word.
    for n in 0..200 {
        put_in(&beside, "bob", &format!("https://b.org/{n}"), "T", "house house house on a hill");
    }
    for text in ["red house", "tree house", "house"] {
        assert_eq!(hits(&alone, "ada", query(text)), hits(&beside, "ada", query(text)));
    }
}

#[test]
fn a_tenants_oldest_documents_make_room() {
    let store = store();
    for n in 0..6 {
        put_in(&store, "ada", &format!("https://e.org/{n}"), "T", &format!("apple number {n}"));
    }
    put_in(&store, OPERATOR, "https://o.org/", "T", "apple of everyone");
    store.write_blocking(|c| make_room(c, "ada", 4)).unwrap();
    let mut left = urls(&store, "ada", "apple");
    left.sort();
    assert_eq!(
        left,
        ["https://e.org/2", "https://e.org/3", "https://e.org/4", "https://e.org/5", "https://o.org/"]
    );
}
