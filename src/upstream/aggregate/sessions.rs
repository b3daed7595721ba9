//! The sessions that legacy members have for one client's session: opened with it where its id can name them, ended with
//! it, and told to the member that a request goes to.
//!
//! Invariant: a member that hangs costs `initialize` no more than [`WAIT`]; its session is opened by the first call then.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Extensions, Method, Request, request::Parts};
use tokio::{task::JoinSet, time::timeout};

use super::{Core, Member};
use crate::{
    bridge::hops::Hops,
    mcp::era::Era,
    upstream::{
        catalog::State,
        named::{Named, Openings},
    },
};

/// How long `initialize` waits for members.
const WAIT: Duration = Duration::from_secs(1);

impl Member {
    /// Whether there is a session to open at once that other processes can go on with.
    fn opens_early(&self) -> bool {
        self.travels
            && self.catalog.era() == Some(Era::Legacy)
            && self.seat.breaker() == "closed"
            && !matches!(self.catalog.state(), State::Unreachable { .. })
    }

    /// Tells a request to this member of its own session alone.
    pub(super) fn mark(&self, extensions: &mut Extensions) {
        if let Some(here) = extensions.remove::<Arc<Named>>().and_then(|named| named.at(&self.name)) {
            extensions.insert(here);
        }
    }
}

/// Opens sessions for a client that asks for them with `server/discover`, all at the same time.
pub(super) async fn open(core: &Core, head: &Parts, body: &Bytes) {
    let Some(openings) = head.extensions.get::<Openings>() else { return };
    let mut opening = JoinSet::new();
    for member in core.members.iter().filter(|m| m.opens_early()) {
        let mut request = to_member(head, Method::POST, body.clone());
        request.extensions_mut().remove::<Openings>();
        request.extensions_mut().insert(openings.at(&member.name));
        let upstream = Arc::clone(&member.upstream);
        opening.spawn(async move { drop(upstream.call(request).await) });
    }
    let all = async { while opening.join_next().await.is_some() {} };
    if timeout(WAIT, all).await.is_err() {
        // A late session is used by this process all the same.
        opening.detach_all();
    }
}

/// Ends the sessions of a client's session.
pub(super) async fn end(core: &Core, head: &Parts) {
    for member in core.members.iter().filter(|m| m.catalog.era() == Some(Era::Legacy)) {
        let mut request = to_member(head, Method::DELETE, Bytes::new());
        member.mark(request.extensions_mut());
        // The adapter says goodbye by itself, and does not wait for the server.
        drop(member.upstream.call(request).await);
    }
}

/// Neither of them is the client's call, so the record does not tell of them.
fn to_member(head: &Parts, method: Method, body: Bytes) -> Request<Bytes> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.headers_mut() = head.headers.clone();
    *request.extensions_mut() = head.extensions.clone();
    request.extensions_mut().remove::<Hops>();
    request
}
