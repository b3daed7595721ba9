//! The contract of `smart_memory`, called as clients of several tenants would.

use serde_json::{Value, json};

use super::super::tests::Client;
use crate::{config::MemoryScope, store::now};

async fn call(client: &Client, arguments: Value) -> Value {
    client
        .call("smart_memory", arguments.clone())
        .await
        .unwrap_or_else(|error| panic!("{arguments}: {error}"))
}

async fn refused(client: &Client, arguments: Value) -> Value {
    client.call("smart_memory", arguments).await.expect_err("refused")
}

async fn contents(client: &Client, query: &str) -> Vec<String> {
    let result = call(client, json!({"action": "recall", "query": query})).await;
    let items = result["items"].as_array().expect("items");
    items.iter().map(|item| item["content"].as_str().expect("content").to_owned()).collect()
}

#[tokio::test]
async fn what_is_stored_is_recalled_with_its_source() {
    let client = Client::new();
    let stored = call(
        &client,
        json!({"action": "store", "content": "The staging database runs on port 5433.",
        "tags": ["infra", "db"], "source": "https://wiki.example/db"}),
    )
    .await;
    assert_eq!((&stored["stored"]["created"], &stored["stored"]["version"]), (&json!(true), &json!(1)));
    call(&client, json!({"action": "store", "content": "Ada prefers tabs to spaces."})).await;
    let result = call(&client, json!({"action": "recall", "query": "which port has the database?"})).await;
    let item = &result["items"][0];
    assert_eq!((&item["id"], &item["source"]), (&stored["stored"]["id"], &json!("https://wiki.example/db")));
    assert_eq!((&item["tags"], &item["score"]), (&json!(["db", "infra"]), &json!(1.0)));
    assert!(item["created_at"].as_str().is_some_and(|time| time.ends_with('Z')));
    assert_eq!(contents(&client, "infra").await.len(), 1, "tags are found by words");
    assert!(contents(&client, "zebra").await.is_empty());
    let tagged = call(&client, json!({"action": "recall", "tags": ["db"]})).await;
    assert_eq!(tagged["items"].as_array().map(Vec::len), Some(1));
    let other =
        call(&client, json!({"action": "recall", "query": "database port", "tags": ["db", "other"]})).await;
    assert_eq!(other["items"], json!([]));
}

#[tokio::test]
async fn a_key_holds_one_value_and_the_same_value_changes_nothing() {
    let client = Client::new();
    let store = |content: &str| json!({"action": "store", "key": "editor", "content": content});
    let first = call(&client, store("vim")).await["stored"].clone();
    let again = call(&client, store("vim")).await["stored"].clone();
    assert_eq!(
        (&again["unchanged"], &again["version"], &again["id"]),
        (&json!(true), &json!(1), &first["id"])
    );
    let new = call(&client, store("helix")).await["stored"].clone();
    assert_eq!(
        (&new["created"], &new["unchanged"], &new["version"]),
        (&json!(false), &json!(false), &json!(2))
    );
    let got = call(&client, json!({"action": "get", "key": "editor"})).await;
    assert_eq!((&got["items"][0]["content"], &got["items"][0]["version"]), (&json!("helix"), &json!(2)));
    assert_eq!(contents(&client, "editor").await, ["helix"]);
    assert!(contents(&client, "vim").await.is_empty());
    assert_eq!(refused(&client, json!({"action": "get", "key": "nope"})).await["code"], "not_found");
}

#[tokio::test]
async fn content_that_is_nearly_the_same_is_one_entry_and_the_new_wording_wins() {
    let client = Client::new();
    let sentence = |last: &str| {
        let words = (0..60).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
        json!({"action": "store", "content": format!("{words} {last}")})
    };
    let first = call(&client, sentence("old")).await["stored"].clone();
    let again = call(&client, sentence("old")).await["stored"].clone();
    assert_eq!((&again["id"], &again["unchanged"]), (&first["id"], &json!(true)));
    let merged = call(&client, sentence("new")).await["stored"].clone();
    assert_eq!((&merged["merged_into"], &merged["version"]), (&first["id"], &json!(2)));
    let found = contents(&client, "word7").await;
    assert!(found.len() == 1 && found[0].ends_with("new"), "{found:?}");
    let other = call(&client, json!({"action": "store", "content": "word0 word1 something else"})).await;
    assert_eq!(other["stored"]["created"], true);
    let elsewhere = call(&client, {
        let mut s = sentence("new");
        s["namespace"] = json!("other");
        s
    })
    .await;
    assert_eq!(elsewhere["stored"]["created"], true, "namespaces are apart");
}

#[tokio::test]
async fn versions_guard_what_is_stored_and_forgotten() {
    let client = Client::new();
    let store = |content: &str, version: u32| json!({"action": "store", "key": "k", "content": content, "if_version": version});
    assert_eq!(refused(&client, store("a", 1)).await["details"]["current"], 0);
    call(&client, store("a", 0)).await;
    let error = refused(&client, store("b", 0)).await;
    assert_eq!((&error["code"], &error["details"]["current"]), (&json!("version_conflict"), &json!(1)));
    assert_eq!(call(&client, store("b", 1)).await["stored"]["version"], 2);
    let forget = |version: u32| json!({"action": "forget", "key": "k", "if_version": version});
    assert_eq!(refused(&client, forget(1)).await["code"], "version_conflict");
    assert_eq!(call(&client, forget(2)).await["forgotten"], 1);
    assert_eq!(call(&client, forget(0)).await["forgotten"], 0);
}

#[tokio::test]
async fn of_many_writers_of_one_version_one_wins() {
    let client = Client::new();
    let writes = (0..16).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            let store = json!({"action": "store", "key": "k", "content": n.to_string(), "if_version": 0});
            client.call("smart_memory", store).await.is_ok()
        })
    });
    let mut won = 0;
    for write in writes.collect::<Vec<_>>() {
        won += u32::from(write.await.expect("no panic"));
    }
    assert_eq!(won, 1);
    let plain = (0..16).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            call(&client, json!({"action": "store", "key": "p", "content": n.to_string()})).await
        })
    });
    for write in plain.collect::<Vec<_>>() {
        write.await.expect("no panic");
    }
    let got = call(&client, json!({"action": "get", "key": "p"})).await;
    assert_eq!(got["items"][0]["version"], 16);
}

#[tokio::test]
async fn forgetting_by_words_needs_a_limit_and_names_what_went() {
    let client = Client::new();
    for n in 0..4 {
        call(&client, json!({"action": "store", "key": format!("k{n}"), "content": format!("harbour fact {n}"), "tags": ["t"]})).await;
    }
    for arguments in [
        json!({"action": "forget"}),
        json!({"action": "forget", "query": "harbour"}),
        json!({"action": "forget", "query": "harbour", "key": "k1", "limit": 1}),
    ] {
        assert_eq!(refused(&client, arguments).await["code"], "invalid_arguments");
    }
    let gone =
        call(&client, json!({"action": "forget", "query": "harbour", "tags": ["t"], "limit": 3})).await;
    assert_eq!((&gone["forgotten"], gone["items"].as_array().map(Vec::len)), (&json!(3), Some(3)));
    assert_eq!(contents(&client, "harbour").await.len(), 1);
    assert_eq!(call(&client, json!({"action": "forget", "tags": ["t"], "limit": 9})).await["forgotten"], 1);
    assert_eq!(call(&client, json!({"action": "forget", "key": "k0"})).await["forgotten"], 0);
}

#[tokio::test]
async fn a_list_goes_on_where_it_ended() {
    let client = Client::new();
    for n in 0..7 {
        call(&client, json!({"action": "store", "key": format!("k{n}"), "content": format!("{n} {}", "long ".repeat(40))})).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let page = call(&client, json!({"action": "list", "limit": 3, "cursor": cursor})).await;
        for item in page["items"].as_array().expect("items") {
            assert_eq!(item["content"].as_str().map(|text| text.chars().count()), Some(80));
            assert_eq!(item["truncated"], true);
            seen.push(item["key"].as_str().expect("a key").to_owned());
        }
        cursor = page.get("next_cursor").cloned().unwrap_or_default();
        assert_eq!(page["truncated"], json!(!cursor.is_null()));
        if cursor.is_null() {
            break;
        }
    }
    seen.sort();
    assert_eq!(seen, (0..7).map(|n| format!("k{n}")).collect::<Vec<_>>());
    assert_eq!(refused(&client, json!({"action": "list", "cursor": "x"})).await["code"], "invalid_arguments");
}

#[tokio::test]
async fn results_are_cut_to_max_tokens() {
    let client = Client::new();
    let long = format!(
        "{}The harbour has nine cranes. {}",
        "Nothing is said here. ".repeat(200),
        "Nor is it here. ".repeat(200)
    );
    call(&client, json!({"action": "store", "key": "long", "content": long})).await;
    let recalled =
        call(&client, json!({"action": "recall", "query": "how many cranes?", "max_tokens": 300})).await;
    let text = recalled["items"][0]["content"].as_str().expect("content");
    assert!(text.contains("nine cranes") && text.len() < long.len(), "{text}");
    assert_eq!((&recalled["truncated"], &recalled["items"][0]["truncated"]), (&json!(true), &json!(true)));
    let got = call(&client, json!({"action": "get", "key": "long", "max_tokens": 300})).await;
    assert!(got["items"][0]["content"].as_str().is_some_and(|text| long.starts_with(text)));
    assert!(got["usage"]["tokens_out"].as_u64() <= Some(330), "{}", got["usage"]);
}

#[tokio::test]
async fn what_has_expired_is_not_there() {
    let client = Client::new();
    call(&client, json!({"action": "store", "key": "k", "content": "a fleeting thing", "ttl_seconds": 60}))
        .await;
    let got = call(&client, json!({"action": "get", "key": "k"})).await;
    assert!(got["items"][0]["expires_at"].is_string());
    let expired = now() - 1;
    client
        .store
        .write(move |c| c.execute("UPDATE memory SET expires = ?1", [expired]))
        .await
        .expect("written");
    assert!(contents(&client, "fleeting").await.is_empty());
    assert_eq!(refused(&client, json!({"action": "get", "key": "k"})).await["code"], "not_found");
    assert_eq!(call(&client, json!({"action": "list"})).await["items"], json!([]));
    let stored =
        call(&client, json!({"action": "store", "key": "k", "content": "a fleeting thing", "if_version": 0}))
            .await;
    assert_eq!((&stored["stored"]["created"], &stored["stored"]["version"]), (&json!(true), &json!(1)));
    assert_eq!(contents(&client, "fleeting").await.len(), 1);
}

#[tokio::test]
async fn tenants_know_nothing_of_each_other() {
    let ada = Client::new();
    let bob = ada.of_tenant("bob");
    let stored =
        call(&ada, json!({"action": "store", "key": "k", "content": "the launch code is swordfish"})).await;
    let id = stored["stored"]["id"].as_str().expect("an id").to_owned();
    for name in ["k", &id] {
        assert_eq!(
            refused(&bob, json!({"action": "get", "key": name})).await,
            refused(&bob, json!({"action": "get", "key": "never was"})).await
        );
        assert_eq!(call(&bob, json!({"action": "forget", "key": name})).await["forgotten"], 0);
    }
    assert!(contents(&bob, "launch code").await.is_empty());
    let own = call(
        &bob,
        json!({"action": "store", "key": "k", "content": "the launch is on Monday", "if_version": 0}),
    )
    .await;
    assert_eq!(own["stored"]["version"], 1);
    assert_eq!(contents(&bob, "launch code").await, ["the launch is on Monday"]);
    assert_eq!(contents(&ada, "launch").await, ["the launch code is swordfish"]);
    // One's ranking does not depend on how common a word is with the other.
    let score = |result: Value| result["items"].clone();
    let query = json!({"action": "recall", "query": "launch monday"});
    let before = score(call(&bob, query.clone()).await);
    for n in 0..20 {
        call(&ada, json!({"action": "store", "key": format!("n{n}"), "content": format!("monday note {n}")}))
            .await;
    }
    assert_eq!(score(call(&bob, query).await), before);
}

#[tokio::test]
async fn a_key_reaches_the_namespaces_of_its_scopes() {
    let all = Client::new();
    call(&all, json!({"action": "store", "namespace": "team", "key": "k", "content": "shared words"})).await;
    call(&all, json!({"action": "store", "key": "k", "content": "default words"})).await;
    let pinned = all.with_memory([MemoryScope { namespace: Some("team".into()), write: true }]);
    assert_eq!(contents(&pinned, "words").await, ["shared words"]);
    assert_eq!(
        refused(&pinned, json!({"action": "get", "namespace": "default", "key": "k"})).await["code"],
        "scope_denied"
    );
    let reader = all.with_memory([MemoryScope { namespace: None, write: false }]);
    assert_eq!(contents(&reader, "words").await, ["default words"]);
    for action in [json!({"action": "store", "content": "x y"}), json!({"action": "forget", "key": "k"})] {
        assert_eq!(refused(&reader, action).await["code"], "scope_denied");
    }
    let none = all.with_memory([]);
    assert_eq!(refused(&none, json!({"action": "list"})).await["code"], "scope_denied");
}

#[tokio::test]
async fn arguments_are_checked() {
    let client = Client::new();
    for arguments in [
        json!({}),
        json!({"action": "remember"}),
        json!({"action": "store"}),
        json!({"action": "store", "content": "a", "ref": "cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X"}),
        json!({"action": "store", "content": " "}),
        json!({"action": "store", "content": "a", "namespace": "no spaces"}),
        json!({"action": "store", "content": "a", "tags": ["a b"]}),
        json!({"action": "store", "content": "a", "ttl_seconds": 5}),
        json!({"action": "store", "content": "x".repeat(32_769)}),
        json!({"action": "recall"}),
        json!({"action": "recall", "query": "a", "limit": 51}),
        json!({"action": "get"}),
    ] {
        assert_eq!(refused(&client, arguments.clone()).await["code"], "invalid_arguments", "{arguments}");
    }
    for query in ["\"", "a OR \"b", "* ^ NEAR( -x", "!!!", "\u{0}"] {
        assert_eq!(call(&client, json!({"action": "recall", "query": query})).await["items"], json!([]));
    }
}

#[tokio::test]
async fn a_reference_can_be_stored() {
    let client = Client::new();
    let reference = client
        .store
        .write(|c| crate::store::refs::put(c, "local", "kept by reference", 60))
        .await
        .expect("kept");
    call(&client, json!({"action": "store", "ref": reference.id})).await;
    assert_eq!(contents(&client, "reference").await, ["kept by reference"]);
}

#[tokio::test]
async fn what_is_swept_leaves_no_trace() {
    let client = Client::new();
    for n in 0..3 {
        call(&client, json!({"action": "store", "content": format!("note number {n} about the harbour")}))
            .await;
    }
    let left = client.store.write(|c| {
        c.execute("DELETE FROM memory", [])?;
        c.query_row(
            "SELECT (SELECT count(*) FROM memory_pairs), (SELECT count(*) FROM memory_words_1 WHERE words MATCH 'harbour'), entries, bytes
             FROM memory_tenants",
            [],
            |row| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?]),
        )
    });
    assert_eq!(left.await.expect("read"), [0, 0, 0, 0]);
}

#[tokio::test]
async fn other_tags_leave_the_source_and_the_end_of_an_entry_alone() {
    let client = Client::new();
    let first = json!({"action": "store", "content": "A fact.", "source": "https://a.example", "ttl_seconds": 3_600, "tags": ["a"]});
    call(&client, first).await;
    call(&client, json!({"action": "store", "content": "A fact.", "tags": ["b"]})).await;
    let item = call(&client, json!({"action": "recall", "query": "fact"})).await["items"][0].take();
    assert_eq!((&item["tags"], &item["source"]), (&json!(["b"]), &json!("https://a.example")));
    assert!(item["expires_at"].is_string(), "{item}");
}

#[tokio::test]
async fn a_version_is_that_of_one_entry() {
    let client = Client::new();
    call(&client, json!({"action": "store", "content": "A fact."})).await;
    let error =
        refused(&client, json!({"action": "forget", "query": "fact", "limit": 1, "if_version": 99})).await;
    assert_eq!(error["code"], "invalid_arguments");
    assert_eq!(contents(&client, "fact").await, ["A fact."]);
}

#[tokio::test]
async fn entries_are_counted_as_no_less_than_the_file_takes_for_them() {
    let client = Client::new();
    let number = |sql: &'static str| {
        let store = client.store.clone();
        async move { store.read(move |c| c.query_row(sql, [], |row| row.get::<_, i64>(0))).await.unwrap() }
    };
    let empty = number("PRAGMA page_count").await;
    let mut random = fastrand::Rng::with_seed(1);
    for n in 0..300 {
        let words = if n % 50 == 0 { 4_000 } else { 30 };
        let text: Vec<String> =
            (0..words).map(|_| (0..5).map(|_| random.lowercase()).collect::<String>()).collect();
        let tags: Vec<String> = (0..n % 16).map(|tag| format!("tag-{n}-{tag}")).collect();
        let arguments = json!({"action": "store", "content": text.join(" "), "tags": tags});
        call(&client, arguments).await;
    }
    let taken = (number("PRAGMA page_count").await - empty) * 4096;
    let counted = number("SELECT bytes FROM shares").await;
    assert!((taken..taken * 3).contains(&counted), "{counted} counted, {taken} taken");
}

#[tokio::test]
async fn a_full_share_refuses_and_says_so() {
    let client = Client::new();
    // Tenants enough that each has little more than its empty tables.
    client.store.divide((0..200).map(|n| n.to_string()).collect());
    let entry = |n: u32| json!({"action": "store", "key": n.to_string(), "content": "word ".repeat(6_000)});
    let mut stored = 0;
    let error = loop {
        match client.call("smart_memory", entry(stored)).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 50, "a share has an end");
    };
    assert!(stored > 0);
    assert_eq!(error["code"], "quota_exceeded");
    // Nothing of the one that was refused stays, and what is forgotten makes room.
    assert_eq!(
        refused(&client, json!({"action": "get", "key": stored.to_string()})).await["code"],
        "not_found"
    );
    call(&client, json!({"action": "forget", "key": "0"})).await;
    call(&client, entry(99)).await;
    call(&client.of_tenant("1"), entry(0)).await;
}
