//! One message on, and its answer back on the client's stream.

use bytes::Bytes;
use http::{Request, Response, StatusCode};

use super::super::{
    body::Events,
    messages::{self, Framing, Messages},
    refusal::Refusal,
};
use crate::{
    bridge::hops::Recipient,
    mcp::{
        message::{self, Body},
        sse::frame,
    },
    upstream::{ResponseBody, Upstream},
};

/// Sends a message on and its answer back on the stream.
pub(super) async fn relay(inner: &dyn Upstream, post: Request<Bytes>, events: &Events) {
    let id = id(post.body());
    match inner.call(post).await {
        Ok(response) => pass(response, id.as_deref(), events).await,
        Err(_) => lost(id.as_deref(), events).await,
    }
}

/// Passes an answer's messages; `id` is what is owed an answer.
pub(super) async fn pass(response: Response<ResponseBody>, id: Option<&str>, events: &Events) {
    match Framing::of(response.headers()) {
        Some(Framing::Events) => {
            let mut messages = Messages::new(response.into_body());
            while let Ok(Some(message)) = messages.next().await {
                if events.raw(frame(&message)).await.is_err() {
                    return;
                }
            }
        }
        // A refusal of what is owed no answer.
        Some(Framing::Json) if id.is_none() => {}
        Some(Framing::Json) => match messages::whole(response.into_body()).await {
            Ok(text) if matches!(message::parse(&text), Ok(Body::Object(_))) => {
                drop(events.raw(frame(&text)).await);
            }
            _ => lost(id, events).await,
        },
        None if response.status() == StatusCode::ACCEPTED => {}
        None => lost(id, events).await,
    }
}

pub(super) async fn lost(id: Option<&str>, events: &Events) {
    if let Some(id) = id {
        let refusal = Refusal::upstream_protocol("no answer came");
        drop(events.message(&refusal.message(Some(id), Recipient::default())).await);
    }
}

pub(super) fn id(body: &[u8]) -> Option<String> {
    match message::parse(body) {
        Ok(Body::Object(message)) if message.method.is_some() => message.id().map(str::to_owned),
        _ => None,
    }
}
