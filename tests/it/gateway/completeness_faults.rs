//! The rest of the causes: what an adapter between the eras refuses, what stands before several servers refuses, and the
//! end of a call that took too long. Each leaves one record, which says that it was the gateway's word and not a server's.

use super::{bridge::modern_server, completeness, modern, modern_tool, request, tool};
use crate::support::process::{Answer, Gateway, send_to, whole};

const HELLO: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}"#;

/// The error of an answer, which may be the last event of a stream.
fn error_of(answer: &Answer) -> serde_json::Value {
    let text = answer.text().trim_end().rsplit("data: ").next().unwrap().to_owned();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["error"].clone()
}

/// The only record that has come since: how it ended, and that the answer names its trace.
async fn one(gate: &Gateway, before: usize, answer: &Answer, ending: (&str, u64, &str)) {
    let records = gate.recorded(before + 1).await;
    assert_eq!(records.len(), before + 1);
    let (outcome, status, reason) = completeness::told(&records[before]);
    assert_eq!((outcome.as_str(), status, reason.as_str()), ending, "{}", records[before]);
    let error = error_of(answer);
    assert_eq!((&error["data"]["reason"], u64::from(answer.status)), (&ending.2.into(), ending.1), "{error}");
    assert_eq!(
        (&error["code"], &error["data"]["trace_id"]),
        (&records[before]["error"]["code"], &records[before]["trace_id"])
    );
}

#[tokio::test]
async fn what_adapters_and_several_servers_refuse_is_recorded_as_the_gateways_word() {
    let (files, other) = (completeness::fake().await, modern_server().await);
    let config = format!(
        "[upstreams.files]\nurl = \"{}\"\nconcurrency = 1\nmax_total_timeout = \"2s\"\n[upstreams.other]\nurl = \"{}\"\n",
        files.url(),
        other.url()
    );
    let gate = Gateway::start(&config).await;
    gate.knows("files").await;
    gate.knows("other").await;

    // A modern client before a legacy server, and the other way round.
    let gone = modern(gate.request().uri("/mcp/files"), "tasks/get", None);
    let body = modern_tool(1, "x", "{}").replace("tools/call", "tasks/get");
    let answer = gate.call(gone, body).await;
    one(&gate, 0, &answer, ("rejected", 404, "method_not_found")).await;
    let answer = gate.call(gate.request().uri("/mcp/other"), request(2, "tasks/get")).await;
    one(&gate, 1, &answer, ("rejected", 200, "method_not_found")).await;
    // What the server says itself stays its own.
    let odd = gate.call(gate.request().uri("/mcp/files"), request(3, "odd/method")).await;
    assert_eq!(error_of(&odd)["data"]["reason"], serde_json::Value::Null);
    assert_eq!(completeness::told(&gate.recorded(3).await[2]), ("rpc_error".into(), 200, String::new()));

    // A stream that never ends does, and says why.
    let answer = gate.call(gate.request().uri("/mcp/files"), tool(4, "stream", "{}")).await;
    one(&gate, 3, &answer, ("upstream_failed", 200, "upstream_timeout")).await;

    // One of several that has all its places taken; the session with the others goes on.
    let hello = gate.call(gate.request().uri("/mcp"), HELLO).await;
    let session = hello.header("mcp-session-id").unwrap().to_owned();
    let within = |body: String| {
        let request = gate.request().uri("/mcp").header("mcp-session-id", &session);
        let request = request.header("mcp-protocol-version", "2025-06-18");
        request.body(http_body_util::Full::new(body.into())).unwrap()
    };
    let hang = within(tool(5, "files__add", r#"{"x":"hang"}"#));
    let waiting = tokio::spawn(send_to(gate.addr, hang));
    crate::support::until("the call that waits", || {
        files.calls().iter().any(|c| c.text().contains("\"hang\""))
    })
    .await;
    gate.recorded(5).await;
    let full = whole(send_to(gate.addr, within(tool(6, "files__add", "{}"))).await).await;
    one(&gate, 5, &full, ("upstream_failed", 200, "upstream_unavailable")).await;
    let late = whole(crate::support::soon("the call that waits", waiting).await.unwrap()).await;
    one(&gate, 6, &late, ("upstream_failed", 200, "upstream_timeout")).await;
    gate.verify();
}
