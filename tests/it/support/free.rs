//! Addresses where nobody listens, which no other test is given until this process ends: a listener that was bound and
//! dropped leaves its port to whoever asks next.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use tokio::net::TcpSocket;

static HELD: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());

/// Connections to it are refused. A listener may take it: listeners reuse addresses.
pub(crate) fn free() -> SocketAddr {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let addr = socket.local_addr().expect("bound");
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    addr
}
