//! The tools as they are listed, and what those that ask the client say. Invariant: names and texts are those of
//! `servers/py_server.py`.

use serde_json::{Value, json};

/// What a tool asks the client for.
pub(crate) fn question(tool: &str) -> Value {
    let name = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let message = json!({"role": "user", "content": {"type": "text", "text": "Say something"}});
    match tool {
        "greet" => json!({"method": "elicitation/create", "params":
            {"mode": "form", "message": "What is your name?", "requestedSchema": name}}),
        "open_page" => json!({"method": "elicitation/create", "params":
            {"mode": "url", "message": "Please look", "url": "https://example.com/page", "elicitationId": "page-1"}}),
        "ask_model" => {
            json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 20}})
        }
        _ => json!({"method": "roots/list"}),
    }
}

/// What a tool says of the client's answer.
pub(crate) fn verdict(tool: &str, answer: &Value) -> String {
    match tool {
        "greet" => format!("Hello {}", answer["content"]["name"].as_str().unwrap_or("nobody")),
        "open_page" => format!("The page: {}", answer["action"].as_str().unwrap_or("nothing")),
        "ask_model" => format!("The model said {}", answer["content"]["text"].as_str().unwrap_or("nothing")),
        _ => format!("Roots: {}", answer["roots"][0]["uri"].as_str().unwrap_or("none")),
    }
}

/// The name of the tool that the change of this number adds.
pub(crate) fn added(number: u64) -> String {
    format!("added_{number}")
}

/// After `changes` changes.
pub(crate) fn tools(changes: u64) -> Vec<Value> {
    let object = |members: Value| json!({"type": "object", "properties": members});
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let mut tools: Vec<Value> = [
        ("echo", json!({"message": text})),
        ("count", json!({"steps": number})),
        ("slow", json!({"tag": text})),
        ("total", json!({"a": number, "b": number})),
        ("fail", json!({})),
        ("greet", json!({})),
        ("open_page", json!({})),
        ("ask_model", json!({})),
        ("list_roots", json!({})),
        ("change", json!({})),
        ("later", json!({})),
    ]
    .into_iter()
    .map(|(name, members)| json!({"name": name, "description": name, "inputSchema": object(members)}))
    .collect();
    tools[3]["outputSchema"] = object(json!({"total": number}));
    if changes > 0 {
        let name = added(changes);
        tools.push(json!({"name": name, "description": name, "inputSchema": object(json!({}))}));
    }
    tools
}
