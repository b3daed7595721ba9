//! The odd requests that hosts send (docs/normalization.md), each tried as it is and as the gateway would forward it.
//! Those that call a tool are tried only with one that the server calls read-only and that needs no arguments.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Shape, Verdict, wire::Wire};
use crate::mcp::{
    message::{self, Body},
    normalize::{Normalized, Rules, normalize},
    tools::ToolSet,
};

const NO_TOOL: &str = "no tool is annotated read-only and takes no arguments";
const NOT_MODERN: &str = "a modern request needs params._meta";

/// What an odd request is about.
enum About {
    /// `tools/list`
    List,
    /// `tools/call`
    Call,
}

/// An odd request: what is odd, and how a well-formed one becomes it.
struct Odd {
    name: &'static str,
    about: About,
    /// Whether it can carry the `_meta` that a modern request needs.
    keeps_meta: bool,
    bend: fn(&mut Value, &str),
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
        about: About::Call,
        keeps_meta: true,
        bend: |m, _| m["params"]["arguments"] = json!([]),
    },
    Odd {
        name: "arguments: null",
        about: About::Call,
        keeps_meta: true,
        bend: |m, _| m["params"]["arguments"] = json!(null),
    },
    Odd {
        name: "arguments: \"{}\", as text",
        about: About::Call,
        keeps_meta: true,
        bend: |m, _| m["params"]["arguments"] = json!("{}"),
    },
    Odd {
        name: "no arguments",
        about: About::Call,
        keeps_meta: true,
        bend: |m, _| drop(take(&mut m["params"], "arguments")),
    },
    Odd {
        name: "a tool's name as method",
        about: About::Call,
        keeps_meta: true,
        bend: |m, tool| {
            let meta = take(&mut m["params"], "_meta");
            m["method"] = json!(tool);
            m["params"] = json!({});
            if let Some(meta) = meta {
                m["params"]["_meta"] = meta;
            }
        },
    },
];

fn take(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|o| o.shift_remove(name))
}

/// Tries every odd request.
pub(super) async fn try_all(wire: &Wire<'_>, tools: &ToolSet, harmless: Option<&str>) -> Vec<Shape> {
    let mut tried = Vec::with_capacity(ODD.len());
    for odd in ODD {
        tried.push(try_one(wire, tools, odd, harmless).await);
    }
    tried
}

async fn try_one(wire: &Wire<'_>, tools: &ToolSet, odd: &Odd, harmless: Option<&str>) -> Shape {
    let untried =
        |why| Shape { name: odd.name, direct: Verdict::Untried(why), rules: vec![], repaired: None };
    if wire.is_modern() && !odd.keeps_meta {
        return untried(NOT_MODERN);
    }
    let (method, name, params) = match (&odd.about, harmless) {
        (About::List, _) => ("tools/list", None, json!({})),
        (About::Call, Some(tool)) => ("tools/call", Some(tool), json!({"name": tool, "arguments": {}})),
        (About::Call, None) => return untried(NO_TOOL),
    };
    let mut message = wire.message(method, params);
    (odd.bend)(&mut message, name.unwrap_or_default());
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

/// Sends a body with the headers that mirror what it says.
async fn ask(wire: &Wire<'_>, body: Bytes) -> Verdict {
    let (method, name) = match message::parse(&body) {
        Ok(Body::Object(m)) => {
            (m.method.as_deref().unwrap_or_default().to_owned(), m.name.as_deref().map(str::to_owned))
        }
        _ => return Verdict::Untried("the request is not one message"),
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
