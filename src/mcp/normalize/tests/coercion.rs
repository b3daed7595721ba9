use super::{Coercion, run};
use crate::mcp::tools::ToolSet;

fn tool(schema: &str) -> ToolSet {
    ToolSet::from_list_result(format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#).as_bytes())
        .unwrap()
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    )
}

/// What `"v":value` becomes where the schema of `v` is `schema`, and the edits as `path from>to`.
fn coerced(schema: &str, value: &str, mode: Coercion) -> (String, Vec<String>) {
    let tools = tool(&format!(r#"{{"type":"object","properties":{{"v":{schema}}}}}"#));
    let (text, done) = run(&call(&format!(r#"{{"v":{value}}}"#)), mode, &tools);
    let start = call("{\"v\":").len() - "}}".len();
    let edits = done.edits.iter().map(|e| format!("{} {}>{}", e.path, e.from, e.to)).collect();
    assert!(done.rules.is_empty() || done.rules == ["schema_coercion"]);
    (text[start..text.len() - "}}}".len()].to_owned(), edits)
}

#[track_caller]
fn reads(schema: &str, value: &str, becomes: &str, edit: &str) {
    for mode in [Coercion::Safe, Coercion::Full] {
        assert_eq!(
            coerced(schema, value, mode),
            (becomes.to_owned(), vec![edit.to_owned()]),
            "{schema} {value} {mode:?}"
        );
    }
    assert_eq!(coerced(schema, value, Coercion::Off).0, value);
}

#[track_caller]
fn stays(schema: &str, value: &str) {
    for mode in [Coercion::Off, Coercion::Safe, Coercion::Full] {
        assert_eq!(coerced(schema, value, mode), (value.to_owned(), Vec::new()), "{schema} {value} {mode:?}");
    }
}

const INTEGER: &str = r#"{"type":"integer"}"#;
const NUMBER: &str = r#"{"type":"number"}"#;

#[test]
fn faithful_integers_keep_their_lexeme() {
    for n in ["0", "-0", "12345", "-7", "9223372036854775807", "-9223372036854775808"] {
        reads(INTEGER, &format!("\"{n}\""), n, "/v string>integer");
        reads(NUMBER, &format!("\"{n}\""), n, "/v string>integer");
    }
    reads(INTEGER, r#""\u0035""#, "5", "/v string>integer");
}

#[test]
fn what_is_no_faithful_integer_stays_text() {
    for n in [
        "007",
        "0x10",
        "1e3",
        "1,000",
        " 5",
        "5 ",
        "+5",
        "5.0",
        "",
        "-",
        "five",
        "9223372036854775808",
        "-9223372036854775809",
        "٥",
        "NaN",
        "null",
        "true",
        "[5]",
        "1_000",
        "5\\n",
    ] {
        stays(INTEGER, &format!("\"{n}\""));
    }
}

#[test]
fn numbers_are_read_by_the_grammar_of_json_and_must_be_finite() {
    for n in ["1.5", "-0.25", "1e3", "2.50", "1E-7", "0.1234567890123456789012345"] {
        reads(NUMBER, &format!("\"{n}\""), n, "/v string>number");
    }
    for n in ["1e400", "9223372036854775808", ".5", "5.", "01.5", "0x1p3", "Infinity", "NaN", "1,5"] {
        stays(NUMBER, &format!("\"{n}\""));
    }
}

#[test]
fn booleans_are_exactly_true_and_false() {
    reads(r#"{"type":"boolean"}"#, "\"true\"", "true", "/v string>boolean");
    reads(r#"{"type":"boolean"}"#, "\"false\"", "false", "/v string>boolean");
    for other in ["True", "FALSE", " true", "1", "0", "yes", ""] {
        stays(r#"{"type":"boolean"}"#, &format!("\"{other}\""));
    }
}

#[test]
fn containers_are_read_from_exactly_one_text() {
    let array = r#"{"type":"array"}"#;
    reads(array, r#""[120, 45]""#, "[120, 45]", "/v string>array");
    reads(array, r#"" [\"a\"] ""#, r#"["a"]"#, "/v string>array");
    reads(r#"{"type":"object"}"#, r#""{\"a\":1.0}""#, r#"{"a":1.0}"#, "/v string>object");
    for other in ["120, 45", "[1", "[1][2]", "{}", "[{\\\"a\\\":1,\\\"a\\\":2}]", "[NaN]", "\\\"[]\\\""] {
        stays(array, &format!("\"{other}\""));
    }
    stays(r#"{"type":"object"}"#, "\"[]\"");
    stays(array, r#""[\"\ud83d\"]""#);
}

#[test]
fn where_a_string_is_allowed_nothing_is_changed() {
    for schema in [
        r#"{"type":["string","array"]}"#,
        "{}",
        "true",
        r#"{"anyOf":[{"type":"array"},{"type":"string"}]}"#,
        r#"{"oneOf":[{"type":"array"},{"type":"string","format":"x"}]}"#,
        r#"{"$dynamicRef":"other"}"#,
        r##"{"$ref":"https://elsewhere/schema"}"##,
        r##"{"$ref":"#/nowhere"}"##,
        r#"{"type":"something"}"#,
        r#"{"enum":["[1]",[1]]}"#,
        r#"{"anyOf":[{"type":"array"},{}]}"#,
    ] {
        stays(schema, "\"[1]\"");
    }
    stays(r#"{"enum":["1",2]}"#, "\"2\"");
}

#[test]
fn composition_narrows_what_is_allowed() {
    for schema in [
        r#"{"anyOf":[{"type":"integer"},{"type":"null"}]}"#,
        r#"{"type":["integer","null"]}"#,
        r#"{"allOf":[{"type":"integer"}]}"#,
        r#"{"allOf":[{"type":["string","integer"]},{"type":["integer","null"]}]}"#,
        r#"{"oneOf":[{"type":"integer"},{"type":"boolean"}]}"#,
        r#"{"type":"integer","minimum":9}"#,
        r#"{"nullable":true,"type":"integer"}"#,
    ] {
        reads(schema, "\"5\"", "5", "/v string>integer");
    }
    stays("false", "\"5\"");
    stays(r#"{"allOf":[{"type":"string"},{"type":"integer"}]}"#, "\"5\"");
}

#[test]
fn enum_and_const_count_as_refusing() {
    reads(r#"{"enum":[1,2]}"#, "\"2\"", "2", "/v string>integer");
    reads(r#"{"const":2.0}"#, "\"2\"", "2", "/v string>integer");
    reads(r#"{"enum":[1.5]}"#, "\"1.50\"", "1.50", "/v string>number");
    reads(r#"{"type":["string","integer"],"enum":[1,2]}"#, "\"2\"", "2", "/v string>integer");
    reads(r#"{"const":true}"#, "\"true\"", "true", "/v string>boolean");
    for (schema, value) in [
        (r#"{"type":"integer","enum":[1,2]}"#, "\"3\""),
        (r#"{"const":true}"#, "\"false\""),
        (r#"{"enum":[[1]]}"#, "\"[1]\""),
        (r#"{"anyOf":[{"const":1},{"const":2}]}"#, "\"3\""),
    ] {
        stays(schema, value);
    }
    reads(r#"{"anyOf":[{"const":1},{"const":2}]}"#, "\"2\"", "2", "/v string>integer");
}

#[test]
fn nested_properties_and_items_count() {
    let schema = r#"{"properties":{"n":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}"#;
    reads(schema, r#"{ "x/~":"true" }"#, r#"{ "x/~":true }"#, "/v/x~1~0 string>boolean");
    reads(schema, r#"{"n" : "3"}"#, r#"{"n" : 3}"#, "/v/n string>integer");
    reads(schema, r#"{"\u006e":"3"}"#, r#"{"\u006e":3}"#, "/v/n string>integer");
    reads(
        r#"{"type":"array","items":{"type":"integer"}}"#,
        r#"[1, "2" ,3]"#,
        "[1, 2 ,3]",
        "/v/1 string>integer",
    );
    let tuple = r#"{"prefixItems":[{"type":"string"},{"type":"integer"}],"items":{"type":"boolean"}}"#;
    reads(tuple, r#"["1","2"]"#, r#"["1",2]"#, "/v/1 string>integer");
    reads(tuple, r#"["1",2,"true"]"#, r#"["1",2,true]"#, "/v/2 string>boolean");
    stays(
        r#"{"patternProperties":{"^n":{"type":"integer"}},"additionalProperties":{"type":"integer"}}"#,
        r#"{"n":"3"}"#,
    );
}

#[test]
fn references_within_the_schema_are_followed_also_in_circles() {
    let tools = tool(
        r##"{"$defs":{"a b":{"type":"integer"},"tree":{"properties":{"n":{"$ref":"#/$defs/a%20b"},"kids":{"items":{"$ref":"#/$defs/tree"}}}},
            "loop":{"$ref":"#/$defs/loop"}},
            "properties":{"t":{"$ref":"#/$defs/tree"},"l":{"$ref":"#/$defs/loop"},"self":{"$ref":"#"}}}"##,
    );
    let (text, done) = run(
        &call(r#"{"t":{"n":"1","kids":[{"kids":[{"n":"2"}]}]},"l":"5","self":{"t":{"n":"3"}}}"#),
        Coercion::Safe,
        &tools,
    );
    assert_eq!(text, call(r#"{"t":{"n":1,"kids":[{"kids":[{"n":2}]}]},"l":"5","self":{"t":{"n":3}}}"#));
    let paths: Vec<&str> = done.edits.iter().map(|e| e.path.as_str()).collect();
    assert_eq!(paths, ["/t/n", "/t/kids/0/kids/0/n", "/self/t/n"]);
}

#[test]
fn alternatives_are_entered_only_where_one_is_possible() {
    let one = r#"{"anyOf":[{"type":"object","properties":{"n":{"type":"integer"}}},{"type":"null"}]}"#;
    reads(one, r#"{"n":"3"}"#, r#"{"n":3}"#, "/v/n string>integer");
    let two = r#"{"anyOf":[{"properties":{"n":{"type":"integer"}}},{"properties":{"n":{"type":"string"}}}]}"#;
    stays(two, r#"{"n":"3"}"#);
    let base = r#"{"properties":{"n":{"type":"integer"}},"anyOf":[{"required":["n"]},{"required":["m"]}]}"#;
    reads(base, r#"{"n":"3"}"#, r#"{"n":3}"#, "/v/n string>integer");
}

#[test]
fn text_inside_text_is_read_to_the_end() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"a":{"type":"array","items":{"type":"boolean"}}}}"#;
    let (text, edits) = coerced(schema, r#""{\"n\": \"3\",\"a\":\"[\\\"true\\\",false]\"}""#, Coercion::Safe);
    assert_eq!(text, r#"{"n": 3,"a":[true,false]}"#);
    assert_eq!(
        edits,
        ["/v string>object", "/v/n string>integer", "/v/a string>array", "/v/a/0 string>boolean"]
    );
}

#[test]
fn an_object_with_a_member_twice_is_left_alone() {
    let schema = r#"{"properties":{"n":{"type":"integer"},"o":{"properties":{"n":{"type":"integer"}}}}}"#;
    stays(schema, r#"{"n":"1","n":"2"}"#);
    stays(schema, r#"{"n":"1","\u006e":2}"#);
    reads(
        schema,
        r#"{"o":{"n":"1","n":"1"},"n":"5"}"#,
        r#"{"o":{"n":"1","n":"1"},"n":5}"#,
        "/v/n string>integer",
    );
}

#[test]
fn coercion_follows_the_other_rules() {
    let tools = tool(r#"{"properties":{"n":{"type":"integer"}}}"#);
    let (text, done) = run(&call(r#""{\"n\":\"5\"}""#), Coercion::Safe, &tools);
    assert_eq!((text, done.rules), (call(r#"{"n":5}"#), vec!["arguments_string", "schema_coercion"]));
    for (direct, becomes) in [
        (r#"{"n":"5","_meta":{"n":"5"}}"#, r#"{"name":"t","arguments":{"n":5},"_meta":{"n":"5"}}"#),
        (r#"{"arguments":{"n":"5"}}"#, r#"{"name":"t","arguments":{"n":5}}"#),
        (r#"{"arguments":"x","n":"5"}"#, r#"{"name":"t","arguments":{"n":5}}"#),
    ] {
        let body = |method, params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
        };
        let (text, done) = run(&body("t", direct), Coercion::Safe, &tools);
        assert_eq!(
            (text, done.rules),
            (body("tools/call", becomes), vec!["direct_tool_method", "schema_coercion"])
        );
    }
}

#[test]
fn an_unknown_tool_or_one_without_schema_is_left_alone() {
    let tools = ToolSet::from_list_result(
        br#"{"tools":[{"name":"t"},{"name":"u","inputSchema":true},{"name":"w","inputSchema":{"type":5}}]}"#,
    )
    .unwrap();
    for name in ["t", "u", "w", "x"] {
        let body = call(r#"{"n":"5"}"#).replace("\"t\"", &format!("\"{name}\""));
        assert_eq!(run(&body, Coercion::Safe, &tools).0, body);
    }
}

#[test]
fn the_list_of_edits_is_bounded_and_the_change_is_not() {
    let tools = tool(r#"{"properties":{"v":{"items":{"type":"integer"}}}}"#);
    let many = |n: &str| call(&format!(r#"{{"v":[{}]}}"#, vec![n; 3000].join(",")));
    let (text, done) = run(&many("\"7\""), Coercion::Safe, &tools);
    assert_eq!((text, done.edits.len()), (many("7"), super::super::MAX_EDITS));
}

#[test]
fn schemas_that_are_deep_or_long_chains_cost_no_stack() {
    let defs: Vec<String> =
        (0..5000).map(|n| format!(r##""d{n}":{{"$ref":"#/$defs/d{}"}}"##, n + 1)).collect();
    let schema = format!(
        r##"{{"$defs":{{{},"d5000":{{"type":"integer"}}}},"properties":{{"v":{{"$ref":"#/$defs/d0"}}}}}}"##,
        defs.join(",")
    );
    let (text, _) = run(&call(r#"{"v":"5"}"#), Coercion::Safe, &tool(&schema));
    assert!(text == call(r#"{"v":5}"#) || text == call(r#"{"v":"5"}"#));
    let deep = format!("{}{}{}", r#"{"items":"#.repeat(400), "{}", "}".repeat(400));
    run(&call(r#"{"v":"5"}"#), Coercion::Safe, &tool(&deep));
}
