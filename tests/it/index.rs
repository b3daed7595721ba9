//! `smartgate index`, as a user runs it, and what smart_search finds of it.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

fn smartgate(state: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smartgate"));
    command.args(args).current_dir(state).env("XDG_STATE_HOME", state).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder with one document of each kind.
fn documents() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let docs = folder.path().join("docs");
    fs::create_dir_all(docs.join("deep/.hidden")).unwrap();
    fs::write(docs.join("bread.md"), "# Baking bread\n\nSourdough rises overnight in a cool place.").unwrap();
    fs::write(docs.join("deep/harbour.txt"), "The harbour\n\nGrain and fish were traded at the quay.")
        .unwrap();
    let page = "<html><head><title>Memory &amp; garbage</title></head><body><nav>Home</nav>\
        <p>A collector marks every object that can be reached.</p><script>sourdough()</script></body></html>";
    fs::write(docs.join("deep/page.html"), page).unwrap();
    fs::write(docs.join("deep/.hidden/secret.md"), "hidden words").unwrap();
    fs::write(docs.join("image.png"), b"\x89PNG\0\0").unwrap();
    folder
}

/// The structured result of a search on the command line.
fn search(state: &Path, query: &str) -> Value {
    let output = smartgate(state, &["call", "smart_search", &format!("query={query}"), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_folder_is_added_found_listed_and_removed() {
    let folder = documents();
    let state = folder.path();
    let empty = search(state, "bread");
    assert_eq!((&empty["results"], &empty["partial"]), (&Value::Array(vec![]), &false.into()));
    assert!(empty["warnings"][0].as_str().unwrap().contains("smartgate index add"), "{empty}");

    let output = smartgate(state, &["index", "add", "docs"]);
    let log = text(&output.stderr);
    assert!(output.status.success() && output.stdout.is_empty(), "{log}");
    assert!(log.ends_with("3 added, 0 renewed, 0 unchanged, 0 failed\n"), "{log}");

    let found = search(state, "how does sourdough rise");
    assert_eq!(found["results"].as_array().map(Vec::len), Some(1), "{found}");
    let hit = &found["results"][0];
    assert_eq!(
        (&hit["title"], &hit["rank"], &hit["engines"][0]),
        (&"Baking bread".into(), &1.into(), &"local".into())
    );
    assert!(hit["url"].as_str().unwrap().ends_with("/docs/bread.md"), "{hit}");
    assert!(hit["snippet"].as_str().unwrap().contains("Sourdough rises overnight"), "{hit}");
    assert!(hit["ref"].as_str().unwrap().starts_with("cx_"), "{hit}");
    assert_eq!(search(state, "reachable objects")["results"][0]["title"], "Memory & garbage");

    fs::write(state.join("docs/bread.md"), "# Baking rye\n\nRye needs more water.").unwrap();
    let log = text(&smartgate(state, &["index", "add", "docs", "docs/bread.md"]).stderr);
    assert!(log.ends_with("0 added, 1 renewed, 3 unchanged, 0 failed\n"), "{log}");
    assert_eq!(search(state, "sourdough")["results"].as_array().map(Vec::len), Some(0));

    let listed = text(&smartgate(state, &["index", "list"]).stdout);
    let titles: Vec<&str> = listed.lines().map(|line| line.rsplit('\t').next().unwrap()).collect();
    assert_eq!(titles, ["Baking rye", "The harbour", "Memory & garbage"]);

    let url = listed.split('\t').next().unwrap();
    for (place, code) in [(url, 0), (url, 1), ("docs/deep/harbour.txt", 0)] {
        assert_eq!(smartgate(state, &["index", "remove", place]).status.code(), Some(code), "{place}");
    }
    assert_eq!(text(&smartgate(state, &["index", "list"]).stdout).lines().count(), 1);
}

#[test]
fn what_cannot_be_added_is_named_and_the_rest_is_added() {
    let folder = documents();
    let state = folder.path();
    fs::create_dir(state.join("nothing")).unwrap();
    fs::write(state.join("blank.md"), " \n").unwrap();
    let places = ["docs/image.png", "absent.md", "nothing", "blank.md", "docs/bread.md"];
    let output = smartgate(state, &[&["index", "add"][..], &places].concat());
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    for (place, why) in
        places.iter().zip(["it is not a text", "No such file", "there is no text", "it has no words"])
    {
        assert!(log.contains(&format!("failed     {place}: {why}")), "{place} in\n{log}");
    }
    assert!(log.ends_with("1 added, 0 renewed, 0 unchanged, 4 failed\n"), "{log}");
}

#[test]
fn the_storage_of_a_configuration_is_used() {
    let folder = documents();
    let state = folder.path();
    fs::write(state.join("gate.toml"), "[storage]\npath = \"here.db\"\n").unwrap();
    assert!(smartgate(state, &["index", "add", "-c", "gate.toml", "docs"]).status.success());
    assert!(state.join("here.db").is_file());
    assert!(smartgate(state, &["index", "list"]).stdout.is_empty());
    let listed = smartgate(state, &["index", "list", "-c", "gate.toml"]);
    assert_eq!(text(&listed.stdout).lines().count(), 3);
}

#[test]
fn wrong_usage_is_64() {
    let state = tempfile::tempdir().unwrap();
    for args in
        [&["index"][..], &["index", "add"], &["index", "ad", "x"], &["index", "list", "-c", "absent.toml"]]
    {
        assert_eq!(smartgate(state.path(), args).status.code(), Some(64), "{args:?}");
    }
}
