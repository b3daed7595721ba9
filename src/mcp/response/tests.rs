use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::{Answer, Format, Keep, Observed, ResponseScanner, Seen};

fn observe(format: Format, keep: Keep, id: Option<&str>, chunks: &[&[u8]]) -> (Seen, Observed) {
    let mut scanner = ResponseScanner::new(format, keep, id);
    let mut seen = Seen::default();
    for chunk in chunks {
        seen = scanner.feed(chunk);
    }
    (seen, scanner.finish())
}

fn json(body: &str) -> Observed {
    observe(Format::Json, Keep::Bytes(8), Some("1"), &[body.as_bytes()]).1
}

fn sse(stream: &str) -> (Seen, Observed) {
    observe(Format::Sse, Keep::Hash, Some("1"), &[stream.as_bytes()])
}

fn sha(bytes: &str) -> Option<[u8; 32]> {
    Some(Sha256::digest(bytes).into())
}

#[test]
fn a_result_is_hashed_over_its_own_bytes() {
    let seen = json("{ \"jsonrpc\":\"2.0\",\"result\" : {\"a\": [1, {\"isError\":true}] } , \"id\":1}\n");
    assert_eq!(seen.answer, Some(Answer::Result { is_error: false }));
    assert_eq!(seen.result_sha256, sha("{\"a\": [1, {\"isError\":true}] }"));
    assert_eq!(seen.result.as_deref(), Some(&b"{\"a\": [1"[..]));
    assert!(seen.truncated && seen.valid);
    let short = json(r#"{"result":null,"id":1}"#);
    assert_eq!((short.result_sha256, short.truncated), (sha("null"), false));
    assert_eq!(short.result.as_deref(), Some(&b"null"[..]));
}

#[test]
fn a_tool_error_is_told_by_the_result_itself() {
    let is_error = |body| matches!(json(body).answer, Some(Answer::Result { is_error: true }));
    assert!(is_error(r#"{"id":1,"result":{"content":[],"isError":true}}"#));
    assert!(is_error(r#"{"id":1,"r\u0065sult":{"is\u0045rror":true}}"#));
    assert!(!is_error(r#"{"id":1,"result":{"isError":"true"}}"#));
    assert!(!is_error(r#"{"id":1,"result":{"x":{"isError":true}},"isError":true}"#));
    assert!(!is_error(r#"{"id":1,"result":[{"isError":true}]}"#));
}

#[test]
fn an_error_gives_code_and_bounded_message() {
    let body = r#"{"id":1,"error":{"data":{"code":1},"code":-32601,"message":"no\n\u00fc"}}"#;
    let error = |code, message: &str| Some(Answer::Error { code, message: message.into() });
    assert_eq!(json(body).answer, error(-32601, "no\nü"));
    assert_eq!(json(r#"{"id":1,"error":{"code":"-32601"}}"#).answer, error(-32601, ""));
    assert_eq!(json(r#"{"id":1,"error":{"code":1.5,"message":7}}"#).answer, error(0, ""));
    let long = json(&format!(r#"{{"error":{{"message":"x{}"}}}}"#, "é".repeat(9000)));
    assert_eq!(long.answer, error(0, &format!("x{}", "é".repeat(255))));
    let escaped = json(&format!(r#"{{"error":{{"message":"{}"}}}}"#, r"\u00e9".repeat(9000)));
    assert_eq!(escaped.answer, error(0, &"é".repeat(256)));
}

#[test]
fn an_error_that_is_null_does_not_hide_the_result() {
    assert_eq!(json(r#"{"result":{},"error":null}"#).answer, Some(Answer::Result { is_error: false }));
}

#[test]
fn only_one_well_formed_message_is_valid() {
    assert!(json(r#"{"id":1,"error":{}}"#).valid);
    for bad in [
        "",
        "<html>",
        "null",
        "[]",
        "{}",
        r#"[{"id":1,"result":{}}]"#,
        r#"{"id":1,"result":{}"#,
        r#"{"result":{}}x"#,
        r#"{"method":"a","id":1}"#,
        r#"{"result":01}"#,
    ] {
        assert_eq!(json(bad), Observed::default(), "{bad}");
    }
}

#[test]
fn deep_answers_are_followed_to_their_end() {
    for open in ["[", "{\"a\":"] {
        let close = if open == "[" { "]" } else { "}" };
        let deep = format!("{}\"]}}\\\"\"{}", open.repeat(5000), close.repeat(5000));
        let seen = json(&format!(r#"{{"id":1,"result":{{"x":{deep},"isError":true}}}}"#));
        assert_eq!(seen.answer, Some(Answer::Result { is_error: true }));
        assert_eq!(seen.result_sha256, sha(&format!(r#"{{"x":{deep},"isError":true}}"#)));
    }
}

#[test]
fn a_stream_is_judged_by_the_response_on_it() {
    let stream = concat!(
        ": hello\n\nid: 4\ndata:\n\n",
        "data: {\"method\":\"notifications/tools/list_changed\"}\n\n",
        "event: message\ndata: {\"id\":1,\ndata: \"result\":{\"a\":\ndata: 2}}\n\n",
    );
    let (seen, observed) = sse(stream);
    let all = Seen { list_changed: true, server_request: false, answered: true, resumable: true };
    assert_eq!(seen, all);
    assert_eq!(observed.answer, Some(Answer::Result { is_error: false }));
    assert_eq!(observed.result_sha256, sha("{\"a\":\n2}"));
}

#[test]
fn a_request_from_the_server_is_flagged_and_is_no_answer() {
    let (seen, observed) =
        sse("data: {\"id\":1,\"method\":\"ping\"}\n\ndata: {\"id\":null,\"method\":\"x\"}\n\n");
    assert_eq!(seen, Seen { server_request: true, ..Seen::default() });
    assert_eq!(observed, Observed::default());
}

#[test]
fn the_response_with_the_expected_id_wins() {
    let stream = "data: {\"id\":2,\"result\":{\"isError\":true}}\n\ndata: {\"id\":1,\"result\":{}}\n\ndata: {\"id\":1,\"error\":{}}\n\n";
    assert_eq!(sse(stream).1.answer, Some(Answer::Result { is_error: false }));
    assert_eq!(
        sse("data: {\"id\":\"1\",\"result\":{}}\n\n").1.answer,
        Some(Answer::Result { is_error: false })
    );
}

#[test]
fn broken_and_unfinished_events_leave_the_stream_readable() {
    let (seen, observed) = sse(
        "data: {\"id\":1,\"result\":\n\ndata: oops\n\ndata: {\"id\":1,\"result\":{}}\n\ndata: {\"method\":",
    );
    assert!(seen.answered && observed.valid);
}

#[test]
fn a_response_is_known_when_its_result_or_error_begins() {
    let told = |body: &str| {
        let mut scanner = ResponseScanner::new(Format::Json, Keep::Nothing, None);
        scanner.feed(body.as_bytes());
        scanner.is_response()
    };
    for body in
        [r#"{"id":1,"result":{"#, r#"{"error":{"code":1"#, r#"{"r\u0065sult":1"#, r#"{"id":1,"result":{}}"#]
    {
        assert_eq!(told(body), Some(true), "{body}");
    }
    for body in ["{}", r#"{"ok":true}"#, "[1]", "<html>", r#"{"a":{"result":1}}"#, r#"{"error":null}"#] {
        assert_eq!(told(body), Some(false), "{body}");
    }
    for body in
        ["", " ", "{", r#"{"id":1"#, r#"{"id":1,"resu"#, r#"{"id":1,"result""#, r#"{"a":{"result":1}"#]
    {
        assert_eq!(told(body), None, "{body}");
    }
}

#[test]
fn the_revision_that_initialize_settles_on_is_told() {
    let body = r#"{"id":1,"result":{"protocolVersion":"2025-06-18","x":{"protocolVersion":"no"}}}"#;
    assert_eq!(json(body).protocol_version.as_deref(), Some("2025-06-18"));
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
        "\n",
        "\"result\"",
        "\"error\"",
        "\"id\"",
        "\"method\"",
        "\"isError\"",
        "\"code\"",
        "\"message\"",
        "\"a\\u00e9\\\"\"",
        "\"é\"",
        "true",
        "null",
        "false",
        "0",
        "-1.5e+3",
        "12",
        "\"",
        "\\",
        "e",
        "-",
        ".",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|v| v.concat())
}

/// Well-formed messages.
fn messages() -> impl Strategy<Value = String> {
    let scalar =
        prop::sample::select(vec!["1", "\"x\\n\"", "true", "-0.5e1", "null", "[1,{\"isError\":true}]", "{}"]);
    let name = prop::sample::select(vec![
        "id",
        "result",
        "error",
        "method",
        "isError",
        "code",
        "message",
        "is\\u0045rror",
    ]);
    let inner = prop::collection::vec((name.clone(), scalar), 0..4)
        .prop_map(|m| m.iter().map(|(n, v)| format!("\"{n}\" :{v}")).collect::<Vec<_>>().join(" , "));
    prop::collection::vec((name, inner), 0..4).prop_map(|m| {
        format!("{{{}}}", m.iter().map(|(n, v)| format!("\"{n}\": {{{v}}}")).collect::<Vec<_>>().join(","))
    })
}

fn cut<'b>(bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    at.sort_unstable();
    at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn cutting_an_answer_changes_nothing(
        body in prop_oneof![nearly_json(), messages(), "(data: |\n|\r|\\{|\\}|\"id\"|\"result\"|:|,|1| ){0,40}"],
        format in prop::sample::select(vec![Format::Json, Format::Sse]),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let pieces = cut(body.as_bytes(), &cuts);
        let whole = observe(format, Keep::Bytes(9), Some("1"), &[body.as_bytes()]);
        prop_assert_eq!(observe(format, Keep::Bytes(9), Some("1"), &pieces), whole);
    }

    #[test]
    fn validity_is_that_of_a_full_parser(body in prop_oneof![nearly_json(), messages()]) {
        let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_str(&body);
        let expect = parsed.is_ok_and(|m| {
            m.get("method").is_none() && (m.contains_key("result") || m.get("error").is_some_and(|e| !e.is_null()))
        });
        prop_assert_eq!(json(&body).valid, expect, "{}", body);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8)) {
        let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
        observe(Format::Json, Keep::Bytes(3), None, &chunks);
        observe(Format::Sse, Keep::Bytes(3), None, &chunks);
    }
}

#[test]
fn a_result_is_measured_kept_or_not_and_as_far_as_it_came() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"text":"0123456789"}}"#;
    let (_, whole) = observe(Format::Json, Keep::Bytes(4), None, &[body.as_bytes()]);
    assert_eq!((whole.result.as_deref(), whole.result_bytes), (Some(&br#"{"te"#[..]), 21));
    let broken = |format, text: &str| {
        let mut scanner = ResponseScanner::new(format, Keep::Bytes(64), Some("1"));
        for chunk in text.as_bytes().chunks(3) {
            scanner.feed(chunk);
        }
        let (kept, bytes) = scanner.broken_off();
        (String::from_utf8(kept).unwrap(), bytes)
    };
    let part = (r#"{"text":"0123"#.to_owned(), 13);
    assert_eq!(broken(Format::Json, &body[..body.len() - 9]), part);
    assert_eq!(
        broken(Format::Sse, &format!("data: {{\"method\":\"x\"}}\n\ndata: {}", &body[..body.len() - 9])),
        part
    );
    assert_eq!(
        broken(Format::Sse, &format!("data: {body}\n\n: more")),
        (r#"{"text":"0123456789"}"#.to_owned(), 21)
    );
    assert_eq!(broken(Format::Json, r#"{"jsonrpc":"2.0","id":1"#), (String::new(), 0));
}
