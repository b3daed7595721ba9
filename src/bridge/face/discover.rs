//! `initialize`, answered from the server's `server/discover`.
//!
//! Invariant: what one principal (and credential) was told is told to nobody else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use http::{Response, header};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    Core, body,
    inner::{Opened, broken, with_json},
    losses,
    refusal::Refusal,
    reply::{Heard, hear},
    request::Call,
    revision::Revision,
    session::{Can, Claims, ClientInfo, Session, new_nonce},
};
use crate::{
    mcp::era::SESSION_HEADER,
    upstream::{
        ResponseBody, UpstreamError, credentials,
        named::{Named, Openings},
    },
};

/// How long an answer is used again, where the server does not ask for less.
const KEPT: Duration = Duration::from_secs(30);
const MAX_KEPT: usize = 1024;
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What the server says of itself.
#[derive(Debug, Deserialize)]
pub(super) struct Discovered {
    #[serde(default)]
    capabilities: Map<String, Value>,
    instructions: Option<Value>,
    #[serde(default, rename = "ttlMs")]
    ttl_ms: Value,
    #[serde(default, rename = "_meta")]
    meta: Map<String, Value>,
}

/// Who asked: see [`key`].
type Asker = [u8; 32];
/// An answer, and until when it is used.
type Kept = (Instant, Arc<Discovered>);

/// Recent answers by who asked.
#[derive(Debug, Default)]
pub(super) struct Cache(Mutex<HashMap<Asker, Kept>>);

impl Cache {
    fn get(&self, key: &Asker) -> Option<Arc<Discovered>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, found)| Arc::clone(found))
    }

    fn put(&self, key: Asker, found: &Arc<Discovered>) {
        let now = Instant::now();
        let until = now + KEPT.min(Duration::from_millis(found.ttl_ms.as_u64().unwrap_or(0)));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT {
            kept.retain(|_, (until, _)| *until > now);
        }
        if kept.len() < MAX_KEPT {
            kept.insert(key, (until, Arc::clone(found)));
        }
    }
}

/// Who asks: the principal, and the credentials where some are passed on.
fn key(call: &Call) -> Asker {
    let mut hash = Sha256::new();
    hash.update(call.session.principal.as_bytes());
    if let Some(credentials) = credentials::digest(&call.headers) {
        hash.update([0]);
        hash.update(credentials);
    }
    hash.finalize().into()
}

/// What `initialize` asks for: the session that it opens.
pub(super) fn asked(params: &Value, principal: Arc<str>) -> Result<Session, Refusal> {
    let Some(version) = params.get("protocolVersion").and_then(Value::as_str) else {
        return Err(Refusal::invalid_params("initialize needs params.protocolVersion, a string"));
    };
    let revision = Revision::named(version).unwrap_or(Revision::NEWEST);
    let can = params.get("capabilities").map(|c| Can::declared(c, revision)).unwrap_or_default();
    let client = params.get("clientInfo").and_then(ClientInfo::read);
    // Sessions with servers may be opened for it before it has an id.
    let nonce = Some(new_nonce());
    Ok(Session { principal, revision, client, can, nonce, named: Arc::default() })
}

impl Core {
    pub(super) async fn initialize(&self, call: &Call) -> Result<Response<ResponseBody>, UpstreamError> {
        let key = key(call);
        let Session { principal, revision, client, can, nonce, .. } = call.session.clone();
        let nonce = nonce.unwrap_or_else(new_nonce);
        let mut claims = Claims { revision, client, can, nonce, named: Named::default() };
        let openings = self.names_sessions.then(|| claims.openings());
        // Who is to open sessions is asked each time.
        let found = match self.discovered.get(&key).filter(|_| openings.is_none()) {
            Some(found) => found,
            None => match self.discover(call, openings.as_ref()).await? {
                Ok(found) => {
                    self.discovered.put(key, &found);
                    found
                }
                Err(answer) => return Ok(*answer),
            },
        };
        let mut response = body::result(&call.id, &result(&found, revision).to_string());
        claims.named = openings.map(Openings::close).unwrap_or_default();
        if let Some(id) = claims.seal(&self.sealer, &principal) {
            response.headers_mut().insert(SESSION_HEADER, id);
        }
        Ok(response)
    }

    /// Asks the server. Inside: what it said, or its refusal as the answer to `call`.
    async fn discover(
        &self,
        call: &Call,
        openings: Option<&Openings>,
    ) -> Result<Result<Arc<Discovered>, Box<Response<ResponseBody>>>, UpstreamError> {
        let number = self.number();
        let mut request = call.beside(self, number, "server/discover", "");
        if let Some(openings) = openings {
            request.extensions_mut().insert(openings.clone());
        }
        let (head, message) = match self.send(request).await? {
            Opened::Foreign(response) => return Ok(Err(Box::new(response))),
            Opened::Whole(head, message) => (head, message),
            Opened::Stream(head, mut messages) => loop {
                let Some(message) = messages.next().await.map_err(broken)? else {
                    return Err(broken("the stream ended without a response"));
                };
                if matches!(hear(&message, number, call), Heard::Answer(_)) {
                    break (head, message);
                }
            },
        };
        let Heard::Answer(text) = hear(&message, number, call) else {
            // A door's own words: a client that is to log in reads its status and challenge.
            return match head.status.is_success() {
                true => Err(broken("server/discover brought no result")),
                false => Ok(Err(Box::new(with_json(head, message)))),
            };
        };
        #[derive(Deserialize)]
        struct Message {
            result: Option<Discovered>,
        }
        Ok(match serde_json::from_slice::<Message>(&message) {
            Ok(Message { result: Some(found) }) => Ok(Arc::new(found)),
            Ok(Message { result: None }) => {
                let mut response = with_json(head, text);
                response.headers_mut().insert(header::CONTENT_TYPE, body::JSON);
                Err(Box::new(response))
            }
            Err(_) => return Err(broken("server/discover brought a result that cannot be read")),
        })
    }
}

/// The `InitializeResult`.
fn result(found: &Discovered, revision: Revision) -> Value {
    let capabilities = found.capabilities.iter().filter(|(name, _)| losses::capability(name, revision));
    let capabilities: Map<_, _> = capabilities.map(|(k, v)| (k.clone(), v.clone())).collect();
    let info = found.meta.get(SERVER_INFO).and_then(Value::as_object);
    let mut server: Map<String, Value> = info
        .into_iter()
        .flatten()
        .filter(|(name, _)| losses::implementation(name, revision))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    server.entry("name").or_insert_with(|| "smartgate".into());
    server.entry("version").or_insert_with(|| env!("CARGO_PKG_VERSION").into());
    let mut out =
        json!({"protocolVersion": revision.as_str(), "capabilities": capabilities, "serverInfo": server});
    if let Some(instructions) = &found.instructions {
        out["instructions"] = instructions.clone();
    }
    out
}
