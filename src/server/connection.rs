//! One connection, from accepted socket to closed: TLS handshake, the choice between HTTP/1.1 and
//! HTTP/2, the protocol limits, and the clock that ends idle and slow ones.
//!
//! Invariant: a connection with no call in flight is closed `header_timeout` after its last call (or
//! after it was accepted), whatever it sends or leaves half-sent; one with a call in flight is not.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Handler, Options, Peer, Refused,
    activity::{Activity, Tracked, Watched},
};

/// Largest request head, and largest buffer of a connection, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// Calls at once on one HTTP/2 connection. RFC 9113 section 6.5.2 advises at least 100.
const MAX_STREAMS: u32 = 256;
/// Answer bytes waiting for one HTTP/2 stream's window.
const MAX_SEND_BUFFER: usize = 64 * 1024;
/// A silent HTTP/2 peer is asked for a sign of life this often, and given as long to reply.
const PING: Duration = Duration::from_secs(20);
/// Between telling an idle peer that we close, and closing.
const LINGER: Duration = Duration::from_secs(1);
/// A peer that reads the rest of its answer is left alone while it takes this much within [`LINGER`].
const SLOWEST: u64 = 1024;
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
        match self.options.tls {
            // Boxed, for the state of a TLS session is large and plain connections do not need it.
            Some(_) => Box::pin(self.tls(stream, addr)).await,
            None => self.plain(stream, addr).await,
        }
    }

    async fn plain(&self, stream: TcpStream, addr: SocketAddr) {
        let limit = self.options.header_timeout;
        let protocol = tokio::select! {
            protocol = timeout(limit, first_bytes(&stream)) => protocol,
            () = self.graceful.cancelled() => return,
        };
        let peer = Peer { addr, tls: false };
        match protocol {
            Ok(Ok(Some(protocol))) => self.http(stream, protocol, peer).await,
            Ok(Ok(None)) => {}
            Ok(Err(e)) => tracing::debug!(error = %e, "connection lost before its first request"),
            Err(_) => self.refuse(Refused::Timeout, addr, &"no request"),
        }
    }

    async fn tls(&self, stream: TcpStream, addr: SocketAddr) {
        let Some(acceptor) = &self.options.tls else { return };
        let handshake = timeout(self.options.header_timeout, acceptor.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = self.graceful.cancelled() => return,
        };
        match stream {
            Ok(Ok(stream)) => {
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let protocol = if h2 { Protocol::Http2 } else { Protocol::Http1 };
                self.http(stream, protocol, Peer { addr, tls: true }).await;
            }
            Ok(Err(e)) => self.refuse(Refused::Tls, addr, &e),
            Err(e) => self.refuse(Refused::Tls, addr, &e),
        }
    }

    async fn http<I>(&self, io: I, protocol: Protocol, peer: Peer)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = Activity::new();
        let io = Watched::new(TokioIo::new(io), Arc::clone(&activity));
        let handler = Arc::clone(&self.handler);
        let calls = Arc::clone(&activity);
        let service = service_fn(move |req: Request<Incoming>| {
            let (handler, in_flight) = (Arc::clone(&handler), calls.begin());
            async move {
                let answer: Response<_> = handler.handle(req, peer).await;
                Ok::<_, Infallible>(answer.map(|body| Tracked::new(body, in_flight)))
            }
        });
        let ended = match protocol {
            Protocol::Http1 => self.drive(self.http1.serve_connection(io, service), &activity, peer).await,
            Protocol::Http2 => {
                // Boxed, so that HTTP/1.1 connections do not carry its size.
                Box::pin(self.drive(self.http2.serve_connection(io, service), &activity, peer)).await
            }
        };
        if let Err(e) = ended {
            self.failed(&e, peer.addr);
        }
    }

    /// Polls a connection to its end, tells it to finish when the server drains or when it has been
    /// idle too long, and drops it if it does not then finish.
    async fn drive<C: Connection>(
        &self,
        connection: C,
        activity: &Activity,
        peer: Peer,
    ) -> hyper::Result<()> {
        let limit = self.options.header_timeout;
        let mut connection = pin!(connection);
        let mut clock = pin!(sleep(limit));
        let mut draining = pin!(self.graceful.cancelled());
        let mut told = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = clock.as_mut() => {
                    let Some(since) = activity.idle_since() else {
                        clock.as_mut().reset(Instant::now() + limit);
                        continue;
                    };
                    if since + limit > Instant::now() {
                        clock.as_mut().reset(since + limit);
                        continue;
                    }
                    break;
                }
                () = draining.as_mut(), if !told => {
                    told = true;
                    connection.as_mut().finish();
                }
            }
        }
        if !told {
            connection.as_mut().finish();
        }
        self.linger(connection, activity, peer).await
    }

    /// Lets a connection that was told to finish write what is left, while its peer reads.
    async fn linger<C: Connection>(
        &self,
        mut connection: Pin<&mut C>,
        activity: &Activity,
        peer: Peer,
    ) -> hyper::Result<()> {
        loop {
            let before = activity.written();
            tokio::select! {
                biased;
                ended = connection.as_mut() => return ended,
                () = sleep_until(Instant::now() + LINGER) => {}
            }
            if activity.idle_since().is_some() && activity.written() - before < SLOWEST {
                self.refuse(Refused::Timeout, peer.addr, &"half a request, or an answer left unread");
                return Ok(());
            }
        }
    }

    fn failed(&self, e: &hyper::Error, addr: SocketAddr) {
        if e.is_parse_too_large() {
            self.refuse(Refused::TooLarge, addr, e);
        } else if e.is_parse() {
            self.refuse(Refused::Malformed, addr, e);
        } else {
            tracing::debug!(client = %addr, error = e as &dyn Error, "connection ended");
        }
    }

    fn refuse(&self, refused: Refused, addr: SocketAddr, why: &dyn std::fmt::Display) {
        tracing::debug!(client = %addr, refused = refused.as_str(), error = %why, "refused before the handler");
        (self.options.on_refused)(refused);
    }
}

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

/// A connection of either protocol.
trait Connection: Future<Output = hyper::Result<()>> {
    /// Ends the connection after the calls in flight.
    fn finish(self: Pin<&mut Self>);
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
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
