//! Counting for a model: which encoder is its own, and what a list of messages adds.

use serde_json::Value;

use super::read::{Material, Request};
use crate::{
    text::tokens,
    upstream::builtin::{context::Context, tool::ToolError},
};

/// What chat models of OpenAI add to each message, and to the reply that follows.
const FRAME: u64 = 3;

/// Names of models that count with `o200k_base`; before `CL100K`, because `gpt-4` is the beginning of some.
const O200K: [&str; 9] = ["gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "o1", "o3", "o4"];
/// Names of models that count with `cl100k_base`.
const CL100K: [&str; 5] = ["gpt-4", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada-002"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) tokens: u64,
    /// Whether the model itself counts so.
    pub(super) exact: bool,
}

/// Counts what the request gives.
pub(super) async fn count(context: &Context, request: &Request) -> Result<Counted, ToolError> {
    let (encoder, exact) = encoder(&request.model);
    let text = match &request.material {
        None => return Err(request.needs("one of text, messages and ref")),
        Some(Material::Text(text)) => text.clone(),
        Some(Material::Reference(reference)) => context.resolve(reference).await?,
        Some(Material::Messages(messages)) => {
            let messages = messages.clone();
            let (tokens, plain) = context.compute(move || of_messages(&messages, encoder)).await;
            return Ok(Counted { tokens, exact: exact && plain });
        }
    };
    Ok(Counted { tokens: context.compute(move || encoder(&text)).await, exact })
}

type Encoder = fn(&str) -> u64;

/// The encoder for a model, and whether it is the model's own.
fn encoder(model: &str) -> (Encoder, bool) {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name).to_ascii_lowercase();
    let is = |known: &&str| {
        name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '.']))
    };
    if O200K.iter().any(&is) {
        (tokens::count, true)
    } else if CL100K.iter().any(is) {
        (tokens::count_cl100k, true)
    } else {
        (tokens::count, false)
    }
}

/// Every text of every message, with what frames it; false where a message has more than text.
fn of_messages(messages: &[Value], encoder: Encoder) -> (u64, bool) {
    let mut plain = true;
    let mut total = FRAME;
    for (key, value) in messages.iter().filter_map(Value::as_object).flatten() {
        total += of_value(key, value, encoder, &mut plain);
    }
    (total + FRAME * messages.len() as u64, plain)
}

fn of_value(key: &str, value: &Value, encoder: Encoder, plain: &mut bool) -> u64 {
    match value {
        Value::Null => 0,
        // A name is announced by one more.
        Value::String(text) => encoder(text) + u64::from(key == "name"),
        Value::Array(parts) if key == "content" => {
            parts.iter().map(|part| of_part(part, encoder, plain)).sum()
        }
        other => {
            *plain = false;
            encoder(&other.to_string())
        }
    }
}

fn of_part(part: &Value, encoder: Encoder, plain: &mut bool) -> u64 {
    match part["text"].as_str() {
        Some(text) if part["type"] == "text" => encoder(text),
        _ => {
            *plain = false;
            encoder(&part.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn models_have_their_own_encoder() {
        let o200k = |model| encoder(model) == (tokens::count as Encoder, true);
        let cl100k = |model| encoder(model) == (tokens::count_cl100k as Encoder, true);
        for model in ["gpt-4o", "gpt-4o-mini", "GPT-4.1-nano", "openai/gpt-5", "o3-mini", "ft:gpt-4o:org:x"] {
            assert!(o200k(model), "{model}");
        }
        for model in ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "text-embedding-3-small"] {
            assert!(cl100k(model), "{model}");
        }
        for model in ["deepseek-chat", "claude-opus", "gpt-40", "o1x", ""] {
            assert!(!encoder(model).1, "{model}");
        }
    }

    #[test]
    fn messages_add_three_each_and_three() {
        let count = |messages: Vec<Value>| of_messages(&messages, tokens::count);
        let said = |text: &str| json!({"role": "user", "content": text});
        assert_eq!(count(vec![said("hello world")]), (3 + 3 + 1 + 2, true));
        assert_eq!(count(vec![said("hello world"), said("hello world")]), (15, true));
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "hello world"}]});
        assert_eq!(count(vec![parts]), (9, true));
        let image = json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]});
        assert!(!count(vec![image]).1);
        assert_eq!(count(vec![]), (3, true));
    }
}
