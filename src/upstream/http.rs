//! A remote MCP server over streamable HTTP. Owns its connection pool, the target's URL and authority,
//! the configured extra headers and the following of redirects; timeouts to the head, retries, limits
//! and audit lie outside.
//!
//! Invariant: a request leaves for the configured authority and no other, and one of which a byte may
//! have been sent is never sent again, except where the upstream itself asked for it by a redirect.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, uri::PathAndQuery,
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tower_service::Service;

use super::{
    BodyError, BoxFuture, ForwardPath, ResponseBody, Upstream, UpstreamError,
    pace::{Pace, Paced},
    tls,
};
use crate::config::{self, Target};

/// How long an unused connection is kept: less than the 5 seconds after which the common servers (Node,
/// uvicorn) close theirs, so that a request seldom meets a connection that is just being closed.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// Redirects followed for one call.
const MAX_REDIRECTS: usize = 5;
/// Largest response head, and largest read buffer of an HTTP/1.1 connection, in bytes.
const MAX_BUFFER: usize = 64 * 1024;
/// A silent HTTP/2 upstream with calls in flight is asked for a sign of life this often.
const PING: Duration = Duration::from_secs(20);

/// See the module.
pub struct HttpUpstream {
    client: Client<Within<HttpsConnector<HttpConnector>>, Full<Bytes>>,
    url: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    pace: Arc<Pace>,
}

impl HttpUpstream {
    /// Prepares the pool; connects to nothing.
    ///
    /// # Errors
    /// A sentence for the user: a file of its TLS settings, a header, or a target that is not HTTP.
    pub fn new(config: &config::Upstream) -> Result<Self, String> {
        let Target::Http(url) = &config.target else {
            return Err("not an HTTP upstream".into());
        };
        Self::at_url(config, url)
    }

    /// The same at this URL, whatever the target.
    ///
    /// # Errors
    /// As of [`Self::new`].
    pub fn at_url(config: &config::Upstream, url: &Uri) -> Result<Self, String> {
        if url.authority().is_none() || url.scheme().is_none() {
            return Err("its url has no scheme or host".into());
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(&config.tls)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp());
        Ok(Self {
            client: pool(Within { limit: config.connect_timeout, connector }),
            url: url.clone(),
            headers: extra_headers(config)?,
            pace: Arc::default(),
        })
    }

    /// The request as the upstream shall see it; framing and `Host` are the connection's own.
    fn address(&self, mut call: Request<Bytes>) -> Request<Bytes> {
        let path = call.extensions_mut().remove::<ForwardPath>().map(|p| p.0);
        *call.uri_mut() = match path {
            Some(path) => self.at(path),
            None => self.url.clone(),
        };
        *call.version_mut() = Version::HTTP_11;
        let headers = call.headers_mut();
        for ours in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
            headers.remove(ours);
        }
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        call
    }

    /// Another path on the configured authority.
    fn at(&self, path: PathAndQuery) -> Uri {
        let mut parts = self.url.clone().into_parts();
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).expect("a URL with scheme and authority stays one with another path")
    }

    async fn send(&self, call: Request<Bytes>) -> Result<Response<Incoming>, UpstreamError> {
        self.client.request(call.map(Full::new)).await.map_err(|e| {
            if e.is_connect() { UpstreamError::Connect(e.into()) } else { UpstreamError::Protocol(e.into()) }
        })
    }

    async fn follow(&self, call: Request<Bytes>) -> Result<Response<Incoming>, UpstreamError> {
        let mut call = self.address(call);
        for _ in 0..=MAX_REDIRECTS {
            let next = call.clone();
            let answer = self.send(call).await?;
            if !is_redirect(answer.status()) {
                return Ok(answer);
            }
            call = self.redirected(next, &answer)?;
        }
        Err(UpstreamError::Redirect(format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// The same request at the place that `answer` names. 301 and 302 keep method and body like 307 and
    /// 308 (RFC 9110 section 15.4 allows a change to GET, which would mean another thing to an MCP server);
    /// 303 asks for a GET, which answers nobody's POST.
    fn redirected(
        &self,
        mut call: Request<Bytes>,
        answer: &Response<Incoming>,
    ) -> Result<Request<Bytes>, UpstreamError> {
        let refuse = |why: &str| Err(UpstreamError::Redirect(format!("{} {why}", answer.status().as_u16())));
        if answer.status() == StatusCode::SEE_OTHER && call.method() != Method::GET {
            return refuse("asks for a GET instead");
        }
        let location = answer.headers().get(header::LOCATION).and_then(|v| v.to_str().ok());
        let Some(target) = location.and_then(|l| resolve(call.uri(), l)) else {
            return refuse("has no usable Location");
        };
        if !same_authority(&target, &self.url) {
            let place = target.authority().map_or("", |a| a.as_str());
            return refuse(&format!("points to another authority, {place}"));
        }
        *call.uri_mut() = self.at(target.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
        Ok(call)
    }
}

impl Upstream for HttpUpstream {
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>> {
        Box::pin(async move {
            let answer = self.follow(call).await?;
            Ok(answer.map(|body| {
                let body = body.map_err(|e| Box::new(e) as BodyError).boxed_unsync();
                Paced::new(body, Arc::clone(&self.pace)).boxed_unsync()
            }))
        })
    }
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

fn pool<C>(connector: C) -> Client<C, Full<Bytes>>
where
    C: hyper_util::client::legacy::connect::Connect + Clone,
{
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .timer(TokioTimer::new())
        .pool_idle_timeout(POOL_IDLE)
        .http1_max_buf_size(MAX_BUFFER)
        .http2_keep_alive_interval(PING)
        .http2_keep_alive_timeout(PING)
        // Only a request that was never handed to its connection is tried again, on another one.
        .retry_canceled_requests(true)
        .build(connector)
}

fn extra_headers(config: &config::Upstream) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut headers = Vec::with_capacity(config.headers.len());
    for (name, secret) in &config.headers {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let parsed = parsed.map_err(|_| format!("headers.{name}: not a header name"))?;
        let value = HeaderValue::from_str(secret.expose());
        let mut value = value.map_err(|_| format!("headers.{name}: its value is not a header value"))?;
        value.set_sensitive(true);
        headers.push((parsed, value));
    }
    Ok(headers)
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// RFC 3986 section 5, as far as a `Location` for MCP needs it: an absolute URL, `//authority/path`, or
/// an absolute or relative path without dot segments.
pub(super) fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    if let Ok(uri) = location.parse::<Uri>()
        && uri.scheme().is_some()
    {
        return Some(uri);
    }
    let scheme = base.scheme_str()?;
    let authority = base.authority()?;
    if location.starts_with("//") {
        return format!("{scheme}:{location}").parse().ok();
    }
    if location.starts_with('/') {
        return format!("{scheme}://{authority}{location}").parse().ok();
    }
    if location.is_empty() || location.contains(':') {
        return None;
    }
    let path = base.path();
    let folder = if location.starts_with('?') { path } else { &path[..=path.rfind('/')?] };
    format!("{scheme}://{authority}{folder}{location}").parse().ok()
}

pub(super) fn same_authority(a: &Uri, b: &Uri) -> bool {
    let port = |u: &Uri| u.port_u16().or(if u.scheme_str() == Some("https") { Some(443) } else { Some(80) });
    let host = |u: &Uri| u.host().map(str::to_ascii_lowercase);
    a.scheme() == b.scheme() && host(a) == host(b) && port(a) == port(b)
}

/// A connector with a time limit over all it does: name, TCP and TLS.
#[derive(Clone)]
struct Within<C> {
    limit: Duration,
    connector: C,
}

impl<C> Service<Uri> for Within<C>
where
    C: Service<Uri, Error = BodyError, Future: Send + 'static>,
{
    type Response = C::Response;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BodyError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        self.connector.poll_ready(cx)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let connecting = self.connector.call(target);
        let limit = self.limit;
        Box::pin(async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection within {limit:?}").into()),
            }
        })
    }
}
