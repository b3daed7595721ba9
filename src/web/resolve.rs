//! The resolver inside the connector. Owns the check between a name and the connection to it.
//!
//! Invariant: what it returns is what gets connected to, and all of that has been checked; a name that changes its
//! addresses in between (DNS rebinding) gains nothing.

use std::{
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    vec,
};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

use super::address;

/// Why a name gave no address to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookupError {
    /// It has none.
    NoAddress,
    /// It has only such as are not public.
    NotPublic,
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "the name has no address",
            Self::NotPublic => "the name has no public address",
        })
    }
}

impl std::error::Error for LookupError {}

/// Names of a test, by which servers on loopback stand for public ones.
#[cfg(test)]
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// Let through as if they were public.
    pub(crate) public: Vec<(&'static str, SocketAddr)>,
    /// Checked like answers of the system's resolver.
    pub(crate) checked: Vec<(&'static str, Vec<SocketAddr>)>,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Resolver {
    pub(super) allow_private: bool,
    #[cfg(test)]
    pub(super) table: Table,
}

impl Resolver {
    pub(super) fn new(allow_private: bool) -> Self {
        Self {
            allow_private,
            #[cfg(test)]
            table: Table::default(),
        }
    }

    async fn resolve(self, name: Name) -> Result<vec::IntoIter<SocketAddr>, LookupError> {
        #[cfg(test)]
        if let Some((_, address)) = self.table.public.iter().find(|(known, _)| *known == name.as_str()) {
            return Ok(vec![*address].into_iter());
        }
        let mut found = self.look_up(name.as_str()).await.map_err(|_| LookupError::NoAddress)?;
        if found.is_empty() {
            return Err(LookupError::NoAddress);
        }
        if !self.allow_private {
            found.retain(|address| address::is_public(address.ip()));
        }
        if found.is_empty() { Err(LookupError::NotPublic) } else { Ok(found.into_iter()) }
    }

    async fn look_up(&self, name: &str) -> io::Result<Vec<SocketAddr>> {
        #[cfg(test)]
        if let Some((_, addresses)) = self.table.checked.iter().find(|(known, _)| *known == name) {
            return Ok(addresses.clone());
        }
        // The port is the connector's business.
        Ok(tokio::net::lookup_host((name, 0)).await?.collect())
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = LookupError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LookupError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LookupError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        Box::pin(self.clone().resolve(name))
    }
}
