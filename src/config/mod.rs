//! The checked configuration: what the rest of the program reads. `file` owns what the user wrote,
//! `check` turns it into this or into a list of problems. Every secret is resolved (`env:`, `file:`) here.

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A whole checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// `[auth] mode`
    pub auth: AuthMode,
    /// `[[keys]]`, in file order.
    pub keys: Vec<Key>,
    /// `[limits]`
    pub limits: Limits,
    /// `[upstreams.NAME]`, in file order; never empty (the built-in one by default).
    pub upstreams: Vec<Upstream>,
    /// `aggregate.separator`: between a prefix and a name.
    pub separator: String,
    /// `sealing.keys`, the newest first; empty for one of this process alone.
    pub sealing: Vec<Secret>,
    /// `[normalize]`
    pub normalize: Normalize,
    /// `[audit]`
    pub audit: Audit,
    /// `[telemetry]`
    pub telemetry: Telemetry,
    /// `[storage]`
    pub storage: Storage,
}

impl Config {
    /// Calls that an upstream may have in flight.
    #[must_use]
    pub fn places(&self, upstream: &Upstream) -> usize {
        let alone = self.upstreams.len() == 1;
        upstream.show.concurrency.unwrap_or(if alone { usize::MAX } else { file::CONCURRENT })
    }
}

/// `[storage]`: memory, references, budgets and the search index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The SQLite file; `None` keeps everything in memory.
    pub path: Option<PathBuf>,
    /// Its largest size, in bytes.
    pub quota: u64,
}

/// `[server]`: the MCP listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Endpoint path, without a trailing slash.
    pub path: String,
    /// Largest request body, in bytes.
    pub max_body: usize,
    /// Origins allowed beside loopback ones on a loopback listener; `*` allows any.
    pub allowed_origins: Vec<String>,
    /// Host names allowed; empty means loopback names on a loopback listener and any otherwise; `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Time for a request head to arrive; also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// Time for a request body to arrive.
    pub body_timeout: Duration,
    /// How long calls in flight may go on after SIGTERM.
    pub drain: Duration,
    /// TLS, if set.
    pub tls: Option<ServerTls>,
}

/// Files of the TLS listener; read again when their bytes change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
    /// CA whose client certificates are required, PEM.
    pub client_ca: Option<PathBuf>,
}

/// `[admin]`: health, readiness, metrics and pages.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// What the pages ask for.
    pub key: Option<Secret>,
}

/// `[auth] mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMode {
    /// Bearer keys from `[[keys]]`.
    Keys,
    /// The client's `Authorization` goes to the one upstream untouched.
    Passthrough,
    /// Nobody is asked.
    None,
}

/// One `[[keys]]` entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Name shown in records.
    pub name: Arc<str>,
    /// SHA-256 of the secret.
    pub sha256: [u8; 32],
    /// Team; the tenant.
    pub team: Option<Arc<str>>,
    /// Public tool names it may call; last match wins.
    pub tools: Globs,
    /// Its own rate, or `limits.rate`.
    pub rate: Option<Rate>,
    /// Tokens it may use.
    pub budget: Option<Budget>,
    /// Who calls with it.
    pub caller: CallerKind,
    /// What of its tenant's memory it may reach.
    pub memory: Vec<MemoryScope>,
    /// Whether pages that it fetches go into its tenant's search index.
    pub index_fetches: bool,
    /// `schema_coercion` for this key alone.
    pub schema_coercion: Option<Coercion>,
    /// When it stops working.
    pub expires: Option<SystemTime>,
}

/// `keys.caller`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallerKind {
    /// A language model.
    #[default]
    Model,
    /// A program.
    Program,
}

/// One `memory:` scope of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryScope {
    /// The namespace; `None` is every one.
    pub namespace: Option<Arc<str>>,
    /// Whether it may store and forget, too.
    pub write: bool,
}

/// `keys.budget`: tokens in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// At least 1, at most `i64::MAX`.
    pub tokens: u64,
    /// When it begins anew.
    pub window: Window,
}

/// A calendar window, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// From midnight to midnight.
    Day,
    /// From the first of a month to the first of the next.
    Month,
}

/// `[limits]`
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// For each key, or client address; `None` is unlimited.
    pub rate: Option<Rate>,
    /// Glob over public tool names -> rate; one bucket for each key and glob.
    pub per_tool: Vec<(Globs, Rate)>,
    /// Calls in flight in the process.
    pub concurrency: usize,
    /// How a refusal of a `tools/call` looks.
    pub refusal: Refusal,
}

/// `limits.refusal`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// HTTP 429 with a JSON-RPC error.
    Http,
    /// HTTP 200 with an `isError` result, for `tools/call`.
    ToolError,
}

/// A rate: `count` requests per `per`, with a burst of one window's worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Requests, at least 1.
    pub count: u32,
    /// The window.
    pub per: Duration,
}

/// One `[upstreams.NAME]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// Its name: `[a-z0-9-]+`.
    pub name: Arc<str>,
    /// What answers.
    pub target: Target,
    /// Protocol revision fixed by the file; `None` is `auto`.
    pub protocol: Option<String>,
    /// Whether it speaks over HTTP+SSE, the transport of 2024-11-05.
    pub http_sse: bool,
    /// Prefix of public tool names, without separator; "" for none.
    pub prefix: String,
    /// Upstream tool names shown; last match wins.
    pub tools: Globs,
    /// Extra request headers; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// To the response head; not for GET or `subscriptions/listen`.
    pub timeout: Duration,
    /// Between bytes of a response; not for GET or `subscriptions/listen`.
    pub idle_timeout: Duration,
    /// Of a whole call; not for GET or `subscriptions/listen`.
    pub max_total_timeout: Duration,
    /// For a client to answer a question of the server, where the call is translated.
    pub answer_within: Duration,
    /// To a connection.
    pub connect_timeout: Duration,
    /// Further tries after the first.
    pub retries: u32,
    /// `schema_coercion` for this upstream alone.
    pub schema_coercion: Option<Coercion>,
    /// TLS to the upstream.
    pub tls: UpstreamTls,
    /// Settings of the built-in tools; they mean nothing to another upstream.
    pub smart: Smart,
    /// How it is shown.
    pub show: Show,
}

/// Settings of the built-in tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Smart {
    /// `fetch`
    pub fetch: Fetch,
    /// `search.engines`, by name; empty means the one named `local`.
    pub engines: Vec<Engine>,
}

/// `upstreams.NAME.fetch`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Whether addresses that are not public may be fetched from.
    pub allow_private: bool,
    /// Ports beside 80 and 443.
    pub ports: Vec<u16>,
    /// Whether `robots.txt` is obeyed.
    pub robots: bool,
}

impl Default for Fetch {
    fn default() -> Self {
        Self { allow_private: false, ports: Vec::new(), robots: true }
    }
}

/// `upstreams.NAME.search.engines.NAME`
#[derive(Debug, Clone, PartialEq)]
pub struct Engine {
    /// Its name.
    pub name: Arc<str>,
    /// What it speaks.
    pub kind: EngineKind,
    /// Where it is, if not at its public address.
    pub url: Option<http::Uri>,
    /// Its API key.
    pub key: Option<Secret>,
    /// How much its ranking counts; above 0.
    pub weight: f64,
}

/// `upstreams.NAME.search.engines.NAME.kind`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// A SearXNG instance.
    Searxng,
    /// Brave Search API.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// The index in the storage.
    Local,
}

/// What an upstream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A server over streamable HTTP.
    Http(http::Uri),
    /// Replicas of one, at least two, that differ in their authority alone.
    Replicas(Vec<http::Uri>),
    /// A child process that speaks over its standard input and output.
    Command(Command),
    /// The tools inside this process.
    Builtin,
    /// All upstreams as one. No file says so: it is what the endpoint means where there are several.
    All,
}

/// `command` of an upstream, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name that is looked for in `PATH`.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables; values are secrets.
    pub env: BTreeMap<String, Secret>,
    /// The folder that it runs in, if not the gateway's.
    pub cwd: Option<PathBuf>,
    /// Whether one process is started with the gateway and kept ready.
    pub at_once: bool,
    /// Time without calls after which a process is stopped; `None` is never.
    pub idle_stop: Option<Duration>,
    /// Whether all clients use one process; else each session has its own.
    pub shared: bool,
}

impl Command {
    /// The program's name without its folder.
    #[must_use]
    pub fn name(&self) -> std::borrow::Cow<'_, str> {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy()
    }
}

/// `tls = { ca, cert, key }` of an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// A private CA beside the system's roots, PEM.
    pub ca: Option<PathBuf>,
    /// Client certificate chain, PEM.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
}

/// `[normalize]`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Normalize {
    /// Rules 2, 4 and 8 (envelope, params, cursor).
    pub params: bool,
    /// Rules 5 and 7.
    pub arguments: bool,
    /// Rule 3.
    pub direct_tool_method: bool,
    /// Rule 6.
    pub fill_arguments: bool,
    /// Rule 9.
    pub schema_coercion: Coercion,
    /// Record what would be done, forward the original.
    pub shadow: bool,
}

/// `schema_coercion`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coercion {
    /// Nothing.
    Off,
    /// Only what the schema refuses and has one reading.
    #[default]
    Safe,
    /// More, see the documentation.
    Full,
}

/// `[audit]`
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    /// The journal file.
    pub journal: Journal,
    /// What is kept of arguments and results.
    pub capture: Capture,
    /// The same for tools whose public names match, in file order; the last match wins.
    pub capture_tools: Vec<(Globs, Capture)>,
    /// Name globs of members and headers that are masked.
    pub redact: Globs,
    /// PKCS#8 or seed of the Ed25519 key that signs checkpoints.
    pub signing_key: Option<Secret>,
    /// Longest time from a record to the checkpoint after it; zero makes none.
    pub checkpoint: Duration,
}

impl Audit {
    /// What is kept of the payloads of a tool's call, or of another message.
    #[must_use]
    pub fn capture_of(&self, tool: Option<&str>) -> Capture {
        let own = tool.and_then(|t| self.capture_tools.iter().rev().find(|(globs, _)| globs.matches(t)));
        own.map_or(self.capture, |(_, capture)| *capture)
    }
}

/// `audit.journal`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Path of the current segment.
    pub path: PathBuf,
    /// Longest time between a write and its `fdatasync`; zero syncs every batch.
    pub fsync: Duration,
    /// Segment size in bytes at which a new one is begun.
    pub rotate: u64,
    /// Old segments kept.
    pub keep: usize,
    /// Age at which the newest record of an old segment lets it be removed.
    pub keep_age: Option<Duration>,
    /// Bytes that all segments together may have.
    pub keep_bytes: Option<u64>,
    /// Whether calls are refused while it cannot be written.
    pub deny_on_error: bool,
}

/// `audit.capture`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Nothing.
    None,
    /// SHA-256.
    Hash,
    /// The payload, masked by `redact`.
    Redacted,
    /// The payload; only our own credentials are masked.
    Full,
}

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq)]
pub struct Telemetry {
    /// Where spans, metrics and logs go; `None` leaves it to `OTEL_EXPORTER_OTLP_ENDPOINT`, and exports nothing without that.
    pub otlp: Option<String>,
    /// gRPC, or HTTP with protobuf; `None` leaves it to `OTEL_EXPORTER_OTLP_PROTOCOL`, else to the port.
    pub protocol: Option<OtlpProtocol>,
    /// Extra export headers; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// `service.name`; `None` leaves it to `OTEL_SERVICE_NAME`, else `smartgate`.
    pub service_name: Option<String>,
    /// Whether metrics go there too.
    pub metrics: bool,
    /// Whether audit records and the process's warnings go there as log records.
    pub logs: bool,
}

/// `telemetry.protocol`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `grpc`
    Grpc,
    /// `http/protobuf`
    HttpProtobuf,
}

/// A secret value. `Debug` and `Display` never show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a resolved secret.
    #[must_use]
    pub fn new(value: &str) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Longest name of a key or a team, in characters: it is a column of records and a label of metrics.
const NAME_MAX: usize = 64;

/// Whether this is a usable name of a key or a team.
///
/// # Errors
/// What is wrong with it, as the end of a sentence that starts with what is named.
pub fn key_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Err(format!("must have 1 to {NAME_MAX} characters"));
    }
    if name.trim() != name || name.chars().any(char::is_control) {
        return Err("must have no control characters and no blanks at its ends".into());
    }
    Ok(())
}

/// Whether this is an `http` or `https` URL as the configuration wants them.
///
/// # Errors
/// What is wrong with it, as the end of a sentence; never the URL, which may hold a password.
pub fn http_url(text: &str) -> Result<(), String> {
    check::http_url(text).map(drop)
}

pub use crate::glob::Globs;
pub use load::{
    CliOverrides, Loaded, Source, default_journal, default_with, from_str, load, load_with, state_dir,
};
pub use problem::{Problem, Problems};
pub use schema::schema;
pub use show::{Rename, Show};

mod check;
#[cfg(test)]
mod docs;
mod file;
mod later;
mod load;
mod problem;
mod schema;
mod shape;
mod show;
#[cfg(test)]
mod tests;
mod text;
