//! The tool against a server on loopback, called as the built-in upstream calls it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::{context::Services, tool},
    *,
};
use crate::{
    config,
    policy::budget::Ledger,
    store::Store,
    upstream::Caller,
    web::tests::site::{Site, not_found, page, reply},
};

struct Bench {
    services: Arc<Services>,
    site: Site,
}

impl Bench {
    async fn new(answer: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let site = Site::start(answer).await;
        let fetch = config::Fetch { allow_private: true, ports: vec![site.address.port()], robots: true };
        let settings = config::Smart { fetch, ..config::Smart::default() };
        let store = Store::open(None, 64 << 20).unwrap();
        Self {
            services: Arc::new(Services::new(
                &settings,
                store.clone(),
                Arc::new(Ledger::open(store).unwrap()),
            )),
            site,
        }
    }

    async fn call_as(&self, tenant: &str, arguments: Value) -> Result<Value, ToolError> {
        let caller = Caller { tenant: tenant.into(), ..Caller::default() };
        tool::run(&TOOL, arguments, Context::new(Arc::clone(&self.services), caller)).await.0
    }

    async fn call(&self, arguments: Value) -> Value {
        self.call_as("ada", arguments).await.unwrap_or_else(|error| panic!("{error:?}"))
    }

    async fn code(&self, arguments: Value) -> &'static str {
        self.call_as("ada", arguments).await.expect_err("an error").code
    }
}

fn long_page() -> String {
    let sections = (0..60).map(|n| {
        format!(
            "<h2>Section {n}</h2><p>{}</p><pre><code>let n = {n};\n\nlet m = 1;\n</code></pre>",
            format!("Words of section {n}, and more. ").repeat(12)
        )
    });
    format!(
        "<html><head><title>Long</title></head><body><article>{}</article></body></html>",
        sections.collect::<String>()
    )
}

fn site(path: &str, _: &str) -> Vec<u8> {
    match path {
        "/long" => page(long_page()),
        "/short" => page(
            "<html lang=en><head><title>Short</title></head><body><p>One <a href=/x>link</a>.</p></body></html>",
        ),
        "/json" => reply(200, &[("content-type", "application/json")], "{ \"a\": 1 }"),
        "/image" => reply(200, &[("content-type", "image/png")], b"\x89PNG\0"),
        "/empty" => page("<html><body></body></html>"),
        "/fails" => reply(500, &[("content-type", "text/plain")], "x".repeat(2_000)),
        _ => not_found(),
    }
}

#[tokio::test]
async fn the_source_systems_call_works_unchanged() {
    let bench = Bench::new(site).await;
    let value = bench.call(json!({"url": bench.site.url("/short"), "timeout": 30})).await;
    assert_eq!(
        (&value["title"], &value["content"]),
        (&json!("Short"), &json!(format!("One [link]({}).", bench.site.url("/x"))))
    );
    assert_eq!(
        (&value["status"], &value["cache"], &value["truncated"]),
        (&json!(200), &json!("miss"), &json!(false))
    );
    assert_eq!(
        (&value["untrusted"], &value["lang"], &value["format"]),
        (&json!(true), &json!("en"), &json!("markdown"))
    );
    assert!(value.get("next_cursor").is_none() && value.get("outline").is_none());
    assert_eq!(value["usage"]["savings_basis"], "full_page_markdown");
    let reference = value["ref"].as_str().unwrap();
    assert!(refs::is_reference(reference));
    assert!(value["ref_expires_at"].as_str().unwrap().ends_with('Z'));
    let again = bench
        .call(json!({"url": bench.site.url("/short"), "timeout": "30", "links": "drop", "purpose": "links"}))
        .await;
    assert_eq!((&again["cache"], &again["content"]), (&json!("hit"), &json!("One link.")));
    assert_eq!(again.get("warnings"), None);
    let verbatim = bench.call(json!({"url": bench.site.url("/json")})).await;
    assert_eq!((&verbatim["content"], &verbatim["extracted"]), (&json!("{ \"a\": 1 }"), &json!("verbatim")));
}

#[tokio::test]
async fn cursors_walk_the_whole_document_without_loss() {
    let bench = Bench::new(site).await;
    let mut value = bench.call(json!({"url": bench.site.url("/long"), "max_tokens": 500})).await;
    assert_eq!(value["truncated"], true);
    assert_eq!(value["outline"].as_array().map(Vec::len), Some(30));
    assert_eq!(value["outline"][0], json!({"level": 2, "text": "Section 0"}));
    assert!(value["usage"]["tokens_saved"].as_u64().unwrap() > 1_000);
    let reference = value["ref"].as_str().unwrap().to_owned();
    let context =
        Context::new(Arc::clone(&bench.services), Caller { tenant: "ada".into(), ..Caller::default() });
    let whole = context.resolve(&reference).await.unwrap();
    let mut walked = value["content"].as_str().unwrap().to_owned();
    let mut parts = 1;
    while let Some(cursor) = value.get("next_cursor").and_then(Value::as_str) {
        assert!(cursor.len() <= MAX_CURSOR);
        assert_eq!(bench.call_as("bob", json!({"cursor": cursor})).await.unwrap_err().code, "ref_not_found");
        value = bench.call(json!({"cursor": cursor, "max_tokens": 700})).await;
        assert_eq!((&value["ref"], &value["title"]), (&json!(reference), &json!("Long")));
        assert_eq!(value["usage"]["tokens_saved"], 0, "its saving was counted with the first part");
        let content = value["content"].as_str().unwrap();
        assert!(tokens::fits(content, 700));
        walked.push_str(content);
        parts += 1;
    }
    assert_eq!(walked, whole);
    assert!(parts > 5 && whole.contains("Section 59"));
    assert_eq!(bench.site.asked(), ["/long"], "fetched once");
}

#[tokio::test]
async fn arguments_are_checked() {
    let bench = Bench::new(site).await;
    let url = bench.site.url("/short");
    for arguments in [
        json!({}),
        json!({"url": url, "cursor": "x"}),
        json!({"url": 5}),
        json!({"url": url, "timeout": 0}),
        json!({"url": url, "max_tokens": 63}),
        json!({"url": url, "max_tokens": 100.5}),
        json!({"url": url, "format": "pdf"}),
        json!({"url": url, "extract": "main"}),
        json!({"url": url, "purpose": "x".repeat(1_001)}),
        json!({"url": url, "max_length": 5000}),
        json!({"cursor": "cx_1"}),
        json!({"cursor": "a.b.c.d"}),
        json!({"cursor": "a.b.zz"}),
    ] {
        assert_eq!(bench.code(arguments.clone()).await, "invalid_arguments", "{arguments}");
    }
    assert_eq!(
        bench.code(json!({"cursor": "cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X.cx_01J9ZQ4K7M8N3P5R6S7T8V9W0X.0"})).await,
        "ref_not_found"
    );
    let about = bench.call(json!({"url": bench.site.url("/long"), "max_tokens": 64})).await["next_cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    let (start, _) = about.rsplit_once('.').unwrap();
    assert_eq!(bench.code(json!({"cursor": format!("{start}.ffffffff")})).await, "invalid_arguments");
}

#[tokio::test]
async fn failures_say_what_to_change() {
    let bench = Bench::new(site).await;
    for (path, code) in [
        ("/nope", "http_status"),
        ("/image", "unsupported_content_type"),
        ("/empty", "empty_content"),
        ("/fails", "http_status"),
    ] {
        assert_eq!(bench.code(json!({"url": bench.site.url(path)})).await, code, "{path}");
    }
    let error = bench.call_as("ada", json!({"url": bench.site.url("/fails")})).await.unwrap_err();
    let details = error.details.as_ref().unwrap();
    assert_eq!(
        (&details["status"], details["excerpt"].as_str().unwrap().len(), error.retryable),
        (&json!(500), 500, true)
    );
    for (url, code) in [
        ("ftp://example.com/", "invalid_url"),
        ("http://example.com:22/", "invalid_url"),
        ("no url", "invalid_url"),
    ] {
        assert_eq!(bench.code(json!({"url": url})).await, code);
    }
    let store = Store::open(None, 64 << 20).unwrap();
    let ledger = Arc::new(Ledger::open(store.clone()).unwrap());
    let strict = Services::new(&config::Smart::default(), store, ledger);
    let context = Context::new(Arc::new(strict), Caller::default());
    let (done, _) =
        tool::run(&TOOL, json!({"url": "http://169.254.169.254/latest/meta-data/"}), context).await;
    assert_eq!(done.unwrap_err().code, "blocked_address");
}

#[tokio::test]
async fn results_fit_the_output_schema() {
    let bench = Bench::new(site).await;
    let schema = output();
    let known = schema["properties"].as_object().unwrap();
    let mut results = Vec::new();
    for arguments in [
        json!({"url": bench.site.url("/short")}),
        json!({"url": bench.site.url("/long"), "max_tokens": 200, "purpose": "section 7"}),
        json!({"url": bench.site.url("/long"), "format": "text"}),
        json!({"url": bench.site.url("/long"), "format": "html", "extract": "full"}),
    ] {
        results.push(bench.call(arguments).await);
    }
    let cursor =
        bench.call(json!({"url": bench.site.url("/long"), "max_tokens": 200})).await["next_cursor"].clone();
    results.push(bench.call(json!({"cursor": cursor})).await);
    for result in results {
        assert!(result.as_object().unwrap().keys().all(|key| known.contains_key(key)), "{result}");
        for required in schema["required"].as_array().unwrap() {
            assert!(result.get(required.as_str().unwrap()).is_some(), "{required}");
        }
    }
}

#[tokio::test]
async fn pages_go_into_the_index_of_a_tenant_that_wants_it() {
    let bench = Bench::new(site).await;
    for index_fetches in [false, true] {
        let caller = Caller { tenant: "ada".into(), index_fetches, ..Caller::default() };
        let context = Context::new(Arc::clone(&bench.services), caller);
        tool::run(&TOOL, json!({"url": bench.site.url("/long")}), context).await.0.unwrap();
        let store = &bench.services.store;
        let found = store.read(|connection| crate::search::local::list(connection, "ada")).await.unwrap();
        assert_eq!(found.len(), usize::from(index_fetches));
    }
}

#[tokio::test]
async fn a_purpose_chooses_the_passages() {
    let bench = Bench::new(site).await;
    let url = bench.site.url("/long");
    let value =
        bench.call(json!({"url": url, "max_tokens": 500, "purpose": "What does section 47 say?"})).await;
    let content = value["content"].as_str().unwrap();
    assert!(content.contains("section 47") && tokens::fits(content, 500), "{content}");
    assert_eq!((&value["truncated"], value.get("next_cursor")), (&json!(true), None));
}
