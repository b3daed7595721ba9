//! `subscriptions/listen` over a legacy session: acknowledged first, then what the session tells, under the client's
//! subscription id. Owns the way back after a loss.
//!
//! Invariants: nothing comes before the acknowledgement and nothing that was not acknowledged; after a loss, whatever may
//! have been missed is said to have changed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender};

use super::{
    Bridge, Origin,
    hello::{Hello, NoSession},
    hub::{self, News, Place},
    incoming::Incoming,
    reply,
    wants::Wants,
};
use crate::{
    mcp::{
        json::{
            Raw,
            edit::{self, Splice},
        },
        message::{self, Body},
    },
    upstream::{ResponseBody, backoff::Backoff},
};

/// Most resources of one subscription.
const MAX_URIS: usize = 1_000;
/// Between two signs of life.
const ALIVE_EVERY: Duration = Duration::from_secs(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Answers `subscriptions/listen`.
pub(super) async fn listen(
    bridge: Arc<Bridge>,
    origin: Origin,
    incoming: Box<Incoming>,
) -> Result<Response<ResponseBody>, NoSession> {
    let wants = requested(&incoming.params());
    let mut tries = 0;
    let (place, granted, news) = loop {
        let session = bridge.session(&origin, &incoming).await?;
        origin.note(&session);
        if let Some(joined) = hub::join(&session, possible(wants.clone(), &session.hello)).await {
            break joined;
        }
        bridge.pool.forget(&session);
        tries += 1;
        if tries == 2 {
            return Err(NoSession::Said(reply::Refusal::upstream("the server forgets its sessions at once")));
        }
    };
    let (events, response) = reply::stream();
    let ack = acknowledged(&incoming.client.id, &granted);
    tokio::spawn(async move {
        let listening = Listening { bridge, origin, incoming, granted, events };
        tokio::select! {
            () = listening.events.closed() => {}
            () = listening.run(ack, place, news) => {}
        }
    });
    Ok(response)
}

struct Listening {
    bridge: Arc<Bridge>,
    origin: Origin,
    incoming: Box<Incoming>,
    /// What was acknowledged.
    granted: Wants,
    events: Sender<Bytes>,
}

impl Listening {
    async fn run(&self, ack: Bytes, mut place: Place, mut news: Receiver<News>) {
        if !self.send(&ack).await {
            return;
        }
        loop {
            self.follow(&mut news).await;
            drop(place);
            if self.events.is_closed() {
                return;
            }
            let Some(again) = self.again().await else { return self.end().await };
            (place, news) = again;
            if !self.changed().await {
                return;
            }
        }
    }

    /// Passes news on until they end.
    async fn follow(&self, news: &mut Receiver<News>) {
        loop {
            let sent = match tokio::time::timeout(ALIVE_EVERY, news.recv()).await {
                Err(_silence) => self.events.send(reply::ALIVE).await.is_ok(),
                Ok(None) => return,
                Ok(Some(News::Missed)) => self.changed().await,
                Ok(Some(News::Told(text))) => match tagged(&text, &self.incoming.client.id) {
                    Some(message) => self.send(&message).await,
                    None => true,
                },
            };
            if !sent {
                return;
            }
        }
    }

    /// Listens again, in a new session if it has to be. `None`: the server does not let the client in any more.
    async fn again(&self) -> Option<(Place, Receiver<News>)> {
        let mut pause = Backoff::up_to(LONGEST_PAUSE);
        loop {
            tokio::time::sleep(pause.next()).await;
            match self.bridge.session(&self.origin, &self.incoming).await {
                Ok(session) => match hub::join(&session, self.granted.clone()).await {
                    Some((place, _, news)) => return Some((place, news)),
                    None => self.bridge.pool.forget(&session),
                },
                Err(NoSession::Refused(response)) if matches!(response.status.as_u16(), 401 | 403) => {
                    return None;
                }
                Err(_) => {}
            }
        }
    }

    /// Says that everything which was asked for may have changed.
    async fn changed(&self) -> bool {
        let Wants { tools, prompts, resources, uris } = &self.granted;
        for (kind, wanted) in [("tools", tools), ("prompts", prompts), ("resources", resources)] {
            let method = format!("notifications/{kind}/list_changed");
            if *wanted && !self.send(&self.notice(&method, json!({}))).await {
                return false;
            }
        }
        for uri in uris {
            if !self.send(&self.notice("notifications/resources/updated", json!({"uri": uri}))).await {
                return false;
            }
        }
        true
    }

    fn notice(&self, method: &str, params: Value) -> Bytes {
        notice(&self.incoming.client.id, method, params)
    }

    async fn send(&self, message: &[u8]) -> bool {
        self.events.send(reply::event(message)).await.is_ok()
    }

    async fn end(&self) {
        let id = &self.incoming.client.id;
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"{SUBSCRIPTION_ID}":{id}}}}}}}"#
        );
        self.send(result.as_bytes()).await;
    }
}

fn requested(params: &Value) -> Wants {
    let notifications = params.get("notifications").unwrap_or(&Value::Null);
    let flag = |name: &str| notifications.get(name) == Some(&Value::Bool(true));
    let uris = notifications.get("resourceSubscriptions").and_then(Value::as_array);
    let mut uris: Vec<_> =
        uris.into_iter().flatten().filter_map(Value::as_str).take(MAX_URIS).map(str::to_owned).collect();
    uris.sort();
    uris.dedup();
    Wants {
        tools: flag("toolsListChanged"),
        prompts: flag("promptsListChanged"),
        resources: flag("resourcesListChanged"),
        uris,
    }
}

/// What of it the server can tell.
fn possible(mut wants: Wants, hello: &Hello) -> Wants {
    wants.tools &= hello.flag("tools", "listChanged");
    wants.prompts &= hello.flag("prompts", "listChanged");
    wants.resources &= hello.flag("resources", "listChanged");
    if !hello.flag("resources", "subscribe") {
        wants.uris.clear();
    }
    wants
}

fn acknowledged(id: &str, granted: &Wants) -> Bytes {
    let mut honoured = json!({});
    for (name, granted) in [
        ("toolsListChanged", granted.tools),
        ("promptsListChanged", granted.prompts),
        ("resourcesListChanged", granted.resources),
    ] {
        if granted {
            honoured[name] = Value::Bool(true);
        }
    }
    if !granted.uris.is_empty() {
        honoured["resourceSubscriptions"] = json!(granted.uris);
    }
    notice(id, "notifications/subscriptions/acknowledged", json!({"notifications": honoured}))
}

/// A notification of the bridge's own under this subscription.
fn notice(id: &str, method: &str, params: Value) -> Bytes {
    let text = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
    tagged(text.as_bytes(), id).unwrap_or_default()
}

/// A notification with the subscription's id in its `_meta`.
fn tagged(text: &[u8], id: &str) -> Option<Bytes> {
    let Ok(Body::Object(message)) = message::parse(text) else { return None };
    let tag = format!(r#""{SUBSCRIPTION_ID}":{id}"#);
    let into = |object: Raw<'_>, member: String| {
        let comma = if object.is_empty() { "" } else { "," };
        Splice::insert(object.start() + 1, format!("{member}{comma}").into_bytes())
    };
    let splice = match (message.params.filter(Raw::is_object), message.meta.filter(Raw::is_object)) {
        (Some(_), Some(meta)) => into(meta, tag),
        (Some(params), None) => into(params, format!(r#""_meta":{{{tag}}}"#)),
        (None, _) if message.params.is_none() => {
            into(message.envelope, format!(r#""params":{{"_meta":{{{tag}}}}}"#))
        }
        (None, _) => return None,
    };
    Some(edit::apply(message.envelope.document().as_bytes(), vec![splice]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_keeps_type_and_neighbours() {
        let tag = |text: &str, id: &str| {
            serde_json::from_slice::<Value>(&tagged(text.as_bytes(), id).unwrap()).unwrap()["params"].clone()
        };
        let id = |id: Value| json!({ SUBSCRIPTION_ID: id });
        assert_eq!(tag(r#"{"jsonrpc":"2.0","method":"x"}"#, "7"), json!({"_meta": id(7.into())}));
        assert_eq!(tag(r#"{"method":"x","params":{}}"#, "\"7\""), json!({"_meta": id("7".into())}));
        let both = tag(r#"{"method":"x","params":{"uri":"u","_meta":{"a":1}}}"#, "7");
        assert_eq!(both, json!({"uri": "u", "_meta": {SUBSCRIPTION_ID: 7, "a": 1}}));
    }

    #[test]
    fn only_what_is_asked_for_is_acknowledged() {
        let wants =
            requested(&json!({"notifications": {"toolsListChanged": true, "promptsListChanged": false,
            "resourceSubscriptions": ["b", "a", "b", 1]}}));
        assert_eq!(wants, Wants { tools: true, uris: vec!["a".into(), "b".into()], ..Wants::default() });
        let ack: Value = serde_json::from_slice(&acknowledged("1", &Wants::default())).unwrap();
        assert_eq!(ack["params"]["notifications"], json!({}));
    }
}
