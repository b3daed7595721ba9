//! One audit entry, as the pipeline fills it in. Owns the field names' meaning, not their encoding
//! (`journal` owns the JSON line, `otlp` the span attributes).

use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::mcp::era::Era;
pub use crate::mcp::normalize::Edit;

/// How a call ended, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Answered with a result.
    Ok,
    /// Answered with a result whose `isError` is true.
    ToolError,
    /// Answered by the upstream with a JSON-RPC error.
    RpcError,
    /// Refused by the gateway; it reached no upstream.
    Rejected,
    /// The upstream could not be reached, timed out, broke off or answered something that is not MCP.
    UpstreamFailed,
    /// The client left before the answer was complete.
    ClientClosed,
    /// Ended by the gateway's own shutdown.
    Drained,
    /// A fault of the gateway.
    Panicked,
}

impl Outcome {
    /// Each of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::Ok,
        Self::ToolError,
        Self::RpcError,
        Self::Rejected,
        Self::UpstreamFailed,
        Self::ClientClosed,
        Self::Drained,
        Self::Panicked,
    ];

    /// The name used in records and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::RpcError => "rpc_error",
            Self::Rejected => "rejected",
            Self::UpstreamFailed => "upstream_failed",
            Self::ClientClosed => "client_closed",
            Self::Drained => "drained",
            Self::Panicked => "panicked",
        }
    }
}

/// Who called: what the client says of itself, and where it came from.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// `clientInfo.name`, unverified, bounded to 128 bytes.
    pub name: Option<Arc<str>>,
    /// `clientInfo.version`, unverified, bounded to 64 bytes.
    pub version: Option<Arc<str>>,
    /// The peer's address.
    pub address: Option<SocketAddr>,
}

impl Client {
    /// The address without its port, as records show it.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.address.map(|a| a.ip())
    }
}

/// What is kept of a payload (`arguments` or `result`), decided by `audit.capture`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing: there was no such payload, or `capture = "none"`.
    #[default]
    None,
    /// `capture = "hash"`: SHA-256 over the payload's bytes.
    Hash([u8; 32]),
    /// `capture = "redacted"` or `"full"`: the bytes too, not yet masked. Masking is the recorder's duty.
    Kept {
        /// SHA-256 over all the payload's bytes, kept or not.
        sha256: [u8; 32],
        /// JSON text; cut when `truncated`.
        bytes: Vec<u8>,
        /// True when the payload was longer than what is kept.
        truncated: bool,
        /// `capture = "full"`: it is shown as it is.
        full: bool,
    },
}

/// The message as it was received: what `smartgate replay` runs again. Kept under `capture = "full"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Path of the request.
    pub path: String,
    /// The headers that decide over a message; no credentials, no session.
    pub headers: Vec<(String, String)>,
    /// The body, whole; `None` if it is too long to be kept or is no UTF-8.
    pub body: Option<String>,
    /// Whether credentials of the gateway were masked in it.
    pub masked: bool,
    /// SHA-256 of the body that went out for it; `None` if none did.
    pub forwarded: Option<[u8; 32]>,
    /// Whether it is not known yet if the message may be kept; then it is not.
    pub undecided: bool,
}

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// `error.data.reason` for our own refusals; `None` for an upstream's error.
    pub reason: Option<&'static str>,
    /// The JSON-RPC error code sent to the client, if any.
    pub code: Option<i64>,
    /// The message, bounded to 512 bytes. Never holds a secret.
    pub message: String,
}

/// One try at one upstream: a CLIENT span.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Span id, sent upstream as the parent.
    pub span_id: [u8; 8],
    /// When the try began.
    pub start: SystemTime,
    /// From the start to the end of the answer, or to the failure.
    pub duration: Duration,
    /// Host of the upstream.
    pub server_address: Arc<str>,
    /// Port of the upstream; 0 where there is none (built in).
    pub server_port: u16,
    /// HTTP status it gave, if it gave one.
    pub status: Option<u16>,
    /// `error.type` of the try: a JSON-RPC code, `tool_error`, `timeout`, `connect`, ...
    pub error_type: Option<String>,
}

/// Sizes of a call in o200k tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Size of the material worked on.
    pub input: u64,
    /// Size of the result.
    pub output: u64,
    /// What never entered the caller's context.
    pub saved: u64,
}

/// One finished call. Everything unknown is `None` and written as null.
#[derive(Debug, Clone)]
pub struct Record {
    /// When the request head arrived.
    pub time: SystemTime,
    /// From then to the end of the response.
    pub duration: Duration,
    /// W3C trace id: the caller's, or a new one.
    pub trace_id: [u8; 16],
    /// The SERVER span's id.
    pub span_id: [u8; 8],
    /// The caller's span, if it sent a valid `traceparent`.
    pub parent_id: Option<[u8; 8]>,
    /// The caller's `tracestate`, if it came with a valid `traceparent`.
    pub trace_state: Option<String>,
    /// The HTTP context when `_meta` named another one: linked, not parent.
    pub link: Option<([u8; 16], [u8; 8])>,
    /// Whom the key stands for; `None` before authentication succeeded.
    pub principal: Option<Arc<str>>,
    /// Who called.
    pub client: Client,
    /// Era of the message; `None` when it was refused before classification.
    pub era: Option<Era>,
    /// Revision that the client spoke.
    pub protocol_version: Option<String>,
    /// Whether eras were translated.
    pub bridged: bool,
    /// Revision spoken to the upstream.
    pub upstream_version: Option<String>,
    /// Hash of the legacy session id.
    pub session: Option<String>,
    /// JSON-RPC method after repair, or the HTTP method for GET and DELETE.
    pub method: Option<String>,
    /// The id's JSON text.
    pub request_id: Option<String>,
    /// Name of the upstream.
    pub upstream: Option<Arc<str>>,
    /// Public tool name of a `tools/call`.
    pub tool: Option<String>,
    /// Prompt name of a `prompts/get`, for the span only.
    pub prompt: Option<String>,
    /// Resource URI of a `resources/*` call, for the span only.
    pub resource: Option<String>,
    /// The method as received.
    pub original_method: Option<String>,
    /// Names of the rules that fired, in order.
    pub normalized: Vec<&'static str>,
    /// Whether a repair threw values away.
    pub lossy: bool,
    /// Repairs inside the arguments.
    pub edits: Vec<Edit>,
    /// In shadow mode: the rules that would have fired.
    pub shadow: Option<Vec<&'static str>>,
    /// How it ended.
    pub outcome: Outcome,
    /// HTTP status sent to the client; `None` if it left before one was sent.
    pub status: Option<u16>,
    /// Why it failed.
    pub error: Option<Failure>,
    /// Tries, in order. `upstream_ms` in the journal is their sum.
    pub attempts: Vec<Attempt>,
    /// Body bytes received.
    pub request_bytes: u64,
    /// Body bytes sent.
    pub response_bytes: u64,
    /// What is kept of the arguments forwarded.
    pub arguments: Payload,
    /// What is kept of the result.
    pub result: Payload,
    /// The message as it was received, if that is kept.
    pub received: Option<Received>,
    /// Where the tool is built in or a budget applies: what it worked on and gave back.
    pub tokens: Option<Tokens>,
    /// `1.1` or `2`.
    pub http_version: &'static str,
}

impl Record {
    /// The JSON-RPC method, if there was one: records of what was not a message name the HTTP method instead.
    #[must_use]
    pub fn mcp_method(&self) -> Option<&str> {
        self.method.as_deref().filter(|m| !is_http(m))
    }

    /// The HTTP method, where there was no JSON-RPC one.
    #[must_use]
    pub fn http_method(&self) -> Option<&str> {
        self.method.as_deref().filter(|m| is_http(m))
    }

    /// `error.type` of the call: an upstream's JSON-RPC code, `tool_error`, or the class of our own failure;
    /// `None` for a call that ended well.
    #[must_use]
    pub fn error_type(&self) -> Option<Cow<'_, str>> {
        let failure = self.error.as_ref();
        match self.outcome {
            Outcome::Ok => None,
            Outcome::ToolError => Some(Outcome::ToolError.as_str().into()),
            Outcome::RpcError => match failure.and_then(|f| f.code) {
                Some(code) => Some(code.to_string().into()),
                None => Some(Outcome::RpcError.as_str().into()),
            },
            other => Some(failure.and_then(|f| f.reason).unwrap_or(other.as_str()).into()),
        }
    }

    /// Roughly how many bytes the record keeps in memory while it waits.
    #[must_use]
    pub(crate) fn weight(&self) -> u64 {
        let payload = |p: &Payload| match p {
            Payload::Kept { bytes, .. } => bytes.len(),
            Payload::None | Payload::Hash(_) => 0,
        };
        let received = self.received.as_ref().and_then(|r| r.body.as_ref()).map_or(0, String::len);
        let edits = self.edits.len() * size_of::<Edit>();
        let attempts = self.attempts.len() * size_of::<Attempt>();
        let total = size_of::<Self>()
            + payload(&self.arguments)
            + payload(&self.result)
            + received
            + edits
            + attempts;
        u64::try_from(total).unwrap_or(u64::MAX)
    }
}

/// HTTP methods are in capitals (RFC 9110 section 9.1), MCP's are not.
fn is_http(method: &str) -> bool {
    !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase())
}
