//! Finds out which era and revision an upstream speaks (2026-07-28, versioning, "Dual-era client"): a modern
//! `server/discover` first, then a legacy `initialize`. Owns the reading of both answers; keeps nothing.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    link::{Failure, Link, Peer, Reply, capabilities, client_info},
    offers::About,
};
use crate::mcp::{
    era::{MODERN, is_session_id},
    version::{LATEST_LEGACY, is_modern},
};

const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What `server/discover` told.
enum Discovered {
    Modern(Peer),
    /// Not modern; the revision to initialise with.
    Legacy(String),
    /// Modern, but in this other revision.
    Elsewhere(String),
}

/// Finds the peer. `fixed` is the revision written in the configuration: its era is not in question then.
pub(super) async fn probe(link: &Link, fixed: Option<&str>) -> Result<Peer, Failure> {
    match fixed {
        Some(version) if is_modern(version) => match discover(link, version).await? {
            Discovered::Modern(peer) => Ok(peer),
            Discovered::Legacy(_) | Discovered::Elsewhere(_) => Ok(Peer::modern(version)),
        },
        Some(version) => initialize(link, version).await,
        None => match discover(link, MODERN).await? {
            Discovered::Modern(peer) => Ok(peer),
            Discovered::Legacy(version) => initialize(link, &version).await,
            Discovered::Elsewhere(version) => match discover(link, &version).await? {
                Discovered::Modern(peer) => Ok(peer),
                _ => Err(Failure::odd("server/discover: refuses the revision that it offers")),
            },
        },
    }
}

/// Finds out whether a modern server serves legacy clients by itself, so that they are not translated for nothing. `None`
/// if it did not say: it was not there, or refused whoever asked.
pub(super) async fn serves_legacy(link: &Link) -> Option<bool> {
    match initialize(link, LATEST_LEGACY).await {
        Ok(legacy) => {
            // Whether it takes the end of that session changes nothing.
            drop(link.delete_session(&legacy).await);
            Some(true)
        }
        Err(Failure::Unauthorized(_) | Failure::Unreachable(_)) => None,
        Err(_) => Some(false),
    }
}

async fn discover(link: &Link, version: &str) -> Result<Discovered, Failure> {
    let legacy = || Ok(Discovered::Legacy(LATEST_LEGACY.to_owned()));
    match link.request(&Peer::modern(version), "server/discover", json!({})).await {
        Ok(Reply { outcome: Ok(result), .. }) => match serde_json::from_str::<DiscoverResult>(result.get()) {
            Ok(found) => {
                let about = found.about();
                Ok(choose(version, &found.supported_versions, about))
            }
            Err(_) => legacy(),
        },
        Ok(Reply { outcome: Err(error), .. }) => match error.code {
            UNSUPPORTED_VERSION => Ok(choose(version, &error.supported, Arc::default())),
            HEADER_MISMATCH | MISSING_CAPABILITY => Ok(Discovered::Modern(Peer::modern(version))),
            _ => legacy(),
        },
        Err(Failure::Odd(_)) => legacy(),
        Err(other) => Err(other),
    }
}

/// Picks from the versions that a server supports: the one asked for, else the modern one nearest to it, else
/// the latest legacy one.
fn choose(asked: &str, supported: &[String], about: Arc<About>) -> Discovered {
    if supported.iter().any(|v| v == asked) {
        return Discovered::Modern(Peer { about, ..Peer::modern(asked) });
    }
    if let Some(modern) = supported.iter().filter(|v| is_modern(v) && is_token(v)).min() {
        return Discovered::Elsewhere(modern.clone());
    }
    let legacy = supported.iter().filter(|v| is_token(v)).max();
    Discovered::Legacy(legacy.map_or_else(|| LATEST_LEGACY.to_owned(), Clone::clone))
}

async fn initialize(link: &Link, version: &str) -> Result<Peer, Failure> {
    let params =
        json!({"protocolVersion": version, "capabilities": capabilities(), "clientInfo": client_info()});
    let reply = link.request(&Peer::unknown_legacy(), "initialize", params).await?;
    let status = reply.status.as_u16();
    let result =
        reply.outcome.map_err(|e| Failure::odd(format!("initialize: HTTP {status}, error {}", e.code)))?;
    let found: InitializeResult = serde_json::from_str(result.get())
        .map_err(|_| Failure::odd("initialize: the result names no protocolVersion"))?;
    if !is_token(&found.protocol_version) {
        return Err(Failure::odd("initialize: the result's protocolVersion is malformed"));
    }
    let about = About {
        capabilities: found.capabilities,
        instructions: found.instructions.as_str().map(str::to_owned),
        server_info: found.server_info,
    };
    let peer = Peer {
        version: Some(found.protocol_version.into()),
        session: reply.session.filter(is_session_id),
        about: Arc::new(about),
        ..Peer::unknown_legacy()
    };
    link.notify(&peer, "notifications/initialized").await?;
    Ok(peer)
}

/// A version is sent as a header value, so it must be a short token.
fn is_token(version: &str) -> bool {
    (1..=32).contains(&version.len())
        && version.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: Value,
    #[serde(default)]
    instructions: Value,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

impl DiscoverResult {
    fn about(&self) -> Arc<About> {
        Arc::new(About {
            capabilities: self.capabilities.clone(),
            instructions: self.instructions.as_str().map(str::to_owned),
            server_info: self.meta.get("io.modelcontextprotocol/serverInfo").cloned(),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
    #[serde(default)]
    instructions: Value,
    server_info: Option<Value>,
}
