//! The tool, called as the pipeline calls it.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::{
    config,
    policy::budget::{Account, Ledger, Scope, Unit, Wall, Wallet, Window},
    store::{Store, refs},
    upstream::{Caller, Upstream, builtin::Builtin},
};

/// A gateway's built-in tools and ledger, with keys of two tenants.
struct Bench {
    builtin: Builtin,
    ledger: Arc<Ledger>,
    store: Store,
}

fn month(name: &str, limit: u64) -> Wall {
    let account = Account { scope: Scope::Key, name: name.into(), window: Window::Month, unit: Unit::Tokens };
    Wall { account, limit }
}

impl Bench {
    fn new() -> Self {
        let store = Store::open(None, 64 << 20).expect("memory");
        let ledger = Arc::new(Ledger::open(store.clone()).expect("an empty one"));
        let builtin = Builtin::new(&config::Smart::default(), store.clone(), Arc::clone(&ledger));
        Self { builtin, ledger, store }
    }

    fn caller(&self, name: &str, limit: u64) -> Caller {
        let wallet = Wallet::new(Arc::clone(&self.ledger), [month(name, limit)].into());
        Caller { tenant: name.into(), wallet: Some(wallet), ..Caller::default() }
    }

    async fn call(&self, caller: &Caller, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let mut request = Request::post("/mcp").body(Bytes::from(body)).expect("valid");
        request.extensions_mut().insert(caller.clone());
        let answer = self.builtin.call(request).await.expect("never fails");
        let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
        serde_json::from_slice::<Value>(&body).expect("JSON")["result"].take()
    }

    /// The structured result of an action that succeeds.
    async fn done(&self, caller: &Caller, arguments: Value) -> Value {
        let mut result = self.call(caller, "smart_budget_guard", arguments).await;
        assert_eq!(result["isError"], false, "{result}");
        let value = result["structuredContent"].take();
        for wall in value["walls"].as_array().expect("walls") {
            let of = |name: &str| wall[name].as_u64().expect("a count");
            assert_eq!(of("used") + of("held") + of("remaining"), of("limit"), "{value}");
        }
        value
    }

    /// The error of an action that fails.
    async fn refused(&self, caller: &Caller, arguments: Value) -> Value {
        let result = self.call(caller, "smart_budget_guard", arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        let text = result["content"][0]["text"].as_str().expect("a text block");
        serde_json::from_str::<Value>(text).expect("JSON")["error"].take()
    }
}

#[tokio::test]
async fn checks_and_records_as_the_source_system_does() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1_000);
    let checked = bench.done(&ada, json!({"action": "check"})).await;
    assert_eq!((&checked["action"], &checked["allowed"]), (&json!("check"), &json!(true)));
    let wall = &checked["walls"][0];
    assert_eq!(
        (&wall["scope"], &wall["window"], &wall["unit"]),
        (&"key".into(), &"month".into(), &"tokens".into())
    );
    assert!(wall["resets_at"].as_str().is_some_and(|at| at.ends_with("-01T00:00:00Z")));
    assert_eq!(checked["effective"], json!({"scope": "key", "window": "month", "remaining": 1_000}));
    assert_eq!(checked["warn"], false);
    let arguments = json!({"action": "record", "tokens": "700", "completion_tokens": 100.0});
    let recorded = bench.done(&ada, arguments).await;
    assert_eq!((&recorded["walls"][0]["used"], &recorded["warn"]), (&json!(800), &json!(true)));
    assert_eq!(recorded["usage"]["tokens_charged"], 0);
    assert_eq!(recorded["usage"]["budget_remaining"], 200);
    let checked = bench.done(&ada, json!({"action": "check", "tokens": 201})).await;
    assert_eq!(checked["allowed"], false);
    assert!(checked["reason"].as_str().is_some_and(|r| r.contains("200 of 1000")), "{checked}");
    let past = bench.done(&ada, json!({"action": "record", "tokens": 500})).await;
    assert_eq!((&past["over_by"], &past["allowed"]), (&json!(300), &json!(false)));
    let wall = &past["walls"][0];
    assert_eq!(
        (&wall["used"], &wall["remaining"], &wall["over_by"]),
        (&json!(1_000), &json!(0), &json!(300))
    );
    assert_eq!(bench.done(&ada, json!({"action": "check"})).await["allowed"], false);
}

#[tokio::test]
async fn reserves_commits_and_releases() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 100);
    let held = bench.done(&ada, json!({"action": "reserve", "tokens": 60})).await;
    assert_eq!((&held["allowed"], &held["walls"][0]["held"]), (&json!(true), &json!(60)));
    assert!(held["expires_at"].is_string());
    let refused = bench.done(&ada, json!({"action": "reserve", "tokens": 60})).await;
    assert_eq!(refused["allowed"], false);
    assert!(refused.get("reservation").is_none());
    assert_eq!(refused["walls"][0]["held"], 60);
    let id = &held["reservation"];
    let arguments = json!({"action": "commit", "reservation": id, "tokens": 45});
    assert_eq!(
        bench.refused(&bench.caller("bob", 100), arguments.clone()).await["code"],
        "reservation_not_found"
    );
    let committed = bench.done(&ada, arguments.clone()).await;
    assert_eq!((&committed["walls"][0]["used"], &committed["walls"][0]["held"]), (&json!(45), &json!(0)));
    assert_eq!(bench.refused(&ada, arguments).await["code"], "reservation_not_found");
    let held = bench.done(&ada, json!({"action": "reserve", "tokens": 55, "ttl_seconds": 3600})).await;
    let freed = bench.done(&ada, json!({"action": "release", "reservation": held["reservation"]})).await;
    assert_eq!(freed["walls"][0]["remaining"], 55);
    let held = bench.done(&ada, json!({"action": "reserve", "tokens": 5})).await;
    let more = json!({"action": "commit", "reservation": held["reservation"], "tokens": 75});
    assert_eq!(bench.done(&ada, more).await["over_by"], 20);
}

#[tokio::test]
async fn a_run_limits_those_who_share_it_and_reports_totals() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1_000);
    let opened = bench.done(&ada, json!({"action": "open_run", "limit_tokens": 50, "limit_calls": 2})).await;
    let run = &opened["run"];
    let scopes = |value: &Value| {
        let walls = value["walls"].as_array().expect("walls").clone();
        walls.iter().map(|w| format!("{} {}", w["scope"], w["unit"]).replace('"', "")).collect::<Vec<_>>()
    };
    assert_eq!(scopes(&opened), ["run tokens", "run calls", "key tokens"]);
    assert_eq!(opened["walls"][0]["resets_at"], Value::Null);
    let recorded = bench.done(&ada, json!({"action": "record", "tokens": 20, "run": run})).await;
    assert_eq!((&recorded["walls"][0]["used"], &recorded["walls"][2]["used"]), (&json!(20), &json!(20)));
    let refused = bench.done(&ada, json!({"action": "reserve", "tokens": 31, "run": run})).await;
    assert_eq!((&refused["allowed"], &refused["effective"]["scope"]), (&json!(false), &json!("run")));
    let foreign = json!({"action": "check", "run": run});
    assert_eq!(bench.refused(&bench.caller("bob", 1_000), foreign.clone()).await["code"], "run_not_found");
    let closed = bench.done(&ada, json!({"action": "close_run", "run": run})).await;
    assert_eq!((&closed["walls"][0]["used"], &closed["walls"][1]["used"]), (&json!(20), &json!(1)));
    assert_eq!(bench.refused(&ada, foreign).await["code"], "run_not_found");
}

#[tokio::test]
async fn counts_text_messages_and_references() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1);
    let counted = bench.done(&ada, json!({"action": "count", "text": "hello world"})).await;
    assert_eq!((&counted["counted_tokens"], &counted["exact"]), (&json!(2), &json!(true)));
    assert_eq!(counted["allowed"], false, "one is left");
    let arguments = json!({"action": "count", "text": "hello world", "model": "deepseek-chat"});
    assert_eq!(bench.done(&ada, arguments).await["exact"], false);
    let messages = json!([{"role": "user", "content": "hello world"}]);
    let arguments = json!({"action": "count", "messages": messages, "model": "gpt-4"});
    assert_eq!(bench.done(&ada, arguments).await["counted_tokens"], 9);
    let kept = bench.store.write(|c| refs::put(c, "ada", "hello world", 60)).await.expect("room").id;
    let arguments = json!({"action": "count", "ref": kept});
    let counted = bench.done(&ada, arguments.clone()).await;
    assert_eq!((&counted["counted_tokens"], &counted["usage"]["tokens_saved"]), (&json!(2), &json!(0)));
    assert_eq!(bench.refused(&bench.caller("bob", 1), arguments).await["code"], "ref_not_found");
    assert_eq!(counted["walls"][0]["used"], 0, "counting writes nothing");
}

#[tokio::test]
async fn an_answer_is_given_once_for_a_key_of_a_tenant() {
    let bench = Bench::new();
    let (ada, bob) = (bench.caller("ada", 1_000), bench.caller("bob", 1_000));
    let arguments = json!({"action": "record", "tokens": 10, "idempotency_key": "k"});
    let calls: Vec<_> = (0..8).map(|_| bench.done(&ada, arguments.clone())).collect();
    for call in calls {
        assert_eq!(call.await["walls"][0]["used"], 10);
    }
    assert_eq!(bench.done(&bob, arguments).await["walls"][0]["used"], 10);
    let reserve = json!({"action": "reserve", "tokens": 10, "idempotency_key": "r"});
    let (first, second) = (bench.done(&ada, reserve.clone()).await, bench.done(&ada, reserve.clone()).await);
    assert_eq!(first["reservation"], second["reservation"]);
    assert_eq!(bench.done(&ada, json!({"action": "check"})).await["walls"][0]["held"], 10);
    // A day later it is another call.
    bench.store.write(|c| c.execute("UPDATE answers SET expires = 1", [])).await.expect("two rows");
    assert_ne!(bench.done(&ada, reserve).await["reservation"], first["reservation"]);
    // An error is no answer.
    let commit = json!({"action": "commit", "reservation": "bh_x", "tokens": 1, "idempotency_key": "c"});
    assert_eq!(bench.refused(&ada, commit).await["code"], "reservation_not_found");
    assert_eq!(
        bench.done(&ada, json!({"action": "record", "tokens": 1, "idempotency_key": "c"})).await["walls"][0]
            ["used"],
        11
    );
}

#[tokio::test]
async fn a_commit_that_fails_does_not_let_an_action_run_again() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1_000);
    // A row that has no parent when the transaction ends.
    let poison = "CREATE TABLE parents (id INTEGER PRIMARY KEY);
        CREATE TABLE children (parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
        CREATE TRIGGER poison AFTER INSERT ON answers BEGIN INSERT INTO children VALUES (9); END;";
    bench.store.write(move |c| c.execute_batch(poison)).await.expect("new tables");
    let record = json!({"action": "record", "tokens": 10, "idempotency_key": "k"});
    let open = json!({"action": "open_run", "limit_tokens": 5, "idempotency_key": "o"});
    for _ in 0..3 {
        for arguments in [&record, &open] {
            let error = bench.refused(&ada, arguments.clone()).await;
            assert_eq!((&error["code"], &error["retryable"]), (&json!("unavailable"), &json!(true)));
        }
    }
    bench.store.write(|c| c.execute_batch("DROP TRIGGER poison")).await.expect("it is there");
    assert_eq!(bench.done(&ada, record.clone()).await["walls"][0]["used"], 10);
    let run = bench.done(&ada, open.clone()).await["run"].clone();
    assert_eq!(bench.done(&ada, open).await["run"], run);
    assert_eq!(bench.done(&ada, record).await["walls"][0]["used"], 10);
    assert_eq!(bench.done(&ada, json!({"action": "check"})).await["walls"][0]["used"], 10);
}

#[tokio::test]
async fn only_a_budget_is_charged() {
    let bench = Bench::new();
    let arguments = json!({"texts": ["one text"]});
    let usage = |result: Value| result["structuredContent"]["usage"].clone();
    let free = usage(bench.call(&Caller::default(), "smart_dedup", arguments.clone()).await);
    assert_eq!((&free["tokens_charged"], &free["budget_remaining"]), (&json!(0), &Value::Null));
    let paid = usage(bench.call(&bench.caller("ada", 1_000), "smart_dedup", arguments).await);
    assert_eq!(paid["tokens_charged"], paid["tokens_out"]);
}

#[tokio::test]
async fn a_month_can_only_be_lowered_and_for_one_answer() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1_000);
    bench.done(&ada, json!({"action": "record", "tokens": 100})).await;
    let limited = bench.done(&ada, json!({"action": "check", "tokens": 50, "monthly_limit": 120})).await;
    assert_eq!((&limited["allowed"], &limited["walls"][0]["limit"]), (&json!(false), &json!(120)));
    let raised = bench.done(&ada, json!({"action": "check", "tokens": 950, "monthly_limit": 5_000})).await;
    assert_eq!((&raised["allowed"], &raised["walls"][0]["limit"]), (&json!(false), &json!(1_000)));
    let below = bench.done(&ada, json!({"action": "check", "monthly_limit": 0})).await;
    assert_eq!((&below["walls"][0]["remaining"], &below["over_by"]), (&json!(0), &json!(100)));
    assert_eq!(bench.done(&ada, json!({"action": "check", "tokens": 900})).await["allowed"], true);
}

#[tokio::test]
async fn without_a_budget_there_are_no_walls() {
    let bench = Bench::new();
    let nobody = Caller::default();
    for arguments in [
        json!({"action": "check", "tokens": 100_000_000, "monthly_limit": 1}),
        json!({"action": "record", "tokens": 5}),
        json!({"action": "reserve", "tokens": 5}),
    ] {
        let answer = bench.done(&nobody, arguments).await;
        assert_eq!(
            (&answer["allowed"], &answer["walls"], &answer["effective"]),
            (&json!(true), &json!([]), &Value::Null)
        );
        assert_eq!(answer["usage"]["budget_remaining"], Value::Null);
    }
}

#[tokio::test]
async fn other_tools_say_what_remains_after_them() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 10_000);
    let held = ada.wallet.as_ref().expect("a wallet").hold(4_000).expect("room");
    let ada = Caller { held: held.tokens(), ..ada };
    let result = bench.call(&ada, "smart_dedup", json!({"texts": ["a", "a"]})).await;
    let usage = &result["structuredContent"]["usage"];
    let charged = usage["tokens_charged"].as_u64().expect("a count");
    assert_eq!(
        (usage["tokens_out"].as_u64(), usage["budget_remaining"].as_u64()),
        (Some(charged), Some(10_000 - charged))
    );
}

#[tokio::test]
async fn what_an_action_lacks_is_said() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 1_000);
    for (arguments, code, says) in [
        (json!({}), "invalid_arguments", "action must be one of check, count"),
        (json!({"action": "spend"}), "invalid_arguments", "action must be one of"),
        (json!({"action": "record"}), "invalid_arguments", "record needs tokens"),
        (json!({"action": "record", "tokens": -1}), "invalid_arguments", "from 0 to"),
        (json!({"action": "record", "tokens": 1.5}), "invalid_arguments", "a whole number"),
        (json!({"action": "record", "tokens": 100_000_001}), "invalid_arguments", "from 0 to"),
        (json!({"action": "reserve"}), "invalid_arguments", "reserve needs tokens"),
        (
            json!({"action": "reserve", "tokens": 1, "ttl_seconds": 3_601}),
            "invalid_arguments",
            "at most 3600",
        ),
        (json!({"action": "commit", "tokens": 1}), "invalid_arguments", "needs reservation"),
        (json!({"action": "open_run"}), "invalid_arguments", "limit_tokens, limit_calls"),
        (json!({"action": "close_run"}), "invalid_arguments", "needs run"),
        (json!({"action": "count"}), "invalid_arguments", "one of text"),
        (json!({"action": "count", "text": "a", "ref": "b"}), "invalid_arguments", "give one of"),
        (json!({"action": "count", "text": "x".repeat(2_000_001)}), "too_large", "text must be"),
        (json!({"action": "check", "team_id": "bob"}), "scope_denied", "its own budget"),
        (json!({"action": "check", "tokns": 1}), "invalid_arguments", "did you mean \"tokens\""),
    ] {
        let error = bench.refused(&ada, arguments).await;
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().is_some_and(|m| m.contains(says)), "{error}");
    }
    for team in ["ada", ""] {
        assert_eq!(bench.done(&ada, json!({"action": "check", "team_id": team})).await["allowed"], true);
    }
}

#[tokio::test]
async fn answers_fit_the_output_schema() {
    let bench = Bench::new();
    let ada = bench.caller("ada", 100);
    let schema = (super::TOOL.output)();
    let known = schema["properties"].as_object().expect("properties");
    for arguments in [
        json!({"action": "check"}),
        json!({"action": "count", "text": "a"}),
        json!({"action": "record", "tokens": 200}),
        json!({"action": "reserve", "tokens": 1}),
        json!({"action": "open_run", "limit_calls": 1}),
    ] {
        let answer = bench.done(&ada, arguments).await;
        assert!(answer.as_object().expect("an object").keys().all(|key| known.contains_key(key)), "{answer}");
        for required in schema["required"].as_array().expect("required") {
            assert!(answer.get(required.as_str().expect("a name")).is_some(), "{required}");
        }
    }
}
