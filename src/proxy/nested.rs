//! Calls that a built-in tool makes for its caller: the same access, rates and record as a call of the client's
//! own, as a child of the call that they belong to. A place among the calls in flight, and budget, are its parent's.

use std::{fmt, net::IpAddr, sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use serde_json::{Value, json, value::to_raw_value};

use super::{
    Gateway, KnownKey,
    error::Cause,
    guard::{AuditGuard, Desk},
    headers::JSON,
    limits::{Gate, Payer},
    mask::Mask,
    observe::bounded,
    prepare::{Caller, keep},
    send::{self, Outgoing},
    shape, trace,
};
use crate::{
    audit::record::{Failure, Outcome, Payload, Record},
    bridge::hops::Hops,
    config::Capture,
    metrics::Metrics,
    policy::access::Access,
    snapshot::{Route, Snapshot},
    upstream::{self, BoxFuture, Nested, builtin::Usage},
};

/// What the calls of one parent need; they may outlive its request, but not its record.
pub(super) struct Children {
    desk: Arc<Desk>,
    gate: Arc<Gate>,
    metrics: Arc<Metrics>,
    snapshot: Arc<Snapshot>,
    route: Arc<Route>,
    key: Option<KnownKey>,
    address: IpAddr,
    mask: Mask,
    /// The parent as it was sent; its children begin as copies of it.
    parent: Record,
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").finish_non_exhaustive()
    }
}

impl Gateway {
    /// The surroundings of calls made within the call that `guard` records.
    pub(super) fn children(
        &self,
        guard: &AuditGuard,
        caller: Caller<'_>,
        route: Arc<Route>,
        address: IpAddr,
        mask: &Mask,
    ) -> Arc<dyn Nested> {
        Arc::new(Children {
            desk: Arc::clone(&self.desk),
            gate: Arc::clone(&self.gate),
            metrics: Arc::clone(&self.metrics),
            snapshot: Arc::clone(caller.snapshot),
            route,
            key: caller.key.cloned(),
            address,
            mask: mask.clone(),
            parent: Record::clone(guard),
        })
    }
}

impl Nested for Children {
    fn call(
        self: Arc<Self>,
        tool: &'static str,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Value, Value>> {
        Box::pin(async move { self.one(tool, arguments).await })
    }
}

impl Children {
    async fn one(&self, tool: &'static str, arguments: Value) -> Result<Value, Value> {
        let arguments = to_raw_value(&arguments).expect("a JSON value is JSON");
        let mut guard = self.open(tool, arguments.get().as_bytes());
        if let Err(cause) = self.admit(tool) {
            return Err(refused(guard, &cause));
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let body = Bytes::from(message.to_string());
        guard.request_bytes = body.len() as u64;
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static(JSON));
        let caller = self.key.as_ref().map(|k| k.facts.caller.clone()).unwrap_or_default();
        let caller = upstream::Caller { wallet: None, ..caller };
        let outgoing = Outgoing {
            upstream: self.route.direct(),
            hops: Hops::default(),
            method: Method::POST,
            headers,
            body,
            caller,
            forward: None,
            outline: None,
            limit: None,
            repeatable: false,
        };
        let answer = match send::send(&mut guard, &self.route, outgoing).await {
            Ok(answer) => answer,
            Err(cause) => return Err(refused(guard, &cause)),
        };
        let (head, rest) = answer.into_parts();
        guard.status = Some(head.status.as_u16());
        guard.tokens = head.extensions.get::<Usage>().map(super::answer::tokens);
        match shape::collect(None, Some(rest), None).await {
            Ok(body) => self.finish(guard, &body),
            Err(cause) => Err(refused(guard, &cause)),
        }
    }

    fn open(&self, tool: &str, arguments: &[u8]) -> AuditGuard {
        let parent = &self.parent;
        let record = Record {
            time: SystemTime::now(),
            span_id: trace::new_id(),
            parent_id: Some(parent.span_id),
            link: None,
            method: Some("tools/call".into()),
            original_method: Some("tools/call".into()),
            tool: Some(tool.to_owned()),
            normalized: Vec::new(),
            lossy: false,
            edits: Vec::new(),
            shadow: None,
            attempts: Vec::new(),
            arguments: keep(self.capture(tool), Some(arguments), &self.mask),
            result: Payload::None,
            received: None,
            ..parent.clone()
        };
        let mut guard = AuditGuard::open(Arc::clone(&self.desk), record, self.metrics.in_flight());
        guard.hide(&self.mask);
        guard
    }

    fn capture(&self, tool: &str) -> Capture {
        self.snapshot.config.audit.capture_of(Some(&self.route.names.of(tool)))
    }

    fn admit(&self, tool: &str) -> Result<(), Cause> {
        let access =
            Access::new(self.key.as_ref().map(|k| &k.facts.tools), &self.route.spec.tools, &self.route.names);
        if !access.allows(tool) {
            return Err(Cause::Forbidden(format!("the tool {tool:?}")));
        }
        let payer = match &self.key {
            Some(key) => Payer::Key(key.facts.rate, &key.buckets),
            None => Payer::Address(self.address),
        };
        self.gate.charge(&self.snapshot.limits, payer, Some(&self.route.names.of(tool)))
    }

    fn finish(&self, mut guard: AuditGuard, body: &[u8]) -> Result<Value, Value> {
        guard.response_bytes = body.len() as u64;
        let mut answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let mut result = answer["result"].take();
        let tool = guard.tool.as_deref().unwrap_or_default();
        guard.result = keep(self.capture(tool), Some(result.to_string().as_bytes()), &self.mask);
        if result["isError"] == false {
            guard.finish(Outcome::Ok);
            return Ok(result["structuredContent"].take());
        }
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let mut said: Value = serde_json::from_str(text).unwrap_or_default();
        guard.finish(Outcome::ToolError);
        Err(said["error"].take())
    }
}

/// Closes the record of a call that reached no answer; what the tool is told of it.
fn refused(mut guard: AuditGuard, cause: &Cause) -> Value {
    let message = bounded(&cause.message());
    guard.fail(Failure { reason: Some(cause.reason()), code: Some(cause.code()), message: message.clone() });
    guard.status = Some(cause.status().as_u16());
    let failed = cause.is_upstream_failure();
    guard.finish(if failed { Outcome::UpstreamFailed } else { Outcome::Rejected });
    let mut error = json!({"code": cause.reason(), "message": message, "retryable": cause.is_limit()});
    if let Some(wait) = cause.retry_after() {
        error["retry_after_ms"] = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).into();
    }
    error
}
