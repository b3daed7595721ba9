//! How a session begins: `initialize`, `notifications/initialized`, and what the server said of itself. Owns the choice
//! of the revision, and `server/discover` made from the answer.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, StatusCode, response::Parts};
use serde_json::{Map, Value, json};

use super::{
    asks::Asks,
    refused,
    reply::Refusal,
    session::{Session, Way, outcome},
};
use crate::{
    mcp::{
        era::{MODERN, SESSION_HEADER, is_session_id},
        version::{is_known, is_modern},
    },
    upstream::{OneStream, UpstreamError},
};

/// A server that does not answer `initialize` for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the server said of itself.
#[derive(Debug, Clone)]
pub(super) struct Hello {
    /// The revision agreed on.
    pub(super) version: Arc<str>,
    capabilities: Map<String, Value>,
    info: Option<Value>,
    instructions: Option<Value>,
    pub(super) one_stream: Option<OneStream>,
}

/// The flags of capabilities that matter in a session, in the order of their bits in a sealed id. New ones are added at
/// the end; "" is the capability itself.
const OFFERS: [(&str, &str); 5] = [
    ("logging", ""),
    ("resources", "subscribe"),
    ("resources", "listChanged"),
    ("tools", "listChanged"),
    ("prompts", "listChanged"),
];

/// Why there is no session.
pub(super) enum NoSession {
    /// Nothing usable came back.
    Upstream(UpstreamError),
    /// The server's own refusal, for the client to see: 401 and the like, with their headers.
    Refused(Box<Parts>),
    /// What the bridge says.
    Said(Refusal),
}

impl Hello {
    /// Without what is only for `server/discover`: a client in front of several servers reads that of the catalogs, and
    /// sessions are many.
    pub(super) fn brief(&self) -> Self {
        Self { one_stream: self.one_stream, ..Self::retold(Arc::clone(&self.version), self.offered()) }
    }

    /// What another process must know of it.
    pub(super) fn offered(&self) -> u8 {
        let has = |(capability, flag): (&str, &str)| match flag {
            "" => self.offers(capability),
            flag => self.flag(capability, flag),
        };
        OFFERS.iter().enumerate().fold(0, |bits, (n, offer)| bits | u8::from(has(*offer)) << n)
    }

    /// As another process has it told.
    pub(super) fn retold(version: Arc<str>, offered: u8) -> Self {
        let mut capabilities = Map::new();
        for (_, (capability, flag)) in OFFERS.iter().enumerate().filter(|(n, _)| offered & 1 << n != 0) {
            let flags = capabilities.entry(*capability).or_insert_with(|| json!({}));
            if !flag.is_empty() {
                flags[*flag] = true.into();
            }
        }
        Self { version, capabilities, info: None, instructions: None, one_stream: None }
    }

    /// Whether the server has this capability.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.capabilities.get(name).is_some_and(Value::is_object)
    }

    /// Whether a flag of a capability is set.
    pub(super) fn flag(&self, capability: &str, flag: &str) -> bool {
        self.capabilities.get(capability).and_then(|c| c.get(flag)) == Some(&Value::Bool(true))
    }

    /// The result of `server/discover`.
    pub(super) fn discovered(&self) -> Value {
        let mut capabilities = self.capabilities.clone();
        without_tasks(&mut capabilities);
        without_extensions(&mut capabilities);
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": [MODERN],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
        });
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.clone();
        }
        if let Some(info) = &self.info {
            result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": info});
        }
        result
    }
}

/// Loss: tasks of the two eras are not the same on the wire, and are not offered.
fn without_tasks(capabilities: &mut Map<String, Value>) {
    capabilities.shift_remove("tasks");
}

/// Loss: an extension that the bridge does not know cannot be promised.
fn without_extensions(capabilities: &mut Map<String, Value>) {
    capabilities.shift_remove("extensions");
}

/// Opens a session in the revision `version`, or in another that the server has.
pub(super) async fn initialize(
    way: Way,
    version: &str,
    asks: Asks,
    info: &Value,
) -> Result<Session, NoSession> {
    let opened = async {
        match once(&way, version, asks, info).await? {
            Ok(opened) => Ok(opened),
            // Servers name what they have in an error too (2025-11-25, lifecycle, error handling).
            Err(error) => match supported(&error).filter(|v| *v != version) {
                Some(other) => once(&way, other, asks, info).await?.map_err(|error| no(&error)),
                None => Err(no(&error)),
            },
        }
    };
    let (id, hello) = tokio::time::timeout(PATIENCE, opened).await.unwrap_or_else(|_| {
        Err(NoSession::Said(Refusal::new(
            504,
            504,
            "upstream_timeout",
            "the server does not answer initialize",
        )))
    })?;
    let session = Session::new(way, id, hello);
    session.tell(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()).await;
    Ok(session)
}

type Opened = (Option<HeaderValue>, Hello);

async fn once(
    way: &Way,
    version: &str,
    asks: Asks,
    info: &Value,
) -> Result<Result<Opened, Value>, NoSession> {
    let params = json!({"protocolVersion": version, "capabilities": asks.declared(), "clientInfo": info});
    let body = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{params}}}"#);
    let response = way.upstream.call(way.post(body.into())).await.map_err(NoSession::Upstream)?;
    if refused::is_for_the_client(response.status()) {
        return Err(NoSession::Refused(Box::new(response.into_parts().0)));
    }
    if response.status() == StatusCode::NOT_FOUND {
        return Err(NoSession::Said(Refusal::upstream(
            "the server answered initialize with HTTP 404: is its url right?",
        )));
    }
    let id = response.headers().get(SESSION_HEADER).cloned().filter(is_session_id);
    let one_stream = response.extensions().get::<OneStream>().copied();
    let result = match outcome(response, 0).await.map_err(NoSession::Said)? {
        Ok(result) => result,
        Err(error) => return Ok(Err(error)),
    };
    let hello = hello(result).map_err(NoSession::Said)?;
    Ok(Ok((id, Hello { one_stream, ..hello })))
}

fn hello(mut result: Value) -> Result<Hello, Refusal> {
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    if !is_known(version) || is_modern(version) {
        return Err(Refusal::upstream(
            "the server answered initialize with a revision that is not known here",
        ));
    }
    let version = version.into();
    let mut part = |name: &str| result.get_mut(name).map(Value::take);
    let capabilities = match part("capabilities") {
        Some(Value::Object(capabilities)) => capabilities,
        _ => Map::new(),
    };
    let info = part("serverInfo").filter(Value::is_object);
    let instructions = part("instructions").filter(Value::is_string);
    Ok(Hello { version, capabilities, info, instructions, one_stream: None })
}

/// The newest known legacy revision that an error names.
fn supported(error: &Value) -> Option<&str> {
    let named = error.pointer("/data/supported")?.as_array()?.iter().filter_map(Value::as_str);
    named.filter(|v| is_known(v) && !is_modern(v)).max()
}

fn no(error: &Value) -> NoSession {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
    NoSession::Said(Refusal::upstream(format!("the server refused initialize with error {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_offers_is_retold_as_it_was() {
        for offered in 0..1 << OFFERS.len() {
            assert_eq!(Hello::retold("2025-06-18".into(), offered).offered(), offered);
        }
        let said = json!({"protocolVersion": "2025-06-18", "capabilities":
            {"logging": {}, "resources": {"subscribe": true}, "tools": {"listChanged": true}, "x": {}}});
        let hello = hello(said).ok().unwrap();
        let again = hello.brief();
        assert!(again.offers("logging") && again.flag("resources", "subscribe"));
        assert!(again.flag("tools", "listChanged") && !again.flag("prompts", "listChanged"));
    }
}
