use http::{HeaderMap, HeaderName, HeaderValue};

use super::{check, derive};
use crate::mcp::{
    message::{Body, Message, parse},
    tools::ToolSet,
};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

const LIST: &str = r#"{"tools":[{"name":"t","inputSchema":{"properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "o":{"properties":{"n":{"type":"integer","x-mcp-header":"Count"},"b":{"type":["boolean","null"],"x-mcp-header":"Flag"}}}
}}}]}"#;

fn message(body: &str) -> Box<Message<'_>> {
    match parse(body.as_bytes()).unwrap() {
        Body::Object(message) => message,
        other => panic!("{other:?}"),
    }
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in [("mcp-protocol-version", "2026-07-28")].iter().chain(pairs) {
        map.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    map
}

fn body(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}{META}}}}}"#)
}

fn verdict(method: &str, params: &str, pairs: &[(&str, &str)]) -> Result<(), String> {
    let tools = ToolSet::from_list_result(LIST.as_bytes()).unwrap();
    let text = body(method, params);
    let message = message(&text);
    let tool = message.name.as_deref().and_then(|n| tools.get(n)).map(|t| &**t);
    check(&headers(pairs), &message, tool).map_err(|m| m.message)
}

fn call(arguments: &str, extra: &[(&str, &str)]) -> Result<(), String> {
    let pairs = [&[("Mcp-Method", "tools/call"), ("Mcp-Name", "t")], extra].concat();
    verdict("tools/call", &format!(r#""name":"t","arguments":{arguments},"#), &pairs)
}

#[test]
fn the_method_is_compared_with_its_case() {
    assert_eq!(verdict("tools/list", "", &[("mcp-method", "tools/list")]), Ok(()));
    assert_eq!(verdict("tools/list", "", &[]), Err("Mcp-Method is missing".into()));
    for wrong in ["TOOLS/LIST", "tools/call", "", "=?base64?dG9vbHMvbGlzdA==?="] {
        assert_eq!(
            verdict("tools/list", "", &[("mcp-method", wrong)]),
            Err("Mcp-Method differs from the body".into())
        );
    }
    let twice = [("mcp-method", "tools/list"), ("mcp-method", "tools/list")];
    assert_eq!(verdict("tools/list", "", &twice), Err("Mcp-Method comes twice".into()));
}

#[test]
fn the_name_is_decoded_and_comes_from_its_own_member() {
    let read = |name| {
        verdict(
            "resources/read",
            r#""uri":"file:///ø","#,
            &[("mcp-method", "resources/read"), ("mcp-name", name)],
        )
    };
    assert_eq!(read("=?base64?ZmlsZTovLy/DuA==?="), Ok(()));
    assert_eq!(read("file:///b"), Err("Mcp-Name differs from the body".into()));
    assert_eq!(read("=?base64?ZmlsZTovLy/DuA?="), Err("Mcp-Name is malformed".into()));
    assert_eq!(read("file:///ø"), Err("Mcp-Name is malformed".into()));
    let absent = verdict("prompts/get", r#""name":"p","#, &[("mcp-method", "prompts/get")]);
    assert_eq!(absent, Err("Mcp-Name is missing".into()));
    let no_source = verdict("tools/call", "", &[("mcp-method", "tools/call"), ("mcp-name", "t")]);
    assert_eq!(no_source, Err("Mcp-Name differs from the body".into()));
    assert_eq!(verdict("tools/call", "", &[("mcp-method", "tools/call")]), Ok(()));
}

#[test]
fn tasks_may_leave_the_name_out_but_not_change_it() {
    let get = |pairs: &[(&str, &str)]| {
        verdict("tasks/get", r#""taskId":"7","#, &[&[("mcp-method", "tasks/get")], pairs].concat())
    };
    assert_eq!(get(&[]), Ok(()));
    assert_eq!(get(&[("mcp-name", "7")]), Ok(()));
    assert!(get(&[("mcp-name", "8")]).is_err());
}

#[test]
fn annotated_arguments_must_be_mirrored() {
    assert_eq!(call(r#"{"region":"eu"}"#, &[("mcp-param-region", "eu")]), Ok(()));
    assert_eq!(call(r#"{"region":"eu"}"#, &[]), Err("Mcp-Param-region is missing".into()));
    assert!(call(r#"{"region":"eu"}"#, &[("mcp-param-region", "EU")]).is_err());
    assert!(call(r#"{"region":null}"#, &[("mcp-param-region", "eu")]).is_err());
    assert_eq!(call(r#"{"region":null}"#, &[]), Ok(()));
    let twice = [("mcp-param-region", "eu"), ("Mcp-Param-Region", "eu")];
    assert_eq!(call(r#"{"region":"eu"}"#, &twice), Err("Mcp-Param-region comes twice".into()));
}

#[test]
fn nested_integers_are_compared_as_numbers() {
    for (body, header) in [("3", "3"), ("3.0", "3"), ("3", "3.0"), ("30e-1", "3")] {
        assert_eq!(
            call(&format!(r#"{{"o":{{"n":{body}}}}}"#), &[("mcp-param-count", header)]),
            Ok(()),
            "{body} {header}"
        );
    }
    for header in ["4", "03", "three", ""] {
        assert!(call(r#"{"o":{"n":3}}"#, &[("mcp-param-count", header)]).is_err(), "{header}");
    }
    assert_eq!(call(r#"{"o":{"b":false}}"#, &[("mcp-param-flag", "false")]), Ok(()));
    assert!(call(r#"{"o":{"b":false}}"#, &[("mcp-param-flag", "False")]).is_err());
}

#[test]
fn unknown_parameters_and_unreadable_arguments_pass() {
    assert_eq!(call("{}", &[("mcp-param-zone", "a")]), Ok(()));
    assert_eq!(call(r#""{\"region\":\"eu\"}""#, &[("mcp-param-region", "eu")]), Ok(()));
}

#[test]
fn derived_headers_follow_the_body_and_come_once() {
    let tools = ToolSet::from_list_result(LIST.as_bytes()).unwrap();
    let text = body("tools/call", r#""name":"t","arguments":{"region":" ø","o":{"n":1e1}},"#);
    let mut map = headers(&[
        ("mcp-method", "t"),
        ("mcp-name", "old"),
        ("mcp-name", "older"),
        ("mcp-param-flag", "true"),
        ("mcp-param-count", "9"),
        ("mcp-param-zone", "kept"),
        ("x-other", "kept"),
    ]);
    derive(&message(&text), tools.get("t").map(|t| &**t), &mut map);
    let expect = headers(&[
        ("mcp-method", "tools/call"),
        ("mcp-name", "t"),
        ("mcp-param-region", "=?base64?IMO4?="),
        ("mcp-param-count", "10"),
        ("mcp-param-zone", "kept"),
        ("x-other", "kept"),
    ]);
    assert_eq!(map, expect);
    check(&map, &message(&text), tools.get("t").map(|t| &**t)).unwrap();
}

#[test]
fn a_header_without_source_goes() {
    let text = body("tools/list", "");
    let mut map = headers(&[("mcp-method", "x"), ("mcp-name", "x")]);
    derive(&message(&text), None, &mut map);
    assert_eq!(map, headers(&[("mcp-method", "tools/list")]));
}
