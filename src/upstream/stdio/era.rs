//! Which era a command speaks (2026-07-28, versioning, "Dual-era client"): asked once with `server/discover`, on a child
//! that is then used for whatever it turned out to be. Any other answer, silence and the child's end mean legacy.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use super::{calls::lock, hear::Audience, host::Host, peer::Peer};
use crate::{
    mcp::{
        era::{Era, MODERN},
        version::is_modern,
    },
    upstream::UpstreamError,
};

/// How long an answer is waited for.
const SILENCE: Duration = Duration::from_secs(15);
/// How long an answer holds: the package behind the command may be another by then.
const ANSWERED: Duration = Duration::from_secs(600);
/// How long no answer counts as one.
const UNANSWERED: Duration = Duration::from_secs(60);

const HEADER_MISMATCH: i64 = -32020;
const MISSING_CAPABILITY: i64 = -32021;
const UNSUPPORTED_VERSION: i64 = -32022;

/// What was found out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    era: Era,
    until: Instant,
}

impl Host {
    pub(super) async fn probe(&self) -> Result<Era, UpstreamError> {
        let mut verdict = self.verdict.lock().await;
        if let Some(found) = verdict.filter(|v| Instant::now() < v.until) {
            return Ok(found.era);
        }
        let peer = self.take()?;
        let (era, holds) = match timeout(SILENCE.min(self.timeout), discover(&peer)).await {
            Ok(Ok(answer)) => (judge(&answer), ANSWERED),
            Ok(Err(_)) | Err(_) => (Era::Legacy, UNANSWERED),
        };
        *verdict = Some(Verdict { era, until: Instant::now() + holds });
        tracing::debug!(upstream = &*self.name, era = era.as_str(), "asked the command for its era");
        self.use_for(era, peer).await;
        Ok(era)
    }

    async fn use_for(&self, era: Era, peer: Arc<Peer>) {
        if peer.ended().is_some() {
            return self.failed(&peer);
        }
        match era {
            Era::Modern => {
                let mut running = self.modern.running.lock().await;
                if running.as_ref().is_none_or(|p| p.ended().is_some()) {
                    peer.talk_to(Audience::Calls);
                    *running = Some(peer);
                }
            }
            Era::Legacy => {
                lock(&self.spare).get_or_insert(peer);
            }
        }
    }
}

async fn discover(peer: &Arc<Peer>) -> Result<Bytes, Arc<str>> {
    let meta = serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "smartgate", "version": env!("CARGO_PKG_VERSION")},
    });
    let message = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
    peer.ask(message.to_string().as_bytes()).await
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Option<Supported>,
    #[serde(default)]
    error: Option<RpcError>,
}

#[derive(Deserialize, Default)]
struct Supported {
    #[serde(default, rename = "supportedVersions")]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    #[serde(default)]
    data: serde_json::Value,
}

fn judge(answer: &[u8]) -> Era {
    let Ok(answer) = serde_json::from_slice::<Answer>(answer) else { return Era::Legacy };
    let modern = match (answer.result, answer.error) {
        (_, Some(error)) => match error.code {
            HEADER_MISMATCH | MISSING_CAPABILITY => true,
            UNSUPPORTED_VERSION => {
                let supported = error.data["supported"].as_array().map(Vec::as_slice).unwrap_or_default();
                supported.iter().filter_map(|v| v.as_str()).any(is_modern)
            }
            _ => false,
        },
        (Some(result), None) => result.versions.iter().any(|v| is_modern(v)),
        (None, None) => false,
    };
    if modern { Era::Modern } else { Era::Legacy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_modern_word_means_modern() {
        for modern in [
            r#"{"id":0,"result":{"supportedVersions":["2025-11-25","2026-07-28"],"capabilities":{}}}"#,
            r#"{"id":0,"error":{"code":-32022,"message":"","data":{"supported":["2027-01-01"]}}}"#,
            r#"{"id":0,"error":{"code":-32021,"message":""}}"#,
        ] {
            assert_eq!(judge(modern.as_bytes()), Era::Modern, "{modern}");
        }
        for legacy in [
            r#"{"id":0,"result":{}}"#,
            r#"{"id":0,"result":{"supportedVersions":["2025-11-25"]}}"#,
            r#"{"id":0,"error":{"code":-32601,"message":"Method not found"}}"#,
            r#"{"id":0,"error":{"code":-32602,"message":"Invalid request parameters","data":""}}"#,
            r#"{"id":0,"error":{"code":-32022,"message":"","data":{"supported":["2025-11-25"]}}}"#,
        ] {
            assert_eq!(judge(legacy.as_bytes()), Era::Legacy, "{legacy}");
        }
    }
}
