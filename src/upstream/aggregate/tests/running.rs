//! An aggregate at work over scripted servers, and the requests of a modern client.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    super::{Aggregate, Member},
    fake::Fake,
};
use crate::{
    bridge::sealed::Sealer,
    config::Show,
    glob::Globs,
    mcp::{headers, message},
    upstream::{Caller, Upstream, UpstreamError, catalog::Catalog, seat::Seat},
};

/// An aggregate over fakes whose catalogs are at work.
pub(super) struct Running {
    pub(super) aggregate: Aggregate,
    pub(super) catalogs: Vec<Arc<Catalog>>,
    pub(super) seats: Vec<Arc<Seat>>,
    _stop: tokio_util::sync::DropGuard,
}

/// A member with its name for a prefix.
pub(super) fn seat(name: &str, fake: &Arc<Fake>) -> Member {
    let upstream: Arc<dyn Upstream> = Arc::clone(fake) as _;
    Member {
        name: name.into(),
        prefix: name.to_owned(),
        tools: Globs::any(),
        show: Show::default(),
        seat: Seat::new(name.into(), 64, Some(Duration::from_secs(5))),
        catalog: Arc::new(Catalog::new(name.into(), Some("2026-07-28"), Duration::from_secs(5))),
        upstream,
        travels: true,
    }
}

impl Running {
    pub(super) fn start(members: Vec<Member>) -> Self {
        Self::sealing(members, Arc::new(Sealer::of_this_process()))
    }

    pub(super) fn sealing(members: Vec<Member>, sealer: Arc<Sealer>) -> Self {
        let stop = CancellationToken::new();
        let catalogs: Vec<_> = members.iter().map(|m| Arc::clone(&m.catalog)).collect();
        let seats = members.iter().map(|m| Arc::clone(&m.seat)).collect();
        for member in &members {
            let run = Arc::clone(&member.catalog).run(Arc::clone(&member.upstream), stop.clone());
            tokio::spawn(run);
        }
        let aggregate = Aggregate::new(members, "__", sealer);
        Self { aggregate, catalogs, seats, _stop: stop.drop_guard() }
    }

    /// Started, and everything learned.
    pub(super) async fn learned(members: Vec<Member>) -> Self {
        let running = Self::start(members);
        until("all is learned", || running.catalogs.iter().all(|c| c.age().is_some())).await;
        running
    }

    pub(super) async fn ask(&self, method: &str, params: Value) -> Value {
        let (status, body) = self.send(request(method, params)).await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    pub(super) async fn send(&self, request: Request<Bytes>) -> Result<(u16, Value), UpstreamError> {
        let response = self.aggregate.call(request).await?;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        Ok((
            status,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
        ))
    }

    pub(super) async fn names(&self, method: &str, member: &str, key: &str) -> Vec<String> {
        let body = self.ask(method, json!({})).await;
        let all = body["result"][member].as_array().unwrap().iter();
        all.map(|t| t[key].as_str().unwrap().to_owned()).collect()
    }
}

/// A request of a modern client, with all headers.
pub(super) fn request(method: &str, params: Value) -> Request<Bytes> {
    request_of("ada", "\"client-1\"", method, params)
}

pub(super) fn request_of(who: &str, id: &str, method: &str, mut params: Value) -> Request<Bytes> {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    meta["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}, "x/y": {}}});
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    let mut headers = HeaderMap::new();
    let message::Body::Object(parsed) = message::parse(body.as_bytes()).unwrap() else { unreachable!() };
    headers::derive(&parsed, None, &mut headers);
    let mut request = Request::post("/mcp").body(Bytes::from(body.clone())).unwrap();
    headers.insert("content-length", body.len().into());
    *request.headers_mut() = headers;
    request.extensions_mut().insert(Caller { name: who.into(), ..Caller::default() });
    request.extensions_mut().insert(crate::bridge::hops::Hops::default());
    request
}

/// Waits for a condition; how long is only a guard against waiting for ever.
pub(super) async fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "still waiting until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
