//! A small collector: hyper behind a real socket, decoding with the published message definitions.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::ExportLogsServiceRequest,
        metrics::v1::ExportMetricsServiceRequest,
        trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    logs::v1::LogRecord,
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message;
use rustls::ServerConfig;
use tokio::{net::TcpListener, sync::oneshot};
use tokio_rustls::TlsAcceptor;

use crate::config::OtlpProtocol;

/// What the collector does with batches.
#[derive(Clone, Copy)]
pub(in crate::audit::tests) enum Behaviour {
    Take,
    /// Says that it did not take so many spans of each batch.
    TakeAllBut(i64),
    /// Refuses for good.
    Refuse,
    /// Is unavailable so many times, then takes.
    BusyFirst(usize),
    /// Has no place but for spans, as Jaeger.
    OnlySpans,
}

struct State {
    protocol: OtlpProtocol,
    behaviour: Behaviour,
    seen: AtomicUsize,
    requests: Mutex<Vec<(HeaderMap, ExportTraceServiceRequest)>>,
    metrics: Mutex<Vec<(HeaderMap, ExportMetricsServiceRequest)>>,
    logs: Mutex<Vec<(HeaderMap, ExportLogsServiceRequest)>>,
    /// Requests that found no place.
    turned_away: AtomicUsize,
}

/// Stops when dropped.
pub(in crate::audit::tests) struct Sink {
    address: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sink {
    pub(in crate::audit::tests) fn start(protocol: OtlpProtocol, behaviour: Behaviour) -> Self {
        Self::start_with(protocol, behaviour, None)
    }

    /// Over TLS, as `localhost`.
    pub(in crate::audit::tests) fn start_tls(protocol: OtlpProtocol, tls: ServerConfig) -> Self {
        Self::start_with(protocol, Behaviour::Take, Some(TlsAcceptor::from(Arc::new(tls))))
    }

    fn start_with(protocol: OtlpProtocol, behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Self {
        let state = Arc::new(State {
            protocol,
            behaviour,
            seen: AtomicUsize::new(0),
            requests: Mutex::default(),
            metrics: Mutex::default(),
            logs: Mutex::default(),
            turned_away: AtomicUsize::new(0),
        });
        let theirs = Arc::clone(&state);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, theirs, tls) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, state, stop: Some(stop), thread: Some(thread) }
    }

    pub(in crate::audit::tests) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(in crate::audit::tests) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(in crate::audit::tests) fn requests(&self) -> Vec<(HeaderMap, ExportTraceServiceRequest)> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(in crate::audit::tests) fn spans(&self) -> Vec<Span> {
        let requests = self.requests().into_iter();
        requests
            .flat_map(|(_, r)| r.resource_spans)
            .flat_map(|r| r.scope_spans)
            .flat_map(|s| s.spans)
            .collect()
    }

    /// Each export of metrics, with its headers and resource.
    pub(super) fn metrics(&self) -> Vec<(HeaderMap, ExportMetricsServiceRequest)> {
        self.state.metrics.lock().unwrap().clone()
    }

    /// The metrics of the last export.
    pub(super) fn last_metrics(&self) -> Vec<Metric> {
        let last = self.metrics().pop().map(|(_, request)| request.resource_metrics).unwrap_or_default();
        last.into_iter().flat_map(|r| r.scope_metrics).flat_map(|s| s.metrics).collect()
    }

    pub(super) fn logs(&self) -> Vec<LogRecord> {
        let requests = self.state.logs.lock().unwrap().clone().into_iter();
        requests
            .flat_map(|(_, r)| r.resource_logs)
            .flat_map(|r| r.scope_logs)
            .flat_map(|s| s.log_records)
            .collect()
    }

    pub(super) fn turned_away(&self) -> usize {
        self.state.turned_away.load(Ordering::Relaxed)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(listener: TcpListener, state: Arc<State>, tls: Option<TlsAcceptor>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (state, tls) = (Arc::clone(&state), tls.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&state), request));
            let server = auto::Builder::new(TokioExecutor::new());
            // A client that leaves, or does not trust us, is no error here.
            match tls {
                Some(tls) => {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    drop(server.serve_connection(TokioIo::new(stream), service).await);
                }
                None => drop(server.serve_connection(TokioIo::new(stream), service).await),
            }
        });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let grpc = state.protocol == OtlpProtocol::Grpc;
    let (paths, kind) = if grpc {
        let of = |signal: &str, service: &str| {
            format!("/opentelemetry.proto.collector.{signal}.v1.{service}Service/Export")
        };
        ([of("trace", "Trace"), of("metrics", "Metrics"), of("logs", "Logs")], "application/grpc")
    } else {
        (["traces", "metrics", "logs"].map(|signal| format!("/v1/{signal}")), "application/x-protobuf")
    };
    assert_eq!(head.method.as_str(), "POST");
    let signal = paths.iter().position(|path| path == head.uri.path()).expect("a path of OTLP");
    assert_eq!(head.headers["content-type"], kind);
    let bytes = body.collect().await.unwrap().to_bytes();
    let message = if grpc {
        assert_eq!(head.headers["te"], "trailers");
        assert_eq!(bytes[..5], [&[0][..], &u32::try_from(bytes.len() - 5).unwrap().to_be_bytes()].concat());
        &bytes[5..]
    } else {
        &bytes[..]
    };
    if signal > 0 {
        if matches!(state.behaviour, Behaviour::OnlySpans) {
            state.turned_away.fetch_add(1, Ordering::Relaxed);
            return Ok(if grpc { status("12", Some("unknown service")) } else { plain(404) });
        }
        if signal == 1 {
            let request = ExportMetricsServiceRequest::decode(message).unwrap();
            state.metrics.lock().unwrap().push((head.headers, request));
        } else {
            let request = ExportLogsServiceRequest::decode(message).unwrap();
            state.logs.lock().unwrap().push((head.headers, request));
        }
        return Ok(taken(grpc, ExportTraceServiceResponse::default()));
    }
    let request = ExportTraceServiceRequest::decode(message).unwrap();
    let seen = state.seen.fetch_add(1, Ordering::Relaxed);
    Ok(match state.behaviour {
        Behaviour::Refuse if grpc => status("3", Some("bad spans")),
        Behaviour::Refuse => plain(400),
        Behaviour::BusyFirst(times) if seen < times => {
            if grpc {
                status("14", None)
            } else {
                plain(503)
            }
        }
        Behaviour::TakeAllBut(rejected) => {
            state.requests.lock().unwrap().push((head.headers, request));
            let error_message = "too old".into();
            let partial = ExportTracePartialSuccess { rejected_spans: rejected, error_message };
            taken(grpc, ExportTraceServiceResponse { partial_success: Some(partial) })
        }
        Behaviour::Take | Behaviour::BusyFirst(_) | Behaviour::OnlySpans => {
            state.requests.lock().unwrap().push((head.headers, request));
            taken(grpc, ExportTraceServiceResponse::default())
        }
    })
}

fn plain(code: u16) -> Response<BoxBody<Bytes, Infallible>> {
    Response::builder().status(code).body(Full::default().boxed()).unwrap()
}

/// A gRPC answer that is nothing but a status, in the head as servers send it.
fn status(code: &str, message: Option<&str>) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = plain(200);
    response.headers_mut().insert("grpc-status", HeaderValue::from_str(code).unwrap());
    if let Some(message) = message {
        response.headers_mut().insert("grpc-message", HeaderValue::from_str(message).unwrap());
    }
    response
}

fn taken(grpc: bool, answer: ExportTraceServiceResponse) -> Response<BoxBody<Bytes, Infallible>> {
    let message = answer.encode_to_vec();
    if !grpc {
        return Response::new(Full::from(message).boxed());
    }
    let mut framed = BytesMut::new();
    framed.extend_from_slice(&[0]);
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend_from_slice(&message);
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    Response::new(Full::from(framed.freeze()).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed())
}
