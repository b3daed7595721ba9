//! Pipelines of tools that need no network: plans that are refused, references, failures, sums.

use serde_json::{Value, json};

use crate::{
    config::Smart,
    policy::budget::Ledger,
    search::local::{self, Document, OPERATOR},
    store::Store,
    upstream::{Caller, builtin::Builtin},
};

/// The tools, with documents in their index.
async fn tools(documents: &[(&str, &str)]) -> Builtin {
    let store = Store::open(None, 64 << 20).unwrap();
    for (url, text) in documents {
        let document = Document::new(url, "A title", text).unwrap();
        store.write(move |c| local::add(c, OPERATOR, &document)).await.unwrap();
    }
    let ledger = Ledger::open(store.clone()).unwrap();
    Builtin::new(&Smart::default(), store, ledger.into())
}

async fn run(tools: &Builtin, tool: &str, arguments: Value) -> Result<Value, Value> {
    tools.run(tool, arguments, Caller::default()).await.expect("it is there")
}

async fn pipe(arguments: Value) -> Result<Value, Value> {
    run(&tools(&[]).await, "smart_pipe", arguments).await
}

const HARBOUR: &str = "The harbour was dug in 1862 by two hundred workers, who were paid by the day and lived in tents.\n\n\
    Fish was sold on the quay before sunrise.\n\nThe light on the mole has been electric since 1911.";

#[tokio::test]
async fn research_answers_from_the_index_with_no_outside_service() {
    let tools =
        tools(&[("file:///town/harbour.md", HARBOUR), ("file:///town/bread.md", "Bread rises for a night.")])
            .await;
    let question = json!({"question": "When was the harbour dug?"});
    let done = run(&tools, "smart_pipe", json!({"template": "research", "input": question})).await.unwrap();
    let text = done["outputs"]["answer"]["text"].as_str().unwrap_or_else(|| panic!("{done:#}"));
    assert!(text.contains("dug in 1862"), "{done:#}");
    let steps: Vec<_> =
        done["steps"].as_array().unwrap().iter().map(|s| s["status"].as_str().unwrap()).collect();
    assert_eq!(steps, ["ok", "ok", "ok", "ok"]);
}

#[tokio::test]
async fn research_that_finds_nothing_is_no_failure() {
    let done = pipe(json!({"template": "research", "input": {"question": "anything"}})).await.unwrap();
    assert_eq!(done["outputs"], json!({}));
    assert_eq!(done["steps"][3]["status"], "skipped", "{done:#}");
}

#[tokio::test]
async fn what_was_researched_is_recalled_the_next_time() {
    let tools = tools(&[("file:///town/harbour.md", HARBOUR)]).await;
    let call = || {
        let question = json!({"question": "When was the harbour dug?"});
        run(&tools, "smart_pipe", json!({"template": "recall_or_research", "input": question}))
    };
    let first = call().await.unwrap();
    assert!(first["outputs"]["answer"]["text"].as_str().unwrap().contains("1862"), "{first:#}");
    let again = call().await.unwrap();
    assert!(again["outputs"].get("answer").is_none(), "{again:#}");
    let item = &again["outputs"]["recall"]["items"][0];
    assert!(item["content"].as_str().unwrap().contains("1862"));
    assert_eq!(item["source"], "file:///town/harbour.md");
}

#[tokio::test]
async fn a_pipeline_gives_what_its_steps_give_one_by_one() {
    let tools = tools(&[("file:///town/harbour.md", HARBOUR)]).await;
    let hits = run(&tools, "smart_search", json!({"query": "harbour"})).await.unwrap();
    let gate = json!({"ref": hits["results"][0]["ref"], "purpose": "fish", "max_tokens": 16});
    let alone = run(&tools, "smart_context_gate", gate).await.unwrap();
    let steps = json!([
        {"id": "search", "tool": "smart_search", "args": {"query": "harbour"}},
        {"id": "cut", "tool": "smart_context_gate", "args":
            {"ref": {"$from": "search", "path": "/results/0/ref"}, "purpose": "fish", "max_tokens": 16}},
    ]);
    let together = run(&tools, "smart_pipe", json!({"steps": steps})).await.unwrap();
    assert_eq!(together["outputs"]["cut"]["text"], alone["text"]);
}

#[tokio::test]
async fn a_pipeline_adds_to_the_memory_and_changes_nothing_in_it() {
    let tools = tools(&[]).await;
    let entry = "The staging database runs on port 5433 of the second machine in the old rack, beside the door, and is \
        backed up every night at two to the machine in the cellar, which nobody has seen since the flood of the spring \
        before last.";
    run(&tools, "smart_memory", json!({"action": "store", "content": entry, "tags": ["db"]})).await.unwrap();
    let like = entry.replace("before last", "before that");
    for (id, content) in [("same", entry), ("like", &like)] {
        let steps =
            json!([{"id": id, "tool": "smart_memory", "args": {"action": "store", "content": content}}]);
        let error = run(&tools, "smart_pipe", json!({"steps": steps})).await.unwrap_err();
        assert_eq!(error["details"]["error"]["code"], "version_conflict", "{error:#}");
    }
    let forget = json!([{"id": "f", "tool": "smart_memory", "args": {"action": "forget", "key": "k"}}]);
    assert_eq!(
        run(&tools, "smart_pipe", json!({"steps": forget, "dry_run": true})).await.unwrap_err()["code"],
        "invalid_pipeline"
    );
    let found = run(&tools, "smart_memory", json!({"action": "recall", "query": "database"})).await.unwrap();
    assert_eq!((&found["items"][0]["content"], &found["items"][0]["tags"]), (&json!(entry), &json!(["db"])));
}

fn texts() -> Value {
    json!([
        "The cat sat on the mat and slept all day long.",
        "Another text entirely, about trains.",
        "The cat sat on the mat and slept all day long."
    ])
}

fn two_steps() -> Value {
    json!([
        {"id": "first", "tool": "smart_dedup", "args": {"texts": texts()}},
        {"id": "second", "tool": "smart_dedup", "args": {"texts": {"$from": "first", "path": "/texts"}}},
    ])
}

#[tokio::test]
async fn a_later_step_takes_what_an_earlier_one_gave() {
    let done = pipe(json!({"steps": two_steps()})).await.unwrap();
    assert_eq!(done["outputs"]["second"]["texts"].as_array().unwrap().len(), 2, "{done}");
    assert!(done["outputs"].get("first").is_none());
    let steps = done["steps"].as_array().unwrap();
    assert!(steps.iter().all(|s| s["status"] == "ok"));
    assert!(steps[0]["ref"].as_str().unwrap().starts_with("cx_"));
    let sum: u64 = steps.iter().map(|s| s["tokens_out"].as_u64().unwrap()).sum();
    assert_eq!(done["usage"]["tokens_in"], sum);
    assert_eq!(done["usage"]["savings_basis"], "pipe");
}

#[tokio::test]
async fn each_runs_over_items_and_when_skips() {
    let done = pipe(json!({
        "input": {"lists": [texts(), ["only one text"], []]},
        "steps": [
            {"id": "each_one", "tool": "smart_dedup", "on_error": "skip",
                "each": {"over": {"$from": "input", "path": "/lists"}, "concurrency": 2}, "args": {"texts": {"$from": "item"}}},
            {"id": "never", "tool": "smart_dedup", "args": {"texts": ["x"]},
                "when": {"value": {"$from": "each_one"}, "is": "empty"}},
            {"id": "needs_never", "tool": "smart_dedup", "args": {"texts": {"$from": "never", "path": "/texts"}}},
        ],
        "output": ["each_one", "never"],
    }))
    .await
    .unwrap();
    let kept: Vec<_> =
        done["outputs"]["each_one"].as_array().unwrap().iter().map(|r| r["kept"].clone()).collect();
    assert_eq!(kept, [json!([0, 1]), json!([0])], "the empty list is refused and skipped");
    assert_eq!(done["steps"][0]["items"], 2);
    assert_eq!(done["steps"][0]["error"]["code"], "invalid_arguments");
    assert_eq!(done["steps"][1]["status"], "skipped");
    assert_eq!(done["steps"][2]["status"], "skipped");
    assert!(done["outputs"].get("never").is_none());
}

#[tokio::test]
async fn a_failed_step_ends_the_pipeline_and_says_which() {
    let error = pipe(json!({"steps": [
        {"id": "good", "tool": "smart_dedup", "args": {"texts": ["a text"]}},
        {"id": "bad", "tool": "smart_dedup", "args": {"texts": []}},
        {"id": "after", "tool": "smart_dedup", "args": {"texts": ["a text"]}},
    ]}))
    .await
    .unwrap_err();
    assert_eq!(error["code"], "step_failed");
    assert_eq!(error["details"]["step"], "bad");
    assert_eq!(error["details"]["error"]["code"], "invalid_arguments");
    let ended: Vec<_> =
        error["details"]["steps"].as_array().unwrap().iter().map(|s| s["status"].clone()).collect();
    assert_eq!(ended, ["ok", "error"]);
}

#[tokio::test]
async fn a_plan_is_refused_before_anything_runs() {
    let dedup = |id: &str, args: Value| json!({"id": id, "tool": "smart_dedup", "args": args});
    let from = |id: &str, path: &str| json!({"texts": {"$from": id, "path": path}});
    for (what, steps) in [
        ("a later step", json!([dedup("a", from("b", "/texts")), dedup("b", json!({"texts": ["x"]}))])),
        ("itself", json!([dedup("a", from("a", "/texts"))])),
        (
            "a pointer to nothing",
            json!([dedup("a", json!({"texts": ["x"]})), dedup("b", from("a", "/text"))]),
        ),
        ("no such argument", json!([dedup("a", json!({"text": ["x"]}))])),
        ("a missing argument", json!([dedup("a", json!({}))])),
        ("a pipe in a pipe", json!([{"id": "a", "tool": "smart_pipe", "args": {}}])),
        ("item without each", json!([dedup("a", json!({"texts": {"$from": "item"}}))])),
        ("an id twice", json!([dedup("a", json!({"texts": ["x"]})), dedup("a", json!({"texts": ["x"]}))])),
        (
            "a word too much",
            json!([{"id": "a", "tool": "smart_dedup", "args": {"texts": ["x"]}, "retry": 1}]),
        ),
        ("no input of this name", json!([dedup("a", from("input", "/x"))])),
        ("no steps", json!([])),
    ] {
        for dry_run in [true, false] {
            let error = pipe(json!({"steps": steps, "dry_run": dry_run})).await.expect_err(what);
            assert_eq!(error["code"], "invalid_pipeline", "{what}: {error}");
        }
    }
    let error =
        pipe(json!({"template": "research", "input": {"question": "x", "depth": 2}})).await.unwrap_err();
    assert_eq!(error["code"], "invalid_pipeline");
    let error = pipe(json!({"template": "research"})).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("question"), "{error}");
    let dry = pipe(json!({"steps": two_steps(), "dry_run": true})).await.unwrap();
    assert_eq!(dry["steps"][1]["status"], "planned");
}

#[tokio::test]
async fn what_is_too_long_is_cut_and_kept_behind_a_reference() {
    let long: Vec<String> =
        (0..200).map(|n| format!("Sentence number {n} of a text that says {n} things.")).collect();
    let done = pipe(
        json!({"max_tokens": 64, "steps": [{"id": "a", "tool": "smart_dedup", "args": {"texts": long}}]}),
    )
    .await
    .unwrap();
    assert_eq!(done["truncated"], true);
    assert!(done["outputs"]["a"]["ref"].as_str().unwrap().starts_with("cx_"));
    assert!(crate::text::tokens::count(done["outputs"]["a"]["part"].as_str().unwrap()) <= 64);
}

#[tokio::test]
async fn the_whole_result_is_within_max_tokens() {
    let long: Vec<String> =
        (0..300).map(|n| format!("Sentence \"{n}\"\tof a text\nthat says {n} things.")).collect();
    let steps = json!([
        {"id": "a", "tool": "smart_dedup", "args": {"texts": long}},
        {"id": "b", "tool": "smart_dedup", "args": {"texts": ["one", "two"]}},
        {"id": "c", "tool": "smart_dedup", "args": {"texts": {"$from": "a", "path": "/texts"}}},
        {"id": "d", "tool": "smart_dedup", "args": {"texts": long}},
    ]);
    for max_tokens in [500, 700, 1_000, 4_000, 50_000] {
        let done = pipe(json!({"max_tokens": max_tokens, "steps": steps, "output": ["a", "b", "c"]})).await;
        let done = done.unwrap();
        let out = done["usage"]["tokens_out"].as_u64().unwrap();
        assert!(out <= max_tokens, "{out} of {max_tokens}");
        assert!(done["steps"][3]["ref"].is_string());
        let cut = max_tokens < 50_000;
        assert_eq!(done["truncated"], cut);
        assert_eq!(done["outputs"]["a"]["ref"].is_string(), cut);
        if cut {
            assert!(out + 40 > max_tokens, "what there is is used: {out} of {max_tokens}");
            assert!(!done["outputs"]["a"]["part"].as_str().unwrap().is_empty());
        }
        assert!(done["outputs"]["b"].get("part").is_none() || max_tokens < 1_000, "what fits stays whole");
    }
    // The lines of the steps are there in any case.
    let done = pipe(json!({"max_tokens": 64, "steps": steps})).await.unwrap();
    assert_eq!(done["steps"].as_array().unwrap().len(), 4);
    assert_eq!(done["outputs"]["d"]["part"], "");
}

#[tokio::test]
async fn outputs_are_steps_of_the_pipeline() {
    let with = |output: Value| pipe(json!({"steps": two_steps(), "output": output}));
    let error = with(json!(["first", "secnod"])).await.unwrap_err();
    assert_eq!(error["code"], "invalid_pipeline");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("\"secnod\"") && message.contains("first, second"), "{message}");
    let error = with(json!(vec!["first"; 11])).await.unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("11"), "{error}");
    assert_eq!(with(json!([7])).await.unwrap_err()["code"], "invalid_arguments");
    let done = with(json!(["first", "second", "first"])).await.unwrap();
    assert_eq!(done["outputs"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn references_cannot_multiply_what_they_copy() {
    let input = json!({"t": "word ".repeat(400_000)});
    let many = |n: usize| {
        let texts = vec![json!({"$from": "input", "path": "/t"}); n];
        json!({"input": input, "steps": [{"id": "a", "tool": "smart_dedup", "args": {"texts": texts}}]})
    };
    assert_eq!(pipe(many(20_000)).await.unwrap_err()["code"], "invalid_pipeline");
    let error = pipe(many(60)).await.unwrap_err();
    assert_eq!(error["details"]["error"]["code"], "too_large", "{error}");
}
