use super::{Coercion, run};
use crate::mcp::tools::ToolSet;

fn tools(list: &str) -> ToolSet {
    ToolSet::from_list_result(format!(r#"{{"tools":[{list}]}}"#).as_bytes()).unwrap()
}

fn tool(schema: &str) -> ToolSet {
    tools(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#))
}

fn body(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

fn call(arguments: &str) -> String {
    body(&format!(r#"{{"name":"t","arguments":{arguments}}}"#))
}

/// Full changes it so; safe does not change it.
#[track_caller]
fn only_full(tools: &ToolSet, before: &str, after: &str, lossy: bool) {
    assert_eq!(run(before, Coercion::Safe, tools).0, before, "safe");
    let (text, done) = run(before, Coercion::Full, tools);
    assert_eq!((text.as_str(), done.lossy), (after, lossy));
    assert_eq!(done.rules, ["schema_coercion"]);
    assert!(!done.edits.is_empty());
}

#[track_caller]
fn full_stays(tools: &ToolSet, before: &str) {
    let (text, done) = run(before, Coercion::Full, tools);
    assert_eq!((text.as_str(), done.rules.len()), (before, 0));
}

#[test]
fn a_scalar_is_wrapped_where_an_array_of_it_is_due() {
    for (items, value) in [
        ("string", "\"a\""),
        ("integer", "5"),
        ("number", "1.5"),
        ("number", "5"),
        ("boolean", "true"),
        ("string", "\"120, 45\""),
    ] {
        let t = tool(&format!(r#"{{"properties":{{"v":{{"type":"array","items":{{"type":"{items}"}}}}}}}}"#));
        only_full(
            &t,
            &call(&format!(r#"{{"v":{value} }}"#)),
            &call(&format!(r#"{{"v":[{value}] }}"#)),
            false,
        );
    }
    let optional = tool(
        r#"{"properties":{"v":{"anyOf":[{"type":"array","items":{"enum":["a","b"]}},{"type":"null"}]}}}"#,
    );
    only_full(&optional, &call(r#"{"v":"a"}"#), &call(r#"{"v":["a"]}"#), false);
    full_stays(&optional, &call(r#"{"v":"c"}"#));
    full_stays(&optional, &call(r#"{"v":null}"#));
}

#[test]
fn what_is_not_that_scalar_or_may_stand_alone_is_not_wrapped() {
    for (schema, value) in [
        (r#"{"type":"array"}"#, "\"a\""),
        (r#"{"type":"array","items":true}"#, "\"a\""),
        (r#"{"type":"array","items":{}}"#, "\"a\""),
        (r#"{"type":"array","items":{"type":"integer"}}"#, "\"5\""),
        (r#"{"type":"array","items":{"type":"integer"}}"#, "1.5"),
        (r#"{"type":"array","items":{"type":"string"}}"#, "5"),
        (r#"{"type":"array","items":{"type":"object"}}"#, "{}"),
        (r#"{"type":"array","items":{"type":"string"}}"#, "null"),
        (r#"{"type":"array","prefixItems":[{"type":"string"}]}"#, "\"a\""),
        (r#"{"type":["array","string"],"items":{"type":"string"}}"#, "\"a\""),
        (r#"{"type":["array","number"],"items":{"type":"number"}}"#, "5"),
    ] {
        full_stays(
            &tool(&format!(r#"{{"properties":{{"v":{schema}}}}}"#)),
            &call(&format!(r#"{{"v":{value}}}"#)),
        );
    }
}

#[test]
fn text_of_an_array_is_read_before_it_is_wrapped() {
    let t = tool(r#"{"properties":{"v":{"type":"array","items":{"type":"string"}}}}"#);
    for mode in [Coercion::Safe, Coercion::Full] {
        assert_eq!(run(&call(r#"{"v":"[\"a\"]"}"#), mode, &t).0, call(r#"{"v":["a"]}"#));
    }
}

#[test]
fn undeclared_plumbing_is_dropped() {
    let t = tool(r#"{"properties":{"q":{"type":"string"}},"additionalProperties":false}"#);
    for (before, after) in [
        (r#"{"q":"x","tool":"F"}"#, r#"{"q":"x"}"#),
        (r#"{"tool":"F" , "q":"x"}"#, r#"{"q":"x"}"#),
        (r#"{"toolCallId":"c","sessionId":1,"q":"x","chatInput":{},"action":null }"#, r#"{"q":"x" }"#),
        (r#"{"tool":1,"action":2}"#, "{}"),
        (r#"{"a":1,"tool":2,"b":3,"sessionId":4,"c":5}"#, r#"{"a":1,"b":3,"c":5}"#),
        (r#"{"t\u006fol":1}"#, "{}"),
    ] {
        only_full(&t, &call(before), &call(after), true);
    }
    full_stays(&t, &call(r#"{"q":"x","Tool":1,"tool_call_id":2,"other":{"tool":1}}"#));
}

#[test]
fn plumbing_that_the_tool_may_want_is_kept() {
    for schema in [
        r#"{"properties":{"tool":{}}}"#,
        r#"{"properties":{},"allOf":[{"properties":{"tool":{}}}]}"#,
        r#"{"properties":{},"additionalProperties":{}}"#,
        r#"{"properties":{},"additionalProperties":true}"#,
        r#"{"properties":{},"patternProperties":{"^t":{}}}"#,
        r#"{"type":"object"}"#,
        r##"{"properties":{},"$ref":"https://elsewhere"}"##,
        r##"{"properties":{},"$ref":"#/$defs/x","$defs":{"x":{"properties":{"tool":{}}}}}"##,
        r#"{"properties":{},"if":{"properties":{"tool":{}}}}"#,
        r#"{"properties":{},"anyOf":[{"properties":{"tool":{}}},{}]}"#,
    ] {
        full_stays(&tool(schema), &call(r#"{"tool":"F"}"#));
    }
    full_stays(&ToolSet::from_names(["t"]), &call(r#"{"tool":"F"}"#));
}

#[test]
fn plumbing_goes_from_the_direct_form_too() {
    let t = tool(r#"{"properties":{"n":{"type":"integer"}}}"#);
    for (params, becomes) in [
        (r#"{"tool":1,"_meta":{},"n":"5"}"#, r#"{"name":"t","arguments":{"n":5},"_meta":{}}"#),
        (r#"{"name":"t","tool":1,"n":5}"#, r#"{"name":"t","arguments":{"n":5}}"#),
        (r#"{"n":5,"_meta":{},"tool":1}"#, r#"{"name":"t","arguments":{"n":5},"_meta":{}}"#),
        (r#"{"tool":1,"_meta":{},"action":2}"#, r#"{"name":"t","arguments":{},"_meta":{}}"#),
        (
            r#"{"_meta":{},"tool":1,"arguments":{"tool":1,"n":5}}"#,
            r#"{"name":"t","_meta":{},"tool":1,"arguments":{"n":5}}"#,
        ),
    ] {
        let before = body(params).replace("tools/call", "t");
        assert_eq!(run(&before, Coercion::Full, &t).0, body(becomes), "{params}");
    }
}

#[test]
fn a_name_with_a_hosts_prefix_is_mapped_to_the_one_tool_it_means() {
    let known = ToolSet::from_names(["echo", "get_time", "read-file", "füü"]);
    let named = |name: &str| body(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
    for (name, meant) in [
        ("mcp__files__echo", "echo"),
        ("files.echo", "echo"),
        ("a:echo", "echo"),
        ("server/echo", "echo"),
        ("my-echo", "echo"),
        ("__echo", "echo"),
        ("/echo", "echo"),
        ("x__get_time", "get_time"),
        ("get-time", "get_time"),
        ("get.time", "get_time"),
        ("get__time", "get_time"),
        ("read_file", "read-file"),
        ("read/file", "read-file"),
        ("ü.füü", "füü"),
    ] {
        only_full(&known, &named(name), &named(meant), false);
    }
    for name in [
        "echo",
        "xecho",
        "x_echo",
        "echo__x",
        "Echo",
        "mcp__files__",
        "mcp__files__Echo",
        "gettime",
        "",
        "x__füü ",
        "getxtime",
    ] {
        full_stays(&known, &named(name));
    }
    let edit = &run(&named("a:echo"), Coercion::Full, &known).1.edits[0];
    assert_eq!((edit.path.as_str(), edit.from, edit.to), ("1/name", "string", "string"));
}

#[test]
fn an_ambiguous_name_is_left_alone() {
    let named = |name: &str| body(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#));
    full_stays(&ToolSet::from_names(["a_b", "a-b"]), &named("a.b"));
    full_stays(&ToolSet::from_names(["b", "a.b"]), &named("x.a.b"));
    full_stays(&ToolSet::from_names(["b", "a_b"]), &named("a-b"));
    full_stays(&ToolSet::from_names(["echo"]), &named(&format!("{}.echo", "x".repeat(300))));
}

#[test]
fn the_mapped_tools_schema_counts() {
    let t = tool(r#"{"properties":{"n":{"type":"integer"}}}"#);
    let before = body(r#"{"name":"x__t","arguments":{"n":"5"}}"#);
    only_full(&t, &before, &call(r#"{"n":5}"#), false);
    let direct = body(r#"{"name":"x__t","arguments":{"n":"5"}}"#).replace("tools/call", "t");
    assert_eq!(run(&direct, Coercion::Full, &t).0, call(r#"{"n":5}"#));
}

#[test]
fn arguments_beside_arguments_are_found() {
    let t = tool(r#"{"properties":{"n":{"type":"integer"},"s":{},"name":{}}}"#);
    for (before, after) in [
        (
            r#"{"name":"t","n":"5" , "s":[1.0],"_meta":{}}"#,
            r#"{"name":"t","_meta":{},"arguments":{"n":5,"s":[1.0]}}"#,
        ),
        (r#"{"n":5,"name":"t"}"#, r#"{"name":"t","arguments":{"n":5}}"#),
        (r#"{"name":"t","n":5,"other":1}"#, r#"{"name":"t","other":1,"arguments":{"n":5}}"#),
        (r#"{"name":"t","args":{"n":"5"}}"#, r#"{"name":"t","arguments":{"n":5}}"#),
        (r#"{"input":{ "x":1 },"name":"t"}"#, r#"{"name":"t","arguments":{ "x":1 }}"#),
    ] {
        let (text, done) = run(&body(before), Coercion::Full, &t);
        assert_eq!((text, done.rules), (body(after), vec!["schema_coercion"]));
        assert!(!done.edits.is_empty() && !done.lossy);
    }
    let edits = run(&body(r#"{"name":"t","n":"5"}"#), Coercion::Full, &t).1.edits;
    let listed: Vec<_> = edits.iter().map(|e| (e.path.as_str(), e.from, e.to)).collect();
    assert_eq!(listed, [("/n", "absent", "string"), ("/n", "string", "integer")]);
}

#[test]
fn misplaced_arguments_need_one_reading() {
    let t = tool(r#"{"properties":{"n":{"type":"integer"}}}"#);
    for params in [
        r#"{"name":"t","n":5,"args":{}}"#,
        r#"{"name":"t","input":{},"args":{}}"#,
        r#"{"name":"t","args":"x"}"#,
        r#"{"name":"t","task":{}}"#,
    ] {
        let (text, done) = run(&body(params), Coercion::Full, &t);
        let filled = format!("{},\"arguments\":{{}}}}", &params[..params.len() - 1]);
        assert_eq!((text, done.rules), (body(&filled), vec!["arguments_missing"]));
    }
    full_stays(&t, &body(r#"{"name":"t","n":5,"arguments":{}}"#));
    // `input` that the tool declares is an argument like any other.
    let t = tool(r#"{"properties":{"input":{"type":"object"}}}"#);
    assert_eq!(run(&body(r#"{"name":"t","input":{}}"#), Coercion::Full, &t).0, call(r#"{"input":{}}"#));
}
