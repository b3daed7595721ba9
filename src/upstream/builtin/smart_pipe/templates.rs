//! Ready-made pipelines. A template is a list of steps like a user's, over an `input` of its own.

use serde_json::{Map, Value, json};

/// One template.
pub(super) struct Template {
    pub(super) name: &'static str,
    /// Its inputs, with their defaults; `null` where one must be given.
    input: fn() -> Value,
    steps: fn() -> Value,
    /// Steps whose results are returned.
    pub(super) output: &'static [&'static str],
}

pub(super) static TEMPLATES: [Template; 3] = [
    Template {
        name: "research",
        input: || json!({"question": null, "max_results": 8, "fetch": 4}),
        steps: || json!(research(&Value::Null)),
        output: &["answer"],
    },
    Template {
        name: "deep_read",
        input: || json!({"url": null, "question": null}),
        steps: || {
            json!([
                {"id": "page", "tool": "smart_fetch", "args": {"url": input("url"), "max_tokens": 64}},
                {"id": "answer", "tool": "smart_context_gate",
                    "args": {"ref": {"$from": "page", "path": "/ref"}, "purpose": input("question"), "ratio": 1, "max_tokens": 3000}},
            ])
        },
        output: &["answer"],
    },
    Template {
        name: "recall_or_research",
        input: || json!({"question": null, "namespace": "default", "max_results": 8, "fetch": 4}),
        steps: || {
            let unknown = json!({"value": {"$from": "recall", "path": "/items"}, "is": "empty"});
            let mut steps = vec![json!({"id": "recall", "tool": "smart_memory",
                "args": {"action": "recall", "query": input("question"), "namespace": input("namespace")}})];
            steps.extend(research(&unknown));
            steps.push(json!({"id": "remember", "tool": "smart_memory", "on_error": "skip", "when": unknown, "args": {
                "action": "store", "namespace": input("namespace"),
                "content": {"$from": "answer", "path": "/text"},
                "source": {"$from": "search", "path": "/results/0/url"}}}));
            json!(steps)
        },
        output: &["recall", "answer"],
    },
];

/// Search, read, drop what repeats, keep what the question needs. Hits of the local index come with their text
/// behind a reference; those of the web are fetched.
fn research(when: &Value) -> Vec<Value> {
    let texts = json!([
        {"$from": "search", "path": "/results/*/ref", "default": []},
        {"$from": "pages", "path": "/*/content", "default": []},
    ]);
    let mut steps = vec![
        json!({"id": "search", "tool": "smart_search",
            "args": {"query": input("question"), "max_results": input("max_results")}}),
        json!({"id": "pages", "tool": "smart_fetch", "on_error": "skip",
            "each": {"over": {"$from": "search", "path": "/results/*/url"}, "limit": input("fetch"), "concurrency": 4},
            "args": {"url": {"$from": "item"}, "max_tokens": 12000}}),
        json!({"id": "passages", "tool": "smart_dedup", "when": {"value": texts, "is": "nonempty"},
            "args": {"texts": texts, "granularity": "paragraph", "contained": true}}),
        json!({"id": "answer", "tool": "smart_context_gate",
            "args": {"text": {"$from": "passages", "path": "/texts"}, "purpose": input("question"), "ratio": 1, "max_tokens": 3000}}),
    ];
    if !when.is_null() {
        // What comes later is skipped with what it needs.
        steps[0]["when"] = when.clone();
    }
    steps
}

fn input(name: &str) -> Value {
    json!({"$from": "input", "path": format!("/{name}")})
}

impl Template {
    /// The steps and the whole input.
    ///
    /// # Errors
    /// What is wrong with `given`.
    pub(super) fn instance(&self, given: Map<String, Value>) -> Result<(Value, Value), String> {
        let mut input = (self.input)();
        for (name, value) in given {
            match input.get_mut(&name) {
                Some(place) => *place = value,
                None => return Err(format!("the template {} has no input {name:?}", self.name)),
            }
        }
        let missing = input.as_object().into_iter().flatten().find(|(_, value)| value.is_null());
        match missing {
            Some((name, _)) => Err(format!("the template {} needs input.{name}", self.name)),
            None => Ok(((self.steps)(), input)),
        }
    }
}
