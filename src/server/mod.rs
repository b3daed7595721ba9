//! The side that clients connect to: listeners, TLS, HTTP/1.1 and HTTP/2, time limits on connections,
//! and the two-stage drain. Knows nothing of MCP: what a request means is the [`Handler`]'s.
//!
//! Invariant: nothing a connection does (slow handshake, slow head, refused request, panic in its
//! handler) delays the accept loop or another connection.

mod accept;
mod activity;
pub mod admin;
mod connection;
mod doorbell;
mod drain;
mod drive;
pub mod tls;

use std::{fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::{TcpListener, TcpSocket};

pub use accept::serve;
pub use drain::Drain;

use crate::upstream::BodyError;

/// Connections that the kernel completes before we accept them.
const BACKLOG: u32 = 1024;

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static;

    /// Answers one request. The future is dropped when the client leaves; so is the body of the answer.
    fn handle(&self, req: Request<Incoming>, peer: Peer)
    -> impl Future<Output = Response<Self::Body>> + Send;
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address as the socket sees it.
    pub addr: SocketAddr,
    /// Whether the connection is under TLS.
    pub tls: bool,
}

/// A connection or request that ended before the handler could see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The TLS handshake failed or took too long.
    Tls,
    /// A request head did not arrive in time.
    Timeout,
    /// A request head over the limits of size or number.
    TooLarge,
    /// Not HTTP, or HTTP that may be read in two ways.
    Malformed,
}

impl Refused {
    /// The name used in logs and as a metric's label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }
}

/// How a listener serves.
#[derive(Clone)]
pub struct Options {
    /// Time for a TLS handshake, for a request head, and for which an idle connection is kept.
    pub header_timeout: Duration,
    /// TLS, if set.
    pub tls: Option<tls::Acceptor>,
    /// Called for everything that is refused before a handler sees it; must not block.
    pub on_refused: Arc<dyn Fn(Refused) + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("header_timeout", &self.header_timeout)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

/// Binds a listening socket, so that a port in use is known before anything else is started.
///
/// # Errors
/// What the system says: the address is in use, not ours, or needs a privilege.
pub fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart must not wait for connections of the last run to leave TIME_WAIT.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}
