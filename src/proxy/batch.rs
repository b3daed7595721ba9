//! Batches (2025-03-26 alone has them): an array is split, and each message goes its own way through the pipeline.
//!
//! Invariant: each message of a batch that is taken has its own access, limits and record; what becomes of one
//! decides nothing about the others.

use std::{sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, uri::PathAndQuery};
use http_body_util::BodyExt;

use super::{
    Call, Gateway, GatewayBody, KnownKey, Stop, error::Cause, guard::AuditGuard, headers, own,
    prepare::Caller, received, sessions, trace,
};
use crate::{
    audit::record::Record,
    bridge::face::{serve_batch, session_revision, split_batch},
    mcp::message::{self, Body},
    snapshot::{Route, Snapshot},
};

/// The one revision that has batches.
const REVISION: &str = "2025-03-26";

/// A batch that was taken.
pub(super) struct Batch {
    messages: Vec<Bytes>,
    /// One for each message.
    calls: Vec<Call>,
    way: Arc<Way>,
}

/// What all its messages share.
struct Way {
    snapshot: Arc<Snapshot>,
    route: Arc<Route>,
    key: Option<KnownKey>,
    headers: HeaderMap,
    forward: Option<PathAndQuery>,
}

/// What an array begins with, and no message does.
fn looks_like_an_array(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[')
}

impl Gateway {
    /// Whether this body is to be split. Clients of 2025-03-26 have no header that tells their revision, which came
    /// with the next one: there the session tells it.
    pub(super) fn is_batch(&self, caller: Caller<'_>, headers: &HeaderMap, body: &[u8]) -> bool {
        if !looks_like_an_array(body) {
            return false;
        }
        let mut versions = headers.get_all(headers::VERSION).iter();
        let has_batches = match (versions.next(), versions.next()) {
            (Some(only), None) => only == REVISION,
            (None, _) => self.opened_with(caller, headers).is_some_and(|revision| &*revision == REVISION),
            _ => false,
        };
        has_batches && matches!(message::parse(body), Ok(Body::Batch))
    }

    /// The revision that the session of these headers was opened with: as it was seen to be, or as its id says.
    fn opened_with(&self, caller: Caller<'_>, headers: &HeaderMap) -> Option<Arc<str>> {
        let id = headers.get(headers::SESSION)?;
        let seen = self.sessions.get(&sessions::hash(id.as_bytes())).and_then(|about| about.protocol_version);
        seen.or_else(|| {
            let name = caller.to_upstream().name;
            session_revision(&caller.snapshot.sealer, &name, id.to_str().ok()?).map(Into::into)
        })
    }

    /// Makes a call of each message. The record that was opened for the request becomes that of the first; the others
    /// begin as copies of it.
    ///
    /// # Errors
    /// [`Cause::InvalidRequest`]: it is empty, or too long.
    pub(super) fn split(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        body: &[u8],
        headers: HeaderMap,
        forward: Option<PathAndQuery>,
    ) -> Result<Batch, Cause> {
        let messages = split_batch(body).map_err(|why| Cause::InvalidRequest(why.into()))?;
        let first = call.take().expect("the call is there until its answer passes");
        let mut calls: Vec<Call> = messages.iter().skip(1).map(|_| self.beside(&first)).collect();
        calls.insert(0, first);
        let way = Way {
            snapshot: Arc::clone(caller.snapshot),
            route: Arc::clone(caller.route),
            key: caller.key.cloned(),
            headers,
            forward,
        };
        Ok(Batch { messages, calls, way: Arc::new(way) })
    }

    fn beside(&self, first: &Call) -> Call {
        let record =
            Record { time: SystemTime::now(), span_id: trace::new_id(), ..Record::clone(&first.guard) };
        let mut guard = AuditGuard::open(Arc::clone(&self.desk), record, self.metrics.in_flight());
        guard.hide(&first.mask);
        Call {
            guard,
            id: None,
            peer: first.peer,
            accepts: first.accepts,
            mask: first.mask.clone(),
            spending: None,
            is_tool_call: false,
            modern: false,
            shares_session: false,
        }
    }

    /// Answers a batch as one.
    pub(super) async fn batch(&self, batch: Batch) -> Response<GatewayBody> {
        let Batch { messages, calls, way } = batch;
        let mut calls = calls.into_iter();
        let run = |message| {
            let (gateway, way, call) = (self.clone(), Arc::clone(&way), calls.next());
            async move { Ok(gateway.member(&way, call, message).await.map(BodyExt::boxed_unsync)) }
        };
        match serve_batch(messages, run).await {
            Ok(answer) => answer.map(GatewayBody::Joined),
            Err(_) => own(StatusCode::INTERNAL_SERVER_ERROR, "", Bytes::new()),
        }
    }

    async fn member(&self, way: &Way, mut call: Option<Call>, message: Bytes) -> Response<GatewayBody> {
        let answer = self.guarded(self.member_on(way, &mut call, message)).await;
        self.close(&way.snapshot, call, answer)
    }

    async fn member_on(
        &self,
        way: &Way,
        call: &mut Option<Call>,
        message: Bytes,
    ) -> Result<Response<GatewayBody>, Stop> {
        let open = call.as_mut().expect("there is a call for each message");
        open.guard.request_bytes = message.len() as u64;
        if let Some(all) = &mut open.guard.received {
            received::narrow(all, &message, &open.mask);
        }
        let caller = Caller { snapshot: &way.snapshot, route: &way.route, key: way.key.as_ref() };
        let prepared = self.prepare(open, caller, message, way.headers.clone())?;
        if prepared.facts.opens.is_some() {
            return Err(Cause::InvalidRequest("initialize must not be part of a batch".into()).into());
        }
        Ok(self.post(call, caller, prepared, way.forward.clone()).await?)
    }
}
