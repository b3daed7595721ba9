//! One GET: connection, head and body, each within limits. Follows nothing; what the URL may be is checked before.
//!
//! Invariant: addresses come from the checked [`Resolver`] only. The connector never asks it for a host that is an
//! address itself, which is why [`super::target`] judges those. No proxy is read from the environment.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use url::Url;

use super::{
    FetchError,
    decode::{DecodeError, Decoder},
    resolve::{LookupError, Resolver},
};
use crate::{config::UpstreamTls, upstream::tls};

/// The name that `robots.txt` may speak of.
pub(super) const PRODUCT: &str = "smartgate";
const AGENT: &str = concat!("smartgate/", env!("CARGO_PKG_VERSION"));
const ACCEPT: &str =
    "text/html,application/xhtml+xml,application/json,text/*;q=0.9,application/pdf;q=0.8,*/*;q=0.5";
const CONNECT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept: long enough for `robots.txt` and then the page.
const POOL_IDLE: Duration = Duration::from_secs(4);
/// Largest response head, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// See the module.
pub(super) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector<Resolver>>, Empty<Bytes>>,
}

/// An answer whose body is still to come.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    body: Incoming,
}

impl Client {
    /// Connects to nothing.
    ///
    /// # Errors
    /// A sentence: the roots of trust cannot be had.
    pub(super) fn new(resolver: Resolver, trust: &UpstreamTls) -> Result<Self, String> {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::client(trust)?)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(2)
            .http1_max_buf_size(MAX_HEAD)
            .build(connector);
        Ok(Self { http })
    }

    /// Asks for `url`. `conditions`: more headers.
    pub(super) async fn get(&self, url: &Url, conditions: HeaderMap) -> Result<Answer, FetchError> {
        let uri: Uri = url
            .as_str()
            .parse()
            .map_err(|_| FetchError::InvalidUrl("the url has characters that must be escaped".into()))?;
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = uri;
        *request.headers_mut() = conditions;
        for (name, value) in [
            (header::USER_AGENT, AGENT),
            (header::ACCEPT, ACCEPT),
            (header::ACCEPT_ENCODING, "gzip, deflate, br, zstd"),
            (header::ACCEPT_LANGUAGE, "en, *;q=0.5"),
        ] {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        let answer = self.http.request(request).await.map_err(|error| explain(&error, error.is_connect()))?;
        let (head, body) = Response::into_parts(answer);
        Ok(Answer { status: head.status, headers: head.headers, body })
    }
}

impl Answer {
    /// A header's value, if it is text.
    pub(super) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The whole body, unpacked; at most `limit` bytes of it.
    pub(super) async fn read(self, limit: usize) -> Result<Vec<u8>, FetchError> {
        self.collect(limit, false).await
    }

    /// The beginning of the body, unpacked.
    pub(super) async fn read_start(self, limit: usize) -> Result<Vec<u8>, FetchError> {
        self.collect(limit, true).await
    }

    async fn collect(mut self, limit: usize, start: bool) -> Result<Vec<u8>, FetchError> {
        let coding =
            self.headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").to_owned());
        let refuse = |error| refused(&error, limit, coding.as_deref());
        let mut decoder = Decoder::new(coding.as_deref(), limit).map_err(refuse)?;
        let mut arrived = 0;
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|error| explain(&error, false))?;
            let Some(part) = frame.data_ref() else { continue };
            // Packed data may unpack to nothing at all, and take its time for it.
            arrived += part.len();
            if arrived > limit {
                return if start { Ok(decoder.so_far()) } else { Err(refuse(DecodeError::TooLarge)) };
            }
            tokio::task::yield_now().await;
            match decoder.write(part) {
                Ok(()) => {}
                Err(DecodeError::TooLarge) if start => return Ok(decoder.so_far()),
                Err(error) => return Err(refuse(error)),
            }
        }
        decoder.finish().map_err(refuse)
    }
}

fn refused(error: &DecodeError, limit: usize, coding: Option<&str>) -> FetchError {
    match error {
        DecodeError::TooLarge => {
            FetchError::TooLarge(format!("the document is larger than {limit} bytes; use a shorter one"))
        }
        DecodeError::Bomb => {
            FetchError::TooLarge("the document unpacks to over 100 times its size; use another source".into())
        }
        DecodeError::Broken => FetchError::Connect("the document arrived damaged; try again later".into()),
        DecodeError::Unknown => {
            let coding: String = coding.unwrap_or_default().chars().take(40).collect();
            FetchError::UnsupportedContentType(format!("a body in the coding {coding:?}"))
        }
    }
}

/// Says what happened without the addresses that the causes name.
fn explain(error: &(dyn Error + 'static), connecting: bool) -> FetchError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        match error.downcast_ref::<LookupError>() {
            Some(LookupError::NoAddress) => return FetchError::Dns,
            Some(LookupError::NotPublic) => return FetchError::BlockedAddress,
            None => {}
        }
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return FetchError::Tls(format!(
                "no secure connection ({tls}); the site's certificate may be at fault"
            ));
        }
        // `source` of an I/O error is not the error inside it, but that one's source.
        let inside = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        cause = inside.map(|error| error as &(dyn Error + 'static)).or_else(|| error.source());
    }
    FetchError::Connect(if connecting {
        "the host does not answer at this port; check the url, or try again later".into()
    } else {
        "the connection broke off before the whole answer had come; try again later".into()
    })
}
