//! One connection, from accepted socket to closed: TLS handshake, the choice between HTTP/1.1 and
//! HTTP/2, and the protocol limits. The clock that ends idle and slow ones is [`super::drive`]'s.
//!
//! Invariant: a connection with no call in flight is closed `header_timeout` after its last call (or
//! after it was accepted), whatever it sends or leaves half-sent; one with a call in flight is not.

use std::{
    convert::Infallible, error::Error, future::Future, io, net::SocketAddr, pin::Pin, sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Handler, Options, Peer, Refused,
    activity::{Activity, Tracked, Watched},
    drive::{Connection, Drive, End},
};

/// Largest request head, and largest buffer of a connection, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Calls at once on one HTTP/2 connection. RFC 9113 section 6.5.2 advises at least 100.
const MAX_STREAMS: u32 = 256;
/// Answer bytes waiting for one HTTP/2 stream's window.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// A silent HTTP/2 peer is asked for a sign of life this often, and given as long to reply.
const PING: Duration = Duration::from_secs(20);
/// Pause before looking again at a first packet too short to tell the protocol.
const FIRST_BYTES_PAUSE: Duration = Duration::from_millis(10);

/// What all connections of a listener share.
pub(super) struct Server<H> {
    handler: Arc<H>,
    options: Options,
    graceful: CancellationToken,
    http1: http1::Builder,
    http2: http2::Builder<Streams>,
    streams: TaskTracker,
}

/// Runs HTTP/2 streams, each as a task that can be waited for.
#[derive(Clone)]
struct Streams(TaskTracker);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        drop(self.0.spawn(stream));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

impl<H: Handler> Server<H> {
    pub(super) fn new(options: Options, handler: Arc<H>, graceful: CancellationToken) -> Arc<Self> {
        let streams = TaskTracker::new();
        Arc::new(Self {
            handler,
            options,
            graceful,
            http1: http1_settings(),
            http2: http2_settings(Streams(streams.clone())),
            streams,
        })
    }

    /// Resolves when the HTTP/2 streams of ended connections have ended too.
    pub(super) async fn streams_ended(&self) {
        self.streams.close();
        self.streams.wait().await;
    }

    /// Serves one connection to its end.
    pub(super) async fn connection(self: Arc<Self>, stream: TcpStream, addr: SocketAddr) {
        // What is used for a moment only, and what not every connection needs, is boxed: the task keeps
        // the size of the largest thing in it for as long as the connection is open.
        let end = if self.options.tls.is_some() {
            Box::pin(self.tls(stream, addr)).await
        } else {
            match Box::pin(self.first_bytes(&stream, addr)).await {
                None => return,
                Some(Protocol::Http1) => self.http1(stream, Peer { addr, tls: false }).await,
                Some(Protocol::Http2) => Box::pin(self.http2(stream, Peer { addr, tls: false })).await,
            }
        };
        self.report(end, addr);
    }

    /// The protocol of a plain connection; `None` if it ended before one could be told.
    async fn first_bytes(&self, stream: &TcpStream, addr: SocketAddr) -> Option<Protocol> {
        let first = tokio::select! {
            first = timeout(self.options.header_timeout, first_bytes(stream)) => first,
            () = self.graceful.cancelled() => return None,
        };
        match first {
            Ok(Ok(protocol)) => return protocol,
            Ok(Err(e)) => tracing::debug!(error = %e, "connection lost before its first request"),
            Err(_) => self.refuse(Refused::Timeout, addr, &"no request"),
        }
        None
    }

    async fn tls(&self, stream: TcpStream, addr: SocketAddr) -> End {
        const NOTHING: End = End::Ended(Ok(()));
        let Some(acceptor) = &self.options.tls else { return NOTHING };
        let handshake = timeout(self.options.header_timeout, acceptor.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = self.graceful.cancelled() => return NOTHING,
        };
        let peer = Peer { addr, tls: true };
        match stream {
            Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
                Box::pin(self.http2(stream, peer)).await
            }
            Ok(Ok(stream)) => Box::pin(self.http1(stream, peer)).await,
            Ok(Err(e)) => {
                self.refuse(Refused::Tls, addr, &e);
                NOTHING
            }
            Err(e) => {
                self.refuse(Refused::Tls, addr, &e);
                NOTHING
            }
        }
    }

    fn http1<I: Transport>(&self, io: I, peer: Peer) -> impl Future<Output = End> + Send + use<I, H> {
        let activity = Activity::new();
        let io = Watched::new(TokioIo::new(io), Arc::clone(&activity));
        let connection = self.http1.serve_connection(io, self.calls(&activity, peer));
        Drive::new(connection, activity, self.options.header_timeout, self.graceful.clone())
    }

    fn http2<I: Transport>(&self, io: I, peer: Peer) -> impl Future<Output = End> + Send + use<I, H> {
        let activity = Activity::new();
        let io = Watched::new(TokioIo::new(io), Arc::clone(&activity));
        let connection = self.http2.serve_connection(io, self.calls(&activity, peer));
        Drive::new(connection, activity, self.options.header_timeout, self.graceful.clone())
    }

    /// The handler as hyper wants it. Its future is boxed, for hyper keeps room for one in every HTTP/1.1
    /// connection, while it is needed only until the head of an answer is there.
    fn calls(
        &self,
        activity: &Arc<Activity>,
        peer: Peer,
    ) -> impl Service<
        Request<Incoming>,
        Response = Response<Tracked<H::Body>>,
        Error = Infallible,
        Future: Send + 'static,
    > + Send
    + use<H> {
        let (handler, activity) = (Arc::clone(&self.handler), Arc::clone(activity));
        service_fn(move |req| {
            let (handler, in_flight) = (Arc::clone(&handler), activity.begin());
            Box::pin(async move {
                let answer = handler.handle(req, peer).await;
                Ok(answer.map(|body| Tracked::new(body, in_flight)))
            })
        })
    }

    fn report(&self, end: End, addr: SocketAddr) {
        match end {
            End::Ended(Ok(())) => {}
            End::Ended(Err(e)) if e.is_parse_too_large() => self.refuse(Refused::TooLarge, addr, &e),
            End::Ended(Err(e)) if e.is_parse() => self.refuse(Refused::Malformed, addr, &e),
            End::Ended(Err(e)) => {
                tracing::debug!(client = %addr, error = &e as &dyn Error, "connection ended");
            }
            End::Stuck => tracing::debug!(client = %addr, "connection given up: its answers are not read"),
            End::Cut => self.refuse(Refused::Timeout, addr, &"half a request, or an answer left unread"),
        }
    }

    fn refuse(&self, refused: Refused, addr: SocketAddr, why: &dyn std::fmt::Display) {
        tracing::debug!(client = %addr, refused = refused.as_str(), error = %why, "refused before the handler");
        (self.options.on_refused)(refused);
    }
}

/// What a connection runs over.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for T {}

fn http1_settings() -> http1::Builder {
    let mut http1 = http1::Builder::new();
    http1
        // `drive` has one clock for each connection; hyper's would be made anew for each request.
        .header_read_timeout(None)
        // A client that leaves ends its call: dropping the handler's future is how the call learns of it.
        .half_close(false)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD);
    http1
}

fn http2_settings(streams: Streams) -> http2::Builder<Streams> {
    let mut http2 = http2::Builder::new(streams);
    http2
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEAD as u32)
        .max_send_buf_size(MAX_SEND_BUFFER);
    http2
}

/// Tells the protocol by the first bytes, which stay in the socket; `None` if the peer left. HTTP/2 with
/// prior knowledge begins with `PRI` (RFC 9113 section 3.4), which is no method of HTTP/1.1.
async fn first_bytes(stream: &TcpStream) -> io::Result<Option<Protocol>> {
    const PREFACE: &[u8] = b"PRI";
    let mut first = [0; PREFACE.len()];
    loop {
        let n = stream.peek(&mut first).await?;
        match &first[..n] {
            [] => return Ok(None),
            PREFACE => return Ok(Some(Protocol::Http2)),
            start if !PREFACE.starts_with(start) => return Ok(Some(Protocol::Http1)),
            // `peek` would resolve at once with the same bytes: look again a little later.
            _ => sleep(FIRST_BYTES_PAUSE).await,
        }
    }
}

impl<I, S, B> Connection for http1::Connection<I, S>
where
    http1::Connection<I, S>: Future<Output = hyper::Result<()>>,
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    const WINDOWS: bool = false;

    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, S, B> Connection for http2::Connection<I, S, Streams>
where
    http2::Connection<I, S, Streams>: Future<Output = hyper::Result<()>>,
    S: hyper::service::HttpService<Incoming, ResBody = B>,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    B: hyper::body::Body + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    Streams: hyper::rt::bounds::Http2ServerConnExec<S::Future, B>,
{
    const WINDOWS: bool = true;

    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
