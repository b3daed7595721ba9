//! The accept loop that upstream, pass-through and sink share: one task for each connection, Nagle off.
//! Ends the process when its standard input closes, so that no child outlives the benchmark.

use std::{future::Future, io::Read, thread};

use tokio::net::{TcpListener, TcpStream};

use crate::Res;

/// Listens on a free loopback port, prints the address, and spawns `handle` for each connection.
pub(crate) fn run<F, T>(handle: F) -> Res<()>
where
    F: Fn(TcpStream) -> T + Send + 'static,
    T: Future<Output = ()> + Send + 'static,
{
    end_with_stdin();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        // On a worker, as the connections are: a task woken from outside the pool costs a lock.
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if stream.set_nodelay(true).is_ok() {
                    tokio::spawn(handle(stream));
                }
            }
        })
        .await?;
        Ok(())
    })
}

fn end_with_stdin() {
    thread::spawn(|| {
        let mut stdin = std::io::stdin();
        while matches!(stdin.read(&mut [0; 64]), Ok(n) if n > 0) {}
        std::process::exit(0);
    });
}
