//! What an answer meant, seen from the bytes that pass: turns a scanned response into the record's outcome.

use std::{borrow::Cow, sync::Arc};

use super::{
    evidence,
    guard::AuditGuard,
    mask::Mask,
    sessions::{About, SessionHash, Sessions},
    spend::{COUNTED, Passed, Spending},
};
use crate::{
    audit::record::{Failure, Outcome, Payload},
    bridge::hops::{Hops, Refused},
    config::Capture,
    mcp::{
        era::Era,
        response::{Answer, Format, Keep, Observed, ResponseScanner},
    },
    metrics::Present,
    secrets,
    upstream::catalog::Catalog,
};

/// Most that is kept of a payload, in bytes.
pub(super) const KEPT: usize = 64 * 1024;
/// Most of a passing tool list that the catalog learns from, in bytes.
const LEARNED: usize = 1024 * 1024;
/// Most that is looked at of a name or a message, in bytes; nobody needs more of it.
const LONGEST: usize = 16 * 1024;

/// What the client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// The response to its request.
    Answer,
    /// Nothing but a status: it sent a notification or a response.
    Nothing,
    /// A stream of whatever the server sends (GET, or `subscriptions/listen`).
    Stream,
}

/// Facts about the exchange that the outcome depends on.
#[derive(Debug)]
pub struct Exchange {
    /// What the client waits for.
    pub awaits: Awaits,
    /// HTTP status of the upstream's answer.
    pub status: u16,
    /// `None` when the body is neither JSON nor SSE, or is encoded: then it is not looked into.
    pub format: Option<Format>,
    /// Whether the message is modern.
    pub era: Era,
    /// The request id's JSON text.
    pub id: Option<String>,
    /// What is kept of the result.
    pub capture: Capture,
    /// What is not kept of it.
    pub mask: Mask,
    /// Whether this is a `tools/list` that the catalog may learn from.
    pub teaches: bool,
    /// What an adapter before the upstream tells.
    pub hops: Option<Hops>,
    /// The session that an `initialize` opened, to be remembered with what is known of the client.
    pub opens: Option<(SessionHash, About)>,
}

/// Watches one answer and closes its record.
#[derive(Debug)]
pub struct Observer {
    guard: AuditGuard,
    scanner: Option<ResponseScanner>,
    /// Whether the response that the client waits for has passed.
    answered: bool,
    /// Whether the client can ask for the rest of the stream.
    resumable: bool,
    exchange: Exchange,
    spending: Option<Spending>,
    catalog: Arc<Catalog>,
    sessions: Arc<Sessions>,
    /// Counts an open stream while the body lives.
    _open: Option<Present>,
}

impl Observer {
    /// Begins to watch.
    #[must_use]
    pub fn new(
        guard: AuditGuard,
        exchange: Exchange,
        spending: Option<Spending>,
        catalog: Arc<Catalog>,
        sessions: Arc<Sessions>,
        open: Option<Present>,
    ) -> Self {
        let keep = match exchange.capture {
            _ if exchange.teaches => Keep::Bytes(LEARNED),
            _ if spending.as_ref().is_some_and(Spending::counts_result) => Keep::Bytes(COUNTED),
            Capture::None => Keep::Nothing,
            Capture::Hash => Keep::Hash,
            Capture::Redacted | Capture::Full => Keep::Bytes(KEPT),
        };
        let scanner = exchange.format.map(|f| ResponseScanner::new(f, keep, exchange.id.as_deref()));
        Self {
            guard,
            scanner,
            answered: false,
            resumable: false,
            exchange,
            spending,
            catalog,
            sessions,
            _open: open,
        }
    }

    /// Looks at bytes that pass.
    pub fn see(&mut self, data: &[u8]) {
        self.guard.response_bytes += data.len() as u64;
        let Some(scanner) = &mut self.scanner else { return };
        let seen = scanner.feed(data);
        self.answered = seen.answered && self.exchange.awaits == Awaits::Answer;
        self.resumable = seen.resumable && self.exchange.era == Era::Legacy;
        if seen.list_changed {
            self.catalog.nudge();
        }
    }

    /// The body ended as it should.
    pub fn end(mut self) {
        let mut observed = self.scanner.take().map(ResponseScanner::finish).unwrap_or_default();
        let outcome = self.judge(&observed);
        let mut passed = Passed::default();
        if self.counts_result() {
            passed =
                Passed { kept: observed.result.take().unwrap_or_default(), bytes: observed.result_bytes };
            // One byte more than a record keeps, so that it is seen to be longer.
            observed.result = Some(passed.kept[..passed.kept.len().min(KEPT + 1)].to_vec());
        }
        self.learn(observed);
        self.close(outcome, passed);
    }

    /// The body is dropped before its end. Clients hang up on a stream as soon as it brought their response
    /// (the Python SDK does), and that call is complete; any other is left to the guard's own `Drop`.
    pub fn leave(self) {
        if std::thread::panicking() {
            return;
        }
        if self.answered {
            return self.end();
        }
        let outcome = self.guard.abandoned();
        self.break_off(outcome);
    }

    /// The body was cut short.
    pub fn cut(mut self, outcome: Outcome, why: &str) {
        let reason = match (outcome, self.refused()) {
            (Outcome::Drained, _) => "draining",
            (_, Some(refused)) => refused.reason,
            _ => {
                self.catalog.nudge();
                "upstream_protocol"
            }
        };
        self.guard.fail(Failure { reason: Some(reason), code: None, message: bounded(why) });
        self.break_off(outcome);
    }

    fn break_off(mut self, outcome: Outcome) {
        let mut passed = Passed::default();
        if self.counts_result()
            && let Some(scanner) = self.scanner.take()
        {
            (passed.kept, passed.bytes) = scanner.broken_off();
        }
        self.close(outcome, passed);
    }

    fn counts_result(&self) -> bool {
        self.spending.as_ref().is_some_and(Spending::counts_result)
    }

    fn close(mut self, outcome: Outcome, mut passed: Passed) {
        if self.exchange.format.is_none() {
            // What is encoded is not looked into.
            passed.bytes = self.guard.response_bytes;
        }
        match self.spending.take() {
            Some(spending) => spending.settle(passed, self.guard.seal(outcome)),
            None => self.guard.finish(outcome),
        }
    }

    /// What an adapter of ours said in the server's place.
    fn refused(&self) -> Option<Refused> {
        self.exchange.hops.as_ref().and_then(|hops| hops.seen().refused)
    }

    fn judge(&mut self, observed: &Observed) -> Outcome {
        match &observed.answer {
            Some(Answer::Result { is_error: false }) => return Outcome::Ok,
            Some(Answer::Result { is_error: true }) => return Outcome::ToolError,
            Some(Answer::Error { code, message }) => {
                let Exchange { status, era, .. } = self.exchange;
                if evidence::of_error(*code, status, era, self.guard.bridged) {
                    self.catalog.nudge();
                }
                let own = self.refused().filter(|refused| refused.code == *code);
                let reason = own.map(|refused| refused.reason);
                self.guard.fail(Failure { reason, code: Some(*code), message: bounded(message) });
                return match reason {
                    None => Outcome::RpcError,
                    Some(reason) if reason.starts_with("upstream_") => Outcome::UpstreamFailed,
                    Some(_) => Outcome::Rejected,
                };
            }
            None => {}
        }
        let status = self.exchange.status;
        if status >= 400 {
            if evidence::of_status(status) {
                self.catalog.nudge();
            }
            let message = format!("the upstream answered HTTP {status}");
            self.guard.fail(Failure { reason: None, code: None, message });
            return if status >= 500 { Outcome::UpstreamFailed } else { Outcome::RpcError };
        }
        // A legacy server may close a stream that has given an event id, and be asked for the rest by GET
        // (2025-11-25, transports, "Sending Messages to the Server" 6).
        if self.exchange.awaits != Awaits::Answer || self.resumable || self.exchange.format.is_none() {
            return Outcome::Ok;
        }
        if self.exchange.hops.as_ref().is_some_and(|hops| hops.seen().cancelled) {
            return Outcome::ClientClosed;
        }
        self.catalog.nudge();
        let message = "the answer ended without a response to the request".to_owned();
        self.guard.fail(Failure { reason: Some("upstream_protocol"), code: None, message });
        Outcome::UpstreamFailed
    }

    fn learn(&mut self, observed: Observed) {
        if let Some((session, mut about)) = self.exchange.opens.take() {
            about.protocol_version = observed.protocol_version.as_deref().map(Into::into);
            self.sessions.insert(session, about);
        }
        if observed.protocol_version.is_some() {
            self.guard.upstream_version.clone_from(&observed.protocol_version);
        }
        if self.exchange.teaches
            && !observed.truncated
            && let Some(result) = &observed.result
        {
            self.catalog.observe_list(result);
        }
        self.guard.result = kept(self.exchange.capture, &self.exchange.mask, observed);
    }
}

/// What a record keeps of a result.
fn kept(capture: Capture, mask: &Mask, observed: Observed) -> Payload {
    let Some(sha256) = observed.result_sha256 else { return Payload::None };
    match (capture, observed.result) {
        (Capture::None, _) => Payload::None,
        (Capture::Redacted | Capture::Full, Some(mut bytes)) => {
            let truncated = observed.truncated || bytes.len() > KEPT;
            bytes.truncate(KEPT);
            mask.apply(&mut bytes, truncated);
            Payload::Kept { sha256, bytes, truncated, full: capture == Capture::Full }
        }
        _ => Payload::Hash(sha256),
    }
}

/// At most 512 bytes, cut at a character.
#[must_use]
pub(super) fn bounded(text: &str) -> String {
    cut(text, 512).into_owned()
}

/// At most so many bytes. What is longer is masked before it is cut, because half a secret looks like none.
#[must_use]
pub(super) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let masked = secrets::masked(&text[..text.floor_char_boundary(LONGEST)]);
    Cow::Owned(masked[..masked.floor_char_boundary(most)].to_owned())
}
