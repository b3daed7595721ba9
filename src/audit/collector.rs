//! One batch to one collector, over gRPC or HTTP with protobuf (OTLP specification 1.x, "OTLP/gRPC" and
//! "OTLP/HTTP"). A gRPC unary call is an HTTP/2 POST with a five-byte prefix and its status in the trailers,
//! so the HTTP client that the gateway has anyway serves both. Invariant: a batch takes no longer than the
//! timeout, retries included.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use super::{
    health::ExporterHealth,
    otel_env::{Settings, Signal},
};
use crate::{
    config::{OtlpProtocol, UpstreamTls},
    upstream::tls,
};

/// Bytes of an answer that are read.
const LONGEST_ANSWER: usize = 64 * 1024;
/// First pause before another try; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// To a connection, well within the usual timeout so that a second try is possible.
const CONNECT: Duration = Duration::from_secs(4);
/// Before every gRPC message: not compressed, and its length.
const GRPC_PREFIX: usize = 5;

type Pool = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Why a try failed, and whether another may help.
struct Refused {
    message: String,
    again: bool,
    unknown_signal: bool,
}

/// Why a batch was not taken.
#[derive(Debug)]
pub(super) struct NotTaken {
    pub(super) message: String,
    /// The collector is one, but not of this signal.
    pub(super) unknown_signal: bool,
}

impl From<&str> for NotTaken {
    fn from(message: &str) -> Self {
        Self { message: message.to_owned(), unknown_signal: false }
    }
}

impl Refused {
    fn for_good(message: String) -> Self {
        Self { message, again: false, unknown_signal: false }
    }

    fn for_now(message: String) -> Self {
        Self { message, again: true, unknown_signal: false }
    }
}

/// A collector, and the connections to it.
pub(super) struct Collector {
    settings: Settings,
    connector: HttpsConnector<HttpConnector>,
    pool: Pool,
}

impl Collector {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// The CA file cannot be used.
    pub(super) fn new(settings: Settings) -> Result<Self, String> {
        let trust = UpstreamTls { ca: settings.ca.clone(), ..UpstreamTls::default() };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls::client(&trust)?).https_or_http();
        let connector = match settings.protocol {
            OtlpProtocol::Grpc => builder.enable_http2().wrap_connector(tcp),
            OtlpProtocol::HttpProtobuf => builder.enable_all_versions().wrap_connector(tcp),
        };
        let pool = pool(settings.protocol, connector.clone());
        Ok(Self { settings, connector, pool })
    }

    /// An empty message with room for `length` bytes and for what goes before them.
    pub(super) fn frame(&self, length: usize) -> Vec<u8> {
        let mut message = Vec::with_capacity(length + GRPC_PREFIX);
        if self.settings.protocol == OtlpProtocol::Grpc {
            message.extend_from_slice(&[0; GRPC_PREFIX]);
        }
        message
    }

    /// Sends a message that was begun by [`frame`](Self::frame); gives the answer's message.
    pub(super) async fn send(
        &mut self,
        mut message: Vec<u8>,
        signal: Signal,
        health: &ExporterHealth,
    ) -> Result<Bytes, NotTaken> {
        if self.settings.protocol == OtlpProtocol::Grpc {
            let length = u32::try_from(message.len() - GRPC_PREFIX).map_err(|_| "batch too large")?;
            message[1..GRPC_PREFIX].copy_from_slice(&length.to_be_bytes());
        }
        let timeout = self.settings.timeout;
        let result =
            tokio::time::timeout(timeout, self.send_until_taken(message.into(), signal, health)).await;
        result.unwrap_or_else(|_| {
            // Whatever made it silent, an old connection is not asked again.
            self.pool = pool(self.settings.protocol, self.connector.clone());
            Err(format!("no answer within {timeout:?}").as_str().into())
        })
    }

    /// Tries until the collector answers for good; the caller sets the time. That it does not is known to
    /// `health` from the first try on.
    async fn send_until_taken(
        &self,
        message: Bytes,
        signal: Signal,
        health: &ExporterHealth,
    ) -> Result<Bytes, NotTaken> {
        let mut pause = PAUSE;
        loop {
            match self.try_once(message.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(Refused { message, unknown_signal, again: false }) => {
                    return Err(NotTaken { message, unknown_signal });
                }
                Err(refused) => health.report(signal, Err(&refused.message)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn try_once(&self, message: Bytes) -> Result<Bytes, Refused> {
        let response = self.pool.request(self.request(message)).await;
        let response = response.map_err(|e| Refused::for_now(chain(&e)))?;
        match self.settings.protocol {
            OtlpProtocol::Grpc => grpc_answer(response).await,
            OtlpProtocol::HttpProtobuf => http_answer(response).await,
        }
    }

    fn request(&self, message: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.settings.url.clone();
        let headers = request.headers_mut();
        let kind = match self.settings.protocol {
            OtlpProtocol::Grpc => {
                headers.insert(header::TE, HeaderValue::from_static("trailers"));
                "application/grpc"
            }
            OtlpProtocol::HttpProtobuf => "application/x-protobuf",
        };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let agent = concat!("smartgate/", env!("CARGO_PKG_VERSION"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        headers.extend(self.settings.headers.clone());
        request
    }
}

fn pool(protocol: OtlpProtocol, connector: HttpsConnector<HttpConnector>) -> Pool {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_only(protocol == OtlpProtocol::Grpc)
        .build(connector)
}

/// The whole chain of an error on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

async fn read(response: Response<Incoming>) -> Result<(Bytes, HeaderMap), Refused> {
    let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
    let body = body.map_err(|e| match e.downcast_ref::<LengthLimitError>() {
        Some(_) => Refused::for_good("an answer of unlikely length".into()),
        None => Refused::for_now(chain(&*e)),
    })?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    Ok((body.to_bytes(), trailers))
}

async fn http_answer(response: Response<Incoming>) -> Result<Bytes, Refused> {
    let status = response.status();
    if status.is_success() {
        return Ok(read(response).await?.0);
    }
    let again = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let unknown_signal = matches!(status, StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED);
    Err(Refused { message: format!("HTTP status {}", status.as_u16()), again, unknown_signal })
}

async fn grpc_answer(response: Response<Incoming>) -> Result<Bytes, Refused> {
    if response.status() != StatusCode::OK {
        return http_answer(response).await;
    }
    let head = response.headers().clone();
    let (body, trailers) = read(response).await?;
    let get =
        |name| trailers.get(name).or_else(|| head.get(name)).and_then(|v: &HeaderValue| v.to_str().ok());
    match get("grpc-status") {
        Some("0") => Ok(body.slice(GRPC_PREFIX.min(body.len())..)),
        Some(code) => {
            let message = format!("gRPC status {code}: {}", get("grpc-message").unwrap_or("no message"));
            // OTLP/gRPC: cancelled, deadline, aborted, out of range, unavailable and data loss may pass.
            let again = matches!(code, "1" | "4" | "10" | "11" | "14" | "15");
            // `UNIMPLEMENTED`
            Err(Refused { message, again, unknown_signal: code == "12" })
        }
        None => Err(Refused::for_good("an answer without a gRPC status: no OTLP/gRPC collector?".into())),
    }
}
