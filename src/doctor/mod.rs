//! `smartgate doctor`: what one MCP server speaks, which odd requests it refuses by itself, and what the gateway would
//! make of those. Owns the order of the questions and the report; `wire` asks, `shapes` knows the odd requests.
//!
//! Invariant: changes nothing at the server. A tool is called only if the server itself calls it read-only or the user
//! named it, and every session that is opened is ended.

mod elsewhere;
mod report;
mod shapes;
mod tool;
mod wire;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use self::wire::{Answer, Wire};
use crate::{
    mcp::{
        era::MODERN,
        tools::ToolSet,
        version::{KNOWN, LATEST_LEGACY},
    },
    upstream::Upstream,
};

pub use report::Report;
pub use tool::Chosen;

/// Requests whose times are compared.
const SAMPLES: usize = 9;
/// Pages of `tools/list` that are read.
const PAGES: usize = 50;

/// Everything that was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Revisions that the server agreed to, newest first.
    pub versions: Vec<String>,
    /// `name version` as the server calls itself.
    pub server: Option<String>,
    /// Its capabilities.
    pub capabilities: Value,
    /// Whether it answers POSTs as streamable HTTP.
    pub streamable: Option<Reached>,
    /// Whether GET opens a stream.
    pub get_stream: Option<bool>,
    /// Where the message endpoint of HTTP+SSE (2024-11-05) was announced.
    pub http_sse: Option<String>,
    /// Whether it gives sessions.
    pub sessions: bool,
    /// Tools that it lists; `None` if it does not list any.
    pub tools: Option<usize>,
    /// The tool that the odd calls were tried with, and what became of a plain call of it.
    pub called: Option<(Chosen, Verdict)>,
    /// What became of each odd request.
    pub shapes: Vec<Shape>,
    /// OAuth documents that are there.
    pub oauth: Vec<String>,
    /// Whether it asked for credentials.
    pub unauthorized: bool,
    /// Median and worst time of a small request.
    pub latency: Option<(Duration, Duration)>,
    /// Whether something spoke HTTP.
    pub answered: bool,
    /// Why nothing was learned, if so.
    pub failure: Option<String>,
}

/// How an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// As JSON.
    Json,
    /// As an event stream.
    EventStream,
}

/// One odd request.
#[derive(Debug)]
pub struct Shape {
    /// What is odd about it.
    pub name: &'static str,
    /// What the server said to it.
    pub direct: Verdict,
    /// The rules that the gateway would apply.
    pub rules: Vec<&'static str>,
    /// What the server said to the repaired one; `None` where nothing would be repaired.
    pub repaired: Option<Verdict>,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// A result.
    Works,
    /// An error; its code and HTTP status.
    Refused(String),
    /// It could not be asked.
    Untried(String),
}

impl Findings {
    /// Whether there is a server that a client can use.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        !self.versions.is_empty() || self.http_sse.is_some()
    }

    /// Odd requests that the server refuses and that work once repaired.
    #[must_use]
    pub fn helped(&self) -> usize {
        let helps = |s: &&Shape| {
            matches!(s.direct, Verdict::Refused(_)) && s.repaired.as_ref() == Some(&Verdict::Works)
        };
        self.shapes.iter().filter(helps).count()
    }
}

/// Examines the server behind `upstream`. `path` is that of its URL, for what is beside it; `tool` the one to call, if the
/// user named one.
pub async fn examine(upstream: &dyn Upstream, path: &str, tool: Option<&str>, timeout: Duration) -> Findings {
    let mut found = Findings::default();
    let wire = Wire::new(upstream, timeout);
    found.oauth = oauth(&wire, path).await;
    let modern = discover(&wire, &mut found).await;
    let session = initialize(&wire, &mut found).await;
    if found.versions.is_empty() && !found.unauthorized {
        found.http_sse = wire.http_sse().await;
    }
    // In the older era more requests are odd without being plainly wrong.
    let way = session.or_else(|| modern.then(|| wire.modern(MODERN)));
    if let Some(way) = way {
        found.failure = None;
        look_closer(&way, tool, &mut found).await;
        way.end().await;
    } else if found.answered && !found.unauthorized && found.http_sse.is_none() {
        let advice = elsewhere::advice(&wire, path).await;
        let failure = found.failure.take().unwrap_or_default();
        found.failure = Some(format!("{failure}; {advice}"));
    }
    found
}

/// Asks in the modern way. True if the server is modern.
async fn discover(wire: &Wire<'_>, found: &mut Findings) -> bool {
    let answer = match wire.modern(MODERN).request("server/discover", json!({})).await {
        Ok(answer) => answer,
        Err(why) => {
            found.failure = Some(why);
            return false;
        }
    };
    note_refusal(&answer, found);
    let supported = match &answer.outcome {
        Some(Ok(result)) => result["supportedVersions"].clone(),
        Some(Err(error)) if error.code == -32022 => error.data["supported"].clone(),
        _ => return false,
    };
    let versions: Vec<String> =
        supported.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect();
    let is_modern = versions.iter().any(|v| v == MODERN);
    if let (true, Some(Ok(result))) = (is_modern, &answer.outcome) {
        found.versions.push(MODERN.to_owned());
        found.capabilities = result["capabilities"].clone();
        found.server = named(&result["_meta"]["io.modelcontextprotocol/serverInfo"]);
        found.streamable = Some(answer.reached);
    }
    is_modern
}

/// Asks for every legacy revision. Gives the session of the newest that was agreed to.
async fn initialize<'a>(wire: &Wire<'a>, found: &mut Findings) -> Option<Wire<'a>> {
    let mut newest = None;
    for version in KNOWN.iter().filter(|v| **v != MODERN) {
        let (answer, session) = match wire.initialize(version).await {
            Ok(reply) => reply,
            Err(why) => {
                found.failure.get_or_insert(why);
                return None;
            }
        };
        note_refusal(&answer, found);
        let Some(Ok(result)) = &answer.outcome else {
            if *version == LATEST_LEGACY {
                return None; // a server that knows other revisions offers one of them instead of an error
            }
            continue;
        };
        found.streamable.get_or_insert(answer.reached);
        found.sessions |= session.has_session();
        if result["protocolVersion"] == *version {
            found.versions.push((*version).to_owned());
        }
        if newest.is_none() {
            found.server = found.server.take().or_else(|| named(&result["serverInfo"]));
            if found.capabilities.is_null() {
                found.capabilities = result["capabilities"].clone();
            }
            found.get_stream = Some(session.opens_stream().await);
            newest = Some(session);
        } else {
            session.end().await;
        }
    }
    newest
}

fn note_refusal(answer: &Answer, found: &mut Findings) {
    found.answered = true;
    if matches!(answer.status, 401 | 403) {
        found.unauthorized = true;
        found.failure = Some(format!("HTTP {}: give credentials with --header", answer.status));
        return;
    }
    match &answer.outcome {
        None => found.failure = Some(format!("HTTP {} and no JSON-RPC response", answer.status)),
        Some(Err(error)) => {
            found.failure = Some(format!("HTTP {} and JSON-RPC error {}", answer.status, error.code));
        }
        Some(Ok(_)) => {}
    }
}

fn named(info: &Value) -> Option<String> {
    let name = info["name"].as_str()?;
    let version = info["version"].as_str().unwrap_or_default();
    let text = format!("{name} {version}");
    Some(text.trim().chars().filter(|c| !c.is_control()).take(120).collect())
}

/// What a server that speaks does: its tools, odd requests, times.
async fn look_closer(way: &Wire<'_>, wanted: Option<&str>, found: &mut Findings) {
    let tools = tools(way).await;
    found.tools = tools.listed.then(|| tools.known.len());
    let mut tool = tool::choose(&tools.definitions, wanted);
    if let Ok(chosen) = &tool {
        let plain = shapes::call_plainly(way, chosen).await;
        found.called = Some((chosen.clone(), plain.clone()));
        if plain != Verdict::Works {
            tool = Err(format!("a plain call of '{}' does not work either", chosen.name));
        }
    }
    found.shapes = shapes::try_all(way, &tools.known, &tool).await;
    let mut times = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        if way.request(way.smallest(), json!({})).await.is_err() {
            break;
        }
        times.push(start.elapsed());
    }
    times.sort_unstable();
    found.latency = times.get(times.len() / 2).copied().zip(times.last().copied());
}

/// What `tools/list` told.
#[derive(Default)]
struct Tools {
    known: ToolSet,
    /// Whether there was a list at all.
    listed: bool,
    definitions: Vec<Value>,
}

async fn tools(way: &Wire<'_>) -> Tools {
    let (mut tools, mut cursor, mut seen) = (Tools::default(), None::<String>, BTreeSet::new());
    for _ in 0..PAGES {
        let params = cursor.as_ref().map_or_else(|| json!({}), |c| json!({ "cursor": c }));
        let Ok(Answer { outcome: Some(Ok(result)), .. }) = way.request("tools/list", params).await else {
            break;
        };
        tools.listed = true;
        tools.definitions.extend(result["tools"].as_array().into_iter().flatten().cloned());
        match tools.known.extend(result.to_string().as_bytes()) {
            Ok(Some(next)) if seen.insert(next.clone()) => cursor = Some(next),
            _ => break,
        }
    }
    tools
}

/// Which OAuth documents are there (RFC 9728 section 3.1, RFC 8414 section 3.1).
async fn oauth(wire: &Wire<'_>, path: &str) -> Vec<String> {
    let tail = path.trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-protected-resource{tail}"),
        "/.well-known/oauth-protected-resource".to_owned(),
        format!("/.well-known/oauth-authorization-server{tail}"),
        "/.well-known/oauth-authorization-server".to_owned(),
    ];
    places.dedup();
    let mut there = Vec::new();
    for place in places {
        if wire.has_json(&place).await {
            there.push(place);
        }
    }
    there
}
