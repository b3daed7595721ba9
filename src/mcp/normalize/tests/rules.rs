use super::{Coercion, Rules, becomes, names, normalize, stays};

#[test]
fn a_byte_order_mark_goes_and_nothing_else() {
    becomes(
        "\u{feff} {\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"ping\",\"params\":{} }\n",
        "bom",
        " {\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"ping\",\"params\":{} }\n",
    );
    becomes("\u{feff}{\"id\":5,\"result\":{}}", "bom", "{\"id\":5,\"result\":{}}");
    stays("\u{feff}[]");
    stays("\u{feff}oops");
    stays("\u{feff}\u{feff}{\"id\":1,\"method\":\"ping\",\"params\":{}}");
}

#[test]
fn a_missing_version_is_appended_and_a_number_replaced() {
    becomes(
        r#"{ "id":1, "method":"ping", "params":{} }"#,
        "jsonrpc_missing",
        r#"{ "id":1, "method":"ping", "params":{},"jsonrpc":"2.0" }"#,
    );
    for two in ["2", "2.0", "2e0", "20e-1", "0.2E+1"] {
        let with = |v| format!(r#"{{"jsonrpc": {v} ,"id":1,"method":"ping","params":{{}}}}"#);
        becomes(&with(two), "jsonrpc_missing", &with("\"2.0\""));
    }
    becomes(
        r#"{"id":1,"method":"ping"}"#,
        "jsonrpc_missing params_missing",
        r#"{"id":1,"method":"ping","jsonrpc":"2.0","params":{}}"#,
    );
    stays(r#"{"jsonrpc":"2\u002e0","id":1,"method":"ping","params":{}}"#);
}

#[test]
fn no_rule_touches_what_has_another_version_or_a_member_twice() {
    for wrong in ["\"1.0\"", "\"2\"", "3", "null", "true", "[\"2.0\"]", "2.1"] {
        stays(&format!(r#"{{"jsonrpc":{wrong},"id":1,"method":"ping","params":null}}"#));
    }
    stays(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":null}"#);
    stays(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,"par\u0061ms":null}"#);
    stays(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","n\u0061me":"b","arguments":null}}"#,
    );
    stays(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"a":1,"a":2},"arguments":null}}"#,
    );
    stays("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":1,\"method\":\"ping\"}");
}

#[test]
fn params_become_an_object_on_anything_with_a_method() {
    for (params, rule) in
        [("null", "params_null"), ("[]", "params_array"), ("[ ]", "params_array"), ("[1]", "params_array !")]
    {
        for method in ["\"ping\"", "\"notifications/initialized\"", "\"no/such\"", "5", "null"] {
            let with = |p| format!("{{\"jsonrpc\":\"2.0\",\"params\": {p} ,\"method\":{method}}}");
            becomes(&with(params), rule, &with("{}"));
        }
    }
    becomes(
        r#"{"jsonrpc":"2.0","method":7}"#,
        "params_missing",
        r#"{"jsonrpc":"2.0","method":7,"params":{}}"#,
    );
    becomes(
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","par\u0061ms":null}"#,
        "params_null",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","par\u0061ms":{}}"#,
    );
    for other in ["\"{}\"", "0", "true", "false", "\"\"", "{}", "{ }"] {
        stays(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{other}}}"#));
    }
}

#[test]
fn bodies_without_method_and_what_is_no_object_stay() {
    for body in [
        "{}",
        r#"{"jsonrpc":"2.0","id":5}"#,
        r#"{"id":5,"result":null}"#,
        r#"{"params":null}"#,
        "[]",
        "null",
        "\"x\"",
        "1",
        "",
        " ",
        "{",
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}x"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null,}"#,
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}\0",
        "{'method':'ping'}",
        "{\"method\":\"pi\tng\"}",
    ] {
        stays(body);
    }
    let not_utf8 = b"{\"method\":\"ping\",\"x\":\"\xff\"}";
    assert_eq!(normalize(not_utf8, &Rules::default(), &names()).body, None);
}

#[test]
fn what_is_refused_for_its_id_is_repaired_all_the_same() {
    for id in ["null", "1.5", "true", "{}", "[]"] {
        let with = |p| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","params":{p}}}"#);
        becomes(&with("null"), "params_null", &with("{}"));
    }
    becomes(
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#,
        "arguments_missing",
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
    );
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{params},"id":9007199254740993}}"#)
}

#[test]
fn a_call_always_gets_an_arguments_object() {
    becomes(&call("[]"), "params_array arguments_missing", &call(r#"{"arguments":{}}"#));
    becomes(&call("null"), "params_null arguments_missing", &call(r#"{"arguments":{}}"#));
    becomes(&call("{ }"), "arguments_missing", &call(r#"{"arguments":{} }"#));
    becomes(&call(r#"{"name":"x" }"#), "arguments_missing", &call(r#"{"name":"x","arguments":{} }"#));
    becomes(
        &call(r#"{"arguments":null,"name":"x"}"#),
        "arguments_null",
        &call(r#"{"arguments":{},"name":"x"}"#),
    );
    becomes(
        &call(r#"{"arguments": [ ] ,"name":"x"}"#),
        "arguments_array",
        &call(r#"{"arguments": {} ,"name":"x"}"#),
    );
    becomes(&call(r#"{"arguments":[{"a":1}]}"#), "arguments_array !", &call(r#"{"arguments":{}}"#));
    becomes(&call(r#"{"argument\u0073":[]}"#), "arguments_array", &call(r#"{"argument\u0073":{}}"#));
    for other in ["5", "true", "\"x\"", r#"{"a":null,"b":[],"c":"[1]"}"#] {
        stays(&call(&format!(r#"{{"name":"x","arguments":{other}}}"#)));
    }
    becomes(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
        "params_missing arguments_missing",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{}}}"#,
    );
}

#[test]
fn text_that_is_one_object_becomes_it_and_only_one_level() {
    let text =
        |t: &str| call(&format!(r#"{{"name":"j","arguments":{}}}"#, serde_json::to_string(t).unwrap()));
    let object = |t: &str| call(&format!(r#"{{"name":"j","arguments":{t}}}"#));
    for inner in [
        r#"{"q":"rust","n":3.0}"#,
        "{}",
        r#"{ "a" : 1e2 }"#,
        r#"{"t":"{\"a\":1}"}"#,
        r#"{"é":"\u00e9\n"}"#,
        r#"{"a":"\ud83d"}"#,
        r#"{"n":123456789012345678901234567890}"#,
        r#"{"a":{"k":1},"b":{"k":1}}"#,
    ] {
        becomes(&text(inner), "arguments_string", &object(inner));
    }
    becomes(&text(" {\"a\":1}\n"), "arguments_string", &object(r#"{"a":1}"#));
    becomes(
        &call(r#"{"arguments":"\u007b\"a\":1}"}"#),
        "arguments_string",
        &call(r#"{"arguments":{"a":1}}"#),
    );
    for other in [
        "",
        "x",
        "[1]",
        "null",
        "5",
        "\"{}\"",
        "{}{}",
        "{} x",
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"x":{"a":1,"a":2}}"#,
        r#"{"x":[{"a":1,"a":2}]}"#,
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":NaN}",
        "\u{feff}{}",
        "{\"a\":\"\n\"}",
    ] {
        stays(&text(other));
    }
    stays(&call(r#"{"arguments":"{\"a\":\"\ud83d\"}"}"#));
}

#[test]
fn text_that_would_nest_too_deep_stays_text() {
    let nested = |n: usize| format!("{{\\\"a\\\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let (_, fired) = super::plain(&call(&format!("{{\"arguments\":\"{}\"}}", nested(509))));
    assert_eq!(fired, "arguments_string");
    stays(&call(&format!("{{\"arguments\":\"{}\"}}", nested(510))));
}

#[test]
fn prompts_lose_lists_and_null_but_keep_text_and_absence() {
    let get = |arguments: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":"p"{arguments}}}}}"#)
    };
    becomes(&get(r#","arguments":null"#), "arguments_null", &get(r#","arguments":{}"#));
    becomes(&get(r#","arguments":[]"#), "arguments_array", &get(r#","arguments":{}"#));
    becomes(&get(r#","arguments":["x"]"#), "arguments_array !", &get(r#","arguments":{}"#));
    stays(&get(""));
    stays(&get(r#","arguments":"{}""#));
    stays(&get(r#","arguments":{}"#));
    stays(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x","arguments":null}}"#);
}

#[test]
fn a_null_cursor_leaves_list_methods_only() {
    let list = |method: &str, params: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
    };
    for method in [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
        "tasks/list",
        "tools\\/list",
    ] {
        for (before, after) in [
            (r#"{"cursor":null}"#, "{}"),
            (r#"{ "cursor" : null }"#, "{  }"),
            (r#"{"cursor":null , "_meta":{}}"#, r#"{"_meta":{}}"#),
            (r#"{"_meta":{} , "c\u0075rsor":null }"#, r#"{"_meta":{} }"#),
            (r#"{"a":1,"cursor":null,"b":2}"#, r#"{"a":1,"b":2}"#),
        ] {
            becomes(&list(method, before), "cursor_null", &list(method, after));
        }
        stays(&list(method, r#"{"cursor":""}"#));
        stays(&list(method, r#"{"cursor":0}"#));
    }
    stays(&list("completion/complete", r#"{"cursor":null}"#));
    stays(&list("server/discover", r#"{"cursor":null}"#));
}

/// What follows `"method":` when a tool's name stands there.
fn direct(method: &str, params: &str, id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#)
}

#[test]
fn a_tool_name_as_method_becomes_a_call() {
    for (before, after, lossy) in [
        (r#"{"city":"Oslo","days":3}"#, r#"{"name":"get_weather","arguments":{"city":"Oslo","days":3}}"#, ""),
        (r#"{ "city" : 1.0 }"#, r#"{"name":"get_weather","arguments":{ "city" : 1.0 }}"#, ""),
        ("{}", r#"{"name":"get_weather","arguments":{}}"#, ""),
        ("null", r#"{"name":"get_weather","arguments":{}}"#, ""),
        ("[]", r#"{"name":"get_weather","arguments":{}}"#, ""),
        ("[1]", r#"{"name":"get_weather","arguments":{}}"#, " !"),
        ("\"x\"", r#"{"name":"get_weather","arguments":{}}"#, " !"),
        ("7", r#"{"name":"get_weather","arguments":{}}"#, " !"),
        // `name` names the tool, or is an argument.
        (r#"{"name":"echo","a":1}"#, r#"{"name":"echo","arguments":{"a":1}}"#, ""),
        (r#"{"a":1,"name":"Ada"}"#, r#"{"name":"get_weather","arguments":{"a":1,"name":"Ada"}}"#, ""),
        (r#"{"name":5,"a":1}"#, r#"{"name":"get_weather","arguments":{"a":1}}"#, " !"),
        (r#"{"name":null,"a":1}"#, r#"{"name":"get_weather","arguments":{"a":1}}"#, ""),
        // `arguments` that is no object leaves.
        (r#"{"arguments":null,"a":1}"#, r#"{"name":"get_weather","arguments":{"a":1}}"#, ""),
        (r#"{"a":1,"arguments":"{\"b\":2}"}"#, r#"{"name":"get_weather","arguments":{"a":1}}"#, " !"),
        (r#"{"a":1,"arguments":[2],"b":3}"#, r#"{"name":"get_weather","arguments":{"a":1,"b":3}}"#, " !"),
        (r#"{"name":"echo","arguments":[]}"#, r#"{"name":"echo","arguments":{}}"#, " !"),
        (r#"{"arguments":5,"name":"Ada"}"#, r#"{"name":"get_weather","arguments":{"name":"Ada"}}"#, " !"),
        // `_meta` stays with `params`.
        (r#"{"_meta":{"k":1},"a":1}"#, r#"{"name":"get_weather","arguments":{"a":1},"_meta":{"k":1}}"#, ""),
        (r#"{"a":1,"_meta":null}"#, r#"{"name":"get_weather","arguments":{"a":1},"_meta":null}"#, ""),
        (
            r#"{"name":"add","_meta":{},"arguments":null,"x":[]}"#,
            r#"{"name":"add","arguments":{"x":[]},"_meta":{}}"#,
            "",
        ),
        (r#"{"_meta":{},"name":"add"}"#, r#"{"name":"add","arguments":{},"_meta":{}}"#, ""),
        // An `arguments` object leaves everything where it is.
        (
            r#"{"arguments":{"a":1},"requestState":"x"}"#,
            r#"{"name":"get_weather","arguments":{"a":1},"requestState":"x"}"#,
            "",
        ),
        (r#"{"x":1,"name":"unknown","arguments":{}}"#, r#"{"x":1,"name":"unknown","arguments":{}}"#, ""),
        (r#"{"name":[1],"arguments":{ }}"#, r#"{"name":"get_weather","arguments":{ }}"#, " !"),
        (r#"{ "arguments":{},"name":null}"#, r#"{ "arguments":{},"name":"get_weather"}"#, ""),
    ] {
        let rules = format!("direct_tool_method{lossy}");
        becomes(&direct("\"get_weather\"", before, "1.0"), &rules, &direct("\"tools/call\"", after, "1.0"));
    }
}

#[test]
fn a_tool_name_keeps_its_spelling_and_its_place_in_the_message() {
    becomes(
        r#"{"params":{"x":1},"method":"get\u005fweather","id":""}"#,
        "jsonrpc_missing direct_tool_method",
        r#"{"params":{"name":"get\u005fweather","arguments":{"x":1}},"method":"tools/call","id":"","jsonrpc":"2.0"}"#,
    );
    becomes(
        "\u{feff}{\"jsonrpc\":2,\"method\":\"echo\"}",
        "bom jsonrpc_missing direct_tool_method",
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
    );
    // The envelope's last member is `params`: what is appended to both comes in the right order.
    becomes(
        r#"{"method":"echo","params":{"a":1,"_meta":{}}}"#,
        "jsonrpc_missing direct_tool_method",
        r#"{"method":"tools/call","params":{"name":"echo","arguments":{"a":1},"_meta":{}},"jsonrpc":"2.0"}"#,
    );
}

#[test]
fn other_methods_are_not_captured() {
    for method in ["Get_Weather", "get-weather", "callTool", "notifications/echo", "get_weather ", ""] {
        stays(&direct(&format!("\"{method}\""), "{}", "1"));
    }
    // Known as tools too, but MCP's own.
    stays(&direct("\"ping\"", "{}", "1"));
    becomes(
        &direct("\"tools/call\"", "{}", "1"),
        "arguments_missing",
        &direct("\"tools/call\"", r#"{"arguments":{}}"#, "1"),
    );
}

#[test]
fn arguments_that_would_move_too_deep_stay_where_they_are() {
    let nested = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let (_, fired) = super::plain(&direct("\"echo\"", &nested(509), "1"));
    assert_eq!(fired, "direct_tool_method");
    stays(&direct("\"echo\"", &nested(510), "1"));
}

#[test]
fn rules_can_be_switched_off_one_by_one() {
    let all = Rules {
        params: false,
        arguments: false,
        direct_tool_method: false,
        fill_arguments: false,
        coercion: Coercion::Off,
    };
    let none = |rules: Rules, body: &str| {
        assert_eq!(normalize(body.as_bytes(), &rules, &names()).body, None, "{body}")
    };
    none(all, r#"{"jsonrpc":"2.0","method":"tools/call","params":[]}"#);
    none(all, r#"{"jsonrpc":"2.0","method":"tools/list","params":{"cursor":null}}"#);
    none(all, r#"{"jsonrpc":"2.0","method":"echo","params":{}}"#);
    for arguments in ["null", "[]", "\"{}\""] {
        none(
            all,
            &format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"arguments":{arguments}}}}}"#),
        );
    }
    none(all, r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#);
    let some = Rules { params: true, ..all };
    let done = normalize(br#"{"jsonrpc":"2.0","method":"tools/call","params":[]}"#, &some, &names());
    assert_eq!(done.rules, ["params_array"]);
}
