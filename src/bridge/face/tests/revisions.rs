//! What each revision is shown of the same modern results.

use super::*;

const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

async fn result_for(revision: &str, method: &'static str, result: &Value) -> Value {
    let (server, client) = joined(revision).await;
    server.say(method, Said::Result(result.clone()));
    client.ask(method, &json!({"name": "t", "uri": "a:b"})).await.body()["result"].clone()
}

#[tokio::test]
async fn tools_are_shown_as_the_revision_has_them() {
    let list = json!({"ttlMs": 1, "cacheScope": "public", "nextCursor": "", "tools": [
        {"name": "a", "title": "A", "_meta": {"x/y": 1}, "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
         "outputSchema": {"type": "object"}},
        {"name": "b", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}},
        {"name": "broken", "inputSchema": {"properties": {"n": {"type": "number", "x-mcp-header": "N"}}}},
    ]});
    for revision in REVISIONS {
        let shown = result_for(revision, "tools/list", &list).await;
        let a = if revision >= "2025-06-18" {
            json!({"name": "a", "title": "A", "_meta": {"x/y": 1}, "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}})
        } else {
            json!({"name": "a", "inputSchema": {"type": "object"}})
        };
        let b = json!({"name": "b", "inputSchema": {"type": "object"}});
        assert_eq!(shown, json!({"nextCursor": "", "tools": [a, b]}), "{revision}");
    }
}

#[tokio::test]
async fn structured_results_are_objects_or_text() {
    for (structured, content, text) in [
        (json!({"a": 1}), json!([]), r#"{"a":1}"#),
        (json!([1, 2]), json!([]), "[1,2]"),
        (json!([1, 2]), json!([{"type": "text", "text": "said"}]), "said"),
        (json!(7), Value::Null, "7"),
    ] {
        let mut result = json!({"structuredContent": structured});
        if !content.is_null() {
            result["content"] = content.clone();
        }
        for revision in REVISIONS {
            let shown = result_for(revision, "tools/call", &result).await;
            if revision >= "2025-06-18" && structured.is_object() {
                assert_eq!(shown, result, "{revision}");
            } else {
                assert_eq!(
                    shown,
                    json!({"content": [{"type": "text", "text": text}]}),
                    "{revision} {structured}"
                );
            }
        }
    }
}

#[tokio::test]
async fn content_blocks_that_a_revision_lacks_become_words() {
    let link = json!({"type": "resource_link", "uri": "file:///a", "name": "A"});
    let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"});
    let text = json!({"type": "text", "text": "t", "_meta": {"a/b": 1}});
    let content = json!([link, audio, text]);
    for revision in REVISIONS {
        let call = result_for(revision, "tools/call", &json!({"content": content})).await;
        let messages: Vec<_> =
            [&link, &audio, &text].iter().map(|c| json!({"role": "user", "content": c})).collect();
        let prompt = result_for(revision, "prompts/get", &json!({"messages": messages})).await;
        let shown = call["content"].as_array().unwrap();
        for (block, message) in shown.iter().zip(prompt["messages"].as_array().unwrap()) {
            assert_eq!(&message["content"], block, "{revision}");
        }
        if revision >= "2025-06-18" {
            assert_eq!(call["content"], content);
            continue;
        }
        assert_eq!(shown[0], json!({"type": "text", "text": "A: file:///a"}));
        assert_eq!(shown[2], json!({"type": "text", "text": "t"}));
        if revision == "2025-03-26" {
            assert_eq!(shown[1], audio);
        } else {
            assert!(shown[1]["text"].as_str().unwrap().contains("audio/wav"));
        }
    }
}

#[tokio::test]
async fn lists_and_contents_lose_titles_and_meta_before_2025_06_18() {
    let item = json!({"name": "n", "uri": "a:b", "title": "T", "_meta": {"a/b": 1}});
    let prompt = json!({"name": "n", "title": "T", "arguments": [{"name": "x", "title": "X"}]});
    for (method, member, full, plain) in [
        ("resources/list", "resources", &item, json!({"name": "n", "uri": "a:b"})),
        ("resources/templates/list", "resourceTemplates", &item, json!({"name": "n", "uri": "a:b"})),
        ("resources/read", "contents", &item, json!({"name": "n", "uri": "a:b"})),
        ("prompts/list", "prompts", &prompt, json!({"name": "n", "arguments": [{"name": "x"}]})),
    ] {
        for revision in REVISIONS {
            let shown = result_for(revision, method, &json!({member: [full]})).await;
            let expect = if revision >= "2025-06-18" { full } else { &plain };
            assert_eq!(&shown[member][0], expect, "{revision} {method}");
        }
    }
}
