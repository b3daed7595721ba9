//! What the face knows of the tools before it, for the headers that mirror a call's arguments; and the second try of a
//! call that the server refused because of these headers. Invariant: a call is tried again only where the server's
//! refusal says that it did not run, and only once.

use std::sync::Arc;

use super::{
    Core,
    inner::Opened,
    request::{Call, Retry},
};
use crate::{
    mcp::{
        json::{self, number},
        tools::Tool,
    },
    upstream::{BoxFuture, UpstreamError, aggregate::Aggregate, catalog::Catalog},
};

/// The header does not tell the body's story (26, streamable HTTP, "Server Validation").
const HEADER_MISMATCH: &str = "-32020";

/// The tools of a wrapped upstream.
pub trait Tools: Send + Sync {
    /// A tool as last listed.
    fn find(&self, name: &str) -> Option<Arc<Tool>>;
    /// Another number as soon as the tools are other ones.
    fn version(&self) -> u64;
    /// Has the tools listed again; whether they are others than at `version` by now.
    fn relisted(&self, version: u64) -> BoxFuture<'_, bool>;
}

impl Tools for Arc<Catalog> {
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools().get(name).cloned()
    }

    fn version(&self) -> u64 {
        self.offers_version()
    }

    fn relisted(&self, version: u64) -> BoxFuture<'_, bool> {
        Box::pin(Catalog::relisted(self, version))
    }
}

/// It tries such calls again by itself.
impl Tools for Aggregate {
    fn find(&self, name: &str) -> Option<Arc<Tool>> {
        self.tools().get(name).cloned()
    }

    fn version(&self) -> u64 {
        0
    }

    fn relisted(&self, _version: u64) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(false))
    }
}

impl Core {
    /// Sends a call, and once more if the server refused its mirrored headers and lists its tools otherwise than
    /// known. With the number of what was sent last.
    pub(super) async fn send_call(&self, call: &Call, retry: &Retry) -> Result<(Opened, u64), UpstreamError> {
        let version = self.tools.version();
        let sent = self.send_once(call, retry).await?;
        let stale = call.method == "tools/call" && is_mismatch(&sent.0) && self.tools.relisted(version).await;
        if stale { self.send_once(call, retry).await } else { Ok(sent) }
    }

    async fn send_once(&self, call: &Call, retry: &Retry) -> Result<(Opened, u64), UpstreamError> {
        let number = self.number();
        Ok((self.send(call.modern(self, number, retry)).await?, number))
    }
}

fn is_mismatch(opened: &Opened) -> bool {
    let Opened::Whole(_, message) = opened else { return false };
    let code = json::parse(message).ok().and_then(|m| m.get("error")?.get("code"));
    code.is_some_and(|code| number::equal(code.text(), HEADER_MISMATCH))
}
