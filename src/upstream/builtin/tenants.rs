//! What one tenant is told about what is another's: byte for byte what it is told about what never was.

use serde_json::{Value, json};

use super::tests::Client;

/// Names of things, of which some are a tenant's and some nobody's.
struct Names {
    reference: String,
    run: String,
    reservation: String,
    key: &'static str,
    id: String,
    cursor: String,
}

impl Names {
    /// Everything that a caller can name, as one tenant has it.
    async fn of(client: &Client) -> Self {
        let text = "A sentence about the harbour. ".repeat(40);
        let cut = client.call("smart_context_gate", json!({"text": text, "max_tokens": 32})).await.unwrap();
        let reference = cut["original_ref"].as_str().unwrap().to_owned();
        let guard = |arguments| client.call("smart_budget_guard", arguments);
        let run = guard(json!({"action": "open_run", "limit_tokens": 5_000})).await.unwrap()["run"].clone();
        let held = guard(json!({"action": "reserve", "run": run, "tokens": 10})).await.unwrap();
        let arguments = json!({"action": "store", "key": "editor", "content": "vim"});
        let stored = client.call("smart_memory", arguments).await.unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            cursor: format!("{reference}.{reference}.8"),
            reference,
            run: text(&run),
            reservation: text(&held["reservation"]),
            key: "editor",
            id: text(&stored["stored"]["id"]),
        }
    }

    /// Of the same form, and nobody's.
    fn of_nobody() -> Self {
        let ulid = || ulid::Ulid::generate();
        let reference = format!("cx_{}", ulid());
        Self {
            cursor: format!("{reference}.{reference}.8"),
            reference,
            run: format!("br_{}", ulid()),
            reservation: format!("bh_{}", ulid()),
            key: "effort",
            id: "me_00112233445566778899aabb".into(),
        }
    }

    /// Every call that looks something up by a name which the caller gives.
    fn calls(&self) -> Vec<(&'static str, Value)> {
        let Self { reference, run, reservation, key, id, cursor } = self;
        vec![
            ("smart_context_gate", json!({"ref": reference})),
            ("smart_dedup", json!({"texts": ["a text", reference]})),
            ("smart_memory", json!({"action": "store", "ref": reference})),
            ("smart_budget_guard", json!({"action": "count", "ref": reference})),
            ("smart_fetch", json!({"cursor": cursor})),
            ("smart_budget_guard", json!({"action": "check", "run": run})),
            ("smart_budget_guard", json!({"action": "reserve", "run": run, "tokens": 1})),
            (
                "smart_budget_guard",
                json!({"action": "record", "run": run, "tokens": 1, "idempotency_key": "k"}),
            ),
            ("smart_budget_guard", json!({"action": "close_run", "run": run})),
            ("smart_budget_guard", json!({"action": "commit", "reservation": reservation, "tokens": 1})),
            ("smart_budget_guard", json!({"action": "release", "reservation": reservation})),
            ("smart_memory", json!({"action": "get", "key": key})),
            ("smart_memory", json!({"action": "get", "key": id})),
            ("smart_memory", json!({"action": "forget", "key": key})),
            ("smart_memory", json!({"action": "forget", "key": id, "if_version": 1})),
            ("smart_memory", json!({"action": "recall", "query": key})),
        ]
    }
}

#[tokio::test]
async fn what_is_anothers_is_as_unknown_as_what_never_was() {
    let ada = Client::new().of_tenant("ada");
    let bob = ada.of_tenant("bob");
    let adas = Names::of(&ada).await;
    // Bob has things of his own, so that both have tables to look in.
    Names::of(&bob).await;
    bob.call("smart_memory", json!({"action": "forget", "key": "editor"})).await.unwrap();
    for ((tool, theirs), (_, nobodys)) in adas.calls().into_iter().zip(Names::of_nobody().calls()) {
        let answer = bob.answer(tool, theirs.clone()).await;
        assert_eq!(answer, bob.answer(tool, nobodys).await, "{tool} {theirs}");
        assert!(!answer.contains("harbour") && !answer.contains("vim"), "{answer}");
    }
    // None of it touched what is ada's.
    for (tool, arguments) in adas.calls() {
        let closes =
            ["forget", "close_run", "release", "commit"].iter().any(|word| arguments["action"] == **word);
        if !closes && tool != "smart_fetch" {
            assert!(ada.call(tool, arguments.clone()).await.is_ok(), "{tool} {arguments}");
        }
    }
}

#[tokio::test]
async fn a_place_in_a_list_does_not_tell_how_much_others_store() {
    let ada = Client::new().of_tenant("ada");
    let store =
        |n: u32| json!({"action": "store", "key": format!("key {n}"), "content": format!("content {n}")});
    let list = json!({"action": "list", "limit": 2});
    let mut cursors = Vec::new();
    for (name, others) in [("bob", 0), ("cleo", 25)] {
        for n in 0..others {
            ada.call("smart_memory", store(n)).await.unwrap();
        }
        let client = ada.of_tenant(name);
        for n in 0..3 {
            client.call("smart_memory", store(n)).await.unwrap();
        }
        client.store.write(|c| c.execute("UPDATE memory SET updated = 1000", [])).await.unwrap();
        let page = client.call("smart_memory", list.clone()).await.unwrap();
        let rest = json!({"action": "list", "cursor": page["next_cursor"]});
        let rest = client.call("smart_memory", rest).await.unwrap();
        assert_eq!(rest["items"].as_array().map(Vec::len), Some(1));
        cursors.push(page["next_cursor"].clone());
    }
    assert_eq!(cursors[0], cursors[1]);
}
