//! The odd requests that hosts send (docs/normalization.md), each tried as it is and as the gateway would forward it.
//! Owns the list; which tool is called is chosen in `tool`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Shape, Verdict, tool::Chosen, wire::Wire};
use crate::mcp::{
    message::{self, Body},
    normalize::{Normalized, Rules, normalize},
    tools::ToolSet,
};

const NOT_MODERN: &str = "a modern request needs params._meta";

/// What an odd request is about.
enum About {
    /// `tools/list`
    List,
    /// `tools/call`
    Call,
    /// `tools/call` that says nothing in its arguments
    BareCall,
    /// `tools/call` with an argument that is no text
    TypedCall,
}

/// An odd request: what is odd, and how a well-formed one becomes it.
struct Odd {
    name: &'static str,
    about: About,
    /// Whether it can carry the `_meta` that a modern request needs.
    keeps_meta: bool,
    bend: fn(&mut Value, &Chosen),
}

const ODD: &[Odd] = &[
    Odd { name: "params: []", about: About::List, keeps_meta: false, bend: |m, _| m["params"] = json!([]) },
    Odd {
        name: "params: null",
        about: About::List,
        keeps_meta: false,
        bend: |m, _| m["params"] = json!(null),
    },
    Odd { name: "no params", about: About::List, keeps_meta: false, bend: |m, _| drop(take(m, "params")) },
    Odd { name: "no jsonrpc", about: About::List, keeps_meta: true, bend: |m, _| drop(take(m, "jsonrpc")) },
    Odd {
        name: "jsonrpc: 2.0, a number",
        about: About::List,
        keeps_meta: true,
        bend: |m, _| m["jsonrpc"] = json!(2.0),
    },
    Odd {
        name: "cursor: null",
        about: About::List,
        keeps_meta: true,
        bend: |m, _| m["params"]["cursor"] = json!(null),
    },
    Odd { name: "a byte-order mark", about: About::List, keeps_meta: true, bend: |_, _| {} },
    Odd {
        name: "arguments: []",
        about: About::BareCall,
        keeps_meta: true,
        bend: |m, _| m["params"]["arguments"] = json!([]),
    },
    Odd {
        name: "arguments: null",
        about: About::BareCall,
        keeps_meta: true,
        bend: |m, _| m["params"]["arguments"] = json!(null),
    },
    Odd {
        name: "arguments as JSON text",
        about: About::Call,
        keeps_meta: true,
        bend: |m, tool| m["params"]["arguments"] = json!(tool.arguments.to_string()),
    },
    Odd {
        name: "no arguments",
        about: About::BareCall,
        keeps_meta: true,
        bend: |m, _| drop(take(&mut m["params"], "arguments")),
    },
    Odd {
        name: "a tool's name as method",
        about: About::Call,
        keeps_meta: true,
        bend: |m, tool| {
            let meta = take(&mut m["params"], "_meta");
            m["method"] = json!(tool.name);
            m["params"] = tool.arguments.clone();
            if let Some(meta) = meta {
                m["params"]["_meta"] = meta;
            }
        },
    },
    Odd {
        name: "a number or flag as text",
        about: About::TypedCall,
        keeps_meta: true,
        bend: |m, tool| {
            if let Some((name, value)) = &tool.typed {
                m["params"]["arguments"][name] = json!(value.to_string());
            }
        },
    },
];

fn take(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|o| o.shift_remove(name))
}

/// Tries every odd request, those that call a tool with `tool`; or says why not.
pub(super) async fn try_all(wire: &Wire<'_>, tools: &ToolSet, tool: &Result<Chosen, String>) -> Vec<Shape> {
    let mut tried = Vec::with_capacity(ODD.len());
    for odd in ODD {
        tried.push(try_one(wire, tools, odd, tool).await);
    }
    tried
}

async fn try_one(wire: &Wire<'_>, tools: &ToolSet, odd: &Odd, tool: &Result<Chosen, String>) -> Shape {
    let (mut message, tool) = match plain(wire, odd, tool) {
        Ok(plain) => plain,
        Err(why) => {
            return Shape { name: odd.name, direct: Verdict::Untried(why), rules: vec![], repaired: None };
        }
    };
    (odd.bend)(&mut message, &tool);
    let mut body = message.to_string();
    if odd.name.contains("byte-order mark") {
        body.insert(0, '\u{feff}');
    }
    let Normalized { body: repaired, rules, .. } = normalize(body.as_bytes(), &Rules::default(), tools);
    let direct = ask(wire, body.into()).await;
    let repaired = match repaired {
        Some(bytes) => Some(ask(wire, bytes.into()).await),
        None => None,
    };
    Shape { name: odd.name, direct, rules, repaired }
}

/// The well-formed request that an odd one is bent from, or why there is none.
fn plain(wire: &Wire<'_>, odd: &Odd, tool: &Result<Chosen, String>) -> Result<(Value, Chosen), String> {
    if wire.is_modern() && !odd.keeps_meta {
        return Err(NOT_MODERN.to_owned());
    }
    if let About::List = odd.about {
        let none = Chosen { name: String::new(), arguments: json!({}), typed: None };
        return Ok((wire.message("tools/list", json!({})), none));
    }
    let tool = tool.clone()?;
    match odd.about {
        About::BareCall if tool.arguments != json!({}) => Err(format!("'{}' needs arguments", tool.name)),
        About::TypedCall if tool.typed.is_none() => Err(format!("'{}' takes no number or flag", tool.name)),
        _ => Ok((call(wire, &tool), tool)),
    }
}

fn call(wire: &Wire<'_>, tool: &Chosen) -> Value {
    wire.message("tools/call", json!({"name": tool.name, "arguments": tool.arguments}))
}

/// The same call without anything odd.
pub(super) async fn call_plainly(wire: &Wire<'_>, tool: &Chosen) -> Verdict {
    ask(wire, call(wire, tool).to_string().into()).await
}

/// Sends a body with the headers that mirror what it says.
async fn ask(wire: &Wire<'_>, body: Bytes) -> Verdict {
    let (method, name) = match message::parse(&body) {
        Ok(Body::Object(m)) => {
            (m.method.as_deref().unwrap_or_default().to_owned(), m.name.as_deref().map(str::to_owned))
        }
        _ => return Verdict::Untried("the request is not one message".to_owned()),
    };
    match wire.post(body, &method, name.as_deref()).await {
        Ok(answer) => match answer.outcome {
            Some(Ok(result)) if result["isError"] == true => Verdict::Refused("isError".into()),
            Some(Ok(_)) => Verdict::Works,
            Some(Err(error)) => Verdict::Refused(format!("{}, HTTP {}", error.code, answer.status)),
            None => Verdict::Refused(format!("HTTP {}", answer.status)),
        },
        Err(why) => Verdict::Refused(why),
    }
}
