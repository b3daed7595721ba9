//! Everything that can answer an MCP call. Owns the one trait; each kind of upstream is a module.

pub mod aggregate;
mod backoff;
pub mod bounded;
pub mod builtin;
pub mod catalog;
pub(crate) mod credentials;
mod holding;
pub mod http;
pub mod http_sse;
pub mod legacy;
pub mod named;
mod pace;
mod refusal;
pub mod replicas;
pub mod seat;
mod shown;
pub mod stdio;
pub(crate) mod tls;
mod written;

use std::{error::Error, future::Future, pin::Pin, sync::Arc, time::Duration};

use ::http::{Request, Response, uri::PathAndQuery};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::Value;
use tokio::sync::watch;

use crate::{config, policy::budget::Wallet};

/// A boxed, sendable future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Any error that a body can end with.
pub type BodyError = Box<dyn Error + Send + Sync>;
/// The streamed body of an answer.
pub type ResponseBody = UnsyncBoxBody<Bytes, BodyError>;

/// Something that answers MCP calls: a remote server, a child process, the built-in tools, later a set of
/// upstreams shown as one. Timeouts, retries, limits and audit lie outside, in the pipeline.
pub trait Upstream: Send + Sync {
    /// Sends one call. The request's URI path and query are ignored by upstreams with a configured URL
    /// unless it carries [`ForwardPath`]. Resolves at the response head; the body streams.
    /// Dropping the future or the body ends the call at the upstream.
    fn call(&self, call: Request<Bytes>) -> BoxFuture<'_, Result<Response<ResponseBody>, UpstreamError>>;

    /// The servers that it is, if it is several: each of them may tell of changes.
    fn replicas(&self) -> Vec<Arc<dyn Upstream>> {
        Vec::new()
    }

    /// Whether it runs only while somebody uses it, so that asking it for news would keep it running.
    fn sleeps(&self) -> bool {
        false
    }
}

/// Request extension: forward to this path and query on the upstream's own authority instead of its
/// configured URL. Used for the well-known OAuth paths in pass-through mode.
#[derive(Debug, Clone)]
pub struct ForwardPath(pub PathAndQuery);

/// Response extension of `initialize`: all that the server says in the session comes on one stream, so that nothing
/// tells which of several calls it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneStream {
    /// Another session is another process.
    pub is_process: bool,
}

/// Response extension of `subscriptions/listen`: what its notices have told so far of the lists of tools, prompts and
/// resources.
#[derive(Debug, Clone)]
pub struct Told(pub watch::Receiver<ListsTold>);

/// Of each list, what a client has been told.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListsTold {
    /// Digests of the lists as last told of, or as they were at the acknowledgement. Equal if nothing changed.
    pub digests: [u64; 3],
    /// Notices that the stream has sent, or is about to.
    pub notices: [u32; 3],
}

/// Request extension: which of its sessions with the gateway a client calls in, where it has sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientSession(pub [u64; 2]);

/// Request extension: for whom a call is made. Upstreams outside the process never see it.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who it is: the key's name, else `local`.
    pub name: Arc<str>,
    /// Whose memory, references and budget: the key's team, else its name, else `local`.
    pub tenant: Arc<str>,
    /// Whether text that it sends inline has cost a model nothing.
    pub program: bool,
    /// What of its tenant's memory it may reach.
    pub memory: Arc<[config::MemoryScope]>,
    /// Whether pages that it fetches go into its tenant's search index.
    pub index_fetches: bool,
    /// How a tool calls another one; without it, directly.
    pub nested: Option<Arc<dyn Nested>>,
    /// The budget that it draws on, if it has one.
    pub wallet: Option<Wallet>,
    /// Tokens of it that are held for this call.
    pub held: u64,
}

/// Calls that a tool makes for its caller: the gateway checks, limits and records them like any other.
pub trait Nested: Send + Sync + std::fmt::Debug {
    /// Calls a tool of the same upstream. Gives its structured result, or the error object of a failed one.
    fn call(
        self: Arc<Self>,
        tool: &'static str,
        arguments: Value,
    ) -> BoxFuture<'static, Result<Value, Value>>;
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            name: LOCAL.into(),
            tenant: LOCAL.into(),
            program: false,
            memory: Arc::new([config::MemoryScope { namespace: None, write: true }]),
            index_fetches: false,
            nested: None,
            wallet: None,
            held: 0,
        }
    }
}

/// The tenant of calls without a key.
pub const LOCAL: &str = "local";

/// Why an upstream gave no usable answer.
#[derive(Debug)]
pub enum UpstreamError {
    /// No connection: refused, unresolvable, TLS failure, connect timeout. Nothing was sent.
    Connect(BodyError),
    /// The connection broke after bytes may have been sent, or the answer is not HTTP.
    Protocol(BodyError),
    /// It answered with a redirect that may not be followed. The text names the status and, if it led
    /// away, the other authority.
    Redirect(String),
    /// One of several behind the endpoint gave no response head in this time.
    Timeout(Duration),
    /// The call had not ended when its longest time was over.
    TooLong(Duration),
    /// One of several behind the endpoint is left alone for now. Nothing was sent.
    Unavailable {
        /// Which, and why.
        why: String,
        /// When to try again.
        retry_after: Duration,
    },
}

impl std::fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, cause) = match self {
            Self::Connect(e) => ("cannot connect", e),
            Self::Protocol(e) => ("the connection broke off", e),
            Self::TooLong(limit) => return write!(f, "no end within {limit:?}"),
            Self::Timeout(limit) => return write!(f, "no response head within {limit:?}"),
            Self::Unavailable { why, .. } => return write!(f, "{why}"),
            Self::Redirect(why) => return write!(f, "redirect not followed: {why}"),
        };
        write!(f, "{what}: {cause}")?;
        let mut source = cause.source();
        while let Some(e) = source {
            write!(f, ": {e}")?;
            source = e.source();
        }
        Ok(())
    }
}

impl Error for UpstreamError {}
