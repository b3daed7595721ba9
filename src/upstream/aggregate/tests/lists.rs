use std::{collections::BTreeMap, sync::Arc};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    fake::{Fake, tool},
    running::{Running, request_of, seat},
};
use crate::{
    config::{Rename, Show},
    glob::Globs,
    upstream::{
        aggregate::{Member, names::Naming},
        catalog::State,
    },
};

#[tokio::test]
async fn a_thousand_tools_of_twenty_servers_list_in_one_pass() {
    let fakes: Vec<_> = (0..20)
        .map(|_| {
            let tools: Vec<Value> = (0..50).map(|n| tool(&format!("t{n}"))).collect();
            Fake::with(json!({"tools": tools}))
        })
        .collect();
    let members = fakes.iter().enumerate().map(|(n, fake)| seat(&format!("s{n}"), fake)).collect();
    let running = Running::learned(members).await;
    let asked = || fakes.iter().map(|f| f.all("tools/list").len()).sum::<usize>();
    let before = asked();
    let body = running.ask("tools/list", json!({})).await;
    let names: Vec<_> =
        body["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 1000);
    assert_eq!((names[0], names[51], names[999]), ("s0__t0", "s1__t1", "s19__t49"));
    assert!(body["result"].get("nextCursor").is_none());
    assert_eq!((&body["id"], &body["result"]["cacheScope"]), (&json!("client-1"), &json!("public")));
    let ttl = body["result"]["ttlMs"].as_u64().unwrap();
    assert!(ttl > 0 && ttl <= 60_000);
    assert_eq!(asked(), before, "no server is asked");
    assert_eq!(running.aggregate.tools().len(), 1000);
    assert_eq!(running.aggregate.owner("s7__t3"), Some(("s7".into(), "t3".into())));
}

#[tokio::test]
async fn more_than_a_page_is_turned_with_cursors_that_are_ours_alone() {
    let many = |from: usize| {
        let tools: Vec<Value> = (from..from + 700).map(|n| json!({"name": format!("t{n}")})).collect();
        Fake::with(json!({"tools": tools}))
    };
    let (a, b) = (many(0), many(700));
    let running = Running::learned(vec![seat("a", &a), seat("b", &b)]).await;
    let first = running.ask("tools/list", json!({"cursor": null})).await;
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 1000);
    let cursor = first["result"]["nextCursor"].clone();
    let second = running.ask("tools/list", json!({"cursor": cursor})).await;
    assert_eq!(second["result"]["tools"].as_array().unwrap().len(), 400);
    assert_eq!(second["result"]["tools"][0]["name"], "b__t1000");
    assert!(second["result"].get("nextCursor").is_none());
    for (who, method, cursor) in [
        ("ada", "prompts/list", cursor.clone()),
        ("bob", "tools/list", cursor),
        ("ada", "tools/list", json!("")),
        ("ada", "tools/list", json!("1000")),
        ("ada", "tools/list", json!(7)),
    ] {
        let (status, refused) =
            running.send(request_of(who, "1", method, json!({"cursor": cursor}))).await.unwrap();
        assert_eq!((status, &refused["error"]["code"]), (200, &json!(-32602)), "{refused}");
    }
}

#[tokio::test]
async fn names_are_prefixed_renamed_hidden_and_parameters_with_them() {
    let fake = Fake::with(json!({
        "tools": [tool("read"), {"name": "search", "x": 1.50, "inputSchema": {"type": "object",
            "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["q", "limit"]}}, tool("delete")],
        "prompts": [{"name": "ask"}],
        "resources": [{"uri": "file:///a", "name": "a"}],
        "resourceTemplates": [{"uriTemplate": "db://{id}", "name": "row"}],
    }));
    let mut member = seat("f", &fake);
    member.tools = Globs::new(["*", "!delete"]);
    let rename = Rename { name: Some("find".into()), description: Some("Find it".into()) };
    member.show = Show {
        rename: BTreeMap::from([("search".into(), rename)]),
        fixed: BTreeMap::from([("search".into(), BTreeMap::from([("limit".into(), json!(10))]))]),
        ..Show::default()
    };
    let running = Running::learned(vec![member]).await;
    assert_eq!(running.names("tools/list", "tools", "name").await, ["f__read", "f__find"]);
    let found = running.ask("tools/list", json!({})).await["result"]["tools"][1].clone();
    assert_eq!(
        found,
        json!({"name": "f__find", "x": 1.5, "description": "Find it", "inputSchema":
        {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}})
    );
    assert_eq!(running.names("prompts/list", "prompts", "name").await, ["f__ask"]);
    assert_eq!(running.names("resources/list", "resources", "uri").await, ["file:///a"]);
    assert_eq!(
        running.names("resources/templates/list", "resourceTemplates", "uriTemplate").await,
        ["db://{id}"]
    );
}

#[tokio::test]
async fn a_name_that_two_would_have_is_nobodys_whatever_the_order() {
    for turn in [false, true] {
        let (a, b) = (Fake::tools(&["same", "a"]), Fake::tools(&["same", "b"]));
        let mut members = vec![seat("one", &a), seat("two", &b)];
        members.iter_mut().for_each(|m| m.prefix.clear());
        if turn {
            members.reverse();
        }
        let running = Running::learned(members).await;
        let mut names = running.names("tools/list", "tools", "name").await;
        names.sort();
        assert_eq!(names, ["a", "b"]);
        let refused = running.ask("tools/call", json!({"name": "same", "arguments": {}})).await;
        assert_eq!(refused["error"]["code"], -32602);
        assert!(refused["error"]["message"].as_str().unwrap().contains("none is shown"), "{refused}");
        let state = serde_json::json!({"collisions": running.aggregate.collisions()});
        assert_eq!(state["collisions"][0]["name"], "same");
        assert_eq!(state["collisions"][0]["upstreams"].as_array().unwrap().len(), 2);
        assert!(a.all("tools/call").is_empty() && b.all("tools/call").is_empty());
    }
}

#[tokio::test]
async fn discovery_is_the_union_and_names_the_servers() {
    let mut a = Fake::new(json!({"tools": [], "prompts": []}));
    a.instructions = Some("Be brief.".into());
    let mut b = Fake::new(json!({"tools": [], "resources": []}));
    b.scope = "private";
    b.capabilities.get_mut().unwrap()["experimental"] = json!({"x": {}});
    let (a, b) = (Arc::new(a), Arc::new(b));
    let running = Running::learned(vec![seat("alpha", &a), seat("beta", &b)]).await;
    let found = running.ask("server/discover", json!({})).await["result"].clone();
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(
        found["capabilities"],
        json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true, "subscribe": true},
        "resources": {"listChanged": true, "subscribe": true}})
    );
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "smartgate");
    let told = found["instructions"].as_str().unwrap();
    assert!(
        told.contains("alpha (names begin with alpha__)") && told.contains("## alpha\n\nBe brief."),
        "{told}"
    );
    assert_eq!(found["cacheScope"], "private");
}

#[tokio::test]
async fn a_missing_server_makes_lists_short_lived_and_delays_nobody() {
    let (good, gone) = (Fake::tools(&["a"]), Fake::tools(&["b"]));
    gone.script(|_| Some(super::fake::Act::Hang));
    let running = Running::start(vec![seat("good", &good), seat("gone", &gone)]);
    super::running::until("the good one is learned", || running.catalogs[0].age().is_some()).await;
    let body = running.ask("tools/list", json!({})).await["result"].clone();
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert_eq!((&body["ttlMs"], &body["cacheScope"]), (&json!(0), &json!("private")));
    let unknown = running.ask("tools/call", json!({"name": "gone__b"})).await;
    assert!(unknown["error"]["message"].as_str().unwrap().contains("Not every server could be asked"));
    assert!(matches!(running.catalogs[1].state(), State::Learning | State::Unreachable { .. }));
}

#[tokio::test]
async fn what_was_known_is_listed_at_once_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::with(json!({"tools": [tool("a")], "prompts": [{"name": "p"}]}));
    let kept = |fake: &Arc<Fake>, origin: &str| {
        let mut member = seat("f", fake);
        let catalog = Arc::into_inner(member.catalog).unwrap();
        member.catalog = Arc::new(catalog.kept_in(folder.path(), origin));
        member
    };
    let learned = Running::learned(vec![kept(&fake, "one")]).await;
    super::running::until("it is kept", || folder.path().join("f.json").exists()).await;
    drop(learned);
    let away = Fake::tools(&[]);
    away.script(|_| Some(super::fake::Act::Hang));
    let running = Running::start(vec![kept(&away, "one")]);
    super::running::until("it is remembered", || running.aggregate.tools().contains("f__a")).await;
    assert_eq!(running.catalogs[0].state(), State::Stale { tools: 1 });
    assert_eq!(running.names("prompts/list", "prompts", "name").await, ["f__p"]);
    assert_eq!(running.ask("tools/list", json!({})).await["result"]["ttlMs"], 0);
    let other = Running::start(vec![kept(&away, "two")]);
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(other.aggregate.tools().is_empty(), "another server's knowledge is not taken over");
}

fn members(prefix: &str, renamed: &str) -> (String, BTreeMap<String, Rename>) {
    let rename = Rename { name: Some(renamed.to_owned()), description: None };
    (prefix.to_owned(), BTreeMap::from([("t0".to_owned(), rename)]))
}

proptest! {
    /// What a name leads to is what has that name: for any prefixes, names and renames, every listed tool is called at
    /// its own server under its own name, and nothing is listed twice.
    #[test]
    fn every_public_name_leads_back(
        sets in proptest::collection::vec(("[a_]{0,3}", proptest::collection::btree_set("[a_t0]{1,4}", 1..6), "[a_]{1,4}"), 1..4)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut seats: Vec<Member> = Vec::new();
            for (n, (prefix, tools, renamed)) in sets.iter().enumerate() {
                let tools: Vec<Value> = tools.iter().map(|t| tool(t)).collect();
                let fake = Fake::with(json!({"tools": tools}));
                let mut member = seat(&format!("s{n}"), &fake);
                (member.prefix, member.show.rename) = members(prefix, renamed);
                seats.push(member);
            }
            let mut expected: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
            for (n, (prefix, tools, renamed)) in sets.iter().enumerate() {
                let (prefix, rename) = members(prefix, renamed);
                let naming = Naming { prefix: &prefix, separator: "__", rename: &rename };
                for own in tools {
                    expected.entry(naming.tool(own)).or_default().push((format!("s{n}"), own.clone()));
                }
            }
            let running = Running::learned(seats).await;
            let listed = running.names("tools/list", "tools", "name").await;
            for (public, owners) in expected {
                let found = running.aggregate.owner(&public).map(|(a, b)| (a.to_string(), b.to_string()));
                assert_eq!(listed.iter().filter(|l| **l == public).count(), usize::from(owners.len() == 1));
                assert_eq!(found, (owners.len() == 1).then(|| owners[0].clone()), "{public}");
            }
        });
    }
}
