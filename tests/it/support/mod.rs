//! What the tests are built from: certificates, a listener with a handler, byte-level clients and
//! byte-level upstreams.

pub(crate) mod asking;
pub(crate) mod certs;
pub(crate) mod children;
pub(crate) mod fake;
pub(crate) mod free;
pub(crate) mod gate;
pub(crate) mod process;
pub(crate) mod raw;
pub(crate) mod recorder;
pub(crate) mod server;

use std::{future::Future, time::Duration};

/// Far longer than anything here takes; only a hang reaches it.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// Fails the test instead of hanging it.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, future).await.unwrap_or_else(|_| panic!("{what}: still waiting"))
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
