use proptest::prelude::*;
use serde_json::value::RawValue;

use super::{Coercion, Normalized, Rules, normalize};
use crate::mcp::{
    message::{Body, ParseError, parse},
    tools::ToolSet,
};

const LIST: &str = r##"{"tools":[{"name":"t","inputSchema":{"properties":{"n":{"type":"integer"},"b":{"type":"boolean"},
    "a":{"type":"array","items":{"type":"string"}},"o":{"$ref":"#"},"x":{"anyOf":[{"type":"number"},{"type":"null"}]}}}},
    {"name":"u__t"},{"name":"ping"},{"name":"u_v","inputSchema":{"type":"object","properties":{}}}]}"##;

const SCALARS: [&str; 24] = [
    "null",
    "true",
    "0",
    "1.0",
    "2",
    "-1e2",
    "\"\"",
    "\"2.0\"",
    "\"5\"",
    "\"true\"",
    "\"[1]\"",
    "\"{}\"",
    "\"{\\\"n\\\":\\\"5\\\"}\"",
    "\"t\"",
    "\"x.t\"",
    "\"u-v\"",
    "\"tools/call\"",
    "\"tools\\/list\"",
    "\"prompts/get\"",
    "\"é\\u00e9\"",
    "\"\\ud83d\"",
    "\"[\\\"5\\\"]\"",
    "\"{\\\"o\\\":\\\"{}\\\"}\"",
    "\"ping\"",
];

const NAMES: [&str; 20] = [
    "jsonrpc",
    "id",
    "method",
    "params",
    "name",
    "arguments",
    "_meta",
    "cursor",
    "n",
    "b",
    "a",
    "o",
    "x",
    "tool",
    "action",
    "args",
    "input",
    "result",
    "par\\u0061ms",
    "k",
];

/// A value, often one that a rule is about.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(&SCALARS[..]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| format!("[{}]", v.join(" ,"))),
            members(inner).prop_map(|m| format!("{{ {m}}}")),
        ]
    })
}

fn members(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let name = prop::sample::select(&NAMES[..]);
    prop::collection::vec((name, value), 0..6)
        .prop_map(|m| m.iter().map(|(n, v)| format!("\"{n}\":{v}")).collect::<Vec<_>>().join(", "))
}

/// A message, often one that needs repair, with its members in any order.
fn message() -> impl Strategy<Value = String> {
    let method =
        prop::sample::select(vec!["tools/call", "t", "u_v", "prompts/get", "tools/list", "ping", "x"]);
    let version = prop::sample::select(vec!["", "\"jsonrpc\":\"2.0\"", "\"jsonrpc\":2"]);
    let params = prop_oneof![
        Just(String::new()),
        value().prop_map(|v| format!("\"params\":{v}")),
        members(value()).prop_map(|m| format!("\"params\":{{{m}}}")),
        members(value()).prop_map(|m| format!("\"params\":{{\"name\":\"t\",\"arguments\":{{{m}}}}}")),
    ];
    (method, version, params, any::<bool>()).prop_flat_map(|(method, version, params, bom)| {
        let parts =
            vec![format!("\"method\":\"{method}\""), version.to_owned(), params, "\"id\":1.0".to_owned()];
        Just(parts).prop_shuffle().prop_map(move |parts| {
            let parts: Vec<_> = parts.into_iter().filter(|p| !p.is_empty()).collect();
            format!("{}{{{} }}\n", if bom { "\u{feff}" } else { "" }, parts.join(" , "))
        })
    })
}

/// Text that is often JSON and often nearly so.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\"method\"",
        "\"params\"",
        "\"a\\u00e9\\\"\"",
        "\"é\"",
        "true",
        "null",
        "0",
        "-1.5e+3",
        "\"",
        "\\",
        "e",
        ".",
        "\u{feff}",
        "\t",
        "\"\\x\"",
        "\"\\ud8",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

fn modes() -> impl Strategy<Value = Rules> {
    let mode = prop::sample::select(vec![Coercion::Off, Coercion::Safe, Coercion::Full]);
    (mode, any::<[bool; 4]>()).prop_map(|(coercion, [a, b, c, d])| Rules {
        params: a || b,
        arguments: b || c,
        direct_tool_method: c || d,
        fill_arguments: d || a,
        coercion,
    })
}

/// Whether it is an object by a full parser.
fn is_object(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    serde_json::from_slice::<&RawValue>(body).is_ok_and(|raw| raw.get().trim_start().starts_with('{'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn normalising_twice_equals_once_and_json_stays_json(body in prop_oneof![message(), value()], rules in modes()) {
        let tools = ToolSet::from_list_result(LIST.as_bytes()).unwrap();
        let once = normalize(body.as_bytes(), &rules, &tools);
        let text = once.body.as_deref().unwrap_or(body.as_bytes());
        prop_assert_eq!(once.body.is_some(), !once.rules.is_empty());
        prop_assert!(once.body.is_none() || is_object(text), "{} -> {}", body, String::from_utf8_lossy(text));
        let twice = normalize(text, &rules, &tools);
        prop_assert_eq!(twice, Normalized::default(), "{} -> {}", body, String::from_utf8_lossy(text));
        if let (Ok(Body::Object(before)), Ok(Body::Object(after))) = (parse(body.as_bytes()), parse(text)) {
            prop_assert_eq!(before.id_raw.map(|r| r.text()), after.id_raw.map(|r| r.text()));
            prop_assert!(once.body.is_none() || after.duplicate.is_none());
        }
    }

    #[test]
    fn the_parser_agrees_with_a_full_one(body in prop_oneof![nearly_json(), message(), value()]) {
        let bytes = body.as_bytes();
        let stripped = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let expect = serde_json::from_slice::<&RawValue>(stripped).is_ok();
        prop_assert_eq!(parse(bytes).is_ok(), expect, "{}", body);
        prop_assert_eq!(matches!(parse(bytes), Ok(Body::Object(_))), is_object(bytes));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(body in prop::collection::vec(any::<u8>(), 0..200), rules in modes()) {
        let tools = ToolSet::from_list_result(LIST.as_bytes()).unwrap();
        if let Err(ParseError::NotJson { offset } | ParseError::TooDeep { offset }) = parse(&body) {
            prop_assert!(offset <= body.len());
        }
        drop(normalize(&body, &rules, &tools));
    }

    #[test]
    fn a_damaged_message_is_read_without_a_panic(body in message(), at in any::<prop::sample::Index>(), byte in any::<u8>(), rules in modes()) {
        let tools = ToolSet::from_list_result(LIST.as_bytes()).unwrap();
        let mut bytes = body.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        drop(normalize(&bytes, &rules, &tools));
        drop(normalize(&bytes[..at], &rules, &tools));
    }
}
