//! The tool, called as the upstream calls it, with engines on loopback and an index in memory.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::{
    config::{Engine, EngineKind, Secret, Smart},
    policy::budget::Ledger,
    search::local::{Document, OPERATOR},
    store::Store,
    upstream::{
        Caller,
        builtin::{context::Services, tool},
    },
};

struct Tools {
    services: Arc<Services>,
}

impl Tools {
    fn new(engines: Vec<Engine>) -> Self {
        let store = Store::open(None, 64 << 20).unwrap();
        let settings = Smart { engines, ..Smart::default() };
        let ledger = Arc::new(Ledger::open(store.clone()).unwrap());
        Self { services: Arc::new(Services::new(&settings, store, ledger)) }
    }

    async fn index(&self, tenant: &'static str, url: &str, title: &str, body: &str) {
        let document = Document::new(url, title, body).unwrap();
        self.services.store.write(move |c| local::add(c, tenant, &document)).await.unwrap();
    }

    async fn call_as(&self, tenant: &str, arguments: Value) -> Result<Value, Value> {
        let caller = Caller { tenant: tenant.into(), ..Caller::default() };
        let context = Context::new(Arc::clone(&self.services), caller);
        let (result, usage) = tool::run(&TOOL, arguments, context).await;
        assert_eq!(result.is_ok(), usage.is_some());
        result.map_err(|error| error.to_json())
    }

    async fn call(&self, arguments: Value) -> Value {
        self.call_as("ada", arguments).await.unwrap()
    }

    async fn refused(&self, arguments: Value) -> Value {
        self.call_as("ada", arguments).await.unwrap_err()
    }
}

/// An engine that gives the same answer each time, and how often it was asked.
async fn engine(name: &str, kind: EngineKind, status: u16, body: &Value) -> (Engine, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let body = body.to_string();
    let answer =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            // The head is enough: nobody reads what was asked.
            while !request.windows(4).any(|w| w == b"\r\n\r\n")
                && stream.read_buf(&mut request).await.unwrap() > 0
            {}
            count.fetch_add(1, Ordering::SeqCst);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let key = Some(Secret::new("k"));
    (Engine { name: name.into(), kind, url: Some(url), key, weight: 1.0 }, asked)
}

fn searxng() -> Value {
    json!({"results": [
        {"url": "https://www.example.com/guide/", "title": "Guide", "content": "How to write a gateway, step by step."},
        {"url": "https://other.example/", "title": "Other", "content": format!("{} The gateway is explained here.", "Filler text. ".repeat(80)), "publishedDate": "2024-05-01T00:00:00"}
    ], "suggestions": ["mcp gateway"], "answers": ["Yes"]})
}

fn brave() -> Value {
    json!({"type": "search", "web": {"results": [
        {"url": "https://example.com/guide?utm_source=x", "title": "The long guide", "description": "Short."}]}})
}

#[tokio::test]
async fn hits_of_several_engines_are_merged() {
    let (one, _) = engine("one", EngineKind::Searxng, 200, &searxng()).await;
    let (two, _) = engine("two", EngineKind::Brave, 200, &brave()).await;
    let tools = Tools::new(vec![one, two]);
    let found = tools.call(json!({"query": "  what is a\n gateway ", "max_results": "5"})).await;
    assert_eq!(found["query"], "what is a gateway");
    let first = &found["results"][0];
    assert_eq!(
        (&first["rank"], &first["title"], &first["domain"]),
        (&json!(1), &json!("The long guide"), &json!("www.example.com"))
    );
    assert_eq!((&first["engines"], &first["score"]), (&json!(["one", "two"]), &json!(0.03279)));
    assert_eq!(first["snippet"], "How to write a gateway, step by step.");
    let second = &found["results"][1];
    assert!(second["snippet"].as_str().unwrap().contains("The gateway is explained here."), "{second}");
    assert_eq!((&second["published"], second.get("ref")), (&json!("2024-05-01"), None));
    assert_eq!(
        (&found["total_before_merge"], &found["duplicates_merged"], &found["partial"]),
        (&json!(3), &json!(1), &json!(false))
    );
    assert_eq!((&found["suggestions"], &found["answers"]), (&json!(["mcp gateway"]), &json!(["Yes"])));
    assert_eq!(found["engines"][1]["results"], 1);
    assert_eq!(found["untrusted"], true);
    assert_eq!(found["usage"]["savings_basis"], "duplicate_results");
    assert!(found["usage"]["tokens_in"].as_u64() > Some(200));
    fits_the_schema(&found);
    let short = tools.call(json!({"query": "gateway", "max_results": 1, "snippet_tokens": 0})).await;
    assert_eq!(
        (short["results"].as_array().map(Vec::len), &short["results"][0]["snippet"]),
        (Some(1), &json!(""))
    );
}

#[tokio::test]
async fn an_engine_that_fails_leaves_a_partial_result_which_is_not_kept() {
    let (good, asked) = engine("good", EngineKind::Searxng, 200, &searxng()).await;
    let (bad, _) = engine("bad", EngineKind::Exa, 401, &json!({"error": "no"})).await;
    let tools = Tools::new(vec![bad, good]);
    for _ in 0..2 {
        let found = tools.call(json!({"query": "gateway"})).await;
        assert_eq!((&found["partial"], found["results"].as_array().map(Vec::len)), (&json!(true), Some(2)));
        let status = &found["engines"][0];
        assert_eq!((&status["name"], &status["ok"]), (&json!("bad"), &json!(false)));
        assert_eq!(status["error"], "unauthorized: HTTP 401: its key was refused");
        fits_the_schema(&found);
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let error = tools.refused(json!({"query": "gateway", "engines": ["bad"]})).await;
    assert_eq!((&error["code"], &error["retryable"]), (&json!("all_engines_failed"), &json!(true)));
    assert_eq!(error["details"]["engines"][0]["name"], "bad");
}

#[tokio::test]
async fn the_same_search_of_the_same_tenant_is_answered_once() {
    let (one, asked) = engine("one", EngineKind::Searxng, 200, &searxng()).await;
    let tools = Tools::new(vec![one]);
    let mut first =
        tools.call(json!({"query": "a gateway", "include_domains": ["example.com", "other.example"]})).await;
    let again = json!({"query": " a  gateway", "page": "1", "include_domains": ["https://www.other.example/", "example.com"]});
    let mut second = tools.call(again.clone()).await;
    let (first_usage, usage) = (first["usage"].take(), second["usage"].take());
    assert_eq!(second, first);
    assert!(first_usage["tokens_saved"].as_u64().unwrap() > 0);
    assert_eq!((&usage["tokens_saved"], &usage["savings_basis"]), (&json!(0), &json!("none")));
    assert_eq!((&usage["tokens_reduced"], &usage["tokens_out"]), (&json!(0), &first_usage["tokens_out"]));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    tools.call_as("bob", again).await.unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_local_index_gives_references_that_belong_to_the_tenant() {
    let tools = Tools::new(Vec::new());
    tools
        .index(
            OPERATOR,
            "https://docs.example/quay",
            "Quay",
            "Grain was traded at the quay of the old harbour.",
        )
        .await;
    tools
        .index(
            "ada",
            "https://ada.example/notes",
            "Notes",
            "Notes on the harbour and its quay, for ada alone.",
        )
        .await;
    let found = tools.call(json!({"query": "harbour quay"})).await;
    let of = |result: &Value| result["url"].as_str().unwrap().to_owned();
    let urls: Vec<String> = found["results"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(urls, ["https://docs.example/quay", "https://ada.example/notes"]);
    fits_the_schema(&found);
    let reference = found["results"][1]["ref"].as_str().unwrap();
    let context = |tenant: &str| {
        let caller = Caller { tenant: tenant.into(), ..Caller::default() };
        Context::new(Arc::clone(&tools.services), caller)
    };
    let text = context("ada").resolve(reference).await.unwrap();
    assert_eq!(text, "Notes on the harbour and its quay, for ada alone.");
    assert_eq!(context("bob").resolve(reference).await.unwrap_err().code, "ref_not_found");
    let other = tools.call_as("bob", json!({"query": "harbour quay"})).await.unwrap();
    assert_eq!(other["results"].as_array().map(Vec::len), Some(1));
    assert_eq!(other.get("warnings"), None);
}

#[tokio::test]
async fn an_empty_index_is_an_empty_result_with_a_hint() {
    let found = Tools::new(Vec::new()).call(json!({"query": "anything", "max_results": 3})).await;
    assert_eq!((&found["results"], &found["partial"]), (&json!([]), &json!(false)));
    assert!(found["warnings"][0].as_str().unwrap().starts_with("index_empty"));
    fits_the_schema(&found);
}

#[tokio::test]
async fn arguments_that_cannot_be_are_refused_with_what_to_change() {
    let tools = Tools::new(Vec::new());
    for (arguments, says) in [
        (json!({}), "query must say"),
        (json!({"query": " \n"}), "query must say"),
        (json!({"query": 5}), "query must be a string"),
        (json!({"query": "x".repeat(401)}), "at most 400"),
        (json!({"query": "x", "max_results": 51}), "from 1 to 50"),
        (json!({"query": "x", "max_results": 2.5}), "a whole number"),
        (json!({"query": "x", "max_results": -1}), "from 1 to 50"),
        (json!({"query": "x", "page": 0}), "from 1 to 10"),
        (json!({"query": "x", "time_range": "hour"}), "day, week, month, year"),
        (json!({"query": "x", "safesearch": "none"}), "moderate, off, strict"),
        (json!({"query": "x", "language": "en&x=1"}), "language tag"),
        (json!({"query": "x", "include_domains": ["not a domain"]}), "example.com"),
        (json!({"query": "x", "exclude_domains": vec!["a.example"; 21]}), "at most 20"),
        (json!({"query": "x", "max_result": 5}), "did you mean \"max_results\""),
    ] {
        let error = tools.refused(arguments.clone()).await;
        assert_eq!(error["code"], "invalid_arguments");
        assert!(error["message"].as_str().unwrap().contains(says), "{arguments}: {error}");
    }
    let error = tools.refused(json!({"query": "x", "engines": ["google"]})).await;
    assert_eq!(
        (&error["code"], &error["details"]),
        (&json!("unknown_engine"), &json!({"engines": ["local"]}))
    );
}

fn fits_the_schema(result: &Value) {
    let schema = output();
    let known = schema["properties"].as_object().unwrap();
    assert!(result.as_object().unwrap().keys().all(|key| known.contains_key(key)), "{result}");
    assert!(
        schema["required"]
            .as_array()
            .unwrap()
            .iter()
            .all(|name| result.get(name.as_str().unwrap()).is_some())
    );
    let item = &known["results"]["items"];
    for hit in result["results"].as_array().unwrap() {
        assert!(hit.as_object().unwrap().keys().all(|key| item["properties"].get(key).is_some()), "{hit}");
        assert!(
            item["required"].as_array().unwrap().iter().all(|name| hit.get(name.as_str().unwrap()).is_some())
        );
    }
}
