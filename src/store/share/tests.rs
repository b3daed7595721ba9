//! Two tenants of one small storage, of which one writes without end.

use crate::{
    search::local::{self, Document},
    store::{Store, StoreError, refs, share},
};

const QUOTA: u64 = 9 << 20;

/// A storage of which each of two tenants has a third.
fn store() -> Store {
    let store = Store::open(None, QUOTA).unwrap();
    store.divide(vec!["ada".into(), "bob".into()]);
    store
}

/// Text that cannot be compressed to much less.
fn noise(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    let words = std::iter::repeat_with(|| {
        let length = random.usize(3..12);
        std::iter::repeat_with(|| random.lowercase()).take(length).chain([' ']).collect::<String>()
    });
    words.flat_map(|word| word.chars().collect::<Vec<_>>()).take(length).collect()
}

fn put(store: &Store, tenant: &'static str, text: String) -> Result<String, StoreError> {
    store.write_blocking(move |c| refs::put(c, tenant, &text, refs::TTL)).map(|kept| kept.id)
}

fn is_there(store: &Store, tenant: &'static str, id: &str) -> bool {
    let id = id.to_owned();
    store.read_blocking(move |c| refs::get(c, tenant, &id)).unwrap().is_some()
}

fn page(store: &Store, owner: &'static str, url: String) {
    store
        .write_blocking(move |c| {
            share::open(c, owner)?;
            c.execute(
                "INSERT INTO pages (owner, url, response, body, bytes, fresh_until, expires)
                 VALUES (?1, ?2, '{}', ?3, 1, 1, 4000000000000)",
                (owner, url, noise(7, 30_000).into_bytes()),
            )?;
            share::fit_page(c, owner)
        })
        .unwrap();
}

fn number(store: &Store, sql: &'static str) -> i64 {
    store.read_blocking(move |c| c.query_row(sql, [], |row| row.get(0))).unwrap()
}

#[test]
fn a_tenant_that_floods_evicts_only_what_is_its_own() {
    let store = store();
    let bobs: Vec<String> = (0..10).map(|n| put(&store, "bob", noise(n, 20_000)).unwrap()).collect();
    page(&store, "bob", "https://bob.example/".into());
    page(&store, "ada", "https://ada.example/".into());
    let adas: Vec<String> = (100..200).map(|n| put(&store, "ada", noise(n, 100_000)).unwrap()).collect();
    assert!(bobs.iter().all(|id| is_there(&store, "bob", id)));
    assert_eq!(number(&store, "SELECT count(*) FROM pages WHERE owner = 'bob'"), 1);
    assert_eq!(number(&store, "SELECT count(*) FROM pages WHERE owner = 'ada'"), 0, "pages go first");
    let left: Vec<bool> = adas.iter().map(|id| is_there(&store, "ada", id)).collect();
    let gone = left.iter().filter(|there| !**there).count();
    assert!(gone > 0 && left[gone..].iter().all(|there| *there), "the oldest go: {left:?}");
    assert!(left.len() - gone > 20, "a share is used: {gone} are gone");
    // What bob writes now is not refused, nor does it take from ada.
    put(&store, "bob", noise(50, 100_000)).unwrap();
    let after: Vec<bool> = adas.iter().map(|id| is_there(&store, "ada", id)).collect();
    assert_eq!(after, left);
}

#[test]
fn pages_make_room_for_pages_and_never_take_a_reference() {
    let store = store();
    let ids: Vec<String> = (0..30).map(|n| put(&store, "ada", noise(n, 100_000)).unwrap()).collect();
    let there = |ids: &[String]| ids.iter().filter(|id| is_there(&store, "ada", id)).count();
    let before = there(&ids);
    (0..200).for_each(|n| page(&store, "ada", format!("https://ada.example/{n}")));
    assert_eq!(there(&ids), before);
}

#[test]
fn documents_of_its_own_leave_a_tenant_room_to_work() {
    let store = store();
    let kept = put(&store, "bob", "text".into()).unwrap();
    for n in 0..60 {
        let document = Document::new(&format!("https://ada.example/{n}"), "T", &noise(n, 60_000)).unwrap();
        store.write_blocking(move |c| local::add(c, "ada", &document)).unwrap();
    }
    let count = number(&store, "SELECT count(*) FROM documents WHERE tenant = 'ada'");
    assert!((5..60).contains(&count), "{count}");
    assert_eq!(number(&store, "SELECT count(*) FROM documents WHERE url = 'https://ada.example/59'"), 1);
    assert!(put(&store, "ada", noise(1, 300_000)).is_ok());
    assert!(is_there(&store, "bob", &kept));
}

#[test]
fn what_a_share_cannot_hold_is_refused_and_nothing_goes_for_it() {
    let store = store();
    let (ada, bob) =
        (put(&store, "ada", "ada's".into()).unwrap(), put(&store, "bob", "bob's".into()).unwrap());
    assert_eq!(put(&store, "ada", noise(1, 6 << 20)), Err(StoreError::Full));
    assert!(is_there(&store, "ada", &ada) && is_there(&store, "bob", &bob));
}

#[test]
fn a_tenant_that_has_left_keeps_its_share_until_it_is_empty() {
    let store = store();
    let share = || number(&store, "SELECT bytes FROM temp.share");
    assert_eq!(share(), QUOTA as i64 / 3);
    put(&store, "bob", noise(1, 1_000)).unwrap();
    store.divide(vec!["ada".into()]);
    assert_eq!(share(), QUOTA as i64 / 3);
    store.write_blocking(|c| c.execute("DELETE FROM refs", [])).unwrap();
    store.divide(vec!["ada".into()]);
    assert_eq!(share(), QUOTA as i64 / 2);
}

#[test]
fn what_is_counted_is_no_less_than_what_the_file_takes() {
    let store = Store::open(None, 1 << 30).unwrap();
    let size = || number(&store, "PRAGMA page_count") * 4096;
    let empty = size();
    for n in 0..400 {
        put(&store, "ada", noise(n, 200)).unwrap();
        put(&store, "ada", noise(n, 8_000)).unwrap();
    }
    for n in 0..40 {
        page(&store, "bob", format!("https://bob.example/{n}?{}", "x".repeat(1_500)));
        let document = Document::new(&format!("https://ada.example/{n}"), "T", &noise(n, 20_000)).unwrap();
        store.write_blocking(move |c| local::add(c, "ada", &document)).unwrap();
    }
    let counted = number(&store, "SELECT sum(bytes) FROM shares");
    let taken = size() - empty;
    assert!((taken..taken * 3).contains(&counted), "{counted} counted, {taken} taken");
    // To the byte what the rows weigh, also after they are gone.
    store
        .write_blocking(|c| c.execute_batch("DELETE FROM refs; DELETE FROM pages; DELETE FROM documents"))
        .unwrap();
    assert_eq!(number(&store, "SELECT sum(bytes) FROM shares"), 2 * share::TABLES);
    assert_eq!(number(&store, "SELECT sum(lasting) FROM shares"), 0);
}
