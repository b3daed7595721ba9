//! Requests of a server to its client, as `inputRequests` of a modern result, and the answers on their way back.

use bytes::Bytes;
use serde_json::Value;

use crate::mcp::json::{
    Raw,
    edit::{self, Splice},
};

/// Why a session that was asked cannot wait any more; the server gets it as an error.
const NO_ANSWER: &str = "the client did not answer";
/// Why a question is not put to any client.
const UNCLEAR: &str = "several calls are open in this session, and the question does not say which one asks; the next \
                       calls will have sessions of their own, so call again";

/// A request of the server that the client has to answer.
#[derive(Debug)]
pub(super) struct Question {
    /// Its name in `inputRequests`.
    pub(super) key: String,
    /// JSON text of the server's id.
    pub(super) id: String,
    pub(super) method: String,
    /// JSON text of `params` as the client gets them.
    pub(super) params: Option<String>,
}

/// What the bridge answers in the client's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The user did not choose.
    Cancel,
    /// There is no such method.
    Unknown,
    /// Nobody answered in time.
    Silence,
    /// Nothing says which of several calls asks.
    Unclear,
}

impl Question {
    /// Key, method and `params` as the client gets them.
    pub(super) fn shown(&self) -> (String, String, Option<String>) {
        (self.key.clone(), self.method.clone(), self.params.clone())
    }

    /// The response to the server that carries the client's result.
    pub(super) fn answered(&self, result: &str) -> Bytes {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id).into()
    }

    /// The response to the server when there is none from the client.
    pub(super) fn unanswered(&self) -> Bytes {
        let elicitation = self.method == "elicitation/create";
        verdict(&self.id, if elicitation { Verdict::Cancel } else { Verdict::Silence })
    }
}

/// The response to a server's request `id`.
pub(super) fn verdict(id: &str, verdict: Verdict) -> Bytes {
    let outcome = match verdict {
        Verdict::Cancel => r#""result":{"action":"cancel"}"#.to_owned(),
        Verdict::Unknown => r#""error":{"code":-32601,"message":"Method not found"}"#.to_owned(),
        Verdict::Silence => format!(r#""error":{{"code":-32603,"message":"{NO_ANSWER}"}}"#),
        Verdict::Unclear => format!(r#""error":{{"code":-32603,"message":"{UNCLEAR}"}}"#),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#).into()
}

/// `params` of a question without what belongs to the server's side: the id of a link, a progress token, a task.
pub(super) fn for_client(params: Option<Raw<'_>>) -> Option<String> {
    let params = params.filter(Raw::is_object)?;
    let theirs = |name: &Raw<'_>| {
        name.is_string("progressToken") || name.is_string("io.modelcontextprotocol/related-task")
    };
    let meta = params.get("_meta").filter(Raw::is_object);
    let meta_stays = meta.is_some_and(|m| m.members().any(|m| !theirs(&m.name)));
    let mut cuts = edit::cuts(params, |name| {
        name.is_string("elicitationId") || name.is_string("task") || !meta_stays && name.is_string("_meta")
    });
    if let Some(meta) = meta.filter(|_| meta_stays) {
        cuts.extend(edit::cuts(meta, theirs));
    }
    let offset = params.start();
    let cuts = cuts.into_iter().map(|cut| Splice::cut(cut.start - offset..cut.end - offset));
    String::from_utf8(edit::apply(params.bytes(), cuts.collect())).ok()
}

/// The response that asks the client: a method and `params` for each key.
pub(super) fn input_required<'q>(
    id: &str,
    questions: impl Iterator<Item = (&'q str, &'q str, Option<&'q str>)>,
    state: &str,
) -> Bytes {
    let asked: Vec<_> = questions
        .map(|(key, method, params)| {
            let params = params.map(|p| format!(r#","params":{p}"#)).unwrap_or_default();
            format!("{}:{{\"method\":{}{params}}}", Value::from(key), Value::from(method))
        })
        .collect();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"input_required","inputRequests":{{{}}},"requestState":{}}}}}"#,
        asked.join(","),
        Value::from(state)
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::json::parse;

    #[test]
    fn what_belongs_to_the_servers_side_stays_there() {
        let clean = |text: &str| {
            let document = format!(r#"{{"params":{text}}}"#);
            for_client(parse(document.as_bytes()).unwrap().get("params"))
        };
        assert_eq!(
            clean(r#"{"message":"m","elicitationId":"e","_meta":{"progressToken":1}}"#).as_deref(),
            Some(r#"{"message":"m"}"#)
        );
        assert_eq!(
            clean(r#"{"_meta":{"progressToken":1,"x/y":2},"maxTokens":1e3}"#).as_deref(),
            Some(r#"{"_meta":{"x/y":2},"maxTokens":1e3}"#)
        );
        assert_eq!(clean("null"), None);
    }

    #[test]
    fn several_questions_stand_in_one_result() {
        let asked = [("1", "roots/list", None), ("2", "elicitation/create", Some("{}"))];
        let text = input_required("7", asked.into_iter(), "s\"");
        let parsed: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(parsed["result"]["inputRequests"]["1"], serde_json::json!({"method": "roots/list"}));
        assert_eq!(parsed["result"]["inputRequests"]["2"]["params"], serde_json::json!({}));
        assert_eq!(parsed["result"]["requestState"], "s\"");
    }
}
