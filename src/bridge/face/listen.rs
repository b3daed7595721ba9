//! `subscriptions/listen` at the server on behalf of a session: for its GET stream, and anew whenever the resources that it
//! subscribes to are other ones.
//!
//! Invariant: at most one standing listen for each session. A listen cannot be edited, so a new one is open before the
//! old one ends, and no change falls between them.

use std::{sync::Arc, time::Duration};

use http::Response;
use tokio::time::Instant;

use super::{
    Core, body,
    inner::{Opened, broken},
    live::Live,
    messages::Messages,
    refusal::Refusal,
    reply::{Heard, hear},
    request::Call,
    rewrite::quoted,
    standing::Standing,
};
use crate::{
    mcp::json,
    upstream::{ListsTold, ResponseBody, Told, UpstreamError},
};

/// How long the server may take to acknowledge.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);

pub(super) const RESOURCES: &str = "resourcesListChanged";
/// The kinds of list, with their notices.
pub(super) const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    (RESOURCES, "notifications/resources/list_changed"),
];

/// An acknowledged listen.
pub(super) struct Listening {
    pub(super) messages: Messages,
    /// The notices of lists that the server will send.
    pub(super) lists: Vec<&'static str>,
    pub(super) uris: Vec<String>,
    /// The lists that the client knows of, where what is listened to tells them apart.
    pub(super) told: Option<Told>,
    pub(super) since: Instant,
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listening").field("lists", &self.lists).finish_non_exhaustive()
    }
}

impl Listening {
    /// What has been told of the lists.
    pub(super) fn lists_told(&self) -> Option<ListsTold> {
        self.told.as_ref().map(|told| *told.0.borrow())
    }
}

/// Why there is no listen.
pub(super) enum NoListen {
    /// The server's refusal, as the answer to the client.
    Refused(Box<Response<ResponseBody>>),
    /// It has no such thing.
    NotOffered,
    Failed(UpstreamError),
}

impl From<UpstreamError> for NoListen {
    fn from(error: UpstreamError) -> Self {
        Self::Failed(error)
    }
}

impl Core {
    /// Opens the session's stream.
    pub(super) async fn get(self: Arc<Self>, call: Call) -> Result<Response<ResponseBody>, UpstreamError> {
        let Some(nonce) = &call.session.nonce else {
            return Ok(Refusal::method_not_allowed().response(None, &call));
        };
        let live = match self.memory.live.at(nonce, &call.session.principal) {
            Ok(live) => live,
            Err(refusal) => return Ok(refusal.response(None, &call)),
        };
        let (listening, swaps) = {
            let _changing = live.changing.lock().await;
            let listening = match self.listen(&call, &live).await {
                Ok(listening) => listening,
                Err(NoListen::Refused(response)) => return Ok(*response),
                Err(NoListen::NotOffered) => return Ok(Refusal::no_stream().response(None, &call)),
                Err(NoListen::Failed(error)) => return Err(error),
            };
            (listening, live.open_stream())
        };
        let standing = Standing::new(self, call, live);
        Ok(body::streamed(body::stream(move |events| async move {
            drop(standing.relay(listening, swaps, &events).await);
        })))
    }

    /// `resources/subscribe` and `resources/unsubscribe`: the set is changed once the server has acknowledged it.
    pub(super) async fn subscribe(&self, call: &Call) -> Result<Response<ResponseBody>, UpstreamError> {
        let refuse = |refusal: Refusal| Ok(refusal.response(Some(&call.id), call));
        let Some(uri) = call.param("uri") else {
            return refuse(Refusal::invalid_params("params.uri must be a string"));
        };
        let Some(nonce) = &call.session.nonce else {
            return refuse(Refusal::invalid_params("Subscriptions need a session. Send initialize first."));
        };
        let live = match self.memory.live.at(nonce, &call.session.principal) {
            Ok(live) => live,
            Err(refusal) => return refuse(refusal),
        };
        let _changing = live.changing.lock().await;
        let adds = call.method == "resources/subscribe";
        if !adds {
            live.unsubscribe(&uri);
        } else if let Err(refusal) = live.subscribe(&uri) {
            return refuse(refusal);
        }
        // Nothing to end at the server: there is no listen.
        if !adds && live.stream().is_none() {
            return Ok(body::result(&call.id, "{}"));
        }
        let outcome = self.listen(call, &live).await;
        let honoured = matches!(&outcome, Ok(new) if !adds || new.uris.contains(&uri));
        if adds && !honoured {
            live.unsubscribe(&uri);
        }
        match outcome {
            Ok(new) if honoured => {
                if let Some(stream) = live.stream() {
                    // A stream that ended meanwhile needs it no more.
                    drop(stream.send(new).await);
                }
                Ok(body::result(&call.id, "{}"))
            }
            Ok(_) | Err(NoListen::NotOffered) if adds => {
                refuse(Refusal::invalid_params("the server gives no updates of this resource"))
            }
            Ok(_) | Err(NoListen::NotOffered) => Ok(body::result(&call.id, "{}")),
            Err(NoListen::Refused(response)) => Ok(*response),
            Err(NoListen::Failed(error)) => Err(error),
        }
    }

    /// Opens a listen for all that the session wants, and waits until it is acknowledged.
    pub(super) async fn listen(&self, call: &Call, live: &Live) -> Result<Listening, NoListen> {
        let lists: Vec<_> = LISTS.iter().map(|(name, _)| format!("\"{name}\":true")).collect();
        let uris: Vec<_> = live.uris().iter().map(|u| quoted(u)).collect();
        let wanted = if uris.is_empty() {
            String::new()
        } else {
            format!(",\"resourceSubscriptions\":[{}]", uris.join(","))
        };
        let members = format!("\"notifications\":{{{}{wanted}}}", lists.join(","));
        let number = self.number();
        let request = call.beside(self, number, "subscriptions/listen", &members);
        let opening = async {
            match self.send(request).await? {
                Opened::Foreign(response) => Err(NoListen::Refused(Box::new(response))),
                // An error, or a listen that ended at once.
                Opened::Whole(head, _) if head.status.is_success() => Err(NoListen::NotOffered),
                Opened::Whole(head, message) => {
                    let text = match hear(&message, number, call) {
                        Heard::Answer(text) => text.into_bytes(),
                        _ => message,
                    };
                    Err(NoListen::Refused(Box::new(super::inner::with_json(head, text))))
                }
                Opened::Stream(mut head, messages) => {
                    let told = head.extensions.remove::<Told>();
                    Ok(Listening { told, ..acknowledged(messages).await? })
                }
            }
        };
        tokio::time::timeout(ACKNOWLEDGED_WITHIN, opening)
            .await
            .unwrap_or_else(|_| Err(NoListen::Failed(broken("subscriptions/listen was not acknowledged"))))
    }
}

/// Reads the acknowledgement, which comes first.
async fn acknowledged(mut messages: Messages) -> Result<Listening, NoListen> {
    loop {
        let Some(message) = messages.next().await.map_err(broken)? else { return Err(NoListen::NotOffered) };
        let Ok(message) = json::parse(&message) else { continue };
        let Some(method) = message.get("method") else { return Err(NoListen::NotOffered) };
        if !method.is_string("notifications/subscriptions/acknowledged") {
            continue;
        }
        let granted = message.get("params").and_then(|p| p.get("notifications"));
        let is_granted = |name: &str| granted.and_then(|g| g.get(name)).is_some_and(|v| v.text() == "true");
        let uris = granted.and_then(|g| g.get("resourceSubscriptions")).map(|u| u.elements());
        return Ok(Listening {
            lists: LISTS.iter().filter(|(name, _)| is_granted(name)).map(|(_, notice)| *notice).collect(),
            uris: uris.into_iter().flatten().filter_map(|u| Some(u.as_exact_str()?.into_owned())).collect(),
            messages,
            told: None,
            since: Instant::now(),
        });
    }
}
