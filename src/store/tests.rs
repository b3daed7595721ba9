//! The store against a real file.

use super::*;
use crate::search::local::{self, Document, OPERATOR};

const QUOTA: u64 = 64 << 20;

fn on_disk(quota: u64) -> (tempfile::TempDir, PathBuf, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/smartgate.db");
    let store = Store::open(Some(&path), quota).unwrap();
    (folder, path, store)
}

#[test]
fn references_belong_to_their_tenant_and_end() {
    for store in [on_disk(QUOTA).2, Store::open(None, QUOTA).unwrap()] {
        let one = store.write_blocking(|c| refs::put(c, "ada", "some text", 60)).unwrap();
        let again = store.write_blocking(|c| refs::put(c, "ada", "some text", 120)).unwrap();
        let other = store.write_blocking(|c| refs::put(c, "bob", "some text", 60)).unwrap();
        assert!(refs::is_reference(&one.id));
        assert_eq!(one.id, again.id);
        assert!(again.expires > one.expires);
        assert_ne!(one.id, other.id);
        let id = one.id.clone();
        let read = |tenant: &'static str| {
            let id = id.clone();
            store.read_blocking(move |c| refs::get(c, tenant, &id)).unwrap()
        };
        assert_eq!(read("ada").as_deref(), Some("some text"));
        assert_eq!(read("bob"), None);
        store.write_blocking(|c| c.execute("UPDATE refs SET expires = 1", [])).unwrap();
        assert_eq!(read("ada"), None);
    }
}

#[test]
fn a_failed_job_undoes_itself_and_nothing_else() {
    let (_folder, _, store) = on_disk(QUOTA);
    let bad = store.write_blocking(|c| {
        refs::put(c, "ada", "half", 60)?;
        c.execute("INSERT INTO nowhere VALUES (1)", [])
    });
    assert!(matches!(bad, Err(StoreError::Unavailable(_))));
    store.write_blocking(|c| refs::put(c, "ada", "whole", 60)).unwrap();
    let count: i64 =
        store.read_blocking(|c| c.query_row("SELECT count(*) FROM refs", [], |r| r.get(0))).unwrap();
    assert_eq!(count, 1);
}

#[test]
fn what_does_not_fit_the_quota_is_refused_and_the_rest_goes_on() {
    // Documents of the operator: they are in nobody's share.
    let (_folder, _, store) = on_disk(1 << 20);
    let noise = |seed: u64| -> String {
        let mut random = fastrand::Rng::with_seed(seed);
        std::iter::repeat_with(|| random.alphanumeric()).take(200_000).collect()
    };
    let results: Vec<_> = (0..12)
        .map(|n| {
            let document = Document::new(&format!("file:///{n}"), "", &noise(n)).unwrap();
            store.write_blocking(move |c| local::add(c, OPERATOR, &document))
        })
        .collect();
    assert!(results[0].is_ok());
    assert!(results.contains(&Err(StoreError::Full)));
    store.write_blocking(|c| refs::put(c, "ada", "small", 60)).unwrap();
}

#[test]
fn a_damaged_file_is_refused_with_what_to_do() {
    let (_folder, path, store) = on_disk(QUOTA);
    store.write_blocking(|c| refs::put(c, "ada", "text", 60)).unwrap();
    drop(store);
    for log in ["-wal", "-shm"] {
        drop(std::fs::remove_file(format!("{}{log}", path.display())));
    }
    std::fs::write(&path, b"this is not a database, whatever its name says, and long enough to have a header..........................").unwrap();
    let why = Store::open(Some(&path), QUOTA).unwrap_err();
    assert!(why.contains("move it away"), "{why}");
}

#[test]
fn a_file_of_a_later_version_is_left_alone() {
    let (_folder, path, store) = on_disk(QUOTA);
    drop(store);
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(Store::open(Some(&path), QUOTA).unwrap_err().contains("newer smartgate"));
}

#[test]
fn one_gateway_serves_from_a_file_and_others_work_beside_it() {
    let (_folder, path, beside) = on_disk(QUOTA);
    let serving = Store::open_to_serve(Some(&path), QUOTA).unwrap();
    let why = Store::open_to_serve(Some(&path), QUOTA).unwrap_err();
    assert!(why.contains("another smartgate") && why.contains("storage.path"), "{why}");
    let kept = beside.write_blocking(|c| refs::put(c, "ada", "text", 60)).unwrap();
    let found = serving.read_blocking(move |c| refs::get(c, "ada", &kept.id)).unwrap();
    assert_eq!(found.as_deref(), Some("text"));
    drop(serving);
    assert!(Store::open_to_serve(Some(&path), QUOTA).is_ok());
    assert!(Store::open_to_serve(None, QUOTA).is_ok() && Store::open_to_serve(None, QUOTA).is_ok());
}

#[test]
fn a_reference_is_one_search_by_tenant_and_name() {
    let store = Store::open(None, QUOTA).unwrap();
    let plan: Vec<String> = store
        .read_blocking(|c| {
            c.prepare(&format!("EXPLAIN QUERY PLAN {}", refs::GET))?
                .query_map(["ada", "cx", "1"], |row| row.get(3))?
                .collect()
        })
        .unwrap();
    assert_eq!(plan, ["SEARCH refs USING INDEX sqlite_autoindex_refs_1 (tenant=? AND id=?)"]);
}

#[test]
fn many_writers_share_commits_and_all_arrive() {
    let (_folder, _, store) = on_disk(QUOTA);
    std::thread::scope(|scope| {
        for writer in 0..16 {
            let store = store.clone();
            scope.spawn(move || {
                for n in 0..20 {
                    let text = format!("{writer}/{n}");
                    store.write_blocking(move |c| refs::put(c, "ada", &text, 60)).unwrap();
                }
            });
        }
    });
    let count: i64 =
        store.read_blocking(|c| c.query_row("SELECT count(*) FROM refs", [], |r| r.get(0))).unwrap();
    assert_eq!(count, 320);
}

#[test]
fn a_job_that_panics_ends_alone() {
    let (_folder, _, store) = on_disk(QUOTA);
    let lost: Result<(), _> = store.write_blocking(|c| {
        refs::put(c, "ada", "half", 60)?;
        panic!("a fault of the job");
    });
    assert!(lost.is_err());
    store.write_blocking(|c| refs::put(c, "ada", "whole", 60)).unwrap();
    let count: i64 =
        store.read_blocking(|c| c.query_row("SELECT count(*) FROM refs", [], |r| r.get(0))).unwrap();
    assert_eq!(count, 1);
}
