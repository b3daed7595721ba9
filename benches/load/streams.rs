//! The role that opens many idle streams and holds them.

use std::net::SocketAddr;

use crate::{Res, bodies, client::Client, serve};

/// Opens `count` streams, one after another, each up to its first event; then holds them until standard
/// input closes. Says that it is ready by printing an address, as every role does.
pub(crate) fn run(address: SocketAddr, count: usize) -> Res<()> {
    let request = bodies::open_stream();
    let mut held = Vec::with_capacity(count);
    for opened in 0..count {
        let mut client = Client::connect(address)?;
        client.open_stream(&request).map_err(|error| format!("stream {opened}: {error}"))?;
        held.push(client);
    }
    serve::run(|_| async {})
}
