use super::{ListError, MAX_DEFINITION, MAX_TOOLS, ParamType, Tool, ToolSet};

fn set(list: &str) -> ToolSet {
    ToolSet::from_list_result(list.as_bytes()).unwrap()
}

#[test]
fn a_list_is_read_alone_in_a_result_or_in_a_message() {
    for list in [
        r#"{"tools":[{"name":"a"}]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"\u0061"}],"ttlMs":0}}"#,
    ] {
        assert!(set(list).contains("a") && set(list).len() == 1, "{list}");
    }
    assert_eq!(ToolSet::from_list_result(b"{}").unwrap_err(), ListError::NoTools);
    assert_eq!(ToolSet::from_list_result(br#"{"tools":{}}"#).unwrap_err(), ListError::NoTools);
    assert!(matches!(ToolSet::from_list_result(b"{").unwrap_err(), ListError::NotJson(_)));
}

#[test]
fn pages_add_up_and_one_bad_definition_spoils_no_other() {
    let mut tools = ToolSet::default();
    let cursor = tools
        .extend(br#"{"tools":[{"name":"a"},5,{},{"name":7},{"name":"\ud83d"}],"nextCursor":"n\n"}"#)
        .unwrap();
    assert_eq!(cursor.as_deref(), Some("n\n"));
    assert_eq!(tools.extend(br#"{"tools":[{"name":"b"}]}"#).unwrap(), None);
    let mut names: Vec<_> = tools.iter().map(|t| t.name.clone()).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn hints_count_only_where_they_are_true() {
    let tools = set(
        r#"{"tools":[{"name":"a","annotations":{"readOnlyHint":true,"idempotentHint":"true"}},{"name":"b","annotations":{"idempotentHint":true}},
        {"name":"c","readOnlyHint":true}]}"#,
    );
    let hints = |name| tools.get(name).map(|t| (t.read_only, t.idempotent));
    assert_eq!(
        (hints("a"), hints("b"), hints("c")),
        (Some((true, false)), Some((false, true)), Some((false, false)))
    );
}

#[test]
fn too_many_or_too_large_definitions_are_bounded() {
    let many: Vec<String> = (0..MAX_TOOLS + 5).map(|n| format!("{{\"name\":\"t{n}\"}}")).collect();
    assert_eq!(set(&format!("{{\"tools\":[{}]}}", many.join(","))).len(), MAX_TOOLS);
    let large = format!(
        r#"{{"tools":[{{"name":"t","inputSchema":{{"type":"object","description":"{}"}}}}]}}"#,
        "x".repeat(MAX_DEFINITION)
    );
    assert!(set(&large).get("t").unwrap().schema.is_none());
}

#[test]
fn schemas_beyond_what_memory_should_hold_are_left_out() {
    let properties: Vec<String> = (0..9000).map(|n| format!("\"p{n}\":{{}}")).collect();
    let tool = |n: usize| {
        format!(r#"{{"name":"t{n}","inputSchema":{{"properties":{{{}}}}}}}"#, properties.join(","))
    };
    let list: Vec<String> = (0..30).map(tool).collect();
    let tools = set(&format!("{{\"tools\":[{}]}}", list.join(",")));
    let schemas = tools.iter().filter(|t| t.schema.is_some()).count();
    assert!((20..30).contains(&schemas) && tools.len() == 30, "{schemas}");
}

fn annotated(schema: &str) -> std::sync::Arc<Tool> {
    set(&format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#)).get("t").unwrap().clone()
}

#[test]
fn header_annotations_are_found_through_properties() {
    let tool = annotated(
        r#"{"properties":{"r":{"type":"string","x-mcp-header":"Region"},"o":{"properties":{"n":{"type":["integer","null"],"x-mcp-header":"N.1"}}},
        "x-mcp-header":{"type":"boolean","x-mcp-header":"flag"}},"default":{"x-mcp-header":"no"}}"#,
    );
    assert!(tool.valid);
    let found: Vec<_> =
        tool.header_params.iter().map(|p| (p.path.join("."), p.header.as_str(), p.kind)).collect();
    let expect = [
        ("o.n".to_owned(), "mcp-param-n.1", ParamType::Integer),
        ("r".to_owned(), "mcp-param-region", ParamType::String),
        ("x-mcp-header".to_owned(), "mcp-param-flag", ParamType::Boolean),
    ];
    assert_eq!(found, expect);
}

#[test]
fn a_broken_annotation_makes_the_tool_invalid() {
    for schema in [
        r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
        r#"{"properties":{"a":{"x-mcp-header":"A"}}}"#,
        r#"{"properties":{"a":{"type":["string","integer"],"x-mcp-header":"A"}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"A B"}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":5}}}"#,
        r#"{"properties":{"a":{"type":"string","x-mcp-header":"x"},"b":{"type":"string","x-mcp-header":"X"}}}"#,
        r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
        r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
        r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#,
        r#"{"type":"string","x-mcp-header":"A"}"#,
    ] {
        let tool = annotated(schema);
        assert!(!tool.valid && tool.header_params.is_empty() && tool.schema.is_some(), "{schema}");
    }
    assert!(annotated(r#"{"enum":[{"x-mcp-header":5}]}"#).valid);
}

#[test]
fn more_annotations_than_a_request_can_carry_make_the_tool_invalid() {
    let many = |n: usize| {
        let all: Vec<String> =
            (0..n).map(|i| format!(r#""p{i}":{{"type":"string","x-mcp-header":"H{i}"}}"#)).collect();
        annotated(&format!(r#"{{"properties":{{{}}}}}"#, all.join(",")))
    };
    assert_eq!(many(64).header_params.len(), 64);
    assert!(!many(65).valid);
}
