//! What a modern server needs in the middle of a call, as requests to the legacy client on the call's own stream,
//! and the client's answers, which come as POSTs of their own.
//!
//! Invariant: a question's id opens only for the principal and the session that was asked, and its answer goes only
//! to the call that asked.

use std::time::Duration;

use http::{Response, request::Parts};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Core, KEEP_ALIVE,
    body::{self, Events},
    live::{Answer, Question},
    losses,
    refusal::Refusal,
    reply::Ask,
    request::Call,
    revision::Revision,
    rewrite::{self, Edit, quoted},
    session::{Can, Nonce, Session},
};
use crate::{
    bridge::sealed::Purpose,
    mcp::{
        json::{self, Raw},
        message::Message,
    },
    upstream::ResponseBody,
};

/// Questions of one result.
const MAX_AT_ONCE: usize = 32;

/// What a question's id holds.
#[derive(Debug, Serialize, Deserialize)]
struct QuestionId {
    #[serde(rename = "p")]
    process: u64,
    #[serde(rename = "s")]
    session: Nonce,
    #[serde(rename = "q")]
    number: u64,
}

impl Core {
    /// Asks the client and gives the object of its answers.
    pub(super) async fn ask_client(
        &self,
        call: &Call,
        asks: &[Ask],
        events: Option<&Events>,
    ) -> Result<String, Refusal> {
        let Some(events) = events else {
            return Err(Refusal::unanswered(
                "The server asks the client something, which needs text/event-stream in Accept. Accept both types.",
            ));
        };
        let Session { nonce: Some(nonce), can, principal, revision, .. } = &call.session else {
            return Err(Refusal::unanswered("The server asks the client something, which needs a session."));
        };
        if asks.len() > MAX_AT_ONCE {
            return Err(Refusal::unanswered("the server asks more at once than a client is asked"));
        }
        if let Some(ask) = asks.iter().find(|ask| !may_ask(ask, *can)) {
            let method: String = ask.method.chars().take(64).collect();
            return Err(Refusal::unanswered(format!(
                "the server asks {method:?}, which the client did not declare"
            )));
        }
        let live = self.memory.live.at(nonce, principal)?;
        let mut waiting = Vec::with_capacity(asks.len());
        for ask in asks {
            let question = Question::ask(&live)?;
            let claims =
                QuestionId { process: self.memory.process, session: *nonce, number: question.number };
            let lifetime = self.answer_within + Duration::from_secs(60);
            let id = quoted(&self.sealer.seal(Purpose::ServerRequest, principal, lifetime, &claims));
            let params = params(ask, *revision).map(|p| format!(",\"params\":{p}")).unwrap_or_default();
            let method = quoted(&ask.method);
            let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{method}{params}}}");
            events.message(&text).await.map_err(|_| Refusal::unanswered("the client is gone"))?;
            waiting.push((ask, id, question));
        }
        collect(waiting, events, Instant::now() + self.answer_within).await
    }

    /// A response that a client POSTs.
    pub(super) fn take_answer(
        &self,
        session: &Session,
        message: &Message<'_>,
        head: &Parts,
    ) -> Response<ResponseBody> {
        let id = message.id().and_then(|id| serde_json::from_str::<String>(id).ok()).unwrap_or_default();
        let opened = self.sealer.open::<QuestionId>(Purpose::ServerRequest, &session.principal, &id);
        let question = match opened {
            Ok(question) if Some(question.session) == session.nonce => question,
            _ => {
                let why = "this response answers no request of this session";
                return Refusal::invalid_request(why).response(None, head);
            }
        };
        if question.process != self.memory.process {
            return Refusal::parked_elsewhere().response(None, head);
        }
        if let Some(live) = self.memory.live.find(&question.session) {
            live.answer(question.number, read_answer(message.envelope));
        }
        body::accepted()
    }
}

fn may_ask(ask: &Ask, can: Can) -> bool {
    let is_url = || {
        let params = ask.params.as_deref().and_then(|p| json::parse(p.as_bytes()).ok());
        params.and_then(|p| p.get("mode")).is_some_and(|m| m.is_string("url"))
    };
    can.has(match ask.method.as_str() {
        "roots/list" => Can::ROOTS,
        "sampling/createMessage" => Can::SAMPLE,
        "elicitation/create" if is_url() => Can::OPEN_URLS,
        "elicitation/create" => Can::FILL_FORMS,
        _ => return false,
    })
}

/// A request's parameters as the client's revision has them.
fn params(ask: &Ask, revision: Revision) -> Option<String> {
    let raw = ask.params.as_deref()?;
    let Some(params) = json::parse(raw.as_bytes()).ok().filter(|_| ask.method == "elicitation/create") else {
        return Some(raw.to_owned());
    };
    let is_url = params.get("mode").is_some_and(|m| m.is_string("url"));
    // 2025-11-25 has it required; nothing ever refers to it, because the retry says that the page is done with.
    let id = if is_url && params.get("elicitationId").is_none() {
        format!("\"elicitationId\":\"{}\"", ulid::Ulid::generate())
    } else {
        String::new()
    };
    let edit = |name: &str, _: Raw<'_>| {
        if losses::elicitation_mode(name, revision) { Edit::Drop } else { Edit::Keep }
    };
    Some(rewrite::object_and(params, edit, &id))
}

fn read_answer(envelope: Raw<'_>) -> Answer {
    match envelope.get("result").filter(Raw::is_object) {
        Some(result) => Ok(result.text().to_owned()),
        None => Err(envelope.get("error").map_or_else(|| "{}".to_owned(), |e| e.text().to_owned())),
    }
}

/// Waits for all answers, telling the line that it is alive.
async fn collect(
    waiting: Vec<(&Ask, String, Question)>,
    events: &Events,
    deadline: Instant,
) -> Result<String, Refusal> {
    let mut out = String::from("{");
    let mut waiting = waiting.into_iter();
    while let Some((ask, id, mut question)) = waiting.next() {
        let answer = loop {
            tokio::select! {
                answer = &mut question.answer => break answer.ok(),
                () = tokio::time::sleep_until(deadline) => break None,
                () = tokio::time::sleep(KEEP_ALIVE) => drop(events.keep_alive().await),
            }
        };
        let Some(answer) = answer else {
            for id in std::iter::once(&id).chain(waiting.as_slice().iter().map(|(_, id, _)| id)) {
                drop(events.message(&cancelled(id)).await);
            }
            return Err(Refusal::unanswered("the client did not answer the server's question in time"));
        };
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&ask.key);
        out.push(':');
        match answer {
            Ok(result) => out.push_str(&result),
            Err(_) if ask.method == "elicitation/create" => out.push_str("{\"action\":\"cancel\"}"),
            // Who says that it has roots and does not tell them has none; servers ask beside calls that need none.
            Err(_) if ask.method == "roots/list" => out.push_str("{\"roots\":[]}"),
            Err(error) => {
                let said = json::parse(error.as_bytes()).ok().and_then(|e| e.get("message")?.as_str());
                let said: String = said.unwrap_or_default().chars().take(200).collect();
                return Err(Refusal::unanswered(format!("the client refused {}: {said}", ask.method)));
            }
        }
    }
    out.push('}');
    Ok(out)
}

fn cancelled(id: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id},\"reason\":\"no answer in time\"}}}}"
    )
}
