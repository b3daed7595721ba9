//! An upstream that does exactly what a test scripts, byte by byte, and remembers what it was sent.

use std::{
    future::Future,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::net::{TcpListener, TcpStream};

use super::raw::Raw;

/// A scripted upstream.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Runs `script` for each connection, with the connection's number from 0.
    pub(crate) async fn start<F, R>(script: F) -> Self
    where
        F: Fn(Raw<TcpStream>, usize) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                io.set_nodelay(true).unwrap();
                tokio::spawn(script(Raw::over(io), count.fetch_add(1, Ordering::SeqCst)));
            }
        });
        Self { addr, connections }
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}
