//! One call that runs at a legacy server, from the moment it is sent. Owns the server's stream and the questions that
//! stand open on it; knows nothing of the HTTP request that the client waits on, because that changes.
//!
//! Invariant: a call that is dropped before its answer is cancelled at the server, and its questions are answered.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::StatusCode;
use tokio::time::{Instant, timeout_at};

use super::{
    answer::same_id,
    asks::Asks,
    elsewhere::Heard,
    incoming::Client,
    level::Level,
    losses,
    messages::{Broken, Item, Messages, is_stream},
    pool::{Lent, Turn},
    question::{self, Question, Verdict},
    session::{Session, spawn},
    wants::is_news,
};
use crate::mcp::{
    json::{
        Raw,
        edit::{self, Splice},
    },
    message::{self, Body, Kind, Message},
    method::is_askable,
};

/// After a question, further ones are waited for so long, so that the client gets them together.
const GRACE: Duration = Duration::from_millis(5);
/// Most questions at once.
const MAX_QUESTIONS: usize = 64;
/// How often, and after which pause, a stream that broke is gone on with.
const RESUMES: u32 = 5;
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// See the module.
pub(super) struct Call {
    pub(super) session: Arc<Session>,
    turn: Option<Turn>,
    own: u64,
    pub(super) method: String,
    pub(super) asks: Asks,
    messages: Option<Messages>,
    /// What comes for it on the session's GET stream, where its client can be asked something.
    elsewhere: Option<Heard>,
    /// Questions without an answer, in their order.
    pub(super) questions: Vec<Question>,
    asked: usize,
    resumes: u32,
    ended: bool,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum Step {
    /// A notification for the client.
    Tell(Bytes),
    /// The server works.
    Alive,
    /// The given time is over.
    Late,
    /// The response, as the server wrote it.
    Answer(Bytes),
    /// There are questions.
    Ask,
    /// There will be no response, and why.
    Broken(String),
}

impl Call {
    /// A call that is about to be sent.
    pub(super) fn new(lent: Lent, own: u64, method: &str, asks: Asks) -> Self {
        let can_be_asked = is_askable(method) && asks.any();
        let Lent { session, turn } = lent;
        Self {
            elsewhere: can_be_asked.then(|| session.hub.begin(own)),
            session,
            turn,
            own,
            method: method.to_owned(),
            asks,
            messages: None,
            questions: Vec::new(),
            asked: 0,
            resumes: 0,
            ended: false,
        }
    }

    /// It did not run, or has ended.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Waits until something comes for it outside its own stream.
    pub(super) async fn hears(&mut self) {
        match &mut self.elsewhere {
            Some(elsewhere) => elsewhere.wait().await,
            None => std::future::pending().await,
        }
    }

    /// What the server's answer is read from.
    pub(super) fn reads(&mut self, messages: Messages) {
        self.messages = Some(messages);
    }

    /// What comes next, for this client; waits until `until` at most.
    pub(super) async fn step(&mut self, client: &Client, until: Option<Instant>) -> Step {
        loop {
            let grace = (!self.questions.is_empty()).then(|| Instant::now() + GRACE);
            let Some(messages) = &mut self.messages else { return self.broken("there is no answer") };
            let next = next(messages, self.elsewhere.as_mut());
            let item = match grace.into_iter().chain(until).min() {
                None => next.await,
                Some(limit) => match timeout_at(limit, next).await {
                    Ok(item) => item,
                    Err(_) if self.questions.is_empty() => return Step::Late,
                    Err(_) => return Step::Ask,
                },
            };
            let why = match item {
                Ok(Some(Item::Message(text))) => match self.message(text, client).await {
                    Some(step) => return step,
                    None => continue,
                },
                Ok(Some(Item::Alive)) if self.questions.is_empty() => return Step::Alive,
                Ok(Some(Item::Alive)) => continue,
                Ok(None) => "the server's answer ended without a response".to_owned(),
                Err(Broken(why)) => why,
            };
            // The server may have closed the connection and not the stream (2025-11-25, transports).
            if !self.resume().await {
                return self.broken(&why);
            }
        }
    }

    fn broken(&mut self, why: &str) -> Step {
        Step::Broken(format!("{why}; whether the call took effect is not known"))
    }

    /// Goes on with a stream that broke, where the server gave its events ids.
    async fn resume(&mut self) -> bool {
        let Some(id) = self.messages.as_ref().and_then(|m| m.last_id.clone()) else { return false };
        while self.resumes < RESUMES {
            self.resumes += 1;
            tokio::time::sleep(RESUME_PAUSE).await;
            let Ok(response) = self.session.get(Some(&id)).await else { continue };
            if !response.status().is_success() || is_stream(response.headers()) != Some(true) {
                return false;
            }
            let mut messages = Messages::new(response.into_body(), true);
            messages.last_id = Some(id);
            self.messages = Some(messages);
            return true;
        }
        false
    }

    async fn message(&mut self, text: Bytes, client: &Client) -> Option<Step> {
        let Ok(Body::Object(message)) = message::parse(&text) else { return None };
        match message.kind() {
            Kind::Response if same_id(message.id_raw, self.own) || is_nameless_error(&message) => {
                self.ended = true;
                Some(Step::Answer(text.clone()))
            }
            Kind::Request => self.request(&message).await,
            Kind::Notification => self.notification(&text, &message, client),
            _ => None,
        }
    }

    async fn request(&mut self, message: &Message<'_>) -> Option<Step> {
        let (id, method) = (message.id()?, message.method.as_deref()?);
        if method == "ping" {
            self.session.pong(id).await;
            return None;
        }
        let one_stream = self.session.hello.one_stream.is_some();
        if one_stream {
            self.session.keep_apart();
        }
        if one_stream && !self.session.one_client && self.session.hub.has_several() {
            self.session.tell(question::verdict(id, Verdict::Unclear)).await;
            return None;
        }
        if !is_askable(&self.method) || !self.asks.allow(method, message.params) {
            self.session.tell(question::verdict(id, losses::unasked(method))).await;
            return None;
        }
        self.asked += 1;
        self.questions.push(Question {
            key: self.asked.to_string(),
            id: id.to_owned(),
            method: method.to_owned(),
            params: question::for_client(message.params),
        });
        (self.questions.len() >= MAX_QUESTIONS).then_some(Step::Ask)
    }

    fn notification(&mut self, text: &Bytes, message: &Message<'_>, client: &Client) -> Option<Step> {
        let param = |name: &str| message.params.filter(Raw::is_object).and_then(|p| p.get(name));
        match message.method.as_deref()? {
            "notifications/progress" => {
                let token = param("progressToken").filter(|t| same_id(Some(*t), self.own))?;
                let theirs = client.token.as_ref()?;
                let splice = Splice::replace(token.range(), theirs.as_bytes().to_vec());
                Some(Step::Tell(edit::apply(message.envelope.document().as_bytes(), vec![splice]).into()))
            }
            "notifications/message" => {
                let level = param("level").and_then(|l| l.as_str()).and_then(|l| Level::parse(&l))?;
                // Of a session that other processes use, one of them may have asked for a level.
                let told = client.level.map_or(self.session.is_named(), |wanted| level >= wanted);
                told.then(|| Step::Tell(text.clone()))
            }
            // The server takes a question back.
            "notifications/cancelled" => {
                let id = param("requestId")?.text();
                self.questions.retain(|q| q.id != id);
                None
            }
            news if is_news(news) => {
                self.session.news(news, text);
                None
            }
            dropped if losses::is_dropped(dropped) => None,
            _ => Some(Step::Tell(text.clone())),
        }
    }

    /// Gives the server the client's answers to its questions. Those without one stay open.
    pub(super) async fn answer(&mut self, answers: &[(String, String)]) -> Result<(), String> {
        let mut open = Vec::new();
        for question in std::mem::take(&mut self.questions) {
            let Some((_, result)) = answers.iter().find(|(key, _)| *key == question.key) else {
                open.push(question);
                continue;
            };
            if !self.session.tell(question.answered(result)).await {
                let why = "the server did not take the answer, so it does not wait for it any more";
                return Err(format!("{why}; whether the call took effect is not known"));
            }
        }
        self.questions = open;
        Ok(())
    }
}

/// The next message of the call's own stream, or of what came for it elsewhere. Nothing is lost if the future is dropped.
async fn next(messages: &mut Messages, elsewhere: Option<&mut Heard>) -> Result<Option<Item>, Broken> {
    let Some(elsewhere) = elsewhere else { return messages.next().await };
    tokio::select! {
        biased;
        // What was said before the answer is told before it.
        Some(text) = elsewhere.next() => Ok(Some(Item::Message(text))),
        item = messages.next() => item,
    }
}

/// An error without an id is the server's word that it could not read one; on a call's own stream it is this call's.
fn is_nameless_error(message: &Message<'_>) -> bool {
    message.has_error && message.id_raw.is_none_or(|id| id.text() == "null")
}

impl Drop for Call {
    fn drop(&mut self) {
        self.session.touch();
        self.session.hub.end(self.own);
        let unread = self.elsewhere.take().map(Heard::unread).unwrap_or_default();
        if self.session.is_lost() || self.ended && unread.is_empty() {
            return;
        }
        let ended = self.ended;
        let (session, own) = (Arc::clone(&self.session), self.own);
        let questions = std::mem::take(&mut self.questions);
        let turn = self.turn.take();
        spawn(async move {
            for verdict in unread {
                session.tell(verdict).await;
            }
            if ended {
                return;
            }
            for question in questions {
                session.tell(question.unanswered()).await;
            }
            let cancelled = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{own},"reason":"the client left"}}}}"#
            );
            session.tell(cancelled.into()).await;
            drop(turn);
        });
    }
}

/// The HTTP status of a server's answer, as far as the client may see it.
pub(super) fn status_of(upstream: StatusCode, of_code: Option<StatusCode>) -> StatusCode {
    of_code.unwrap_or(if upstream.is_success() { StatusCode::OK } else { upstream })
}
