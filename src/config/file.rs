//! The configuration file as written: every key with its meaning, which is also what the JSON Schema and
//! `docs/configuration.md` say, and every default as a named constant with its reason. Nothing is
//! checked or resolved here; `check` does that.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::text::{
    AddressText, AgeText, AnyValue, At, BudgetText, DateTime, DurationText, GlobText, IdleText, LimitText,
    PathText, RateText, SecretText, Sha256Text, SizeText, UrlText, UrlsText,
};

/// Loopback, so that a first run is reachable from this machine only.
pub(super) const LISTEN: &str = "127.0.0.1:8787";
/// The path that most MCP servers use.
pub(super) const PATH: &str = "/mcp";
/// Far above real calls, which are a few KiB, and small enough to hold many bodies in memory.
pub(super) const MAX_BODY: &str = "4MiB";
/// A head is a few hundred bytes; this stops slow-header attacks and idle connections.
pub(super) const HEADER_TIMEOUT: &str = "10s";
/// Enough for `max_body` over a mobile link.
pub(super) const BODY_TIMEOUT: &str = "30s";
/// Below Kubernetes' 30 s between SIGTERM and SIGKILL.
pub(super) const DRAIN: &str = "20s";
/// A port of its own and loopback: metrics are nobody else's business.
pub(super) const ADMIN_LISTEN: &str = "127.0.0.1:9787";
/// Above what a person with an agent needs, low enough to stop a loop.
pub(super) const RATE: &str = "120/min";
/// Calls in flight; each holds a body and an upstream connection.
pub(super) const CONCURRENCY: u32 = 256;
/// HTTP's own way; hosts that hide HTTP errors from the model can choose `tool_error`.
pub(super) const REFUSAL: &str = "http";
/// Between a prefix and a name; no name of an upstream has it.
pub(super) const SEPARATOR: &str = "__";
/// A quarter of `limits.concurrency`: one server that hangs leaves room for the others.
pub(super) const CONCURRENT: usize = 64;
/// Negotiated between client and server, as without a gateway.
pub(super) const PROTOCOL: &str = "auto";
/// Tools may think for a while before their first byte.
pub(super) const TIMEOUT: &str = "60s";
/// Long-running tools send progress or comments far more often.
pub(super) const IDLE_TIMEOUT: &str = "5m";
/// Beyond what any agent waits for; a tool that reports progress for ever ends there.
pub(super) const MAX_TOTAL_TIMEOUT: &str = "1h";
/// A person reads a form and fills it in; longer, and what a server holds open for it is wasted.
pub(super) const ANSWER_WITHIN: &str = "5m";
/// A neighbour answers in milliseconds, another continent well below this.
pub(super) const CONNECT_TIMEOUT: &str = "2s";
/// A process that nobody uses costs memory; it is there again with the next call.
pub(super) const START: &str = "demand";
/// Longer than a person thinks between two calls.
pub(super) const IDLE_STOP: &str = "10m";
/// As if each client had started it itself, which is what servers over stdio are written for.
pub(super) const SHARING: &str = "session";
/// One more try covers a pooled connection that the server had just closed.
pub(super) const RETRIES: u32 = 1;
/// Only what the schema refuses and has one reading is changed.
pub(super) const SCHEMA_COERCION: &str = "safe";
/// Beside the file, or in the state directory without one.
pub(super) const JOURNAL: &str = "audit.jsonl";
/// At most a second of records is lost when the process is killed or the machine fails; a call does not wait.
pub(super) const FSYNC: &str = "1s";
/// What came since could be cut off without a trace; a line every five minutes is little for that.
pub(super) const CHECKPOINT: &str = "5m";
/// A quarter of a million records or so; opens in an editor.
pub(super) const ROTATE: &str = "256MiB";
/// With `rotate`: about 2 GiB of history.
pub(super) const KEEP: u32 = 8;
/// A call that cannot be recorded is not made.
pub(super) const ON_ERROR: &str = "deny";
/// Proves what was sent without keeping it.
pub(super) const CAPTURE: &str = "hash";
/// Names under which secrets travel.
pub(super) const REDACT: [&str; 4] = ["authorization", "password", "*token*", "*secret*"];
/// `service.name` of the spans.
pub(super) const SERVICE_NAME: &str = "smartgate";
/// gRPC, as the usual collector port 4317 expects.
pub(super) const OTLP_PROTOCOL: &str = "grpc";
/// In-process stores are the only ones of this version.
pub(super) const STORE: &str = "local";
/// Memory, references and pages of a team for a month, with room.
pub(super) const QUOTA: &str = "1GiB";
/// Beside the file, or in the state directory without one.
pub(super) const STORAGE: &str = "smartgate.db";
/// What a key may reach: every tool, and its tenant's whole memory.
pub(super) const SCOPES: [&str; 2] = ["tools", "memory:*"];
/// All engines count the same.
pub(super) const WEIGHT: f64 = 1.0;
/// Who calls with a key: a model, unless told otherwise.
pub(super) const CALLER: &str = "model";

/// Configuration of SmartGate.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "SmartGate configuration")]
pub(super) struct File {
    /// The listener for MCP clients.
    #[serde(default)]
    pub(super) server: Server,
    /// The listener for health, readiness, metrics and the admin pages.
    #[serde(default)]
    pub(super) admin: Admin,
    /// Who may call.
    pub(super) auth: Option<At<Auth>>,
    /// Bearer keys; `smartgate key new NAME` makes one.
    #[serde(default)]
    pub(super) keys: Vec<At<Key>>,
    /// Rates and concurrency.
    #[serde(default)]
    pub(super) limits: Limits,
    /// Where memory, references, budgets and the search index are kept.
    #[serde(default)]
    pub(super) storage: Storage,
    /// The servers behind the gateway, by name (`[a-z0-9-]+`); without any, the built-in tools.
    #[serde(default)]
    pub(super) upstreams: BTreeMap<String, At<Upstream>>,
    /// Several upstreams shown as one.
    #[serde(default)]
    pub(super) aggregate: Aggregate,
    /// What session ids, cursors and states of calls are sealed with.
    #[serde(default)]
    pub(super) sealing: Sealing,
    /// Which broken requests are repaired.
    #[serde(default)]
    pub(super) normalize: Normalize,
    /// The record of every call.
    #[serde(default)]
    pub(super) audit: Audit,
    /// Export of spans over OTLP.
    #[serde(default)]
    pub(super) telemetry: Telemetry,
}

/// `[server]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// Address to listen on. One that is not loopback needs `[[keys]]`, `auth.mode = "passthrough"` or a written `auth.mode = "none"`.
    #[schemars(extend("default" = LISTEN))]
    pub(super) listen: Option<At<AddressText>>,
    /// Endpoint path. `PATH/NAME` reaches the upstream NAME alone. Beside it, `sse` and `messages` (`/sse`, `/sse/NAME`) are for clients of HTTP+SSE, the transport of 2024-11-05, unless an upstream or the endpoint itself has that path.
    #[schemars(extend("default" = PATH))]
    pub(super) path: Option<At<String>>,
    /// Largest request body.
    #[schemars(extend("default" = MAX_BODY))]
    pub(super) max_body: Option<At<SizeText>>,
    /// Origins of browsers that may call, such as `https://app.example.com`; `*` allows any. Loopback origins may always call a loopback listener.
    #[schemars(extend("default" = []))]
    pub(super) allowed_origins: Option<Vec<At<String>>>,
    /// Values of `Host` that are answered; `*` allows any. Empty: loopback names on a loopback listener, any otherwise.
    #[schemars(extend("default" = []))]
    pub(super) allowed_hosts: Option<Vec<At<String>>>,
    /// Time for a request head to arrive, and for a connection to be idle.
    #[schemars(extend("default" = HEADER_TIMEOUT))]
    pub(super) header_timeout: Option<At<DurationText>>,
    /// Time for a request body to arrive.
    #[schemars(extend("default" = BODY_TIMEOUT))]
    pub(super) body_timeout: Option<At<DurationText>>,
    /// How long calls in flight may go on after SIGTERM.
    #[schemars(extend("default" = DRAIN))]
    pub(super) drain: Option<At<DurationText>>,
    /// TLS on this listener; the files are read again when they change.
    pub(super) tls: Option<At<ServerTls>>,
}

/// `server.tls`
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerTls {
    /// Certificate chain, PEM. Needed.
    pub(super) cert: Option<At<PathText>>,
    /// Private key, PEM. Needed.
    pub(super) key: Option<At<PathText>>,
    /// CA whose client certificates are required, PEM.
    pub(super) client_ca: Option<At<PathText>>,
}

/// `[admin]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Admin {
    /// Address of `/healthz`, `/readyz`, `/metrics` and the pages: `/activity`, `/connect`, `/api`.
    #[schemars(extend("default" = ADMIN_LISTEN))]
    pub(super) listen: Option<At<AddressText>>,
    /// What the pages and their API ask for; `/healthz`, `/readyz` and `/metrics` never do. Without it, the pages are there on a loopback address only.
    pub(super) key: Option<At<SecretText>>,
}

/// `[auth]`
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Auth {
    /// How callers are known. Default: `keys` if there are any `[[keys]]`, else `none`.
    pub(super) mode: Option<At<AuthMode>>,
}

/// `auth.mode`
#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum AuthMode {
    /// By a bearer key from `[[keys]]`.
    Keys,
    /// By the one upstream: the client's `Authorization` goes there untouched.
    Passthrough,
    /// Nobody is asked.
    None,
}

/// `[[keys]]`: exactly one of `sha256`, `file` and `env` says what the secret is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Key {
    /// Name shown in audit records. Needed.
    pub(super) name: Option<At<String>>,
    /// SHA-256 of the secret.
    pub(super) sha256: Option<At<Sha256Text>>,
    /// File that holds the secret; it is hashed when the configuration is loaded, and dropped.
    pub(super) file: Option<At<PathText>>,
    /// Environment variable that holds the secret; it is hashed when the configuration is loaded, and dropped.
    pub(super) env: Option<At<String>>,
    /// The tenant. Default: the key's name.
    pub(super) team: Option<At<String>>,
    /// Who calls with it.
    #[schemars(extend("default" = CALLER))]
    pub(super) caller: Option<At<Caller>>,
    /// What it may reach beside `tools`: `memory:*`, `memory:NAMESPACE`, `memory:read:NAMESPACE`; each with `*` for all.
    #[schemars(extend("default" = SCOPES))]
    pub(super) scopes: Option<At<Vec<String>>>,
    /// Globs over public tool names it may call; the last match wins.
    #[schemars(extend("default" = ["*"]))]
    pub(super) tools: Option<Vec<At<GlobText>>>,
    /// Its own rate. Default: `limits.rate`.
    pub(super) rate: Option<At<RateText>>,
    /// Tokens that its tool calls may use in a calendar day or month (UTC), such as `2M tokens/month`. Default: no limit.
    pub(super) budget: Option<At<BudgetText>>,
    /// Pages that it fetches go into the `local` search index, for its tenant alone.
    #[schemars(extend("default" = false))]
    pub(super) index_fetches: Option<bool>,
    /// `normalize.schema_coercion` for this key alone.
    pub(super) schema_coercion: Option<At<Coercion>>,
    /// When it stops working, with an offset: `2027-01-01T00:00:00Z`, without quotes.
    pub(super) expires: Option<At<DateTime>>,
}

/// `keys.caller`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Caller {
    /// A language model: text that it sends has cost it tokens already, so cutting it saves nothing.
    Model,
    /// A program: what a tool cuts never reaches a model.
    Program,
}

/// `[limits]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// Requests for each key, or for each client address without keys; `none` for no limit. The default applies with `auth.mode = "keys"` only.
    #[schemars(extend("default" = RATE))]
    pub(super) rate: Option<At<LimitText>>,
    /// Globs over public tool names, each with a rate: one bucket for each key and glob.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) per_tool: BTreeMap<String, At<RateText>>,
    /// Calls in flight in the process; open GET and listen streams do not count.
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = CONCURRENCY))]
    pub(super) concurrency: Option<At<u32>>,
    /// How a refused `tools/call` looks.
    #[schemars(extend("default" = REFUSAL))]
    pub(super) refusal: Option<At<Refusal>>,
    /// Where rates are kept.
    #[schemars(extend("default" = STORE))]
    #[expect(dead_code, reason = "it has one value only, which the schema sees to")]
    pub(super) store: Option<At<Local>>,
    /// What happens while a shared store is down.
    #[schemars(extend("default" = STORE))]
    #[expect(dead_code, reason = "it has one value only, which the schema sees to")]
    pub(super) on_store_error: Option<At<Local>>,
}

/// `limits.refusal`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(super) enum Refusal {
    /// HTTP 429 with a JSON-RPC error.
    Http,
    /// HTTP 200 with an `isError` result.
    ToolError,
}

/// The only store of this version.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Local {
    /// In this process.
    Local,
}

/// `[storage]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Storage {
    /// A SQLite file, which the built-in tools and budgets need. Default: beside the configuration file, or in the per-user state directory without one. One `serve` at a time uses it; `call` and `index` work beside it. What is known of each upstream is kept in the folder `catalogs` beside it, if that can be written.
    #[schemars(extend("default" = STORAGE))]
    pub(super) path: Option<At<PathText>>,
    /// Largest size of the file. Each tenant has an equal share, and one share is for what belongs to none: the imported index and the budgets. At its share, a tenant's own kept pages and then its own references go, the oldest first; memory and fetched documents may take three quarters of it.
    #[schemars(extend("default" = QUOTA))]
    pub(super) quota: Option<At<SizeText>>,
}

/// `[upstreams.NAME]`: exactly one of `url`, `command` and `builtin` says what it is.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    /// A server over streamable HTTP; a list of replicas of it, which differ in nothing but host and port. A call goes to the one with the fewest calls in flight, a legacy session to the one that opened it, and a replica that cannot be connected to is left out until it can.
    pub(super) url: Option<At<UrlsText>>,
    /// A server over stdio: the program and its arguments. A program with a `/` in it starts at the folder of the file.
    pub(super) command: Option<At<Vec<String>>>,
    /// Environment variables of `command`. Beside them it gets `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TERM`, `TMPDIR`, `TZ`, `LANG` and `LC_*` as the gateway has them, and nothing else.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) env: BTreeMap<String, At<SecretText>>,
    /// The folder that `command` runs in. Default: the gateway's.
    pub(super) cwd: Option<At<PathText>>,
    /// When `command` is started.
    #[schemars(extend("default" = START))]
    pub(super) start: Option<At<Start>>,
    /// Time without calls after which `command` is stopped until the next one, unless a client listens for resources that it subscribed to; `never` keeps it.
    #[schemars(extend("default" = IDLE_STOP))]
    pub(super) idle_stop: Option<At<IdleText>>,
    /// Whose a process of `command` is. One that speaks the modern revision is always shared.
    #[schemars(extend("default" = SHARING))]
    pub(super) sharing: Option<At<Sharing>>,
    /// The tools inside this process.
    #[schemars(extend("default" = false))]
    pub(super) builtin: Option<At<bool>>,
    /// Protocol revision to speak. It fixes the era: clients of the other one are translated from the first call on.
    #[schemars(extend("default" = PROTOCOL))]
    pub(super) protocol: Option<At<Protocol>>,
    /// Prefix of the public names of its tools and prompts, with `aggregate.separator` behind it; `""` for none. Default: empty with one upstream or for the built-in one, else NAME.
    pub(super) prefix: Option<At<String>>,
    /// Globs over its own tool names that are shown; the last match wins.
    #[schemars(extend("default" = ["*"]))]
    pub(super) tools: Option<Vec<At<GlobText>>>,
    /// Globs over its own prompt names that are shown; the last match wins.
    #[schemars(extend("default" = ["*"]))]
    pub(super) prompts: Option<Vec<At<GlobText>>>,
    /// Globs over the URIs of its resources, and over the texts of its templates, that are shown and may be read; the last match wins.
    #[schemars(extend("default" = ["*"]))]
    pub(super) resources: Option<Vec<At<GlobText>>>,
    /// Tools by their own names, to be shown with another name or description.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) rename: BTreeMap<String, At<Rename>>,
    /// Parameters that clients do not see and that always have this value, by the tool's own name: `"search" = { limit = 10 }`.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) fixed: BTreeMap<String, BTreeMap<String, AnyValue>>,
    /// Withhold a tool whose definition is not the one in the lock file, until `smartgate pin accept`.
    #[schemars(extend("default" = false))]
    pub(super) pin: Option<bool>,
    /// The lock file, which is made at the first look. Default: `pins-NAME.json` beside the storage.
    pub(super) pins: Option<At<PathText>>,
    /// Calls in flight to it (`tools/call`, `prompts/get`, `resources/read`, `completion/complete`), from `/mcp` and `/mcp/NAME` together; further
    /// ones are refused with 503 and `Retry-After`. Default: 64, so that one of several does not hold up the others; the only upstream has none.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) concurrency: Option<At<u32>>,
    /// Extra request headers; each value is the whole header value.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) headers: BTreeMap<String, At<SecretText>>,
    /// Time to the response head; for a `command` to the answer, or to progress or a question of the call. Not for GET or `subscriptions/listen`.
    #[schemars(extend("default" = TIMEOUT))]
    pub(super) timeout: Option<At<DurationText>>,
    /// Time between bytes of a response; for a `command` from progress or a question to the next or the answer. Not for GET or `subscriptions/listen`.
    #[schemars(extend("default" = IDLE_TIMEOUT))]
    pub(super) idle_timeout: Option<At<DurationText>>,
    /// Longest time of a call, whatever progress it reports; then it is cancelled at the server. Not for GET or `subscriptions/listen`.
    #[schemars(extend("default" = MAX_TOTAL_TIMEOUT))]
    pub(super) max_total_timeout: Option<At<DurationText>>,
    /// How long a translated call waits for its client to answer a question of the server.
    #[schemars(extend("default" = ANSWER_WITHIN))]
    pub(super) answer_within: Option<At<DurationText>>,
    /// Time to a connection.
    #[schemars(extend("default" = CONNECT_TIMEOUT))]
    pub(super) connect_timeout: Option<At<DurationText>>,
    /// Further tries after a failure that cannot have changed anything.
    #[serde(default)]
    pub(super) retry: Retry,
    /// `normalize.schema_coercion` for this upstream alone.
    pub(super) schema_coercion: Option<At<Coercion>>,
    /// TLS to the upstream.
    pub(super) tls: Option<At<UpstreamTls>>,
    /// `smart_fetch` of the built-in tools.
    pub(super) fetch: Option<At<Fetch>>,
    /// `smart_search` of the built-in tools.
    pub(super) search: Option<At<Search>>,
}

/// `upstreams.NAME.start`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Start {
    /// With the first call; for a moment also at the gateway's start, to learn its tools.
    Demand,
    /// With the gateway; one process is kept ready.
    Now,
}

/// `upstreams.NAME.sharing`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Sharing {
    /// Each client session has its own.
    Session,
    /// All clients use one, which cannot ask them anything: no sampling, elicitation, roots or log messages.
    Shared,
}

/// `upstreams.NAME.rename.TOOL`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    /// What it is called instead, without the prefix.
    pub(super) name: Option<At<String>>,
    /// What is said of it instead.
    pub(super) description: Option<String>,
}

/// `[aggregate]`: all upstreams shown as one at `server.path`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Aggregate {
    /// Between a prefix and a name.
    #[schemars(extend("default" = SEPARATOR))]
    pub(super) separator: Option<At<String>>,
}

/// `[sealing]`: what the gateway hands out and wants back unread and unchanged.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sealing {
    /// Secrets of at least 32 characters, the newest first: it seals, all of them open. Replicas with the same ones serve each other's sessions, and `initialize` before several servers opens the sessions with legacy ones at once, so that every replica goes on with them. Default: one of this process alone, which ends with it.
    #[serde(default)]
    pub(super) keys: Vec<At<SecretText>>,
}

/// `upstreams.NAME.fetch`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fetch {
    /// Let pages on private, loopback and link-local addresses be fetched.
    #[schemars(extend("default" = false))]
    pub(super) allow_private: Option<bool>,
    /// Ports beside 80 and 443.
    #[schemars(extend("default" = []))]
    pub(super) ports: Option<Vec<u16>>,
    /// Obey `robots.txt` (RFC 9309).
    #[schemars(extend("default" = true))]
    pub(super) robots: Option<bool>,
}

/// `upstreams.NAME.search`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Engines by name. Default: one named `local`.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) engines: BTreeMap<String, At<Engine>>,
}

/// `upstreams.NAME.search.engines.NAME`
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Engine {
    /// What it speaks. Needed.
    pub(super) kind: Option<At<EngineKind>>,
    /// Where it is. Needed for `searxng`; the public address otherwise.
    pub(super) url: Option<At<UrlText>>,
    /// Its API key. Needed for `brave`, `tavily` and `exa`.
    pub(super) key: Option<At<SecretText>>,
    /// How much its ranking counts beside the others'.
    #[schemars(extend("default" = WEIGHT))]
    pub(super) weight: Option<At<f64>>,
}

/// `upstreams.NAME.search.engines.NAME.kind`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum EngineKind {
    /// A SearXNG instance with the JSON format enabled.
    Searxng,
    /// Brave Search API.
    Brave,
    /// Tavily.
    Tavily,
    /// Exa.
    Exa,
    /// The index in the storage, filled by `smartgate index add`.
    Local,
}

/// `upstreams.NAME.protocol`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum Protocol {
    /// What client and server agree on.
    #[serde(rename = "auto")]
    Auto,
    /// The modern revision.
    #[serde(rename = "2026-07-28")]
    V20260728,
    /// A legacy revision.
    #[serde(rename = "2025-11-25")]
    V20251125,
    /// A legacy revision.
    #[serde(rename = "2025-06-18")]
    V20250618,
    /// The first revision with streamable HTTP.
    #[serde(rename = "2025-03-26")]
    V20250326,
    /// The first revision, over HTTP+SSE.
    #[serde(rename = "2024-11-05")]
    V20241105,
    /// HTTP+SSE, in whatever legacy revision the server speaks over it.
    #[serde(rename = "sse")]
    Sse,
}

/// `upstreams.NAME.retry`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Retry {
    /// How many.
    #[schemars(range(max = 10), extend("default" = RETRIES))]
    pub(super) attempts: Option<At<u32>>,
}

/// `upstreams.NAME.tls`
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpstreamTls {
    /// A private CA beside the system's roots, PEM.
    pub(super) ca: Option<At<PathText>>,
    /// Client certificate chain, PEM; needs `key`.
    pub(super) cert: Option<At<PathText>>,
    /// Private key of the client certificate, PEM; needs `cert`.
    pub(super) key: Option<At<PathText>>,
}

/// `[normalize]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Normalize {
    /// Repair the envelope, `params` of a wrong type and a null `cursor`.
    #[schemars(extend("default" = true))]
    pub(super) params: Option<bool>,
    /// Repair `arguments` of a wrong type.
    #[schemars(extend("default" = true))]
    pub(super) arguments: Option<bool>,
    /// Turn a tool's name as `method` into `tools/call`.
    #[schemars(extend("default" = true))]
    pub(super) direct_tool_method: Option<bool>,
    /// Give a `tools/call` without `arguments` an empty object.
    #[schemars(extend("default" = true))]
    pub(super) fill_arguments: Option<bool>,
    /// Bring arguments into the types that the tool's schema asks for.
    #[schemars(extend("default" = SCHEMA_COERCION))]
    pub(super) schema_coercion: Option<At<Coercion>>,
    /// Record what would be repaired and forward the original.
    #[schemars(extend("default" = false))]
    pub(super) shadow: Option<bool>,
}

/// `schema_coercion`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Coercion {
    /// Nothing.
    Off,
    /// What the schema refuses and has exactly one reading.
    Safe,
    /// Also scalars for arrays, plumbing members, host prefixes and misplaced arguments.
    Full,
}

/// `[audit]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Audit {
    /// The journal file.
    #[serde(default)]
    pub(super) journal: Journal,
    /// What is kept of arguments and results.
    #[schemars(extend("default" = CAPTURE))]
    pub(super) capture: Option<At<Capture>>,
    /// The same for the tools that a glob matches (public names); the last match wins.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) capture_tools: BTreeMap<String, At<Capture>>,
    /// Globs over names of members whose values are masked, beside what looks like a secret by itself.
    #[schemars(extend("default" = REDACT))]
    pub(super) redact: Option<Vec<At<GlobText>>>,
    /// Ed25519 key that signs checkpoints, as `smartgate audit keygen` makes it. Without one they are not signed.
    pub(super) signing_key: Option<At<SecretText>>,
    /// Longest time from a record to the checkpoint after it; `0s` makes none.
    #[schemars(extend("default" = CHECKPOINT))]
    pub(super) checkpoint: Option<At<DurationText>>,
}

/// `audit.journal`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    /// The segment that is written; older ones lie beside it. Without a file: in the per-user state directory.
    #[schemars(extend("default" = JOURNAL))]
    pub(super) path: Option<At<PathText>>,
    /// Longest time between writing a record and having it on the disk; `0s` waits for the disk each time.
    #[schemars(extend("default" = FSYNC))]
    pub(super) fsync: Option<At<DurationText>>,
    /// Size at which a new segment is begun.
    #[schemars(extend("default" = ROTATE))]
    pub(super) rotate: Option<At<SizeText>>,
    /// Old segments kept.
    #[schemars(range(max = 100_000), extend("default" = KEEP))]
    pub(super) keep: Option<At<u32>>,
    /// Old segments are removed once their newest record is older than this; a segment is then also begun anew after half of it.
    pub(super) keep_age: Option<At<AgeText>>,
    /// Old segments are removed, oldest first, while all together are larger than this.
    pub(super) keep_bytes: Option<At<SizeText>>,
    /// What happens to calls while the journal cannot be written.
    #[schemars(extend("default" = ON_ERROR))]
    pub(super) on_error: Option<At<OnError>>,
}

/// `audit.journal.on_error`
#[derive(Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum OnError {
    /// They are refused with 503.
    Deny,
    /// They are served all the same.
    Serve,
}

/// `audit.capture`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Capture {
    /// Nothing.
    None,
    /// SHA-256.
    Hash,
    /// The payload; what `redact` names, and what looks like a secret, is masked.
    Redacted,
    /// The payload; only the gateway's own credentials are masked.
    Full,
}

/// `[telemetry]`
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Telemetry {
    /// Where spans, metrics and logs go. Default: `OTEL_EXPORTER_OTLP_ENDPOINT`; nothing is exported without either.
    pub(super) otlp: Option<At<UrlText>>,
    /// How they go there. Default: `OTEL_EXPORTER_OTLP_PROTOCOL`, else `grpc` (`http/protobuf` on port 4318).
    #[schemars(extend("default" = OTLP_PROTOCOL))]
    pub(super) protocol: Option<At<OtlpProtocol>>,
    /// Extra headers of the export.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub(super) headers: BTreeMap<String, At<SecretText>>,
    /// `service.name` of the spans. Default: `OTEL_SERVICE_NAME`, else `smartgate`.
    #[schemars(extend("default" = SERVICE_NAME))]
    pub(super) service_name: Option<At<String>>,
    /// Whether the metrics of `/metrics` are exported too, every `OTEL_METRIC_EXPORT_INTERVAL`.
    #[schemars(extend("default" = true))]
    pub(super) metrics: Option<At<bool>>,
    /// Whether audit records, and the process's own warnings and errors, are exported as log records too.
    #[schemars(extend("default" = true))]
    pub(super) logs: Option<At<bool>>,
}

/// `telemetry.protocol`
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) enum OtlpProtocol {
    /// OTLP over gRPC, port 4317.
    #[serde(rename = "grpc")]
    Grpc,
    /// OTLP over HTTP with protobuf, port 4318.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}
