//! A legacy server's response as a modern client gets it. By splices: what the bridge has no business with stays.

use std::ops::Range;

use bytes::Bytes;
use http::StatusCode;
use serde_json::json;

use super::{asks::Asks, losses, question, reply::Refusal};
use crate::mcp::{
    json::{
        Raw, Type,
        edit::{self, Splice},
        number,
    },
    message::{self, Body, Message},
    method::is_askable,
};

const METHOD_NOT_FOUND: &str = "-32601";
const RESOURCE_NOT_FOUND: &str = "-32002";
const URL_ELICITATION_REQUIRED: &str = "-32042";

/// What became of a response.
#[derive(Debug)]
pub(super) enum Translated {
    /// The message, with the HTTP status if the era asks for a certain one.
    Message(Bytes, Option<StatusCode>),
    /// The user has to open these links first: `params` of each as JSON text.
    Links(Vec<String>),
}

/// Whether an id is the bridge's own; servers that make a text of a number are forgiven.
pub(super) fn same_id(id: Option<Raw<'_>>, own: u64) -> bool {
    let Some(id) = id else { return false };
    match id.kind() {
        Type::Number => number::equal(id.text(), &own.to_string()),
        Type::String => id.is_string(&own.to_string()),
        _ => false,
    }
}

/// Translates the response to a client's request.
pub(super) fn translate(text: &Bytes, id: &str, method: &str, asks: Asks) -> Result<Translated, Refusal> {
    let Ok(Body::Object(message)) = message::parse(text) else {
        return Err(Refusal::upstream("the server's response is not JSON"));
    };
    let part = |name: &str| message.envelope.get(name).filter(|v| v.kind() != Type::Null);
    match (part("result"), part("error")) {
        (Some(result), None) if result.is_object() => {
            let mut splices = envelope(&message, id);
            splices.extend(of_result(result, method));
            Ok(Translated::Message(apply(&message, splices), None))
        }
        (None, Some(error)) if error.is_object() => of_error(&message, error, id, method, asks),
        _ => Err(Refusal::upstream("the server's response has not exactly one of result and error")),
    }
}

fn apply(message: &Message<'_>, splices: Vec<Splice>) -> Bytes {
    edit::apply(message.envelope.document().as_bytes(), splices).into()
}

/// The client's id, and no member beside `result` or `error` that is null.
fn envelope(message: &Message<'_>, id: &str) -> Vec<Splice> {
    let is_null = |name: &Raw<'_>| {
        ["result", "error"]
            .iter()
            .any(|n| name.is_string(n) && message.envelope.get(n).is_some_and(|v| v.kind() == Type::Null))
    };
    let mut splices: Vec<_> = edit::cuts(message.envelope, is_null).into_iter().map(Splice::cut).collect();
    splices.push(match message.id_raw {
        Some(own) => Splice::replace(own.range(), id.as_bytes().to_vec()),
        None => Splice::insert(message.envelope.start() + 1, format!("\"id\":{id},").into_bytes()),
    });
    splices
}

/// Whether a result says how long it may be kept (2026-07-28, caching).
fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    )
}

fn of_result(result: Raw<'_>, method: &str) -> Vec<Splice> {
    let ours: &[&str] =
        if is_cacheable(method) { &["resultType", "ttlMs", "cacheScope"] } else { &["resultType"] };
    let is_ours = |name: &Raw<'_>| ours.iter().any(|n| name.is_string(n));
    let rest = result.members().any(|m| !is_ours(&m.name));
    let mut text = String::from(r#""resultType":"complete""#);
    if is_cacheable(method) {
        text.push_str(losses::NO_FRESHNESS);
    }
    if rest {
        text.push(',');
    }
    let mut splices = vec![Splice::insert(result.start() + 1, text.into_bytes())];
    splices.extend(edit::cuts(result, is_ours).into_iter().map(Splice::cut));
    if method == "tools/list" {
        let tools = result.get("tools").filter(|t| t.kind() == Type::Array);
        let cuts = tools.into_iter().flat_map(|t| t.elements()).flat_map(losses::task_support);
        splices.extend(cuts.map(Splice::cut));
    }
    splices
}

fn of_error(
    message: &Message<'_>,
    error: Raw<'_>,
    id: &str,
    method: &str,
    asks: Asks,
) -> Result<Translated, Refusal> {
    let code = error.get("code");
    let is = |text: &str| code.is_some_and(|c| c.kind() == Type::Number && number::equal(c.text(), text));
    if is(URL_ELICITATION_REQUIRED) {
        return links(error, method, asks);
    }
    let mut splices = envelope(message, id);
    let instead = |code: Range<usize>, with: &'static [u8]| Splice::replace(code, with);
    if let Some(range) = code.map(|c| c.range()) {
        if is(RESOURCE_NOT_FOUND) {
            splices.push(instead(range, b"-32602"));
        } else if code.is_some_and(losses::is_reserved) {
            splices.push(instead(range, b"-32603"));
        }
    }
    let status = is(METHOD_NOT_FOUND).then_some(StatusCode::NOT_FOUND);
    Ok(Translated::Message(apply(message, splices), status))
}

fn links(error: Raw<'_>, method: &str, asks: Asks) -> Result<Translated, Refusal> {
    let listed = error.get("data").and_then(|d| d.get("elicitations")).filter(|e| e.kind() == Type::Array);
    let links: Vec<_> = listed
        .into_iter()
        .flat_map(|l| l.elements())
        .filter(|l| l.get("url").is_some() && l.get("message").is_some())
        .map(|link| question::for_client(Some(link)).unwrap_or_default())
        .collect();
    if links.is_empty() || !is_askable(method) {
        return Err(Refusal::upstream(
            "the server wants a link opened, but names none or not for this method",
        ));
    }
    if !asks.url() {
        let mut refusal = Refusal::new(
            400,
            -32021,
            "missing_capability",
            "the server wants the user to open a link: declare elicitation.url",
        );
        refusal.data = Some(Box::new(("requiredCapabilities", json!({"elicitation": {"url": {}}}))));
        return Err(refusal);
    }
    Ok(Translated::Links(links))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::parse;

    fn text(upstream: &str, method: &str) -> (String, Option<u16>) {
        match translate(&Bytes::copy_from_slice(upstream.as_bytes()), "\"c\"", method, Asks::default()) {
            Ok(Translated::Message(body, status)) => {
                parse(&body).unwrap();
                (String::from_utf8(body.to_vec()).unwrap(), status.map(|s| s.as_u16()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn results_gain_their_type_and_lists_their_hints() {
        let call = text(r#"{"jsonrpc":"2.0","id":3,"result":{"content":[],"n":1e2},"x":1}"#, "tools/call");
        assert_eq!(
            call.0,
            r#"{"jsonrpc":"2.0","id":"c","result":{"resultType":"complete","content":[],"n":1e2},"x":1}"#
        );
        for method in
            ["tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
        {
            let list = text(
                r#"{"id":"3","result":{"ttlMs":-1,"resultType":"x"},"error":null,"jsonrpc":"2.0"}"#,
                method,
            );
            assert_eq!(
                list.0,
                r#"{"id":"c","result":{"resultType":"complete","ttlMs":0,"cacheScope":"private"},"jsonrpc":"2.0"}"#
            );
        }
        let complete = text(r#"{"jsonrpc":"2.0","id":3,"result":{ }}"#, "completion/complete");
        assert_eq!(complete.0, r#"{"jsonrpc":"2.0","id":"c","result":{"resultType":"complete" }}"#);
    }

    #[test]
    fn tools_lose_their_task_support_and_nothing_else() {
        let list = text(
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","execution":{"taskSupport":"optional"}},{"execution":{"x":1,"taskSupport":"required"},"name":"b"},7],"nextCursor":""}}"#,
            "tools/list",
        );
        assert!(
            list.0.contains(r#""tools":[{"name":"a"},{"execution":{"x":1},"name":"b"},7],"nextCursor":"""#),
            "{}",
            list.0
        );
    }

    #[test]
    fn error_codes_are_of_the_modern_era() {
        let error = |code: &str, method: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"m","data":1.0}}}}"#);
            let (text, status) = text(&body, method);
            assert!(text.starts_with(r#"{"id":"c","jsonrpc""#) && text.contains(r#""data":1.0"#), "{text}");
            let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
            (parsed["error"]["code"].as_i64().unwrap(), status)
        };
        assert_eq!(error("-32002", "resources/read"), (-32602, None));
        assert_eq!(error("-32601", "x/y"), (-32601, Some(404)));
        assert_eq!(error("-32602", "tools/call"), (-32602, None));
        assert_eq!(error("-32022", "tools/call"), (-32603, None));
        assert_eq!(error("-32000", "tools/call"), (-32000, None));
        assert_eq!(error("17", "tools/call"), (17, None));
    }

    #[test]
    fn links_become_questions_only_for_who_can_open_them() {
        let body = Bytes::from(
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x","message":"go"}]}}}"#,
        );
        let url = Asks::read(parse(br#"{"elicitation":{"url":{}}}"#).unwrap());
        match translate(&body, "1", "tools/call", url) {
            Ok(Translated::Links(links)) => {
                assert_eq!(links, [r#"{"mode":"url","url":"https://x","message":"go"}"#]);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(translate(&body, "1", "tools/call", Asks::default()).unwrap_err().code, -32021);
        assert_eq!(translate(&body, "1", "tools/list", url).unwrap_err().code, 502);
    }

    #[test]
    fn a_response_of_neither_kind_is_the_servers_fault() {
        for body in [
            "x",
            "{}",
            r#"{"id":1,"result":null}"#,
            r#"{"id":1,"result":{},"error":{}}"#,
            r#"{"id":1,"result":3}"#,
        ] {
            assert_eq!(
                translate(&Bytes::from(body), "1", "tools/call", Asks::default()).unwrap_err().code,
                502
            );
        }
    }
}
