use super::{Body, Duplicate, Kind, Message, ParseError, parse};

fn message(body: &str) -> Box<Message<'_>> {
    match parse(body.as_bytes()).unwrap() {
        Body::Object(message) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_parts_of_a_modern_call_are_found_in_any_order() {
    let body = r#" {"params":{"_meta":{"traceparent":"00-1","io.modelcontextprotocol/clientInfo":{"version":"2","name":"c\u0061t"},
        "io.modelcontextprotocol/clientCapabilities":{},"tracestate":"a=b","io.modelcontextprotocol\/protocolVersion":"2026-07-28"},
        "arguments" : {"id":3} ,"name":"say","cursor":"","uri":"u","taskId":"k"},"id":1.0,"method":"tools\/call","jsonrpc":"2.0"} "#;
    let m = message(body);
    assert_eq!(
        (m.method.as_deref(), m.name.as_deref(), m.uri.as_deref(), m.task_id.as_deref()),
        (Some("tools/call"), Some("say"), Some("u"), Some("k"))
    );
    assert_eq!((m.client_name.as_deref(), m.client_version.as_deref()), (Some("cat"), Some("2")));
    assert_eq!((m.traceparent.as_deref(), m.tracestate.as_deref()), (Some("00-1"), Some("a=b")));
    assert_eq!(
        (m.protocol_version.as_deref(), m.has_protocol_version, m.client_capabilities.is_some()),
        (Some("2026-07-28"), true, true)
    );
    let arguments = m.arguments.unwrap();
    assert_eq!((arguments.text(), &body[arguments.range()]), (r#"{"id":3}"#, r#"{"id":3}"#));
    assert_eq!((m.id(), m.kind(), m.duplicate, m.refusal(false)), (Some("1.0"), Kind::Request, None, None));
}

#[test]
fn initialize_tells_client_and_version_in_params() {
    let m = message(
        r#"{"method":"initialize","id":0,"params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1"}}}"#,
    );
    assert_eq!((m.client_name.as_deref(), m.client_version.as_deref()), (Some("c"), Some("1")));
    assert_eq!(m.requested_version.as_deref(), Some("2025-06-18"));
    assert_eq!(message(r#"{"method":"x","id":0,"params":{"clientInfo":{"name":"c"}}}"#).client_name, None);
}

#[test]
fn ids_are_the_clients_own_spelling_or_none() {
    let id = |id: &str| message(&format!(r#"{{"method":"ping","id": {id} }}"#)).id().map(str::to_owned);
    for valid in [
        "1",
        "0",
        "-1",
        "1.0",
        "1e0",
        "9007199254740993",
        "123456789012345678901234567890",
        "\"\"",
        "\"1\"",
        r#""\ud83d""#,
    ] {
        assert_eq!(id(valid).as_deref(), Some(valid));
    }
    for invalid in ["null", "1.5", "1e-1", "true", "false", "{}", "[]", "[1]"] {
        assert_eq!(id(invalid), None, "{invalid}");
    }
    assert_eq!(message(r#"{"id":1,"id":2,"method":"x"}"#).id(), None);
    assert_eq!(message(r#"{"id":1,"method":"x","method":"y"}"#).id(), Some("1"));
}

#[test]
fn kinds_follow_method_and_id() {
    for (body, kind) in [
        (r#"{"method":"x","id":null}"#, Kind::Request),
        (r#"{"method":"x"}"#, Kind::Notification),
        (r#"{"id":5}"#, Kind::Response),
        (r#"{"result":null}"#, Kind::Response),
        (r#"{"error":{}}"#, Kind::Response),
        (r#"{"method":5,"id":1}"#, Kind::Invalid),
        (r#"{"method":null}"#, Kind::Invalid),
        ("{}", Kind::Invalid),
    ] {
        assert_eq!(message(body).kind(), kind, "{body}");
    }
}

#[test]
fn refusals_are_those_that_were_decided() {
    let refused = |body: &str, direct| message(body).refusal(direct);
    for body in [
        r#"{"jsonrpc":"1.0","method":"ping","id":1}"#,
        r#"{"jsonrpc":null,"method":"ping","id":1}"#,
        r#"{"jsonrpc":"2.0","method":5,"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":null}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":1.5}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":1,"x":0,"\u0078":0}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":1,"params":{"a":0,"a":0}}"#,
        r#"{"jsonrpc":"2.0","method":"ping","id":1,"params":{"_meta":{"a":0,"a":0}}}"#,
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
    ] {
        assert!(refused(body, false).is_some(), "{body}");
    }
    for body in [
        r#"{"method":"ping","id":1}"#,
        r#"{"jsonrpc":2.0,"method":"ping","id":""}"#,
        r#"{"jsonrpc":"2.0","id":5}"#,
        r#"{"id":5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/x"}"#,
        r#"{"jsonrpc":"2.0","method":"x","id":1,"params":{"arguments":{"a":0,"a":0},"_meta":{"x":{"a":0,"a":0}}}}"#,
        r#"{"jsonrpc":"2.0","method":"x","id":1,"params":"p"}"#,
    ] {
        assert_eq!(refused(body, false), None, "{body}");
    }
    assert!(refused(r#"{"method":"echo"}"#, true).is_some());
    assert_eq!(refused(r#"{"method":"echo","id":1}"#, true), None);
}

#[test]
fn duplicates_are_told_by_their_place() {
    let place = |body: &str| message(body).duplicate;
    assert_eq!(place(r#"{"a":{"b":1,"b":2}}"#), None);
    assert_eq!(place(r#"{"params":{"b":1,"b":2}}"#), Some(Duplicate::Params));
    assert_eq!(place(r#"{"params":{"_meta":{"b":1,"b":2}}}"#), Some(Duplicate::Meta));
    assert_eq!(place(r#"{"params":{},"p\u0061rams":{}}"#), Some(Duplicate::Envelope));
    let many: Vec<String> = (0..3000).map(|n| format!("\"k{n}\":0")).collect();
    assert_eq!(place(&format!("{{{}}}", many.join(","))), None);
    assert_eq!(place(&format!("{{{},\"k0\":1}}", many.join(","))), Some(Duplicate::Envelope));
}

#[test]
fn what_is_no_object_is_told_apart() {
    assert!(matches!(parse(b" [1]"), Ok(Body::Batch)));
    for scalar in ["1", "null", "\"x\"", "\u{feff}true "] {
        assert!(matches!(parse(scalar.as_bytes()), Ok(Body::Scalar)), "{scalar}");
    }
}

#[test]
fn faults_carry_their_place() {
    let fault = |body: &[u8]| parse(body).unwrap_err();
    for (body, offset) in [
        (&b""[..], 0),
        (b"  ", 2),
        (b"{\"a\":}", 5),
        (b"{\"a\":1", 6),
        (b"{\"a\":1}x", 7),
        (b"\xef\xbb\xbf{]", 4),
        (b"\"\xff\"", 1),
        (b"{\"a\":1,}", 7),
        (b"\"a\tb\"", 2),
        (b"[1 2]", 3),
        (b"01", 1),
        (b"{\"a\":1.}", 7),
        (b"\"\\x\"", 1),
        (b"\"\\u12g4\"", 1),
        (b"nul", 0),
        (b"{\"a\" 1}", 5),
        (b"{1:2}", 1),
    ] {
        assert_eq!(fault(body), ParseError::NotJson { offset }, "{:?}", String::from_utf8_lossy(body));
    }
}

#[test]
fn nesting_is_limited_and_costs_no_stack() {
    let nested = |n: usize| format!("{{\"a\":{}{}}}", "[".repeat(n), "]".repeat(n));
    assert!(parse(nested(511).as_bytes()).is_ok());
    assert_eq!(parse(nested(512).as_bytes()).unwrap_err(), ParseError::TooDeep { offset: 5 + 511 });
    for open in ["[", "{\"a\":", "{\"params\":{\"_meta\":", "[{\"a\":"] {
        let deep = open.repeat(100_000);
        assert!(matches!(parse(deep.as_bytes()), Err(ParseError::TooDeep { .. })), "{open}");
    }
    let objects = format!("{}1{}", "{\"a\":[".repeat(256), "]}".repeat(256));
    assert!(parse(objects.as_bytes()).is_ok());
    assert!(parse(format!("[{objects}]").as_bytes()).is_err());
}

#[test]
fn brackets_must_match_at_every_level() {
    for depth in [1, 63, 64, 65, 127, 128, 129, 500] {
        let (open, close) = ("[{\"a\":".repeat(depth / 2), "}]".repeat(depth / 2));
        assert!(parse(format!("[{open}1{close}]").as_bytes()).is_ok(), "{depth}");
        for wrong in ["[", "{\"a\":"] {
            let end = if wrong == "[" { "}" } else { "]" };
            assert!(parse(format!("{open}{wrong}1{end}{close}").as_bytes()).is_err(), "{depth}");
        }
    }
}

#[test]
fn an_outline_gives_the_parts_of_the_same_bytes_and_of_no_others() {
    let body = bytes::Bytes::from_static(
        br#" {"params":{"_meta":{"progressToken":7,"io.modelcontextprotocol/clientCapabilities":{"x":1}},
        "arguments" : {"id":3} ,"name":"s\u0061y","cursor":"","uri":"u","taskId":"t","requestState":"r"},"id":1.0,"method":"tools\/call"} "#,
    );
    let Ok(Body::Object(read)) = parse(&body) else { panic!("it is an object") };
    let outline = read.outline(&body).expect("it may go on");
    let again = body.clone();
    let outlined = outline.of(&again).expect("they are the same bytes");
    let parts = |m: &Message<'_>| {
        let raw = [m.id_raw, m.method_raw, m.params, m.name_raw, m.uri_raw, m.arguments, m.cursor, m.meta];
        let more =
            [Some(m.envelope), m.task_id_raw, m.request_state, m.client_capabilities, m.progress_token];
        let texts = [&m.method, &m.name, &m.uri, &m.task_id].map(|text| text.as_deref().map(str::to_owned));
        let ranges: Vec<_> = raw.into_iter().chain(more).map(|raw| raw.map(|r| r.range())).collect();
        (ranges, texts, m.kind(), m.id().map(str::to_owned))
    };
    assert_eq!(parts(&outlined), parts(&read));
    assert!(parts(&read).0.iter().all(Option::is_some));
    assert!(outline.of(&bytes::Bytes::copy_from_slice(&body)).is_none(), "other bytes that are alike");
    assert!(outline.of(&body.slice(..body.len() - 1)).is_none());
    let refused = |text: &'static str| {
        let body = bytes::Bytes::from_static(text.as_bytes());
        message(text).outline(&body).is_none()
    };
    assert!(refused(r#"{"method":"a"}"#) && refused(r#"{"id":1,"id":1,"method":"a"}"#));
    assert!(refused("\u{feff}{\"id\":1,\"method\":\"a\"}"));
}
