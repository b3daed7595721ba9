//! Splices are right wherever members stand: every other member stays, in its order and spelling.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::upstream::legacy::{
    answer::{Translated, translate},
    asks::Asks,
    incoming::{Read, read},
};

const OURS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
const MODERN: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
];

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!([1, {"a": "\"}"}])),
        any::<i32>().prop_map(|n| json!(n))
    ]
}

/// An object with some of these members and some others, in any order.
fn object(names: Vec<&'static str>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof![proptest::sample::select(names).prop_map(str::to_owned), "[a-c\"\\\\é]{1,3}"];
    proptest::collection::vec((name, value()), 0..8).prop_map(|members| members.into_iter().collect())
}

fn spaced(value: &Value, wide: bool) -> String {
    if wide { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
}

proptest! {
    #[test]
    fn a_result_keeps_what_is_not_the_bridges(result in object(OURS.to_vec()), wide: bool, first: bool) {
        let message = if first {
            json!({"id": 3, "result": &result, "jsonrpc": "2.0", "error": null})
        } else {
            json!({"error": null, "jsonrpc": "2.0", "result": &result, "x": [], "id": "3"})
        };
        let text = Bytes::from(spaced(&message, wide));
        let translated = translate(&text, "\"c\"", "resources/list", Asks::default()).unwrap();
        let Translated::Message(body, None) = translated else { panic!("a message") };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let mut want = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
        let rest = result.into_iter().filter(|(name, _)| !OURS.contains(&&**name));
        want.as_object_mut().unwrap().extend(rest);
        prop_assert_eq!(body["result"].to_string(), want.to_string());
        prop_assert_eq!(&body["id"], "c");
        prop_assert_eq!(body.get("error"), None);
    }

    #[test]
    fn a_request_keeps_what_is_not_of_its_era(
        meta in object([&MODERN[..3], &["progressToken"]].concat()),
        params in object(vec!["name", "arguments", "requestState", "task"]),
        wide: bool,
    ) {
        let mut params = params;
        params.insert("_meta".into(), Value::Object(meta.clone()));
        params.insert("z".into(), json!(1));
        let message = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": &params});
        let Ok(Read::Request(request)) = read(&Bytes::from(spaced(&message, wide))) else { panic!("a request") };
        let legacy: Value = serde_json::from_slice(&request.legacy(7)).unwrap();

        let mut meta: Map<_, _> =
            meta.into_iter().filter(|(name, _)| !MODERN.contains(&&**name)).collect();
        match meta.get_mut("progressToken") {
            Some(token) if token.is_number() => *token = json!(7),
            Some(_) => drop(meta.shift_remove("progressToken")),
            None => {}
        }
        params.insert("_meta".into(), Value::Object(meta.clone()));
        params.retain(|name, _| !["requestState", "task"].contains(&&**name) && (name != "_meta" || !meta.is_empty()));
        let want = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        prop_assert_eq!(legacy.to_string(), want.to_string());
    }
}
