//! HTTP+SSE for clients of 2024-11-05: what they post is judged when it comes, like any call, and goes on its way where
//! the stream takes it up. Owns what is between the two; the transport itself is [`HttpSse`]'s.
//!
//! Invariant: each message has one record, which is open from its POST to the end of its answer on the stream.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, request::Parts};
use http_body_util::BodyExt;

use super::{
    Call, Gateway, GatewayBody, KnownKey,
    error::Cause,
    guard::AuditGuard,
    headers::{Accepts, SESSION},
    mask::Mask,
    opening, own,
    prepare::{Caller, Facts, Prepared},
    sessions,
    spend::Spend,
};
use crate::{
    mcp::era::Era,
    server::Peer,
    snapshot::{Route, Snapshot},
    upstream::{self, BoxFuture, ResponseBody, Upstream, UpstreamError},
};

/// Who is at the other end of a stream: a request extension.
#[derive(Clone)]
struct Client {
    gateway: Gateway,
    snapshot: Arc<Snapshot>,
    route: Arc<Route>,
    key: Option<KnownKey>,
    mask: Mask,
    peer: Peer,
}

/// A message that has been judged: a request extension, taken once.
#[derive(Clone)]
struct Judged(Arc<Mutex<Option<Work>>>);

struct Work {
    call: Call,
    facts: Facts,
    spend: Option<Spend>,
}

impl Judged {
    fn take(&self) -> Option<Work> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The second half of the pipeline, as the stream calls it.
pub(super) struct Pipeline;

impl Upstream for Pipeline {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            let work = head.extensions.remove::<Judged>().and_then(|judged| judged.take());
            match head.extensions.remove::<Client>() {
                Some(client) => Ok(client.serve(head, body, work).await),
                None => Err(UpstreamError::Protocol("nobody sent this".into())),
            }
        })
    }
}

impl Client {
    async fn serve(self, head: Parts, body: Bytes, work: Option<Work>) -> Response<ResponseBody> {
        let caller = Caller { snapshot: &self.snapshot, route: &self.route, key: self.key.as_ref() };
        let mut call;
        let answer = match work {
            Some(Work { call: judged, facts, spend }) => {
                call = Some(judged);
                if let Some(call) = &mut call {
                    self.gateway.recognise(&mut call.guard, &head.headers);
                }
                let prepared = Prepared { body, headers: head.headers, facts, spend };
                Box::pin(self.gateway.post(&mut call, caller, prepared, None)).await
            }
            // The session's stream of changes, or its end.
            None => {
                call = Some(self.unasked(&head));
                Box::pin(self.gateway.stream(&mut call, caller, head, None)).await
            }
        };
        let response = match (answer, call) {
            (Ok(response), _) => response,
            (Err(cause), Some(call)) => self.gateway.refuse(&self.snapshot, call, &cause),
            (Err(_), None) => own(StatusCode::INTERNAL_SERVER_ERROR, "", Bytes::new()),
        };
        response.map(BodyExt::boxed_unsync)
    }

    /// The record of what the transport does by itself for the client.
    fn unasked(&self, head: &Parts) -> Call {
        let gateway = &self.gateway;
        let record = opening(head, self.peer);
        let mut guard = AuditGuard::open(Arc::clone(&gateway.desk), record, gateway.metrics.in_flight());
        guard.hide(&self.mask);
        guard.principal = self.key.as_ref().map(|key| Arc::clone(&key.name));
        guard.upstream = self.route.all.is_none().then(|| Arc::clone(&self.route.spec.name));
        let accepts = Accepts::Both;
        let (peer, mask) = (self.peer.addr, self.mask.clone());
        Call {
            guard,
            id: None,
            peer,
            accepts,
            mask,
            spending: None,
            is_tool_call: false,
            modern: false,
            shares_session: false,
        }
    }
}

impl Gateway {
    /// Opens a stream; `messages` is where its client is to post to.
    pub(super) fn open_http_sse(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        head: Parts,
        messages: &str,
    ) -> Response<GatewayBody> {
        if let Some(call) = call {
            call.guard.era = Some(Era::Legacy);
        }
        let mut request = Request::from_parts(head, Bytes::new());
        request.extensions_mut().insert(caller.to_upstream());
        let response = self.http_sse.open(request, messages);
        self.pass_own(call, caller, response)
    }

    /// Gives a message to the stream that its address names.
    ///
    /// # Errors
    /// It is a modern one.
    pub(super) fn post_http_sse(
        &self,
        call: &mut Option<Call>,
        caller: Caller<'_>,
        prepared: Prepared,
        uri: Uri,
        peer: Peer,
    ) -> Result<Response<GatewayBody>, Cause> {
        let Prepared { body, headers, facts, spend } = prepared;
        if facts.era == Era::Modern {
            let why = "HTTP+SSE is for legacy revisions; post modern requests to the endpoint itself";
            return Err(Cause::InvalidRequest(why.into()));
        }
        let mut taken = call.take().expect("the call is there until its answer passes");
        // Whatever the POST accepts, the answer comes on the stream.
        taken.accepts = Accepts::Both;
        let client = Client {
            gateway: self.clone(),
            snapshot: Arc::clone(caller.snapshot),
            route: Arc::clone(caller.route),
            key: caller.key.cloned(),
            mask: taken.mask.clone(),
            peer,
        };
        let judged = Judged(Arc::new(Mutex::new(Some(Work { call: taken, facts, spend }))));
        let mut request = Request::new(body);
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        request.extensions_mut().insert::<upstream::Caller>(caller.to_upstream());
        request.extensions_mut().insert(client);
        request.extensions_mut().insert(judged.clone());
        let response = self.http_sse.post(request);
        if response.status() == StatusCode::ACCEPTED {
            return Ok(own(StatusCode::ACCEPTED, "", Bytes::new()));
        }
        *call = judged.take().map(|work| work.call);
        Ok(self.pass_own(call, caller, response))
    }

    /// What is known of the session that the transport has put on a message.
    fn recognise(&self, guard: &mut AuditGuard, headers: &HeaderMap) {
        let Some(session) = headers.get(SESSION).map(|v| sessions::hash(v.as_bytes())) else { return };
        guard.session = Some(hex::encode(session));
        let Some(about) = self.sessions.get(&session) else { return };
        if about.name.is_some() {
            (guard.client.name, guard.client.version) = (about.name, about.version);
        }
        if guard.protocol_version.is_none() {
            guard.protocol_version = about.protocol_version.map(|v| v.to_string());
        }
    }
}
