//! The accept loop: takes connections, starts a task for each, and sees them all ended. Owns the set of
//! connection tasks; what one connection does is [`super::connection`]'s.
//!
//! Invariant: when [`serve`] returns, no task that it started is alive.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{Drain, Handler, Options, connection::Server};

/// Pause after the system refuses a connection for want of descriptors or memory. Long enough not to
/// spin, short enough that clients in the backlog do not give up.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// After the force token, time for handlers to write a last answer before connections are cut.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves connections from `listener` until `drain` is done: stops accepting at its first stage, cuts
/// what is left shortly after its second. Returns when every connection has ended.
pub async fn serve<H: Handler>(listener: TcpListener, options: Options, handler: Arc<H>, drain: Drain) {
    let server = Server::new(options, handler, drain.graceful.clone());
    let mut connections = JoinSet::new();
    accept(&listener, &server, &mut connections, &drain.graceful).await;
    drop(listener);
    tokio::select! {
        () = all_ended(&mut connections) => {}
        () = drain.force.cancelled() => {
            // An elapsed timeout is the very case that the next line is for.
            drop(timeout(LAST_WORDS, all_ended(&mut connections)).await);
            connections.shutdown().await;
        }
    }
    server.streams_ended().await;
}

async fn accept<H: Handler>(
    listener: &TcpListener,
    server: &Arc<Server<H>>,
    connections: &mut JoinSet<()>,
    stop: &CancellationToken,
) {
    let mut refused_before = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(ended) = connections.join_next() => { report(ended); continue }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, addr)) => {
                refused_before = false;
                without_delay(&stream);
                connections.spawn(Arc::clone(server).connection(stream, addr));
            }
            Err(e) if is_about_the_peer(&e) => {}
            Err(e) => {
                if !refused_before {
                    tracing::error!(error = %e, "cannot accept connections, trying on");
                    refused_before = true;
                }
                sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

/// Small answers and events must not wait for the peer's acknowledgement (Nagle's algorithm).
fn without_delay(stream: &TcpStream) {
    if let Err(e) = stream.set_nodelay(true) {
        tracing::debug!(error = %e, "cannot set TCP_NODELAY");
    }
}

/// Errors of a connection that died in the backlog; the listener itself is well.
fn is_about_the_peer(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(e.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        tracing::error!("a connection's task panicked");
    }
}
